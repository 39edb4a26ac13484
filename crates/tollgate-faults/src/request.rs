//! Requests, as a backend reads them. The reader is simple and bounded, and does not check requests.

use std::io;

use tokio::net::TcpStream;

/// Maximum bytes of a head. The rest of a longer head is not read.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a body that are kept.
const BODY_KEPT_BYTES_MAX: usize = 64 << 10;

/// A request that a backend received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The unchanged bytes from the request line to the last field line.
    pub head: String,
    /// The first 64 KiB of the content, without chunk framing.
    pub body: Vec<u8>,
    /// The trailer section, unchanged.
    pub trailers: String,
    /// Number of the connection among the connections of the backend, from 0.
    pub connection: u64,
}

impl Request {
    /// Returns the method of the request line.
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    /// Returns the request target.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the values of all fields with this name, in order.
    pub fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }

    /// Returns the value of the first field with this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields(name).first().copied()
    }

    /// Returns whether the client asks to end the connection after this request.
    pub(crate) fn is_last(&self) -> bool {
        let mut options = self.fields("connection").into_iter().flat_map(|value| value.split(','));
        options.any(|option| option.trim().eq_ignore_ascii_case("close"))
    }

    pub(crate) fn body_length(&self) -> Length {
        let codings = self.fields("transfer-encoding");
        if codings.iter().any(|coding| coding.to_ascii_lowercase().contains("chunked")) {
            return Length::Chunked;
        }
        Length::Bytes(self.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0))
    }
}

/// How a body announces its end.
pub(crate) enum Length {
    Bytes(u64),
    Chunked,
}

/// Bytes that arrived on a connection and are not used yet.
#[derive(Default)]
pub(crate) struct Incoming {
    buffer: Vec<u8>,
}

impl Incoming {
    /// Reads the head of the next request. `None`: the peer ended the connection, or the head is longer than
    /// `HEAD_BYTES_MAX`.
    pub(crate) async fn head(&mut self, stream: &TcpStream) -> Option<Request> {
        let end = self.until(stream, b"\r\n\r\n").await?;
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 4);
        Some(Request { head, ..Request::default() })
    }

    /// Reads the body of a request. `None`: the peer ended the connection before the end of the request.
    pub(crate) async fn body(&mut self, stream: &TcpStream, request: &mut Request) -> Option<()> {
        match request.body_length() {
            Length::Bytes(bytes) => self.content(stream, bytes, &mut request.body).await,
            Length::Chunked => self.chunks(stream, request).await,
        }
    }

    async fn content(&mut self, stream: &TcpStream, bytes: u64, kept: &mut Vec<u8>) -> Option<()> {
        let mut left = bytes;
        while left > 0 {
            if self.buffer.is_empty() && !self.more(stream).await {
                return None;
            }
            let now = left.min(self.buffer.len() as u64) as usize;
            let keep = now.min(BODY_KEPT_BYTES_MAX.saturating_sub(kept.len()));
            kept.extend_from_slice(&self.buffer[..keep]);
            self.buffer.drain(..now);
            left -= now as u64;
        }
        Some(())
    }

    async fn chunks(&mut self, stream: &TcpStream, request: &mut Request) -> Option<()> {
        loop {
            let line = self.line(stream).await?;
            let size = u64::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
            if size == 0 {
                break;
            }
            self.content(stream, size, &mut request.body).await?;
            self.line(stream).await?;
        }
        loop {
            let line = self.line(stream).await?;
            if line.is_empty() {
                return Some(());
            }
            request.trailers += &line;
            request.trailers += "\r\n";
        }
    }

    async fn line(&mut self, stream: &TcpStream) -> Option<String> {
        let end = self.until(stream, b"\r\n").await?;
        let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 2);
        Some(line)
    }

    /// Reads until the bytes `end` arrive, and returns their offset.
    async fn until(&mut self, stream: &TcpStream, end: &[u8]) -> Option<usize> {
        let mut looked_at = 0;
        loop {
            let mut windows = self.buffer[looked_at..].windows(end.len());
            if let Some(at) = windows.position(|window| window == end) {
                return Some(looked_at + at);
            }
            looked_at = self.buffer.len().saturating_sub(end.len() - 1);
            if self.buffer.len() > HEAD_BYTES_MAX || !self.more(stream).await {
                return None;
            }
        }
    }

    async fn more(&mut self, stream: &TcpStream) -> bool {
        let mut part = [0; 16 << 10];
        loop {
            if stream.readable().await.is_err() {
                return false;
            }
            match stream.try_read(&mut part) {
                Ok(0) => return false,
                Ok(came) => {
                    self.buffer.extend_from_slice(&part[..came]);
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_taken_apart() {
        let head =
            "POST /a?b HTTP/1.1\r\nHost: a\r\nx-a: 1\r\nX-A:  2 \r\nTransfer-Encoding: Chunked".to_owned();
        let request = Request { head, ..Request::default() };
        assert_eq!((request.method(), request.target()), ("POST", "/a?b"));
        assert_eq!(request.fields("X-A"), ["1", "2"]);
        assert_eq!(request.field("Host"), Some("a"));
        assert!(matches!(request.body_length(), Length::Chunked));
    }
}
