//! What the command line says of the session.

use acp_core::{LoadOptions, Resume, Secrets, SessionInfo, StatePolicy};
use serde_json::Value;

use crate::cli::{SessionArgs, SettingArgs, State, StateArgs};
use crate::failure::Failure;
use crate::mcp::McpFile;
use crate::terminal;

impl SettingArgs {
    /// The options with what is asked for.
    pub(crate) fn apply(&self, mut options: LoadOptions) -> LoadOptions {
        if let Some(mode) = &self.mode {
            options = options.mode(mode);
        }
        for setting in &self.settings {
            options = options.config_option(&setting.id, setting.value.clone());
        }
        options
    }
}

impl SessionArgs {
    /// The options with what is asked for, whose secrets `secrets` knows afterwards.
    pub(crate) fn apply(
        &self,
        mut options: LoadOptions,
        secrets: &mut Secrets,
    ) -> Result<LoadOptions, Failure> {
        for path in &self.mcp {
            let file = McpFile::read(path)?;
            for secret in file.secrets {
                options = options.secret(&secret);
                secrets.add(secret);
            }
            for server in file.servers {
                options = options.mcp_server(server);
            }
        }
        for dir in &self.add_dir {
            if !dir.is_dir() {
                return Err(Failure::options(format!(
                    "{} is no directory",
                    dir.display()
                )));
            }
            options = options.additional_directory(dir);
        }
        let resume = match (&self.resume, &self.resume_or_new) {
            (Some(id), _) => Resume::required(id),
            (None, Some(id)) => Resume::or_new(id),
            (None, None) => return Ok(options),
        };
        Ok(options.resume(resume))
    }

    pub(crate) fn resumes(&self) -> bool {
        self.resume.is_some() || self.resume_or_new.is_some()
    }
}

impl StateArgs {
    /// The policy that is asked for, or else the one of the agent.
    pub(crate) fn policy(&self, session: &SessionArgs, of_agent: Option<State>) -> StatePolicy {
        match self.policy {
            Some(policy) => policy.into(),
            None if session.resumes() => StatePolicy::FullRequest,
            None => of_agent.unwrap_or_default().into(),
        }
    }
}

/// Says so if the session is a new one although another was to go on; and its id, if much is to be said.
pub(crate) fn tell(session: &SessionInfo, verbose: bool) {
    if verbose {
        terminal::note(format!("session: {}", session.session_id));
    }
    if let Some(why) = &session.resume_error {
        terminal::note(format!(
            "The session could not go on, so this is a new one: {why}"
        ));
    }
}

/// The choices of a configuration option.
pub(crate) fn choices(option: &Value) -> Vec<&str> {
    let options = option["options"].as_array().map(Vec::as_slice);
    let options = options.unwrap_or_default().iter();
    // Source: ACP v1 `SessionConfigSelectOptions`: a list of values, or of groups of them.
    options
        .flat_map(|it| match it["options"].as_array() {
            Some(group) => group.as_slice(),
            None => std::slice::from_ref(it),
        })
        .filter_map(|it| it["value"].as_str())
        .collect()
}
