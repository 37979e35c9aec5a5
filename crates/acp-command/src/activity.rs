//! What an agent does within a turn, in lines for people.

use std::collections::HashMap;

use acp_core::{PermissionDecision, PermissionRequest, Secrets, TurnEvent};
use serde_json::Value;

/// Characters of a title or of a line of thought that are shown.
const MAX_WIDTH: usize = 200;

/// Turns the events of one turn into lines.
pub(crate) struct Activity {
    /// Whether more is shown than what changes the answer.
    verbose: bool,
    secrets: Secrets,
    /// A line that goes on with the next thought.
    thought: String,
    /// The titles of tool calls, by their ids.
    titles: HashMap<String, String>,
}

impl Activity {
    pub(crate) fn new(verbose: bool, secrets: Secrets) -> Self {
        Self {
            verbose,
            secrets,
            thought: String::new(),
            titles: HashMap::new(),
        }
    }

    /// What there is to say when this has happened.
    pub(crate) fn lines(&mut self, event: &TurnEvent) -> Vec<String> {
        let mut lines = Vec::new();
        match event {
            TurnEvent::ReplyRejected(fault) => lines.push(format!(
                "The reply cannot be used and is asked for once more: {fault}"
            )),
            _ if !self.verbose => {}
            TurnEvent::Thought(text) => {
                self.thought.push_str(text);
                while let Some((line, rest)) = self.thought.split_once('\n') {
                    push_thought(&mut lines, line);
                    self.thought = rest.to_owned();
                }
            }
            other => {
                push_thought(&mut lines, &std::mem::take(&mut self.thought));
                lines.extend(self.other(other));
            }
        }
        self.masked(&lines)
    }

    /// The thought that nothing has followed.
    pub(crate) fn end(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        push_thought(&mut lines, &std::mem::take(&mut self.thought));
        self.masked(&lines)
    }

    fn masked(&self, lines: &[String]) -> Vec<String> {
        let masked = lines
            .iter()
            .map(|line| self.secrets.mask(line).into_owned());
        masked.collect()
    }

    fn other(&mut self, event: &TurnEvent) -> Vec<String> {
        match event {
            TurnEvent::ToolCall(call) => self.tool_call(call).into_iter().collect(),
            TurnEvent::Plan(update) => plan(update),
            TurnEvent::Usage(usage) => match (&usage["used"], &usage["size"]) {
                (Value::Number(used), Value::Number(size)) => {
                    vec![format!("context: {used} of {size} tokens")]
                }
                _ => Vec::new(),
            },
            TurnEvent::PermissionAsked(request) => {
                let title = self.title_of(&request.tool_call);
                vec![format!("permission: {title}?")]
            }
            TurnEvent::PermissionAnswered(request, decision) => {
                let title = self.title_of(&request.tool_call);
                vec![format!(
                    "permission: {title}: {}",
                    chosen(request, decision)
                )]
            }
            TurnEvent::Skipped(count) => vec![format!("({count} events are left out here)")],
            _ => Vec::new(),
        }
    }

    /// A tool call when it is new, and when it has got on.
    fn tool_call(&mut self, call: &Value) -> Option<String> {
        let status = call["status"].as_str();
        let is_news = match call["sessionUpdate"].as_str() {
            Some("tool_call") => true,
            _ => matches!(status, Some("completed" | "failed")),
        };
        let title = self.title_of(call);
        is_news.then(|| match status {
            Some(status @ ("completed" | "failed")) => format!("tool: {title}: {status}"),
            _ => match call["kind"].as_str() {
                Some(kind) => format!("tool: {title} ({kind})"),
                None => format!("tool: {title}"),
            },
        })
    }

    /// The title of a tool call, which may have been said before.
    fn title_of(&mut self, call: &Value) -> String {
        let id = call["toolCallId"].as_str().unwrap_or_default();
        match call["title"].as_str() {
            Some(title) => {
                let title = shortened(title);
                self.titles.insert(id.to_owned(), title.clone());
                title
            }
            None => match self.titles.get(id) {
                Some(title) => title.clone(),
                None => format!("`{}`", shortened(id)),
            },
        }
    }
}

