//! A client that can pipeline. The client reads replies strictly: a reply has exactly one length, and every
//! read has a deadline.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Maximum time of each read. This time is longer than any reply needs, so a read that needs longer fails the
/// test.
const REPLY_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) content: String,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("a server that listens")
    }

    /// Connects to a server. `None`: no server listens.
    pub(crate) fn try_connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(REPLY_TIMEOUT)).unwrap();
        Some(Self { stream: BufReader::new(stream) })
    }

    /// Sends text. Returns whether the server still accepts bytes.
    pub(crate) fn send(&mut self, text: &str) -> bool {
        self.send_bytes(text.as_bytes())
    }

    /// Sends bytes. Returns whether the server still accepts bytes.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        unless_gone(self.stream.get_mut().write_all(bytes)).is_some()
    }

    /// Reads a complete reply. `None`: the server closed the connection before the end of the reply.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let mut reply = self.head()?;
        reply.content = String::from_utf8(self.bytes(reply.content_bytes())?).unwrap();
        Some(reply)
    }

    /// Reads the head of a reply. A reply to HEAD has no content. `None`: the server closed the connection
    /// before the end of the head.
    pub(crate) fn head(&mut self) -> Option<Reply> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if unless_gone(self.stream.read_line(&mut head))? == 0 {
                return None;
            }
        }
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect("a status line");
        Some(Reply { status: status.parse().unwrap(), head, content: String::new() })
    }

    /// Reads this number of bytes. `None`: the server closed the connection before.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut content = vec![0; count];
        unless_gone(self.stream.read_exact(&mut content))?;
        Some(content)
    }

    pub(crate) fn get(&mut self, path: &str) -> Option<Reply> {
        if self.send(&get(path)) { self.reply() } else { None }
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Option<Reply> {
        if self.send(&post(path, body)) { self.reply() } else { None }
    }

    /// Returns whether no byte has arrived.
    pub(crate) fn is_silent(&self) -> bool {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true).unwrap();
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        self.stream.buffer().is_empty() && peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Waits until the server closes the connection. Returns whether the server sent no byte before.
    pub(crate) fn ends(&mut self) -> bool {
        unless_gone(self.stream.read(&mut [0])).is_none_or(|bytes| bytes == 0)
    }
}

/// Returns `None` if the server closed the connection. A read that times out fails the test.
fn unless_gone<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => None,
            _ => panic!("no answer: {error}"),
        },
    }
}

impl Reply {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the value of a field that occurs at most once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.split("\r\n").filter_map(|line| line.split_once(": "));
        let mut values = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let value = values.next();
        assert!(values.next().is_none(), "{name} twice: {}", self.head);
        value
    }

    /// Returns the length of the content (RFC 9112 section 6.3), for a server that always sends the length.
    fn content_bytes(&self) -> usize {
        assert_eq!(self.field("transfer-encoding"), None, "{}", self.head);
        match self.field("content-length") {
            None if self.status == 204 => 0,
            length => length.expect("a length").parse().unwrap(),
        }
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

pub(crate) fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
