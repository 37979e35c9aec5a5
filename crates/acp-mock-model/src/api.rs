//! The four APIs: what is asked by which path, and how an answer is written.

mod chat;
mod gemini;
mod messages;
mod responses;

use serde_json::{Value, json};

use crate::conversation::Conversation;

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// An answer of the model.
    Answer(Api, Delivery),
    /// How many tokens its body has.
    Tokens(Api),
    /// Which models there are.
    Models,
    /// Whether anybody is there.
    Life,
    /// Something that is not here.
    Unknown,
}

/// Whose API it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    Gemini,
}

/// How an answer goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// As the `stream` of the body says.
    AsBodySays,
    /// As one JSON value.
    Whole,
    /// As server-sent events.
    Events,
    /// As one JSON array with an element for each event.
    Array,
}

/// One answer that is about to be written.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    /// The model that was asked for.
    pub(crate) model: &'a str,
    /// Another one for each answer, for ids that no two answers share.
    pub(crate) serial: u64,
    /// Tokens of the request.
    pub(crate) input_tokens: u64,
    pub(crate) content: &'a Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// Text, in the pieces that are streamed.
    Text(Vec<String>),
    Call {
        name: String,
        arguments: Value,
    },
}

/// One server-sent event.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) data: Data,
    /// Whether it carries a piece of the text, and so has to wait where the answer is slow.
    pub(crate) is_piece: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Data {
    Json(Value),
    /// The end of a stream of chat completions, which is no JSON.
    Done,
}

/// What this request wants.
pub(crate) fn wants(method: &str, path: &str) -> Wants {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = path.trim_end_matches('/');
    match method {
        "HEAD" => return Wants::Life,
        "GET" if path.is_empty() => return Wants::Life,
        "GET" if path.ends_with("/models") => return Wants::Models,
        "POST" => {}
        _ => return Wants::Unknown,
    }
    if let Some((_, action)) = path.rsplit_once(':') {
        let streamed = match query.split('&').any(|pair| pair == "alt=sse") {
            true => Delivery::Events,
            false => Delivery::Array,
        };
        return match action {
            "generateContent" => Wants::Answer(Api::Gemini, Delivery::Whole),
            "streamGenerateContent" => Wants::Answer(Api::Gemini, streamed),
            "countTokens" => Wants::Tokens(Api::Gemini),
            _ => Wants::Unknown,
        };
    }
    let ends = [
        (
            "/chat/completions",
            Wants::Answer(Api::Chat, Delivery::AsBodySays),
        ),
        (
            "/responses",
            Wants::Answer(Api::Responses, Delivery::AsBodySays),
        ),
        (
            "/messages",
            Wants::Answer(Api::Messages, Delivery::AsBodySays),
        ),
        ("/messages/count_tokens", Wants::Tokens(Api::Messages)),
        ("/responses/input_tokens", Wants::Tokens(Api::Responses)),
    ];
    let found = ends.into_iter().find(|(end, _)| path.ends_with(end));
    found.map_or(Wants::Unknown, |(_, wants)| wants)
}

/// The models there are, in the shapes of all of the APIs at once.
pub(crate) fn models() -> Value {
    json!({
        "object": "list",
        "data": [{
            "id": "mock-model", "object": "model", "type": "model", "display_name": "Mock",
            "created": 1, "created_at": "2026-01-01T00:00:00Z", "owned_by": "mock",
        }],
        "has_more": false,
        "models": [],
    })
}

impl Api {
    /// What is asked.
    pub(crate) fn read(self, body: &Value) -> Conversation {
        match self {
            Api::Chat => chat::read(body),
            Api::Responses => responses::read(body),
            Api::Messages => messages::read(body),
            Api::Gemini => gemini::read(body),
        }
    }

    /// The answer as one JSON value.
    pub(crate) fn whole(self, answer: &Answer<'_>) -> Value {
        match self {
            Api::Chat => chat::whole(answer),
            Api::Responses => responses::whole(answer),
            Api::Messages => messages::whole(answer),
            Api::Gemini => gemini::whole(answer),
        }
    }

    /// The answer bit by bit.
    pub(crate) fn events(self, answer: &Answer<'_>) -> Vec<Event> {
        match self {
            Api::Chat => chat::events(answer),
            Api::Responses => responses::events(answer),
            Api::Messages => messages::events(answer),
            Api::Gemini => gemini::events(answer),
        }
    }

