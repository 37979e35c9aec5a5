//! MCP servers that the host wants the agent to have, in every session.
//!
//! Source: ACP v1, Session Setup, "MCP Servers".

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::secrets::is_secret_name;

/// An MCP server for the agent to connect to.
///
/// ```
/// use acp_core::McpServer;
///
/// let files = McpServer::stdio("files", "/usr/local/bin/mcp-files").arg("--read-only");
/// let search = McpServer::http("search", "https://example.org/mcp").header("Authorization", "Bearer t0ken");
/// ```
#[derive(Clone, PartialEq)]
pub struct McpServer {
    name: String,
    transport: Transport,
    /// Names and values: variables of a process, or headers of requests.
    pairs: Vec<(String, String)>,
}

#[derive(Clone, PartialEq)]
enum Transport {
    /// Every agent can start a process.
    Stdio {
        command: String,
        args: Vec<String>,
    },
    Http {
        url: String,
    },
    Sse {
        url: String,
    },
}

impl McpServer {
    /// A process that the agent starts, by the absolute path of its program.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>) -> Self {
        Self::new(
            name.into(),
            Transport::Stdio {
                command: command.into(),
                args: Vec::new(),
            },
        )
    }

    /// A server behind streamable HTTP, for agents with the capability `mcpCapabilities.http`.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name.into(), Transport::Http { url: url.into() })
    }

    /// A server behind HTTP with server-sent events, for agents with the capability `mcpCapabilities.sse`.
    pub fn sse(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name.into(), Transport::Sse { url: url.into() })
    }

    /// Adds an argument of the process. One that is no process has none.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        if let Transport::Stdio { args, .. } = &mut self.transport {
            args.push(arg.into());
        }
        self
    }

    /// Sets a variable of the process' environment.
    #[must_use]
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.pair(name, value)
    }

    /// Adds a header of the requests.
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.pair(name, value)
    }

    /// Reads one in the shape that it has in ACP.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        let text = |value: &Value, name: &str| {
            let text = value[name].as_str().map(str::to_owned);
            text.ok_or_else(|| format!("an MCP server needs a `{name}`, which is text"))
        };
        let name = text(value, "name")?;
        let mut server = match value["type"].as_str() {
            None | Some("stdio") => Self::stdio(name, text(value, "command")?),
            Some("http") => Self::http(name, text(value, "url")?),
            Some("sse") => Self::sse(name, text(value, "url")?),
            Some(other) => return Err(format!("there is no MCP server of the type `{other}`")),
        };
        for arg in value["args"].as_array().into_iter().flatten() {
            let arg = arg.as_str().ok_or("`args` of an MCP server are texts")?;
            server = server.arg(arg);
        }
        for pair in value[server.pairs_name()].as_array().into_iter().flatten() {
            server = server.pair(text(pair, "name")?, text(pair, "value")?);
        }
        Ok(server)
    }

    /// The capability of the agent that it needs, if it needs one.
    pub(crate) fn capability(&self) -> Option<&'static str> {
        match self.transport {
            Transport::Stdio { .. } => None,
            Transport::Http { .. } => Some("http"),
            Transport::Sse { .. } => Some("sse"),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What people should not read of it: the values of headers, and of variables with such a name.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let is_process = matches!(self.transport, Transport::Stdio { .. });
        let pairs = self.pairs.iter();
        let secret = pairs.filter(move |(name, _)| !is_process || is_secret_name(name));
        secret.map(|(_, value)| &**value)
    }

    fn new(name: String, transport: Transport) -> Self {
        Self {
            name,
            transport,
            pairs: Vec::new(),
        }
    }

    fn pair(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.pairs.push((name.into(), value.into()));
        self
    }

    fn pairs_name(&self) -> &'static str {
        match self.transport {
            Transport::Stdio { .. } => "env",
            _ => "headers",
        }
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Commands, addresses, variables and headers all may hold secrets.
        f.debug_struct("McpServer")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Serialize for McpServer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut server = Map::new();
        server.insert("name".to_owned(), json!(self.name));
        match &self.transport {
            // One without a `type` is a process.
            Transport::Stdio { command, args } => {
                server.insert("command".to_owned(), json!(command));
                server.insert("args".to_owned(), json!(args));
            }
            Transport::Http { url } | Transport::Sse { url } => {
                server.insert("type".to_owned(), json!(self.capability()));
                server.insert("url".to_owned(), json!(url));
            }
        }
        let pairs = self.pairs.iter();
        let pairs = pairs.map(|(name, value)| json!({"name": name, "value": value}));
        server.insert(self.pairs_name().to_owned(), pairs.collect());
        server.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_and_written_as_acp_has_them() {
        let all = [
            json!({"name": "a", "command": "/bin/a", "args": ["x"], "env": [{"name": "K", "value": "v"}]}),
            json!({"name": "b", "type": "http", "url": "https://b", "headers": []}),
            json!({"name": "c", "type": "sse", "url": "https://c", "headers": [{"name": "H", "value": "v"}]}),
        ];
        for server in all {
            let read = McpServer::from_value(&server).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), server);
        }
        let built = McpServer::stdio("a", "/bin/a").arg("x").env("K", "v");
        assert_eq!(serde_json::to_value(&built).unwrap()["args"], json!(["x"]));
        let bare = McpServer::http("b", "https://b").arg("none");
        assert_eq!(serde_json::to_value(&bare).unwrap()["args"], Value::Null);
    }

    #[test]
    fn secrets_are_not_shown() {
        let search = McpServer::http("search", "https://u:pw@b").header("Cookie", "c00kie");
        assert_eq!(format!("{search:?}"), r#"McpServer { name: "search", .. }"#);
        assert_eq!(search.secrets().collect::<Vec<_>>(), ["c00kie"]);
        let files = McpServer::stdio("files", "/bin/f")
            .env("MODE", "fast")
            .env("API_KEY", "k3y");
        assert_eq!(files.secrets().collect::<Vec<_>>(), ["k3y"]);
    }

    #[test]
    fn what_is_wrong_with_a_server_is_said() {
        for (server, wants) in [
            (json!({"command": "/bin/a"}), "`name`"),
            (json!({"name": "a"}), "`command`"),
            (json!({"name": "a", "type": "http"}), "`url`"),
            (json!({"name": "a", "type": "pigeon"}), "`pigeon`"),
            (
                json!({"name": "a", "command": "/bin/a", "args": [7]}),
                "`args`",
            ),
            (
                json!({"name": "a", "command": "/bin/a", "env": [{"name": "K"}]}),
                "`value`",
            ),
        ] {
            let error = McpServer::from_value(&server).unwrap_err();
            assert!(error.contains(wants), "{error}");
        }
    }
}
