//! HTTP/1.1 as far as a model's API needs it: requests with a body, and responses that may be streamed.

use std::io::{self, BufRead, Read as _, Write};

/// Longest head of a request, in bytes; longest line within a body that is sent in chunks.
const MAX_HEAD: u64 = 64 * 1024;

/// Longest body of a request, in bytes.
pub(crate) const MAX_BODY: u64 = 64 * 1024 * 1024;

const MAX_HEADERS: usize = 128;

/// A request that was read to its end.
#[derive(Debug, PartialEq)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    pub(crate) reply: ReplyMode,
}

/// What the client of a request understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyMode {
    /// Whether the connection stays open for another request.
    pub(crate) keep_alive: bool,
    /// Whether a body of unknown length can be sent in chunks, and is not ended by the end of the connection.
    pub(crate) chunked: bool,
}

impl ReplyMode {
    /// For a client that is not worth another request.
    pub(crate) const CLOSE: ReplyMode = ReplyMode {
        keep_alive: false,
        chunked: true,
    };
}

/// Why there is no request.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The client has gone, or went in the middle of it.
    Gone,
    /// It is refused with this status.
    Refused(u16, &'static str),
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Self {
        Fault::Gone
    }
}

/// Reads the next request. `to_client` is told to go on where it waits for that.
pub(crate) fn read(
    from: &mut impl BufRead,
    to_client: &mut impl Write,
) -> Result<HttpRequest, Fault> {
    let head = read_head(from)?;
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let bad = Fault::Refused(400, "this is no HTTP request");
    let Ok(httparse::Status::Complete(_)) = parsed.parse(&head) else {
        return Err(bad);
    };
    let (Some(method), Some(path), Some(version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(bad);
    };
    let header = |name: &str| {
        let mut headers = parsed.headers.iter();
        let found = headers.find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).trim().to_lowercase())
    };
    if header("content-encoding").is_some_and(|coding| coding != "identity") {
        return Err(Fault::Refused(415, "compressed bodies are not read"));
    }
    if header("expect").is_some_and(|expected| expected == "100-continue") {
        to_client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        to_client.flush()?;
    }
    let body = match (header("transfer-encoding"), header("content-length")) {
        (Some(coding), _) if coding == "chunked" => read_chunks(from)?,
        (Some(_), _) => return Err(Fault::Refused(501, "this transfer coding is not read")),
        (None, Some(length)) => read_exactly(from, &length)?,
        (None, None) => Vec::new(),
    };
    let reply = ReplyMode {
        keep_alive: version == 1 && header("connection").is_none_or(|value| value != "close"),
        chunked: version == 1,
    };
    Ok(HttpRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        body,
        reply,
    })
}

/// Sends a whole response.
pub(crate) fn respond(
    to: &mut impl Write,
    mode: ReplyMode,
    status: u16,
    body: &[u8],
) -> io::Result<()> {
    let mut response = head(mode, status, "application/json");
    response.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
    response.extend(body);
    to.write_all(&response)?;
    to.flush()
}

/// A response whose body is sent bit by bit.
pub(crate) struct Stream<'a, W: Write> {
    to: &'a mut W,
    mode: ReplyMode,
}

impl<'a, W: Write> Stream<'a, W> {
    /// Sends the head of the response.
    pub(crate) fn begin(to: &'a mut W, mode: ReplyMode, content_type: &str) -> io::Result<Self> {
        let mut response = head(mode, 200, content_type);
        response.extend(b"cache-control: no-cache\r\n");
        if mode.chunked {
            response.extend(b"transfer-encoding: chunked\r\n");
        }
        response.extend(b"\r\n");
        to.write_all(&response)?;
        to.flush()?;
        Ok(Stream { to, mode })
    }

    /// Sends a bit of the body, which must not be empty: that would be its end.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.mode.chunked {
            let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
            chunk.extend(bytes);
            chunk.extend(b"\r\n");
            self.to.write_all(&chunk)?;
        } else {
            self.to.write_all(bytes)?;
        }
        self.to.flush()
    }

    /// Ends the body.
    pub(crate) fn end(self) -> io::Result<()> {
        if self.mode.chunked {
            self.to.write_all(b"0\r\n\r\n")?;
        }
        self.to.flush()
    }
}

/// Status line and headers, without the empty line that ends them.
fn head(mode: ReplyMode, status: u16, content_type: &str) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        413 => "Content Too Large",
        500 => "Internal Server Error",
        _ => "Status",
    };
    let connection = if mode.keep_alive {
        "keep-alive"
    } else {
        "close"
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\nconnection: {connection}\r\n"
    )
    .into_bytes()
}

