//! Encodes a request to a backend: request line, field lines, content. Only [`Outgoing::finish`] adds a
//! framing field (`Content-Length` or `Transfer-Encoding`), so the head has at most one.

use std::fmt;
use std::io;
use std::rc::Rc;

use crate::StreamedContent;
use bytes::Bytes;
use tollgate_http::{Method, is_field_name, is_field_value};

/// A request to a backend: the encoded head, and the content.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub(crate) method: Method,
    pub(crate) head: Vec<u8>,
    pub(crate) content: OutgoingContent,
    pub(crate) trailers: Trailers,
}

/// Treatment of the trailer fields of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trailers {
    /// The trailer fields are checked and dropped.
    #[default]
    Discarded,
    Kept,
}

/// Content of a request.
#[derive(Debug, Clone)]
pub enum OutgoingContent {
    /// The content is in memory.
    Memory(Bytes),
    /// The content is read in pieces.
    Spooled(Rc<dyn SpooledContent>),
    /// The content is still arriving.
    Streamed(Rc<dyn StreamedContent>),
}

/// Content that is not in memory.
pub trait SpooledContent: fmt::Debug {
    /// Returns the size in bytes.
    fn bytes_len(&self) -> u64;

    /// Reads bytes from `offset` on, and returns their number. 0 means the end.
    ///
    /// # Errors
    /// The disk cannot be read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl OutgoingContent {
    /// Returns the size in bytes, if it is known.
    pub fn bytes_len(&self) -> Option<u64> {
        match self {
            Self::Memory(bytes) => Some(bytes.len() as u64),
            Self::Spooled(spooled) => Some(spooled.bytes_len()),
            Self::Streamed(streamed) => streamed.bytes_len(),
        }
    }

    /// Returns whether the content can be sent from its first byte on.
    fn is_whole(&self) -> bool {
        match self {
            Self::Memory(_) | Self::Spooled(_) => true,
            Self::Streamed(streamed) => streamed.is_untouched(),
        }
    }
}

impl Outgoing {
    /// Begins a request. `write_target` appends the target. The target and `host` are not checked, so they
    /// must be valid.
    pub fn new(method: Method, host: &str, write_target: impl FnOnce(&mut Vec<u8>)) -> Self {
        Self::with_method(method, method.as_str(), host, write_target)
    }

    /// Begins a request whose method may be an extension. `name` is the name of the method.
    pub fn with_method(
        method: Method,
        name: &str,
        host: &str,
        write_target: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let mut head = Vec::with_capacity(HEAD_BYTES_USUAL);
        head.extend_from_slice(name.as_bytes());
        head.push(b' ');
        write_target(&mut head);
        head.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        head.extend_from_slice(host.as_bytes());
        head.extend_from_slice(b"\r\n");
        Self { method, head, content: OutgoingContent::Memory(Bytes::new()), trailers: Trailers::default() }
    }

    /// Appends a field line and returns whether it did. A line with an invalid name or value is not appended.
    pub fn push(&mut self, name: &str, value: &[u8]) -> bool {
        if !is_field_name(name.as_bytes()) || !is_field_value(value) {
            return false;
        }
        self.push_sound(name, value);
        true
    }

    /// Appends a field line that already passed the checks of a head.
    pub fn push_sound(&mut self, name: impl AsRef<[u8]>, value: &[u8]) {
        self.push_with(name, |out| out.extend_from_slice(value));
    }

    /// Appends a field line whose valid value `write_value` writes.
    pub fn push_with(&mut self, name: impl AsRef<[u8]>, write_value: impl FnOnce(&mut Vec<u8>)) {
        self.head.extend_from_slice(name.as_ref());
        self.head.extend_from_slice(b": ");
        write_value(&mut self.head);
        self.head.extend_from_slice(b"\r\n");
    }

    /// Asks the backend for trailer fields (RFC 9110 section 10.1.4). The trailer fields of the reply are
    /// then kept.
    pub fn accept_trailers(&mut self) {
        self.push_sound("TE", b"trailers");
        self.push_sound("Connection", b"TE");
        self.trailers = Trailers::Kept;
    }

    /// Ends the head. A request with content, even empty content, has a length (RFC 9110 section 8.6) or
    /// chunked framing.
    pub fn finish(mut self, content: Option<OutgoingContent>) -> Self {
        if let Some(content) = content {
            match content.bytes_len() {
                Some(bytes) => {
                    self.push_sound("Content-Length", itoa::Buffer::new().format(bytes).as_bytes());
                }
                None => self.push_sound("Transfer-Encoding", b"chunked"),
            }
            self.content = content;
        }
        self.head.extend_from_slice(b"\r\n");
        self
    }

    /// Returns whether the request can be sent twice with the effect of one request (RFC 9110 section 9.2.2).
    pub(crate) fn is_repeatable(&self) -> bool {
        self.method.is_idempotent() && self.content.is_whole()
    }

    /// Returns the memory that the request holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let content = match &self.content {
            OutgoingContent::Memory(bytes) => bytes.len(),
            OutgoingContent::Spooled(_) | OutgoingContent::Streamed(_) => 0,
        };
        self.head.capacity() + content
    }
}

const HEAD_BYTES_USUAL: usize = 640;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_length_and_no_field_that_breaks_it() {
        let mut request = Outgoing::new(Method::Put, "a:1", |out| out.extend_from_slice(b"/b"));
        assert!(request.push("X-A", b"1"));
        assert!(!request.push("X-B", b"1\r\nX-C: 2") && !request.push("X B", b"1") && !request.push("", b""));
        let request = request.finish(Some(OutgoingContent::Memory(Bytes::from_static(b"abc"))));
        let head = String::from_utf8(request.head).unwrap();
        assert_eq!(head, "PUT /b HTTP/1.1\r\nHost: a:1\r\nX-A: 1\r\nContent-Length: 3\r\n\r\n");
        let request = Outgoing::new(Method::Get, "a", |out| out.push(b'/')).finish(None);
        assert_eq!(request.head, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
}
