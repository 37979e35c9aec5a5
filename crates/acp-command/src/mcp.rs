//! MCP servers, from the JSON files that other MCP clients have.
//!
//! There is no standard for such a file. What is read is what they have in common: an object `mcpServers` with a
//! name for each server, which is a `command` with `args` and `env`, or a `url` with `headers` and a `type`.
//! Members beyond that are a client's own and mean nothing here, but for `disabled`.

use std::borrow::Cow;
use std::env;
use std::fs;
use std::path::Path;

use acp_core::McpServer;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::program;

/// The shortest value of a variable that is masked as a secret, if it is no path. Shorter ones are words.
const SHORTEST_SECRET: usize = 12;

/// The servers of a file, and the values in it that are nobody else's business.
pub(crate) struct McpFile {
    pub(crate) servers: Vec<McpServer>,
    pub(crate) secrets: Vec<String>,
}

impl McpFile {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::options(format!("{} cannot be read: {error}", path.display()))
        })?;
        let variable = |name: &str| env::var(name).ok();
        Self::parse(&text, &variable)
            .map_err(|why| Failure::options(format!("{}{why}", path.display())))
    }

    /// The error begins with where in the file it is.
    fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| format!(":{}: it is not JSON: {error}", error.line()))?;
        let Some(servers) = value["mcpServers"].as_object() else {
            return Err(": it has no object `mcpServers`".to_owned());
        };
        let mut file = Self {
            servers: Vec::new(),
            secrets: Vec::new(),
        };
        for (name, server) in servers {
            let server = Server {
                place: format!(": mcpServers.{name}"),
                server: server
                    .as_object()
                    .ok_or_else(|| format!(": mcpServers.{name} is not an object"))?,
                variable,
            };
            if server.server.get("disabled") == Some(&Value::Bool(true)) {
                continue;
            }
            file.servers.push(server.read(name, &mut file.secrets)?);
        }
        Ok(file)
    }
}

/// One server of a file.
struct Server<'a> {
    place: String,
    server: &'a Map<String, Value>,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Server<'_> {
    fn read(&self, name: &str, secrets: &mut Vec<String>) -> Result<McpServer, String> {
        let kind = self.text("type")?;
        let (command, url) = (self.text("command")?, self.text("url")?);
        match (kind.as_deref(), command, url) {
            (None | Some("stdio"), Some(command), None) => self.process(name, &command, secrets),
            // Without a `type` it is what MCP has had since there was a choice.
            (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(url)) => {
                self.with_headers(McpServer::http(name, url), secrets)
            }
            (Some("sse"), None, Some(url)) => self.with_headers(McpServer::sse(name, url), secrets),
            (
                Some(kind @ ("stdio" | "http" | "streamable-http" | "streamableHttp" | "sse")),
                ..,
            ) => {
                let member = if kind == "stdio" { "command" } else { "url" };
                Err(format!(
                    "{} is of the type `{kind}` and needs a `{member}` alone",
                    self.place
                ))
            }
            (Some(kind), ..) => Err(format!(
                "{} is of the type `{kind}`; there are stdio, http and sse",
                self.place
            )),
            (None, ..) => Err(format!(
                "{} needs either a `command` or a `url`",
                self.place
            )),
        }
    }

    fn process(
        &self,
        name: &str,
        command: &str,
        secrets: &mut Vec<String>,
    ) -> Result<McpServer, String> {
        // ACP wants an absolute path, which these files seldom have.
        let path = program::find(command).and_then(|path| std::path::absolute(path).ok());
        let path = path.and_then(|path| path.to_str().map(str::to_owned));
        let Some(path) = path else {
            return Err(format!(
                "{}.command: there is no program `{command}`; install it, or give its path",
                self.place
            ));
        };
        let mut server = McpServer::stdio(name, path);
        let args = match self.server.get("args") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(args)) => args,
            Some(_) => return Err(format!("{}.args is not a list", self.place)),
        };
        for (number, arg) in args.iter().enumerate() {
            server = server.arg(self.value(&format!("args[{number}]"), arg)?);
        }
        for (variable, value) in self.pairs("env")? {
            if may_be_secret(&value) {
                secrets.push(value.clone());
            }
            server = server.env(variable, value);
        }
        Ok(server)
    }

    fn with_headers(
        &self,
        mut server: McpServer,
        secrets: &mut Vec<String>,
    ) -> Result<McpServer, String> {
        for (header, value) in self.pairs("headers")? {
            secrets.push(value.clone());
            server = server.header(header, value);
        }
        Ok(server)
    }

    fn pairs(&self, member: &str) -> Result<Vec<(String, String)>, String> {
        match self.server.get(member) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Object(pairs)) => pairs
                .iter()
                .map(|(name, value)| {
                    Ok((
                        name.clone(),
                        self.value(&format!("{member}.{name}"), value)?,
                    ))
                })
                .collect(),
            Some(_) => Err(format!("{}.{member} is not an object", self.place)),
        }
    }

    fn text(&self, member: &str) -> Result<Option<String>, String> {
        match self.server.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => self.value(member, value).map(Some),
        }
    }

    fn value(&self, member: &str, value: &Value) -> Result<String, String> {
        let fail = |why: &str| format!("{}.{member}{why}", self.place);
        let text = value.as_str().ok_or_else(|| fail(" is not text"))?;
        expand(text, self.variable).map_err(|name| {
            fail(&format!(
                ": the environment variable `{name}` is not set, and there is no default"
            ))
        })
    }
}