fn read_head(from: &mut impl BufRead) -> Result<Vec<u8>, Fault> {
    // What speaks another protocol may wait for an answer before it ends its line.
    let first = *from.fill_buf()?.first().ok_or(Fault::Gone)?;
    if !first.is_ascii_alphabetic() && !b"\r\n".contains(&first) {
        return Err(Fault::Refused(400, "this is no HTTP request"));
    }
    let mut head = Vec::new();
    loop {
        let line = read_line(from, MAX_HEAD - head.len() as u64)?;
        let is_empty = line == b"\r\n" || line == b"\n";
        if !is_empty || !head.is_empty() {
            head.extend(line);
        }
        if is_empty && !head.is_empty() {
            return Ok(head);
        }
    }
}

/// A line with its end.
fn read_line(from: &mut impl BufRead, limit: u64) -> Result<Vec<u8>, Fault> {
    let mut line = Vec::new();
    from.take(limit).read_until(b'\n', &mut line)?;
    if line.ends_with(b"\n") {
        Ok(line)
    } else if line.len() as u64 == limit {
        Err(Fault::Refused(431, "the head or a line is too long"))
    } else {
        Err(Fault::Gone)
    }
}

fn read_exactly(from: &mut impl BufRead, length: &str) -> Result<Vec<u8>, Fault> {
    let length: u64 = match length.parse() {
        Ok(length) => length,
        Err(_) => return Err(Fault::Refused(400, "the content length is no number")),
    };
    let mut body = Vec::new();
    read_more(from, length, &mut body)?;
    Ok(body)
}

fn read_chunks(from: &mut impl BufRead) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from, MAX_HEAD)?;
        let line = String::from_utf8_lossy(&line);
        let size = line.split(';').next().unwrap_or_default().trim();
        let Ok(size) = u64::from_str_radix(size, 16) else {
            return Err(Fault::Refused(400, "the length of a chunk is no number"));
        };
        if size == 0 {
            break;
        }
        read_more(from, size, &mut body)?;
        // The line break after it.
        read_line(from, 2)?;
    }
    // Whatever is said after the body, up to an empty line.
    while read_line(from, MAX_HEAD)?.trim_ascii() != b"" {}
    Ok(body)
}

fn read_more(from: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> Result<(), Fault> {
    if length > MAX_BODY - body.len() as u64 {
        return Err(Fault::Refused(413, "the body is too long"));
    }
    let read = from.take(length).read_to_end(body)?;
    if (read as u64) < length {
        return Err(Fault::Gone);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: &[u8]) -> Result<HttpRequest, Fault> {
        read(&mut io::Cursor::new(bytes), &mut Vec::new())
    }

    fn status(bytes: &[u8]) -> Option<u16> {
        match request(bytes).unwrap_err() {
            Fault::Refused(status, _) => Some(status),
            Fault::Gone => None,
        }
    }

    #[test]
    fn bodies_are_read_by_length_and_by_chunks() {
        let by_length = request(b"\r\nPOST /a?b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi!").unwrap();
        assert_eq!(by_length.body, b"hi");
        assert_eq!((&*by_length.method, &*by_length.path), ("POST", "/a?b"));
        let chunks = b"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n\
            1;x=y\r\nh\r\n1\r\ni\r\n0\r\nTrailer: x\r\n\r\n";
        assert_eq!(request(chunks).unwrap().body, b"hi");
        assert_eq!(request(b"GET / HTTP/1.1\n\n").unwrap().body, b"");
    }

    #[test]
    fn a_client_says_what_it_understands() {
        let mode = |head: &str| request(format!("{head}\r\n\r\n").as_bytes()).unwrap().reply;
        let (keep, close) = (true, false);
        for (head, keep_alive, chunked) in [
            ("GET / HTTP/1.1", keep, true),
            ("GET / HTTP/1.1\r\nConnection: Close", close, true),
            ("GET / HTTP/1.0", close, false),
        ] {
            assert_eq!(
                mode(head),
                ReplyMode {
                    keep_alive,
                    chunked
                },
                "{head}"
            );
        }
    }

    #[test]
    fn a_client_that_waits_is_told_to_go_on() {
        let mut told = Vec::new();
        let bytes = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
        read(&mut io::Cursor::new(bytes), &mut told).unwrap();
        assert_eq!(told, b"HTTP/1.1 100 Continue\r\n\r\n");
    }

    #[test]
    fn bad_requests_are_refused() {
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(70_000));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200));
        for (bytes, want) in [
            ("\x16\x03\x01", 400),
            ("hello\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            (
                "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
                413,
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
                400,
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
                413,
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz",
                431,
            ),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
            ("POST / HTTP/1.1\r\nContent-Encoding: zstd\r\n\r\n", 415),
            (&*long, 431),
            (&*many, 400),
        ] {
            let shown = &bytes[..bytes.len().min(60)];
            assert_eq!(status(bytes.as_bytes()), Some(want), "{shown}");
        }
    }

    #[test]
    fn a_request_that_ends_early_is_none() {
        let whole = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        for len in 0..whole.len() {
            assert_eq!(status(&whole[..len]), None, "{len}");
        }
        assert_eq!(
            status(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nhi"),
            None
        );
    }
}
