//! A client that can pipeline, and reads replies strictly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any reply takes.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

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
        Self::try_connect(address).unwrap()
    }

    /// None: nobody listens.
    pub(crate) fn try_connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(REPLY_TIMEOUT)).unwrap();
        Some(Self { stream: BufReader::new(stream) })
    }

    /// Sends bytes; false: the server is gone.
    pub(crate) fn send(&mut self, bytes: &str) -> bool {
        self.stream.get_mut().write_all(bytes.as_bytes()).is_ok()
    }

    /// Reads a whole reply. None: the server went away before its end.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let status = head.strip_prefix("HTTP/1.1 ").expect("a status line")[..3].parse().unwrap();
        let mut reply = Reply { status, head, content: String::new() };
        let mut content = vec![0; reply.field("content-length").unwrap_or("0").parse().unwrap()];
        self.stream.read_exact(&mut content).ok()?;
        reply.content = String::from_utf8(content).unwrap();
        Some(reply)
    }

    pub(crate) fn get(&mut self, path: &str) -> Option<Reply> {
        if self.send(&get(path)) { self.reply() } else { None }
    }

    /// Reads until the server closes; true: it sent nothing more.
    pub(crate) fn ends(&mut self) -> bool {
        self.stream.read(&mut [0]).is_ok_and(|bytes| bytes == 0)
    }
}

impl Reply {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.split("\r\n").filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

pub(crate) fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
