//! The server.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::{self, Answer, Api, Content, Data, Delivery, Event, Wants, tokens_in};
use crate::http::{self, Fault, HttpRequest, ReplyMode, Stream};
use crate::script::{Say, Script};

/// A model that listens on loopback, until it is dropped. Nothing of it is left then: no thread and no
/// connection, however slow the answers are that it was about to give.
pub struct MockModel {
    url: String,
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// A request that the model got.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// When all of it was there, since the start of the model.
    pub at: Duration,
    /// The HTTP method.
    pub method: String,
    /// The path and the query.
    pub path: String,
    /// The body, or null where there is none or it is no JSON.
    pub body: Value,
    /// The length of the body.
    pub bytes: usize,
}

impl MockModel {
    /// Starts a model on a port that is free, which keeps the requests it gets.
    ///
    /// # Errors
    ///
    /// If there is no socket or no thread for it.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::listen(0, script, None)
    }

    /// Starts a model on this port, or on a free one for 0. Each request is handed to the function, before it
    /// is answered and on the thread of its connection, and is not kept.
    ///
    /// # Errors
    ///
    /// If the port is taken, or there is no socket or no thread for it.
    pub fn start_on(
        port: u16,
        script: Script,
        on_request: impl Fn(&Request) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::listen(port, script, Some(Box::new(on_request)))
    }

    /// Where the model is: `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What is said from now on.
    pub fn set_script(&self, script: Script) {
        *lock(&self.shared.script) = script;
    }

    /// The requests so far, in the order in which they were there.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Forgets the requests so far, and returns them.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut *lock(&self.shared.requests))
    }

    fn listen(port: u16, script: Script, observer: Option<Box<Observer>>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            started: Instant::now(),
            script: Mutex::new(script),
            requests: Mutex::default(),
            observer,
            serial: AtomicU64::new(1),
            stopping: Mutex::new(false),
            stopped: Condvar::new(),
        });
        let acceptor = thread::Builder::new().name("mock-model".into()).spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?;
        Ok(MockModel {
            url: format!("http://{address}"),
            address,
            shared,
            acceptor: Some(acceptor),
        })
    }
}

impl Drop for MockModel {
    fn drop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        *lock(&self.shared.stopping) = true;
        self.shared.stopped.notify_all();
        // A connection is what wakes the thread. It is tried again should there be no socket left for it.
        while !acceptor.is_finished() && TcpStream::connect(self.address).is_err() {
            thread::yield_now();
        }
        // A panic has been printed where it happened, and there is no caller to tell of it.
        let _panic = acceptor.join();
    }
}

impl std::fmt::Debug for MockModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MockModel")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

type Observer = dyn Fn(&Request) + Send + Sync;

/// What all connections share.
struct Shared {
    started: Instant,
    script: Mutex<Script>,
    requests: Mutex<Vec<Request>>,
    observer: Option<Box<Observer>>,
    /// Of the next answer.
    serial: AtomicU64,
    stopping: Mutex<bool>,
    stopped: Condvar,
}

