//! What this client writes. Everything here validates against the official schema.

use serde::Serialize;
use serde_json::Value;

use super::{Implementation, PROTOCOL_VERSION};
use crate::mcp::McpServer;

/// `InitializeRequest`: nothing is declared that is not served.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InitializeRequest<'a> {
    protocol_version: u16,
    client_capabilities: ClientCapabilities,
    client_info: &'a Implementation,
}

#[derive(Serialize)]
struct ClientCapabilities {
    fs: FileSystemCapabilities,
    terminal: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileSystemCapabilities {
    read_text_file: bool,
    write_text_file: bool,
}

impl<'a> InitializeRequest<'a> {
    pub(crate) fn new(client_info: &'a Implementation) -> Self {
        Self {
            protocol_version: PROTOCOL_VERSION,
            client_capabilities: ClientCapabilities {
                fs: FileSystemCapabilities {
                    read_text_file: false,
                    write_text_file: false,
                },
                terminal: false,
            },
            client_info,
        }
    }
}

/// `AuthenticateRequest`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthenticateRequest<'a> {
    pub(crate) method_id: &'a str,
}

/// `NewSessionRequest`; with a `session_id` also `LoadSessionRequest` and `ResumeSessionRequest`. Agents
/// answer `-32602` to a relative `cwd` and to a missing `mcpServers`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<&'a str>,
    pub(crate) cwd: &'a str,
    pub(crate) mcp_servers: &'a [McpServer],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) additional_directories: &'a [String],
}

/// `SetSessionModeRequest`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetSessionModeRequest<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) mode_id: &'a str,
}

/// `SetSessionConfigOptionRequest`. A value that is no text has its type beside it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetConfigOptionRequest<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) config_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) r#type: Option<&'static str>,
    pub(crate) value: &'a ConfigValue,
}

/// What a configuration option of a session is set to.
///
/// Source: ACP v1 `SessionConfigOptionValue`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ConfigValue {
    /// One of the values that the option offers, by its id.
    Id(String),
    /// On or off.
    Bool(bool),
}

impl From<&str> for ConfigValue {
    fn from(id: &str) -> Self {
        Self::Id(id.to_owned())
    }
}

impl From<String> for ConfigValue {
    fn from(id: String) -> Self {
        Self::Id(id)
    }
}

impl From<bool> for ConfigValue {
    fn from(on: bool) -> Self {
        Self::Bool(on)
    }
}

/// `PromptRequest`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptRequest<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) prompt: &'a [ContentBlock],
}

/// `CloseSessionRequest`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CloseSessionRequest<'a> {
    pub(crate) session_id: &'a str,
}

/// `CancelNotification`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelNotification<'a> {
    pub(crate) session_id: &'a str,
}

/// One block of a prompt.
///
/// Source: ACP v1 `ContentBlock`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text, which every agent takes.
    Text {
        /// The text.
        text: String,
    },
    /// An image, for agents with the capability `image`.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64.
        data: String,
        /// Such as `image/png`.
        mime_type: String,
    },
    /// Sound, for agents with the capability `audio`.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Base64.
        data: String,
        /// Such as `audio/wav`.
        mime_type: String,
    },
    /// The content of a file or the like, for agents with the capability `embeddedContext`.
    Resource {
        /// `EmbeddedResourceResource`, as the host gave it.
        resource: Value,
    },
    /// A pointer to a file or the like, which every agent takes.
    ResourceLink {
        /// For people.
        name: String,
        /// Where it is.
        uri: String,
    },
}