/// Whether the value of a variable of a process is to be masked, whatever its name is.
pub(crate) fn may_be_secret(value: &str) -> bool {
    value.len() >= SHORTEST_SECRET && !value.starts_with(['/', '.', '~'])
}

/// Puts the values of variables in the place of `${NAME}`, `${NAME:-default}` and `${env:NAME}`. The error is
/// the name of one that is not set.
fn expand<'a>(text: &'a str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, &'a str> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inner, tail)) = after.split_once('}') else {
            break;
        };
        expanded.push_str(before);
        let inner = inner.strip_prefix("env:").unwrap_or(inner);
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(Cow::Borrowed(default))),
            None => (inner, None),
        };
        let value = variable(name).map(Cow::Owned).or(default);
        expanded.push_str(&value.ok_or(name)?);
        rest = tail;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<McpFile, String> {
        McpFile::parse(text, &|name| (name == "TOKEN").then(|| "t0ken".to_owned()))
    }

    #[test]
    fn servers_are_read_as_other_clients_have_them() {
        let text = r#"{"other": 1, "mcpServers": {
            "a": {"command": "sh", "args": ["-c", "${TOKEN}${NONE:-x}"], "env": {"K": "${env:TOKEN}"}, "autoApprove": []},
            "b": {"url": "https://b/${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "c": {"type": "sse", "url": "https://c"},
            "d": {"type": "streamable-http", "url": "https://d"},
            "e": {"command": "no-such-program", "disabled": true}
        }}"#;
        let file = parse(text).unwrap();
        let mut servers = serde_json::to_value(&file.servers).unwrap();
        let sh = servers[0]["command"].take();
        assert!(Path::new(sh.as_str().unwrap()).is_absolute(), "{sh}");
        assert_eq!(
            servers,
            json!([
                {"name": "a", "command": null, "args": ["-c", "t0kenx"], "env": [{"name": "K", "value": "t0ken"}]},
                {"name": "b", "type": "http", "url": "https://b/t0ken", "headers": [{"name": "Authorization", "value": "Bearer t0ken"}]},
                {"name": "c", "type": "sse", "url": "https://c", "headers": []},
                {"name": "d", "type": "http", "url": "https://d", "headers": []},
            ])
        );
        assert_eq!(file.secrets, ["Bearer t0ken"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (server, wants) in [
            ("7", ": mcpServers.a is not an object"),
            ("{}", ": mcpServers.a needs either a `command` or a `url`"),
            (r#"{"command":"sh","url":"u"}"#, "needs either"),
            (r#"{"type":"http","command":"sh"}"#, "needs a `url` alone"),
            (
                r#"{"type":"pigeon","url":"u"}"#,
                "`pigeon`; there are stdio, http and sse",
            ),
            (
                r#"{"command":"no-such-program"}"#,
                ".command: there is no program `no-such-program`",
            ),
            (r#"{"command":"sh","args":"x"}"#, ".args is not a list"),
            (r#"{"command":"sh","args":["x",1]}"#, ".args[1] is not text"),
            (r#"{"command":"sh","env":{"K":1}}"#, ".env.K is not text"),
            (r#"{"command":"sh","env":[]}"#, ".env is not an object"),
            (
                r#"{"url":"${NONE}"}"#,
                ".url: the environment variable `NONE` is not set",
            ),
        ] {
            let error = parse(&format!(r#"{{"mcpServers":{{"a":{server}}}}}"#))
                .err()
                .unwrap();
            assert!(error.contains(wants), "{server}: {error}");
        }
        assert!(
            parse("{\n\n")
                .err()
                .unwrap()
                .starts_with(":3: it is not JSON")
        );
        assert!(
            parse(r#"{"servers":{}}"#)
                .err()
                .unwrap()
                .contains("`mcpServers`")
        );
    }

    #[test]
    fn what_is_no_variable_stays() {
        let none = |_: &str| None;
        for text in ["$HOME", "a ${", "}", "", "${"] {
            assert_eq!(expand(text, &none), Ok(text.to_owned()));
        }
        assert_eq!(expand("${A} ${B:-}", &none), Err("A"));
        assert_eq!(expand("x${B:-}y", &none), Ok("xy".to_owned()));
    }
}
