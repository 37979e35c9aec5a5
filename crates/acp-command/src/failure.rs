//! What can go wrong, and the exit codes.

use std::io;
use std::sync::Arc;

use acp_core::{AuthMethod, GenerateError, LoadError};
use serde_json::{Value, json};

use crate::terminal;

/// Why the command does not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The agent could not be started, or opened no session.
    Load {
        error: LoadError,
        /// The end of the agent's standard error.
        diagnostics: String,
        /// What to do about it, in lines; empty where that is not known.
        advice: String,
    },
    /// The question could not be sent, or the turn gave no answer.
    Turn {
        error: Box<GenerateError>,
        /// The end of the agent's standard error.
        diagnostics: String,
        /// What to do about it, in lines; empty where that is not known.
        advice: String,
    },
    /// Standard output could not be written.
    Output(io::Error),
    /// A signal ended the command.
    Interrupted {
        /// Its number.
        signal: i32,
        /// The answer text that had come.
        partial: String,
    },
    /// It has been told where it belongs, and only the exit code is left.
    Told(u8),
}

impl Failure {
    /// The question cannot be sent.
    pub(crate) fn question(message: String) -> Self {
        Self::turn(GenerateError::InvalidRequest(message))
    }

    /// Of the agent nothing more is known yet.
    pub(crate) fn turn(error: GenerateError) -> Self {
        Self::Turn {
            error: Box::new(error),
            diagnostics: String::new(),
            advice: String::new(),
        }
    }

    /// An option cannot work.
    pub(crate) fn options(message: String) -> Self {
        Self::load(LoadError::InvalidOptions(message))
    }

    /// Signals cannot be watched, which is to say that the system is out of threads or file descriptors.
    pub(crate) fn signals(error: io::Error) -> Self {
        Self::load(LoadError::SpawnFailed {
            program: "acp".to_owned(),
            reason: format!("signals cannot be watched: {error}"),
            source: Arc::new(error),
        })
    }

    /// There is no agent yet that could say more.
    pub(crate) fn load(error: LoadError) -> Self {
        Self::Load {
            error,
            diagnostics: String::new(),
            advice: String::new(),
        }
    }

    /// Adds a line that says what to do about it.
    pub(crate) fn advise(&mut self, line: &str) {
        if let Self::Load { advice, .. } | Self::Turn { advice, .. } = self {
            if !advice.is_empty() {
                advice.push('\n');
            }
            advice.push_str(line);
        }
    }

    /// Whether the agent wants a login first.
    pub(crate) fn wants_login(&self) -> bool {
        match self {
            Self::Load { error, .. } => matches!(error, LoadError::AuthRequired(_)),
            Self::Turn { error, .. } => matches!(**error, GenerateError::AuthRequired { .. }),
            _ => false,
        }
    }

    /// The code in the help.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Load {
                error: LoadError::InvalidOptions(_),
                ..
            } => 2,
            Self::Load { .. } => 3,
            Self::Turn { error, .. } => match **error {
                GenerateError::InvalidRequest(_) => 2,
                _ => 1,
            },
            // Whoever closed the pipe has what it wanted, as `head` does.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(_) => 1,
            Self::Interrupted { signal, .. } => signal_code(*signal),
            Self::Told(code) => *code,
        }
    }

    /// Tells a person, on standard error.
    pub(crate) fn print(&self) {
        match self {
            Self::Load {
                error,
                diagnostics,
                advice,
            } => {
                terminal::error(error);
                advice.lines().for_each(terminal::note);
                print_tail(error.stderr_tail(), diagnostics);
            }
            Self::Turn {
                error,
                diagnostics,
                advice,
            } => {
                terminal::error(error);
                advice.lines().for_each(terminal::note);
                print_tail(error.stderr_tail(), diagnostics);
            }
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Self::Output(error) => terminal::error(format!("cannot write the answer: {error}")),
            // Whoever sent the signal was told when it came.
            Self::Interrupted { .. } | Self::Told(_) => {}
        }
    }

    /// Tells a program: `kind`, `message` and the fields of `spec/errors.md`.
    pub(crate) fn to_json(&self) -> Value {
        let described = match self {
            Self::Load { error, .. } => serde_json::to_value(error),
            Self::Turn { error, .. } => serde_json::to_value(error),
            Self::Interrupted { partial, .. } => serde_json::to_value(GenerateError::Cancelled {
                partial: partial.clone(),
            }),
            Self::Output(_) | Self::Told(_) => Ok(Value::Null),
        };
        let mut error = match described {
            Ok(error) => error,
            // Errors are objects of strings and numbers, which always are JSON.
            Err(error) => json!({"kind": "internal", "message": error.to_string()}),
        };
        if let (Some(members), Self::Load { diagnostics, .. } | Self::Turn { diagnostics, .. }) =
            (error.as_object_mut(), self)
            && !diagnostics.is_empty()
        {
            members
                .entry("stderr_tail")
                .or_insert_with(|| diagnostics.as_str().into());
        }
        error
    }
}

