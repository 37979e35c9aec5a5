//! What the model says.

use std::{env, fmt, str::FromStr, time::Duration};

use serde_json::{Value, json};

use crate::conversation::{Conversation, Tool, items, text_at};
use crate::schema::{self, arguments};

/// Begins the line by which a client says which of many questions it means.
pub const MARKER: &str = "SUPERSEDES-ALL-PRIOR: ";

/// How much of a text is echoed, in characters. A host that sends its whole conversation each turn would
/// otherwise make every answer twice as long as the one before.
pub const ECHO_CHARS: usize = 200;

/// How many pieces a slow answer has.
pub const SLOW_PIECES: usize = 100;

/// How long a slow answer waits before each piece.
pub const SLOW_PAUSE: Duration = Duration::from_millis(300);

/// What the model says.
///
/// A *question* is a line of what the user said that ends with a question mark, and any line where there is
/// none. Hosts that send their whole conversation as one text begin its lines with `user: ` and the like; so
/// what `system: `, `assistant: ` or `tool: ` begins is none.
///
/// Whatever the script, a request with a schema for its answer gets a JSON value that fits it, because such
/// requests are an agent's own; only [`Script::Error`] holds for them, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Script {
    /// `MOCK: ` and the end of what the user said last, [`ECHO_CHARS`] of it at most.
    #[default]
    Echo,
    /// Does what the user says, if the last question has one of these in it, and otherwise echoes.
    ///
    /// | phrase | answer |
    /// | --- | --- |
    /// | `use a tool` | a call to a tool of those offered, and when its result is there a text |
    /// | `go slow` | as [`Script::Slow`] |
    /// | `go big` | 300,000 characters in one piece |
    /// | `go err` | as [`Script::Error`] with 400 |
    ///
    /// The tool is one that writes a file or runs a command, or the one named with `tool=NAME`; it writes to
    /// a file in the system's directory for temporary files, or to `path=PATH`. `args={…}` at the end of
    /// the line sets arguments beside those that the tool requires.
    Obey,
    /// [`SLOW_PIECES`] pieces with [`SLOW_PAUSE`] before each.
    Slow,
    /// An error of this HTTP status.
    Error(u16),
    /// `MOCK: ` and the first question.
    First,
    /// `MOCK: ` and the last question.
    Last,
    /// `MOCK: ` and what the last line that begins with [`MARKER`] says, or else the first question.
    Marker,
    /// Calls tools in text, for a host that has none of the agent's: if what the user says holds a JSON object
    /// with `tools` and `messages`, the answer is `{"tool_calls":[…]}`, four times with a call to the first
    /// and the second tool by turns, and then `{"content":"…"}`. How often it was is told by the messages of the role
    /// `tool`, in that object and in those with `messages` that come after it. Otherwise it echoes.
    ToolsJson,
}

impl Script {
    /// What [`Script::from_str`] reads. `error` can have a status: `error:503`.
    pub const NAMES: [&str; 8] = [
        "echo",
        "obey",
        "slow",
        "error",
        "first",
        "last",
        "marker",
        "tools-json",
    ];

    /// What is said to this.
    pub(crate) fn answer(self, conversation: &Conversation) -> Say {
        if let Script::Error(status) = self {
            return Say::Error(status);
        }
        if let Some(schema) = &conversation.schema {
            return Say::text(schema::value(schema, "").to_string());
        }
        let mock = |text: &str| Say::text(format!("MOCK: {text}"));
        match self {
            Script::Obey => obey(conversation),
            Script::Slow => Say::slow(),
            Script::First => mock(first_question(conversation)),
            Script::Last => {
                let last = conversation.user_texts().rev().find_map(|text| {
                    let lines: Vec<_> = questions(text).collect();
                    lines.last().copied()
                });
                mock(last.unwrap_or_default())
            }
            Script::Marker => {
                let mut lines = conversation.user_texts().flat_map(str::lines).rev();
                let marked = lines.find_map(|line| line.strip_prefix(MARKER));
                mock(marked.unwrap_or_else(|| first_question(conversation)))
            }
            Script::ToolsJson => match tool_calls(conversation.user_texts()) {
                Some(answer) => Say::text(answer.to_string()),
                None => echo(conversation),
            },
            Script::Echo | Script::Error(_) => echo(conversation),
        }
    }
}

impl FromStr for Script {
    type Err = UnknownScript;

    fn from_str(name: &str) -> Result<Self, UnknownScript> {
        if let Some(status) = name.strip_prefix("error:") {
            let status = status
                .parse()
                .ok()
                .filter(|status| (400..600).contains(status));
            return status.map(Script::Error).ok_or(UnknownScript);
        }
        Ok(match name {
            "echo" => Script::Echo,
            "obey" => Script::Obey,
            "slow" => Script::Slow,
            "error" => Script::Error(400),
            "first" => Script::First,
            "last" => Script::Last,
            "marker" => Script::Marker,
            "tools-json" => Script::ToolsJson,
            _ => return Err(UnknownScript),
        })
    }
}

/// A name that is no script's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownScript;

impl fmt::Display for UnknownScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no such script: there are {}, and error:STATUS with 400 to 599",
            Script::NAMES.join(", ")
        )
    }
}

impl std::error::Error for UnknownScript {}

/// What is said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Say {
    Text {
        /// In which pieces it is streamed.
        pieces: Vec<String>,
        /// How long to wait before each.
        pause: Duration,
    },
    Call {
        name: String,
        arguments: Value,
    },
    Error(u16),
}

impl Say {
    fn text(text: impl Into<String>) -> Self {
        Say::Text {
            pieces: in_three(&text.into()),
            pause: Duration::ZERO,
        }
    }