impl Shared {
    /// Waits for so long. An error if the model ends meanwhile.
    fn wait(&self, pause: Duration) -> io::Result<()> {
        let stopping = lock(&self.stopping);
        let (stopping, _) = self
            .stopped
            .wait_timeout_while(stopping, pause, |stopping| !*stopping)
            .unwrap_or_else(PoisonError::into_inner);
        match *stopping {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }

    fn record(&self, http: &HttpRequest, body: &Value) {
        let mut request = Request {
            at: Duration::ZERO,
            method: http.method.clone(),
            path: http.path.clone(),
            body: body.clone(),
            bytes: http.body.len(),
        };
        match &self.observer {
            Some(observer) => {
                request.at = self.started.elapsed();
                observer(&request);
            }
            None => {
                let mut requests = lock(&self.requests);
                request.at = self.started.elapsed();
                requests.push(request);
            }
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut clients: Vec<(TcpStream, JoinHandle<()>)> = Vec::new();
    loop {
        let accepted = listener.accept().and_then(|(socket, _)| {
            let handle = socket.try_clone()?;
            let shared = Arc::clone(shared);
            let client = thread::Builder::new().name("mock-model".into());
            Ok((handle, client.spawn(move || serve(&socket, &shared))?))
        });
        // Out of sockets or threads: some may be free a moment later.
        let pause = Duration::from_millis(if accepted.is_ok() { 0 } else { 10 });
        clients.retain(|(_, thread)| !thread.is_finished());
        clients.extend(accepted);
        if shared.wait(pause).is_err() {
            break;
        }
    }
    for (socket, _) in &clients {
        // An error says that the client has gone.
        let _gone = socket.shutdown(Shutdown::Both);
    }
    for (_, thread) in clients {
        // A panic has been printed where it happened.
        let _panic = thread.join();
    }
}

/// Answers one client until it has gone, which is also what an error in writing to it means.
fn serve(mut socket: &TcpStream, shared: &Shared) {
    // Without it, pieces of an answer may wait for one another; that is no more than slow.
    let _slow = socket.set_nodelay(true);
    let mut reader = BufReader::new(socket);
    loop {
        let done = match http::read(&mut reader, &mut socket) {
            Ok(request) => reply(&request, &mut socket, shared).map(|()| request.reply.keep_alive),
            Err(Fault::Gone) => Ok(false),
            Err(Fault::Refused(status, why)) => {
                let error = Api::Chat.error(status, why).to_string();
                http::respond(&mut socket, ReplyMode::CLOSE, status, error.as_bytes())
                    .map(|()| false)
            }
        };
        if !done.unwrap_or(false) {
            break;
        }
    }
    // The acceptor holds the socket, too.
    let _gone = socket.shutdown(Shutdown::Both);
}

fn reply(request: &HttpRequest, to: &mut impl Write, shared: &Shared) -> io::Result<()> {
    let parsed = serde_json::from_slice::<Value>(&request.body);
    let body = parsed.as_ref().unwrap_or(&Value::Null);
    shared.record(request, body);
    let whole = |to: &mut _, status, body: &Value| {
        http::respond(to, request.reply, status, body.to_string().as_bytes())
    };
    let (api, delivery) = match api::wants(&request.method, &request.path) {
        Wants::Answer(api, delivery) => (api, delivery),
        // What a HEAD request is answered has no body.
        Wants::Life if request.method == "HEAD" => {
            return http::respond(to, request.reply, 200, b"");
        }
        Wants::Life => return whole(to, 200, &json!({})),
        Wants::Models => return whole(to, 200, &api::models()),
        Wants::Tokens(api) => return whole(to, 200, &api.tokens(tokens_in(request.body.len()))),
        Wants::Unknown => {
            return whole(
                to,
                404,
                &Api::Chat.error(404, "the mock model has no such path"),
            );
        }
    };
    if let Err(error) = &parsed {
        let why = format!("the body is no JSON: {error}");
        return whole(to, 400, &api.error(400, &why));
    }
    let script = *lock(&shared.script);
    let (content, pause) = match script.answer(&api.read(body)) {
        Say::Error(status) => return whole(to, status, &api.error(status, "mock error")),
        Say::Call { name, arguments } => (Content::Call { name, arguments }, Duration::ZERO),
        Say::Text { pieces, pause } => (Content::Text(pieces), pause),
    };
    let answer = Answer {
        model: body["model"].as_str().unwrap_or("mock-model"),
        serial: shared.serial.fetch_add(1, Ordering::Relaxed),
        input_tokens: tokens_in(request.body.len()),
        content: &content,
    };
    let delivery = match (delivery, body["stream"] == true) {
        (Delivery::AsBodySays, true) => Delivery::Events,
        (Delivery::AsBodySays, false) => Delivery::Whole,
        (delivery, _) => delivery,
    };
    match delivery {
        Delivery::Events => stream(&api.events(&answer), pause, to, request.reply, shared),
        Delivery::Array => {
            let events = api.events(&answer);
            shared.wait(total(&events, pause))?;
            let values = events.into_iter().filter_map(|event| match event.data {
                Data::Json(value) => Some(value),
                Data::Done => None,
            });
            whole(to, 200, &values.collect())
        }
        Delivery::Whole | Delivery::AsBodySays => {
            shared.wait(total(&api.events(&answer), pause))?;
            whole(to, 200, &api.whole(&answer))
        }
    }
}

fn stream(
    events: &[Event],
    pause: Duration,
    to: &mut impl Write,
    mode: ReplyMode,
    shared: &Shared,
) -> io::Result<()> {
    let mut stream = Stream::begin(to, mode, "text/event-stream")?;
    for event in events {
        if event.is_piece && !pause.is_zero() {
            shared.wait(pause)?;
        }
        let name = event.name.iter().map(|name| format!("event: {name}\n"));
        let mut text: String = name.collect();
        text += &match &event.data {
            Data::Json(value) => format!("data: {value}\n\n"),
            Data::Done => "data: [DONE]\n\n".to_owned(),
        };
        stream.send(text.as_bytes())?;
    }
    stream.end()
}

/// How long an answer takes that is not streamed.
fn total(events: &[Event], pause: Duration) -> Duration {
    let pieces = events.iter().filter(|event| event.is_piece).count();
    pause.saturating_mul(u32::try_from(pieces).unwrap_or(u32::MAX))
}

/// What a panic has left behind is whole: each lock is held for one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every thread holds what they share, so it is gone when they are.
    #[test]
    fn a_drop_leaves_no_thread() {
        let model = MockModel::start(Script::Slow).unwrap();
        let shared = Arc::downgrade(&model.shared);
        let address = model.address;
        let idle = TcpStream::connect(address).unwrap();
        let mut busy = TcpStream::connect(address).unwrap();
        let body = r#"{"stream":true,"messages":[]}"#;
        let length = body.len();
        write!(
            busy,
            "POST /v1/messages HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut first = [0; 12];
        io::Read::read_exact(&mut busy, &mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        let begun = Instant::now();
        drop(model);
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "it waited for the slow answer"
        );
        assert!(shared.upgrade().is_none());
        drop(idle);
        assert!(TcpStream::connect(address).is_err());
    }
}
