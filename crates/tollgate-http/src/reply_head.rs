//! Reads the reply heads of backends (RFC 9112 sections 4 to 6).
//!
//! A reply that could be read in two ways is refused. The proxy then closes the connection, and its client
//! gets 502. The rules for requests apply here too. These rules refuse a bare LF, folding, and a repeated
//! length. They also refuse a length with a transfer coding, and codings other than one `chunked`.
//!
//! Old and small servers write some heads that are only unusual. They are accepted, because the proxy writes
//! each reply anew: a status line without a reason, blanks before a colon, and a status above 599.

use crate::connection::{ConnectionFields, connection_options, is_hop_by_hop_field};
use crate::error::excerpt;
use crate::field::{FieldSpan, KnownField, parse_reply_field_line};
use crate::framing::FramingFields;
use crate::grammar::{BLANK, is, is_all_field_content};
use crate::span::HEAD_BYTES_CEILING;
use crate::{BodyFraming, Limits, Method, RequestError, StatusCode, Version};
use bytes::{Bytes, BytesMut};

/// Reason for refusing the reply of a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The first line is not a status line (RFC 9112 section 4).
    #[error("status line is malformed: \"{found}\"")]
    StatusLine {
        /// The start of the line.
        found: Box<str>,
    },
    /// A code below 100, or a 101 that no request asked for (RFC 9110 section 15).
    #[error("status {code} is not valid for this reply")]
    Status {
        /// The refused status code.
        code: u16,
    },
    /// A fault of the field section or of the chunks. The rules are those for requests.
    #[error(transparent)]
    Rule(#[from] RequestError),
}

/// Framing of the content of a reply (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyFraming {
    /// The reply has no content: it is a reply to HEAD, or a 1xx, 204 or 304.
    None,
    /// Length of the content in bytes.
    Length(u64),
    /// The content is chunked.
    Chunked,
    /// The close of the connection ends the content.
    UntilClose,
}

/// Head of a reply that passed all checks.
#[derive(Debug, Clone)]
pub struct ReplyHead {
    bytes: Bytes,
    status: Status,
    fields: Vec<FieldSpan>,
    framing: ReplyFraming,
    length: Option<u64>,
    is_persistent: bool,
    connection_names_fields: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Interim(u16),
    Final(StatusCode),
}

impl ReplyHead {
    /// Returns the status of a final reply, and `None` for an interim reply (1xx).
    pub fn status(&self) -> Option<StatusCode> {
        match self.status {
            Status::Interim(_) => None,
            Status::Final(status) => Some(status),
        }
    }

    /// Returns the code of a final or interim reply.
    pub fn code(&self) -> u16 {
        match self.status {
            Status::Interim(code) => code,
            Status::Final(status) => status.as_u16(),
        }
    }

    /// Lists the fields in their order, with names as sent.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|field| (field.name.text(&self.bytes), field.value.bytes(&self.bytes)))
    }

    /// Returns the first value of the field `name`. The case of `name` does not matter.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.raw_fields()
            .find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// Lists the fields that may be forwarded (RFC 9110 section 7.6.1).
    ///
    /// The list leaves out hop-by-hop fields, fields that Connection names, and framing fields.
    pub fn forwarded_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.raw_fields().filter(|(name, _)| {
            let ends_here = is_hop_by_hop_field(name)
                || name.eq_ignore_ascii_case(b"content-length")
                || self.is_named_by_connection(name);
            !ends_here
        })
    }

    fn raw_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (field.name.bytes(&self.bytes), field.value.bytes(&self.bytes)))
    }

    fn is_named_by_connection(&self, name: &[u8]) -> bool {
        self.connection_options().any(|option| option.eq_ignore_ascii_case(name))
    }

    /// Lists the options of Connection if one of them names a field. The list is empty if no option does.
    ///
    /// The named fields are for this connection only (RFC 9110 section 7.6.1).
    pub fn connection_options(&self) -> impl Iterator<Item = &[u8]> {
        let fields = self.connection_names_fields.then(|| self.raw_fields()).into_iter().flatten();
        let lines = fields.filter(|(field, _)| field.eq_ignore_ascii_case(b"connection"));
        lines.flat_map(|(_, value)| connection_options(value))
    }

    /// Returns how the end of the content is found.
    pub fn framing(&self) -> ReplyFraming {
        self.framing
    }

    /// Returns the value of Content-Length. The field may exist without content, in the reply to HEAD or in a
    /// 304.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns whether the backend keeps the connection open (RFC 9112 section 9.3).
    pub fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// Returns the size of the head in bytes.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Splits reply heads off the front of a buffer, and remembers its progress in a partial head.
