//! The agent processes that the client under test starts.
//!
//! Each is a relay, which connects back over loopback TCP and says its process id; what it started
//! itself is known, too. So all of them can be told what to do, looked for, and ended.

use std::{
    io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};

use acp_fake_server::control::{Command, RelayConn, RelayEvent};

use crate::{processes, started::Entry};

/// Something that happened to an agent process. Processes are counted from 1.
#[derive(Debug)]
pub enum AgentEvent {
    /// The client started the next process. To be handed to [`Agents::add`].
    Started(RelayConn),
    /// This process reports something.
    Relay {
        /// The process.
        process: u32,
        /// What it reports.
        event: RelayEvent,
    },
    /// A process was started and could not be talked to.
    Failed(io::Error),
}

/// All agent processes of one cell. They are killed when this is dropped.
pub struct Agents {
    port: u16,
    stopped: Arc<AtomicBool>,
    relays: Vec<Relay>,
}

struct Relay {
    conn: RelayConn,
    /// Until it is gone.
    entry: Option<Entry>,
    grandchildren: Vec<(u32, Entry)>,
    input_ended: bool,
}

impl Agents {
    /// Listens for agent processes. What happens to them is handed to `on_event`, on threads of their
    /// own: first that a process started, and then what it reports, in order.
    pub fn listen(on_event: impl Fn(AgentEvent) + Clone + Send + 'static) -> io::Result<Agents> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        thread::Builder::new()
            .name("agent-listener".into())
            .spawn(move || {
                let mut process = 0;
                for stream in listener.incoming() {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    match stream.and_then(|stream| open(stream, process + 1, &on_event)) {
                        Ok(()) => process += 1,
                        Err(error) => on_event(AgentEvent::Failed(error)),
                    }
                }
            })?;
        Ok(Agents {
            port,
            stopped,
            relays: Vec::new(),
        })
    }

    /// Where a relay connects to.
    pub fn address(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// Takes in the process that was started.
    pub fn add(&mut self, conn: RelayConn) {
        self.relays.push(Relay {
            entry: Some(Entry::process(conn.pid())),
            conn,
            grandchildren: Vec::new(),
            input_ended: false,
        });
    }

    /// Notes what a process reports about itself.
    pub fn note(&mut self, process: u32, event: &RelayEvent) {
        let Some(relay) = index(process).and_then(|index| self.relays.get_mut(index)) else {
            return;
        };
        match event {
            RelayEvent::Line(_) => {}
            RelayEvent::Eof => relay.input_ended = true,
            RelayEvent::Grandchild { pid } => {
                relay.grandchildren.push((*pid, Entry::process(*pid)));
            }
            RelayEvent::Gone => {
                relay.input_ended = true;
                relay.entry = None;
            }
        }
    }

    /// How many processes the client has started.
    pub fn count(&self) -> usize {
        self.relays.len()
    }

    /// Tells a process what to do. Nothing if there is no such process.
    pub fn send(&self, process: u32, command: &Command) -> Option<io::Result<()>> {
        let relay = self.relays.get(index(process)?)?;
        Some(relay.conn.send(command))
    }

    /// Whether the client can write to no process any more.
    pub fn inputs_have_ended(&self) -> bool {
        self.relays.iter().all(|relay| relay.input_ended)
    }

    /// The processes, in words, that are still there at `deadline`, leaving out the first `skipped`
    /// of those that the client started.
    pub fn survivors(&self, skipped: usize, deadline: Instant) -> Vec<String> {
        let mut processes = Vec::new();
        for (number, relay) in (1..).zip(&self.relays).skip(skipped) {
            processes.push((format!("agent process {number}"), relay.conn.pid()));
            for (pid, _) in &relay.grandchildren {
                let name = format!("a process that agent process {number} started");
                processes.push((name, *pid));
            }
        }
        processes::outlive(processes, deadline)
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // Wakes the thread. It has ended already if it cannot be reached.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        for relay in &self.relays {
            if relay.entry.is_some() {
                processes::kill(relay.conn.pid());
            }
            for (pid, _) in &relay.grandchildren {
                if processes::is_alive(*pid) {
                    processes::kill(*pid);
                }
            }
        }
    }
}

fn index(process: u32) -> Option<usize> {
    usize::try_from(process).ok()?.checked_sub(1)
}

/// Opens the connection of a relay, so that its start is told before anything it reports.
fn open(
    stream: TcpStream,
    process: u32,
    on_event: &(impl Fn(AgentEvent) + Clone + Send + 'static),
) -> io::Result<()> {
    let (open, gate) = mpsc::channel::<()>();
    let report = on_event.clone();
    let conn = RelayConn::open(stream, move |event| {
        // Fails, at once from then on, when the other end is dropped: when the start is told.
        let _ = gate.recv();
        report(AgentEvent::Relay { process, event });
    })?;
    on_event(AgentEvent::Started(conn));
    drop(open);
    Ok(())
}