fn push_thought(lines: &mut Vec<String>, line: &str) {
    if !line.trim().is_empty() {
        lines.push(format!("thought: {}", line.trim_end()));
    }
}

/// ACP v1 `Plan`: what is to be done, and how far it is.
fn plan(update: &Value) -> Vec<String> {
    let entries = update["entries"].as_array().map(Vec::as_slice);
    let entries = entries.unwrap_or_default().iter();
    entries
        .map(|entry| {
            let mark = match entry["status"].as_str() {
                Some("completed") => 'x',
                Some("in_progress") => '>',
                _ => ' ',
            };
            let content = entry["content"].as_str().unwrap_or_default();
            format!("plan: [{mark}] {}", shortened(content))
        })
        .collect()
}

fn chosen(request: &PermissionRequest, decision: &PermissionDecision) -> String {
    let PermissionDecision::Select(id) = decision else {
        return "no answer".to_owned();
    };
    let option = request
        .options
        .iter()
        .find(|option| option.option_id == *id);
    option.map_or_else(
        || id.clone(),
        |option| match (&*option.name, &*option.kind) {
            (name, "") => name.to_owned(),
            ("", kind) => kind.to_owned(),
            (name, kind) => format!("{name} ({kind})"),
        },
    )
}

/// In one line, and not too long a one.
fn shortened(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let mut line = words.join(" ");
    if let Some((end, _)) = line.char_indices().nth(MAX_WIDTH) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(verbose: bool, events: &[TurnEvent]) -> Vec<String> {
        let mut activity = Activity::new(verbose, Secrets::default());
        let mut lines: Vec<_> = events
            .iter()
            .flat_map(|event| activity.lines(event))
            .collect();
        lines.extend(activity.end());
        lines
    }

    #[test]
    fn thoughts_are_whole_lines() {
        let thought = |text: &str| TurnEvent::Thought(text.to_owned());
        let events = [
            thought("Let me "),
            thought("look.\n\nIt"),
            TurnEvent::Text("x".into()),
            thought("sk-abcdefghijklmnop\n"),
            thought("the end"),
        ];
        assert_eq!(
            shown(true, &events),
            [
                "thought: Let me look.",
                "thought: It",
                "thought: sk-[masked]",
                "thought: the end"
            ]
        );
        assert_eq!(shown(false, &events), [""; 0]);
    }

    #[test]
    fn tool_calls_are_shown_at_both_ends_by_their_titles() {
        let call = |value| TurnEvent::ToolCall(value);
        let long = "x".repeat(300);
        let events = [
            call(
                json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read\n a", "kind": "read", "status": "pending"}),
            ),
            call(
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "in_progress"}),
            ),
            call(json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "content": []})),
            call(
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed"}),
            ),
            call(json!({"sessionUpdate": "tool_call", "toolCallId": "2"})),
            call(
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "3", "title": long, "status": "failed"}),
            ),
        ];
        assert_eq!(
            shown(true, &events),
            [
                "tool: Read a (read)",
                "tool: Read a: completed",
                "tool: `2`",
                &format!("tool: {}…: failed", "x".repeat(200)),
            ]
        );
    }

    #[test]
    fn plans_usage_and_gaps_are_shown_and_what_changes_the_answer_always_is() {
        let events = [
            TurnEvent::Plan(json!({"entries": [
                {"content": "a", "status": "completed"},
                {"content": "b", "status": "in_progress"},
                {"content": "c"},
            ]})),
            TurnEvent::Usage(json!({"used": 10, "size": 100})),
            TurnEvent::Usage(json!({})),
            TurnEvent::Skipped(3),
            TurnEvent::ReplyRejected("it is not JSON".into()),
        ];
        let told = "The reply cannot be used and is asked for once more: it is not JSON";
        assert_eq!(
            shown(true, &events),
            [
                "plan: [x] a",
                "plan: [>] b",
                "plan: [ ] c",
                "context: 10 of 100 tokens",
                "(3 events are left out here)",
                told,
            ]
        );
        assert_eq!(shown(false, &events), [told]);
    }
}
