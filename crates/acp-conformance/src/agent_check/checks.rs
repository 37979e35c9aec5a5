//! The list of checks, and what the protocol asks in each case.

use std::fmt;

use super::{
    bench::{Bench, Finding},
    handshake, message, session, shutdown,
    talk::Stop,
    turn, wire,
};

/// One thing that is looked at.
pub struct Check {
    /// `area/behaviour`.
    pub name: &'static str,
    /// What the protocol asks of an agent, in our own words.
    pub asks: &'static str,
    /// How strongly.
    pub level: Level,
    /// Where it says so.
    pub source: &'static str,
    body: Body,
}

type Body = fn(&mut Bench<'_>) -> Result<Finding, Stop>;

impl Check {
    pub(super) fn run(&self, bench: &mut Bench<'_>) -> Result<Finding, Stop> {
        (self.body)(bench)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// How strongly something is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A MUST, or a type of the schema.
    Must,
    /// A SHOULD, or a recommendation.
    Should,
    /// Nothing is said. An agent that lives and answers is `ok`, whatever it answers.
    Undefined,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Must => "must",
            Level::Should => "should",
            Level::Undefined => "undefined",
        })
    }
}

const fn check(
    name: &'static str,
    level: Level,
    asks: &'static str,
    source: &'static str,
    body: Body,
) -> Check {
    Check {
        name,
        asks,
        level,
        source,
        body,
    }
}

use Level::{Must, Should, Undefined};