    fn slow() -> Self {
        Say::Text {
            pieces: (0..SLOW_PIECES).map(|i| format!("slow{i} ")).collect(),
            pause: SLOW_PAUSE,
        }
    }
}

/// Models stream, so what listens to them has to put pieces together.
fn in_three(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let len = chars.len().div_ceil(3).max(1);
    chars
        .chunks(len)
        .map(|piece| piece.iter().collect())
        .collect()
}

fn echo(conversation: &Conversation) -> Say {
    let text = end_of(conversation.last_user_text(), ECHO_CHARS);
    Say::text(format!("MOCK: {text}"))
}

/// The last so many characters.
fn end_of(text: &str, chars: usize) -> &str {
    let last = text.char_indices().rev().take(chars).last();
    last.map_or("", |(from, _)| &text[from..])
}

fn first_question(conversation: &Conversation) -> &str {
    let mut texts = conversation.user_texts();
    texts
        .find_map(|text| questions(text).next())
        .unwrap_or_default()
}

/// The questions in one text of the user's.
fn questions(text: &str) -> impl Iterator<Item = &str> {
    let of_user = |line: &str| {
        !["system: ", "assistant: ", "tool: "]
            .iter()
            .any(|role| line.starts_with(role))
    };
    let lines = text.lines().filter(move |line| of_user(line)).map(|line| {
        let line = line.strip_prefix("user: ").unwrap_or(line);
        line.strip_prefix(MARKER).unwrap_or(line).trim()
    });
    let lines = lines.filter(|line| !line.is_empty());
    let any = lines.clone().any(|line| line.ends_with('?'));
    lines.filter(move |line| !any || line.ends_with('?'))
}

fn obey(conversation: &Conversation) -> Say {
    if let Some(result) = conversation.tool_result() {
        return Say::text(format!(
            "MOCK: the tool gave: {}",
            end_of(result, ECHO_CHARS)
        ));
    }
    let asked = last_line(conversation.last_user_text());
    if asked.contains("use a tool")
        && let Some(tool) = choose(&conversation.tools, asked)
    {
        return call(tool, asked);
    }
    if asked.contains("go slow") {
        Say::slow()
    } else if asked.contains("go big") {
        Say::Text {
            pieces: vec!["B".repeat(300_000)],
            pause: Duration::ZERO,
        }
    } else if asked.contains("go err") {
        Say::Error(400)
    } else {
        echo(conversation)
    }
}

/// Where a whole conversation comes as one text, what it said before is not to be done again.
fn last_line(text: &str) -> &str {
    text.lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default()
}

/// Names of tools that do something to ask permission for, in agents in the field.
const KNOWN_TOOLS: [&str; 18] = [
    "write_file",
    "write",
    "Write",
    "create_file",
    "write_to_file",
    "WriteFile",
    "run_shell_command",
    "shell",
    "bash",
    "Bash",
    "exec_command",
    "shell_command",
    "local_shell",
    "terminal",
    "execute",
    "Shell",
    "str_replace_editor",
    "apply_patch",
];

fn choose<'a>(tools: &'a [Tool], asked: &str) -> Option<&'a Tool> {
    let known = word(asked, "tool=").into_iter().chain(KNOWN_TOOLS);
    let mut known = known.filter_map(|name| tools.iter().find(|tool| tool.name == name));
    known.next().or(tools.first())
}

fn call(tool: &Tool, asked: &str) -> Say {
    let path = word(asked, "path=").map_or_else(
        || {
            env::temp_dir()
                .join("mock-model.txt")
                .to_string_lossy()
                .into_owned()
        },
        str::to_owned,
    );
    let mut arguments = arguments(&tool.parameters, &path);
    if let Some((_, json)) = asked.split_once("args=")
        && let Some(Ok(Value::Object(more))) =
            serde_json::Deserializer::from_str(json).into_iter().next()
    {
        arguments.extend(more);
    }
    Say::Call {
        name: tool.name.clone(),
        arguments: Value::Object(arguments),
    }
}

/// What follows this key, up to a space.
fn word<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix(key))
}

/// The answer to the last JSON object in the text that has `tools` and `messages`.
/// Calls of tools in text before it is enough.
const MAX_CALLS: usize = 4;

fn tool_calls<'a>(texts: impl Iterator<Item = &'a str>) -> Option<Value> {
    let mut tools = None;
    let mut results = 0;
    for object in texts.flat_map(objects) {
        if !object["messages"].is_array() {
            continue;
        }
        if object["tools"].is_array() {
            // A whole request stands for all that was said before.
            tools = Some(object["tools"].clone());
            results = 0;
        }
        let messages = items(&object["messages"]).iter();
        results += messages.filter(|message| message["role"] == "tool").count();
    }
    let tools = tools?;
    let tools = &items(&tools)[..items(&tools).len().min(2)];
    if results >= MAX_CALLS || tools.is_empty() {
        return Some(json!({"content": format!("MOCK: {results} tools were called")}));
    }
    let tool = &tools[results % tools.len()];
    // OpenAI's chat completions have the function in a member of its own, its responses have not.
    let function = if tool["function"].is_object() {
        &tool["function"]
    } else {
        tool
    };
    let arguments = Value::Object(arguments(&function["parameters"], "mock.txt"));
    Some(json!({"tool_calls": [{
        "id": format!("call_{}", results + 1),
        "type": "function",
        "function": {"name": text_at(function, "name"), "arguments": arguments.to_string()},
    }]}))
}

/// The JSON objects in a text, in order, those within others left out.
fn objects(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(from) = rest.find('{') {
        rest = &rest[from..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let len = match values.next() {
            Some(Ok(object)) => {
                found.push(object);
                values.byte_offset()
            }
            _ => 1,
        };
        rest = &rest[len..];
    }
    found
}

#[cfg(test)]
mod tests;
