//! Writing to the client.

use serde_json::{Value, json};

use super::expect::Failure;
use super::{Fault, Player, Process};
use crate::control::Command;
use crate::fixture::{Answer, Cuts, Message, Send};
use crate::message;
use crate::transcript::LogEvent;

impl Player {
    /// Writes a line to the client. `answers` and `invalid` are for the log.
    pub(super) fn write_line(
        &mut self,
        process: u32,
        line: Vec<u8>,
        answers: Option<String>,
        invalid: Option<String>,
    ) {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(&line);
        bytes.push(b'\n');
        self.note_line(
            process,
            Line {
                bytes: line,
                answers,
                invalid,
            },
        );
        self.command(process, Command::Stdout(bytes));
    }

    pub(super) fn send(&mut self, send: &Send) -> Result<(), Box<Failure>> {
        for line in self.lines(send)? {
            self.write_line(self.current, line.bytes, line.answers, line.invalid);
        }
        Ok(())
    }

    pub(super) fn batch(&mut self, sends: &[Send]) -> Result<(), Box<Failure>> {
        let mut whole = Vec::new();
        for send in sends {
            for line in self.lines(send)? {
                whole.extend_from_slice(&line.bytes);
                whole.push(b'\n');
                self.note_line(self.current, line);
            }
        }
        self.command(self.current, Command::Stdout(whole));
        Ok(())
    }

    pub(super) fn split(&mut self, send: &Send, cuts: &Cuts) -> Result<(), Box<Failure>> {
        for line in self.lines(send)? {
            let mut bytes = line.bytes.clone();
            bytes.push(b'\n');
            self.note_line(self.current, line);
            let ends = cuts.ends(bytes.len()).map_err(|message| {
                Box::new(Failure {
                    fault: Fault::Fixture,
                    ..Failure::client(message)
                })
            })?;
            let mut start = 0;
            for end in ends {
                self.command(self.current, Command::Stdout(bytes[start..end].to_vec()));
                start = end;
            }
        }
        Ok(())
    }

    /// The lines that `send` writes; what they change is changed.
    fn lines(&mut self, send: &Send) -> Result<Vec<Line>, Box<Failure>> {
        let line = |bytes| Line {
            bytes,
            answers: None,
            invalid: send.invalid.clone(),
        };
        Ok(match &send.message {
            Message::Reply {
                label,
                answer,
                id,
                id_as_string,
            } => {
                let request = self.request(label)?;
                // An answer under another id is none to this request, and one with an error opens nothing.
                if id.is_none()
                    && let Answer {
                        result: Some(result),
                        error: None,
                    } = answer
                {
                    let gate = &mut self.process()?.gate;
                    let answer = Ok(result.clone());
                    gate.answered(&request.method, request.params.as_ref(), &answer);
                }
                let mut id = id.as_ref().unwrap_or(&request.id).clone();
                if *id_as_string && id.is_number() {
                    id = id.to_string().into();
                }
                vec![Line {
                    answers: Some(request.method),
                    ..line(message::scripted_response(&id, answer))
                }]
            }
            Message::Ask {
                method,
                params,
                label,
                id,
            } => {
                let process = self.process()?;
                let id = id.clone().unwrap_or_else(|| {
                    let id = free_id(process, process.next_id);
                    process.next_id = id.as_u64().map_or(0, |id| id + 1);
                    id
                });
                process.asked.insert(id.to_string(), method.clone());
                if let Some(label) = label {
                    process.asks.insert(label.clone(), id.clone());
                }
                vec![line(message::request(&id, method, params.as_ref()))]
            }
            Message::Tell { method, params } => {
                vec![line(message::notification(method, params.as_ref()))]
            }
            Message::Update { session, updates } => updates
                .iter()
                .map(|update| line(message::update(session, update)))
                .collect(),
        })
    }

    fn note_line(&mut self, process: u32, line: Line) {
        let Line {
            bytes: line,
            answers,
            invalid,
        } = line;
        self.note(LogEvent::ToClient {
            process,
            line,
            answers,
            invalid,
        });
    }
}

/// A line to the client, with what the log says about it.
struct Line {
    bytes: Vec<u8>,
    answers: Option<String>,
    invalid: Option<String>,
}

/// The first number from `from` that is no id of a request of the agent that waits for an answer.
pub(super) fn free_id(process: &Process, from: u64) -> Value {
    let mut id = from;
    while process.asked.contains_key(&id.to_string()) {
        id += 1;
    }
    json!(id)
}