/// All checks, in the order in which they run: those that may leave a process in an unknown state come
/// after those that share one, and those about all that was written come last.
pub const CHECKS: &[Check] = &[
    check(
        "initialize/version",
        Must,
        "version 1, which the client asks for, is answered with 1",
        "ACP v1 initialization, Version Negotiation",
        handshake::version,
    ),
    check(
        "initialize/unknown-version",
        Must,
        "a version that the agent does not have is answered with the latest that it has",
        "ACP v1 initialization, Version Negotiation",
        handshake::unknown_version,
    ),
    check(
        "initialize/no-version",
        Should,
        "initialize without protocolVersion is refused with -32602",
        "ACP v1 schema, InitializeRequest; JSON-RPC 2.0 section 5.1",
        handshake::no_version,
    ),
    check(
        "initialize/again",
        Undefined,
        "a second initialize is answered",
        "JSON-RPC 2.0 section 5",
        handshake::again,
    ),
    check(
        "session/before-initialize",
        Undefined,
        "session/new before initialize is answered; clients must not send it",
        "ACP v1 session setup",
        handshake::session_first,
    ),
    check(
        "session/new",
        Must,
        "session/new gives a session id",
        "ACP v1 session setup, Creating a Session",
        session::new,
    ),
    check(
        "session/unique-ids",
        Must,
        "two sessions have two ids",
        "ACP v1 session setup, Creating a Session",
        session::unique_ids,
    ),
    check(
        "session/relative-cwd",
        Should,
        "a cwd that is not absolute is refused with -32602",
        "ACP v1 session setup, Working Directory; JSON-RPC 2.0 section 5.1",
        session::relative_cwd,
    ),
    check(
        "session/missing-cwd",
        Undefined,
        "a cwd that does not exist is answered",
        "ACP v1 session setup, Working Directory",
        session::missing_cwd,
    ),
    check(
        "session/no-mcp-servers",
        Should,
        "session/new without mcpServers is refused with -32602",
        "ACP v1 schema, NewSessionRequest; JSON-RPC 2.0 section 5.1",
        session::no_mcp_servers,
    ),
    check(
        "session/unknown",
        Should,
        "a prompt for a session that does not exist is refused with -32002",
        "ACP v1 schema, ErrorCode",
        session::unknown,
    ),
    check(
        "session/load-unknown",
        Should,
        "session/load of a session that does not exist is refused with -32002",
        "ACP v1 schema, ErrorCode",
        session::load_unknown,
    ),
    check(
        "session/set-mode-unknown",
        Should,
        "a mode that the session does not have is refused",
        "ACP v1 session modes",
        session::unknown_mode,
    ),
    check(
        "message/unknown-method",
        Must,
        "an unknown method is answered with an error, which should be -32601",
        "JSON-RPC 2.0 section 5.1",
        message::unknown_method,
    ),
    check(
        "message/unknown-extension",
        Should,
        "an unknown method that begins with _ is answered with -32601",
        "ACP v1 extensibility, Custom Requests",
        message::unknown_extension,
    ),
    check(
        "message/unknown-notification",
        Must,
        "a notification is not answered, also an unknown one",
        "JSON-RPC 2.0 section 4.1",
        message::unknown_notification,
    ),
    check(
        "message/unknown-extension-notification",
        Must,
        "an unknown notification that begins with _ is ignored",
        "ACP v1 extensibility, Custom Notifications; JSON-RPC 2.0 section 4.1",
        message::unknown_extension_notification,
    ),
    check(
        "message/unknown-response",
        Should,
        "a response to nothing is ignored",
        "JSON-RPC 2.0 section 5",
        message::unknown_response,
    ),
    check(
        "message/string-id",
        Must,
        "a request id that is a string comes back as it is",
        "JSON-RPC 2.0 section 5",
        message::string_id,
    ),
    check(
        "message/large-id",
        Must,
        "the request id 9007199254740991 comes back as it is",
        "JSON-RPC 2.0 section 5",
        message::large_id,
    ),
    check(
        "message/no-jsonrpc",
        Should,
        "a request without jsonrpc is refused with -32600",
        "JSON-RPC 2.0 sections 4 and 5.1",
        message::no_jsonrpc,
    ),
    check(
        "message/garbage",
        Should,
        "a line that is not JSON is answered with -32700 under the id null",
        "JSON-RPC 2.0 sections 5 and 5.1",
        message::garbage,
    ),
    check(
        "message/empty-line",
        Undefined,
        "an empty line is ignored or refused",
        "ACP v1 transports, stdio",
        message::empty_line,
    ),
    check(
        "message/number",
        Should,
        "a line that is a bare number is answered with -32600 under the id null",
        "JSON-RPC 2.0 section 5.1",
        message::number,
    ),
    check(
        "message/array",
        Should,
        "an array, as ACP has no batches, is answered with -32600 under the id null",
        "ACP v1 transports; JSON-RPC 2.0 section 5.1",
        message::array,
    ),
    check(
        "message/invalid-utf-8",
        Should,
        "a line that is not UTF-8 is answered with -32700 under the id null",
        "ACP v1 transports; JSON-RPC 2.0 section 5.1",
        message::invalid_utf8,
    ),
    check(
        "turn/answer",
        Must,
        "a prompt ends with a stop reason, after the text of the answer",
        "ACP v1 prompt turn, The Prompt Turn Lifecycle",
        turn::answer,
    ),
    check(
        "turn/second",
        Must,
        "a session answers a second prompt",
        "ACP v1 prompt turn",
        turn::second,
    ),
    check(
        "turn/cancel-idle",
        Must,
        "a cancel when nothing runs is not answered, and the next turn is not cancelled",
        "JSON-RPC 2.0 section 4.1; ACP v1 prompt turn, Cancellation",
        turn::cancel_idle,
    ),
    check(
        "turn/cancel",
        Must,
        "a cancelled turn ends with the stop reason cancelled",
        "ACP v1 prompt turn, Cancellation",
        turn::cancel,
    ),
    check(
        "turn/after-cancel",
        Must,
        "a session whose turn was cancelled answers the next prompt",
        "ACP v1 prompt turn, Cancellation",
        turn::after_cancel,
    ),
    check(
        "turn/busy",
        Must,
        "a second prompt while a turn runs is answered, and so is the first",
        "JSON-RPC 2.0 section 5",
        turn::busy,
    ),
    check(
        "turn/permission-reject",
        Must,
        "a turn in which the client allows nothing ends with a stop reason",
        "ACP v1 tool calls, Requesting Permission",
        turn::permission_reject,
    ),
    check(
        "turn/permission-options",
        Must,
        "a permission request has options, and no two have the same id",
        "ACP v1 tool calls, Permission Options",
        turn::permission_options,
    ),
    check(
        "turn/permission-cancel",
        Must,
        "a turn that is cancelled while the agent asks for permission ends with cancelled",
        "ACP v1 prompt turn, Cancellation",
        turn::permission_cancel,
    ),
    check(
        "session/load",
        Must,
        "session/load replays the conversation, and answers after that",
        "ACP v1 session setup, Loading a Session",
        session::load,
    ),
    check(
        "shutdown/eof",
        Should,
        "the agent ends when the client closes its input",
        "ACP v1 transports, stdio",
        shutdown::eof,
    ),
    check(
        "shutdown/eof-mid-turn",
        Should,
        "the agent ends when the client closes its input, also while a turn runs",
        "ACP v1 transports, stdio",
        shutdown::eof_mid_turn,
    ),
    check(
        "shutdown/term",
        Should,
        "the agent ends on SIGTERM, and no process of its stays behind",
        "ACP v1 transports, stdio",
        shutdown::term,
    ),
    check(
        "wire/output",
        Must,
        "nothing but messages is written to standard output",
        "ACP v1 transports, stdio",
        wire::output,
    ),
    check(
        "wire/envelope",
        Must,
        "every message is one of JSON-RPC 2.0, and every response is to an open request",
        "JSON-RPC 2.0 sections 4 and 5",
        wire::envelope,
    ),
    check(
        "wire/schema",
        Must,
        "every message is as the schema says",
        "ACP v1 schema",
        wire::schema,
    ),
    check(
        "wire/capabilities",
        Must,
        "nothing is asked of the client that it does not declare",
        "ACP v1 file system, Checking Support; ACP v1 terminals, Checking Support",
        wire::capabilities,
    ),
    check(
        "wire/ids",
        Undefined,
        "the ids of the agent's requests are strings or integers",
        "JSON-RPC 2.0 section 4",
        wire::ids,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_have_an_area() {
        let names: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), CHECKS.len());
        assert!(names.iter().all(|name| name.split('/').count() == 2));
    }
}