    /// An error with this HTTP status.
    pub(crate) fn error(self, status: u16, message: &str) -> Value {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        match self {
            Api::Chat | Api::Responses => {
                json!({"error": {"message": message, "type": kind, "code": null, "param": null}})
            }
            Api::Messages => json!({"type": "error", "error": {"type": kind, "message": message}}),
            Api::Gemini => {
                let status_name = match status {
                    401 => "UNAUTHENTICATED",
                    403 => "PERMISSION_DENIED",
                    429 => "RESOURCE_EXHAUSTED",
                    400..=499 => "INVALID_ARGUMENT",
                    _ => "INTERNAL",
                };
                json!({"error": {"code": status, "message": message, "status": status_name}})
            }
        }
    }

    /// How many tokens there are.
    pub(crate) fn tokens(self, tokens: u64) -> Value {
        match self {
            Api::Gemini => json!({"totalTokens": tokens}),
            _ => json!({"input_tokens": tokens, "object": "response.input_tokens"}),
        }
    }
}

impl Content {
    /// The text, or nothing for a call.
    fn text(&self) -> String {
        match self {
            Content::Text(pieces) => pieces.concat(),
            Content::Call { .. } => String::new(),
        }
    }

    fn pieces(&self) -> &[String] {
        match self {
            Content::Text(pieces) => pieces,
            Content::Call { .. } => &[],
        }
    }
}

impl Answer<'_> {
    fn output_tokens(&self) -> u64 {
        tokens_in(self.content.text().len())
    }
}

impl Event {
    fn json(data: Value) -> Self {
        Event {
            name: None,
            data: Data::Json(data),
            is_piece: false,
        }
    }

    /// An event that is named by its own `type`.
    fn named(data: Value) -> Self {
        Event {
            name: data["type"].as_str().map(str::to_owned),
            ..Event::json(data)
        }
    }

    fn piece(self) -> Self {
        Event {
            is_piece: true,
            ..self
        }
    }
}

/// About how many tokens so many bytes are.
pub(crate) fn tokens_in(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_is_wanted() {
        let answer = |api, delivery| Wants::Answer(api, delivery);
        for (method, path, want) in [
            (
                "POST",
                "/v1/chat/completions",
                answer(Api::Chat, Delivery::AsBodySays),
            ),
            (
                "POST",
                "/responses",
                answer(Api::Responses, Delivery::AsBodySays),
            ),
            (
                "POST",
                "/v1/messages?beta=true",
                answer(Api::Messages, Delivery::AsBodySays),
            ),
            (
                "POST",
                "/v1/messages/count_tokens",
                Wants::Tokens(Api::Messages),
            ),
            (
                "POST",
                "/v1/responses/input_tokens",
                Wants::Tokens(Api::Responses),
            ),
            (
                "POST",
                "/v1beta/models/g:generateContent",
                answer(Api::Gemini, Delivery::Whole),
            ),
            (
                "POST",
                "/v1beta/models/g:streamGenerateContent?key=k&alt=sse",
                answer(Api::Gemini, Delivery::Events),
            ),
            (
                "POST",
                "/v1beta/models/g:streamGenerateContent",
                answer(Api::Gemini, Delivery::Array),
            ),
            (
                "POST",
                "/v1beta/models/g:countTokens",
                Wants::Tokens(Api::Gemini),
            ),
            ("POST", "/v1beta/models/g:embedContent", Wants::Unknown),
            ("GET", "/v1/models?limit=1", Wants::Models),
            ("GET", "/", Wants::Life),
            ("HEAD", "/anything", Wants::Life),
            ("GET", "/v1/responses", Wants::Unknown),
            ("PUT", "/v1/messages", Wants::Unknown),
            ("POST", "/api/event", Wants::Unknown),
        ] {
            assert_eq!(wants(method, path), want, "{method} {path}");
        }
    }

    #[test]
    fn nothing_at_all_is_an_empty_conversation() {
        for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
            for body in [
                json!(null),
                json!([]),
                json!({"messages": 7, "input": {}, "contents": "x"}),
            ] {
                assert_eq!(api.read(&body), Conversation::default(), "{api:?} {body}");
            }
        }
    }
}