///
/// Between two calls for the same head the buffer may only grow at its end.
#[derive(Debug, Default)]
pub struct ReplyHeadReader {
    line_start: usize,
    searched: usize,
    line: Option<(Status, Version)>,
    fields: Vec<FieldSpan>,
    framing: FramingFields,
    length: Option<u64>,
    connection: ConnectionFields,
}

impl ReplyHeadReader {
    /// Splits the head of a reply to `method` off the front of `buffer`. `None` asks for more bytes.
    ///
    /// # Errors
    /// The head has a fault. Do not use the connection again.
    pub fn read(
        &mut self,
        buffer: &mut BytesMut,
        method: Method,
        limits: &Limits,
    ) -> Result<Option<ReplyHead>, ReplyError> {
        while let Some(line_feed) = memchr::memchr(b'\n', buffer.get(self.searched..).unwrap_or_default()) {
            let line_end = self.searched + line_feed + 1;
            check_size(line_end, limits)?;
            let content_end = match buffer.get(self.line_start..line_end) {
                Some([.., b'\r', b'\n']) => line_end - 2,
                _ => return Err(RequestError::BareLineFeed.into()),
            };
            if self.line.is_some() && content_end == self.line_start {
                return self.finish(buffer, line_end, method).map(Some);
            }
            self.take_line(&buffer[self.line_start..content_end], limits)?;
            self.line_start = line_end;
            self.searched = line_end;
        }
        self.searched = buffer.len();
        check_size(buffer.len(), limits)?;
        Ok(None)
    }

    /// Returns whether the reader consumed bytes of a head.
    pub fn has_started(&self) -> bool {
        self.searched > 0
    }

    fn take_line(&mut self, line: &[u8], limits: &Limits) -> Result<(), ReplyError> {
        if self.line.is_none() {
            self.line = Some(parse_status_line(line)?);
            self.fields = Vec::with_capacity(FIELDS_USUAL);
            return Ok(());
        }
        if line.first().is_some_and(|&byte| is(BLANK, byte)) {
            let is_first = self.fields.is_empty();
            return Err(ReplyError::Rule(if is_first {
                RequestError::WhitespaceBeforeFields
            } else {
                RequestError::FieldFolded
            }));
        }
        if self.fields.len() >= limits.fields_max {
            return Err(RequestError::TooManyFields { limit: limits.fields_max }.into());
        }
        let field = parse_reply_field_line(line, self.line_start)?;
        let within = |range: std::ops::Range<usize>| {
            line.get(range.start - self.line_start..range.end - self.line_start).unwrap_or_default()
        };
        let value = within(field.value.range());
        match KnownField::of(within(field.name.range())) {
            Some(KnownField::ContentLength) => {
                self.framing.note_content_length(value)?;
                // `note_content_length` checked that the value consists of digits and fits a `u64`.
                self.length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            }
            Some(KnownField::TransferEncoding) => self.framing.note_transfer_encoding(value)?,
            Some(KnownField::Connection) => self.connection.note_connection(value)?,
            Some(KnownField::Host | KnownField::Expect | KnownField::Upgrade) | None => {}
        }
        self.fields.push(field);
        Ok(())
    }

    fn finish(&mut self, buffer: &mut BytesMut, end: usize, method: Method) -> Result<ReplyHead, ReplyError> {
        let reader = std::mem::take(self);
        let Some((status, version)) = reader.line else { return Err(malformed(b"")) };
        let decided = reader.framing.decide(version)?;
        let framing = match (status, decided) {
            (Status::Interim(_), _) => ReplyFraming::None,
            (Status::Final(status), _) if status.is_bodyless() || method == Method::Head => {
                ReplyFraming::None
            }
            (_, BodyFraming::Length(bytes)) => ReplyFraming::Length(bytes),
            (_, BodyFraming::Chunked) => ReplyFraming::Chunked,
            (_, BodyFraming::None) => ReplyFraming::UntilClose,
        };
        Ok(ReplyHead {
            bytes: buffer.split_to(end).freeze(),
            status,
            fields: reader.fields,
            framing,
            length: reader.length,
            connection_names_fields: reader.connection.names_fields(),
            is_persistent: framing != ReplyFraming::UntilClose && reader.connection.is_persistent(version),
        })
    }
}