/// Prints the one JSON object of a command, which is its value or `{"error": …}`.
pub(crate) fn print_as_json(result: Result<Value, Failure>) -> Result<(), Failure> {
    let (value, end) = match result {
        Ok(value) => (value, Ok(())),
        Err(failure @ (Failure::Output(_) | Failure::Told(_))) => return Err(failure),
        Err(failure) => (
            json!({"error": failure.to_json()}),
            Err(Failure::Told(failure.exit_code())),
        ),
    };
    terminal::print_json(&value).map_err(Failure::Output)?;
    end
}

/// The exit code that shells give a process which a signal has ended.
pub(crate) fn signal_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The end of the agent's standard error, unless the message of the error shows it already.
fn print_tail(shown: Option<&str>, diagnostics: &str) {
    let diagnostics = diagnostics.trim_end();
    if shown.is_none_or(str::is_empty) && !diagnostics.is_empty() {
        terminal::note(format!(
            "the end of the agent's standard error:\n{diagnostics}"
        ));
    }
}

/// How to log in, where an agent offers these methods.
pub(crate) fn login_advice(methods: &[AuthMethod]) -> String {
    let mut advice = String::from(
        "Log in with the agent's own program or set the variables it wants, then try again.",
    );
    if !methods.is_empty() {
        advice.push_str(" It offers:");
    }
    for AuthMethod {
        id,
        name,
        description,
        ..
    } in methods
    {
        advice.push_str("\n  ");
        advice.push_str(id);
        for text in [name, description] {
            if !text.is_empty() {
                advice.push_str(": ");
                advice.push_str(text);
            }
        }
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_the_exit_code_in_the_help() {
        let turn = |error| Failure::Turn {
            error: Box::new(error),
            diagnostics: String::new(),
            advice: String::new(),
        };
        let cancelled = GenerateError::Cancelled {
            partial: String::new(),
        };
        for (failure, code) in [
            (Failure::options("bad".into()), 2),
            (Failure::question("bad".into()), 2),
            (turn(cancelled), 1),
            (Failure::Output(io::ErrorKind::BrokenPipe.into()), 0),
            (Failure::Output(io::ErrorKind::StorageFull.into()), 1),
            (
                Failure::Interrupted {
                    signal: 15,
                    partial: String::new(),
                },
                143,
            ),
        ] {
            assert_eq!(failure.exit_code(), code, "{failure:?}");
        }
        assert_eq!(Failure::load(LoadError::Closed).exit_code(), 3);
    }

    #[test]
    fn an_error_for_programs_carries_the_tail_once() {
        let failure = Failure::Turn {
            error: Box::new(GenerateError::Refused {
                partial: "half".into(),
            }),
            diagnostics: "warning".into(),
            advice: String::new(),
        };
        assert_eq!(
            failure.to_json(),
            json!({
                "kind": "refused",
                "message": "the agent refused the request",
                "partial": "half",
                "stderr_tail": "warning",
            })
        );
    }
}