fn check_size(bytes: usize, limits: &Limits) -> Result<(), RequestError> {
    let limit = limits.head_bytes_max.min(HEAD_BYTES_CEILING);
    if bytes > limit { Err(RequestError::HeadTooLarge { bytes, limit }) } else { Ok(()) }
}

/// Parses version, SP, three digits, SP and a reason phrase that may be empty (RFC 9112 section 4). The
/// second SP may be missing, because several servers write none before an empty phrase.
///
/// A higher minor version is processed as 1.1 (RFC 9110 section 6.2).
fn parse_status_line(line: &[u8]) -> Result<(Status, Version), ReplyError> {
    let (version, rest) = match line.split_at_checked(9) {
        Some((b"HTTP/1.0 ", rest)) => (Version::Http10, rest),
        Some(([b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9', b' '], rest)) => {
            (Version::Http11, rest)
        }
        _ => return Err(malformed(line)),
    };
    let [hundreds @ b'0'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9', reason @ ..] = rest else {
        return Err(malformed(line));
    };
    if !matches!(reason, [] | [b' ', ..]) || !is_all_field_content(reason) {
        return Err(malformed(line));
    }
    let digit = |byte: &u8| u16::from(byte - b'0');
    let code = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
    let status = match (code, StatusCode::of_backend(code)) {
        (_, Some(status)) => Status::Final(status),
        // RFC 9110 section 15.2: HTTP/1.0 has no interim replies.
        (100 | 102..=199, None) if version == Version::Http11 => Status::Interim(code),
        _ => return Err(ReplyError::Status { code }),
    };
    Ok((status, version))
}

fn malformed(line: &[u8]) -> ReplyError {
    ReplyError::StatusLine { found: excerpt(line) }
}

const FIELDS_USUAL: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: Method, text: &str) -> Result<Option<(ReplyHead, String)>, ReplyError> {
        let mut buffer = BytesMut::from(text);
        let head = ReplyHeadReader::default().read(&mut buffer, method, &Limits::default())?;
        Ok(head.map(|head| (head, String::from_utf8_lossy(&buffer).into_owned())))
    }

    /// Checks framing, persistence and the remaining bytes. The text is read as one piece, and again byte by
    /// byte.
    fn check(method: Method, text: &str, expect: (u16, ReplyFraming, bool, &str)) {
        let (head, rest) = read(method, text).unwrap().unwrap();
        assert_eq!((head.code(), head.framing(), head.is_persistent(), rest.as_str()), expect, "{text:?}");
        let (mut reader, mut buffer) = (ReplyHeadReader::default(), BytesMut::new());
        let mut found = None;
        for byte in text.bytes() {
            buffer.extend_from_slice(&[byte]);
            if found.is_none() {
                found = reader.read(&mut buffer, method, &Limits::default()).unwrap();
            }
        }
        assert_eq!(found.unwrap().framing(), expect.1, "{text:?} byte by byte");
    }

    #[test]
    fn framing_follows_status_method_and_fields() {
        use ReplyFraming::{Chunked, Length, None, UntilClose};
        let get = Method::Get;
        check(get, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", (200, Length(3), true, "abc"));
        check(get, "HTTP/1.1 200 \r\ntransfer-encoding: Chunked\r\n\r\n", (200, Chunked, true, ""));
        check(get, "HTTP/1.1 404 Not\tFound\r\n\r\nx", (404, UntilClose, false, "x"));
        check(get, "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", (200, Length(1), false, ""));
        check(
            get,
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n",
            (200, Length(1), true, ""),
        );
        check(
            get,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n",
            (200, Length(1), false, ""),
        );
        check(get, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", (204, None, true, "hello"));
        check(get, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", (304, None, true, ""));
        check(Method::Head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", (200, None, true, ""));
        check(get, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1", (103, None, true, "HTTP/1.1"));
        let (head, _) = read(Method::Head, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n").unwrap().unwrap();
        assert_eq!(head.length(), Some(7));
    }

    #[test]
    fn a_reply_that_can_be_read_in_two_ways_is_refused() {
        for head in [
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1, 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "A: b\r\n c\r\n",
            " A: b\r\n",
            "A: b\nB: c\r\n",
            "A: b\rB: c\r\n",
            "A: \0\r\n",
            "A b: c\r\n",
            ": c\r\n",
            "Connection: content-length\r\n",
        ] {
            let found = read(Method::Get, &format!("HTTP/1.1 200 OK\r\n{head}\r\n"));
            assert!(matches!(found, Err(ReplyError::Rule(_))), "{head:?}: {found:?}");
        }
        assert!(
            read(Method::Get, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err(),
            "HTTP/1.0 knows no chunks"
        );
    }

    #[test]
    fn a_status_line_is_version_code_and_reason() {
        for line in [
            "HTTP/1.1",
            "HTTP/1.1 ",
            "HTTP/1.1  200 OK",
            "HTTP/1.1 200OK",
            "HTTP/1.1 200\tOK",
            "HTTP/2 200 OK",
            "HTTP/2.0 200 OK",
            "HTTP/1.1 20 OK",
            "HTTP/1.1 2000 OK",
            "HTTP/1.1 200 O\0K",
            "http/1.1 200 OK",
            "ICY 200 OK",
            "",
            "<html>",
        ] {
            let found = read(Method::Get, &format!("{line}\r\n\r\n"));
            assert!(matches!(found, Err(ReplyError::StatusLine { .. })), "{line:?}: {found:?}");
        }
        for code in [0, 99, 101] {
            let found = read(Method::Get, &format!("HTTP/1.1 {code:03} X\r\n\r\n"));
            assert!(matches!(found, Err(ReplyError::Status { .. })), "{code}: {found:?}");
        }
        assert!(read(Method::Get, "HTTP/1.0 100 Continue\r\n\r\n").is_err());
    }

    #[test]
    fn a_status_line_may_lack_its_reason_and_its_last_blank() {
        use ReplyFraming::Length;
        for line in ["HTTP/1.1 200", "HTTP/1.1 200 ", "HTTP/1.2 200 OK"] {
            let text = format!("{line}\r\nContent-Length: 1\r\n\r\na");
            check(Method::Get, &text, (200, Length(1), true, "a"));
        }
        check(Method::Get, "HTTP/1.0 404\r\nContent-Length: 0\r\n\r\n", (404, Length(0), false, ""));
    }

    #[test]
    fn a_status_above_599_is_a_final_reply_with_its_number() {
        for code in [600, 999] {
            let text = format!("HTTP/1.1 {code} X\r\nContent-Length: 1\r\n\r\na");
            check(Method::Get, &text, (code, ReplyFraming::Length(1), true, "a"));
        }
    }

    #[test]
    fn blanks_before_a_colon_are_removed_and_the_field_counts() {
        let text = "HTTP/1.1 200 OK\r\nServer \t: a\r\nContent-Length : 1\r\n\r\nx";
        check(Method::Get, text, (200, ReplyFraming::Length(1), true, "x"));
        let (head, _) = read(Method::Get, text).unwrap().unwrap();
        assert_eq!(head.forwarded_fields().collect::<Vec<_>>(), [(&b"Server"[..], &b"a"[..])]);
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n";
        check(Method::Get, text, (200, ReplyFraming::Chunked, true, ""));
        for head in [
            "Content-Length: 1\r\nTransfer-Encoding : chunked\r\n",
            "Content-Length : 1\r\nContent-Length: 1\r\n",
            " : a\r\n",
            "A b : c\r\n",
            "A \x0b: c\r\n",
            "A \r\n",
        ] {
            let found = read(Method::Get, &format!("HTTP/1.1 200 OK\r\nX: y\r\n{head}\r\n"));
            assert!(matches!(found, Err(ReplyError::Rule(_))), "{head:?}: {found:?}");
        }
    }

    #[test]
    fn a_head_ends_at_its_limits() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(17 << 10));
        assert!(matches!(read(Method::Get, &long), Err(ReplyError::Rule(RequestError::HeadTooLarge { .. }))));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(101));
        assert!(matches!(
            read(Method::Get, &many),
            Err(ReplyError::Rule(RequestError::TooManyFields { .. }))
        ));
    }

    #[test]
    fn fields_of_the_connection_are_not_forwarded() {
        let text = "HTTP/1.1 200 OK\r\nConnection: X-Own, close\r\nx-own: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\n\
                    Content-Length: 0\r\nA_b: 2\r\nTrailer: x\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n";
        let (head, _) = read(Method::Get, text).unwrap().unwrap();
        let names: Vec<_> = head.forwarded_fields().map(|(name, _)| name).collect();
        assert_eq!(names, [&b"A_b"[..], b"Set-Cookie", b"Set-Cookie"]);
    }
}
