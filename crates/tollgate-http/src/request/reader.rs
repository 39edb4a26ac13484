//! Reads a [`RequestHead`] from a read buffer (RFC 9112 sections 2 and 5).
//!
//! This file finds the lines, enforces the limits, and checks the head as a whole. The grammar of each line
//! is in `line`, `target`, `field`, `framing` and `connection`.
//!
//! The reader parses each line as soon as the line is complete. A bad head is therefore refused at its first
//! bad line. The cost stays linear even if a peer sends single bytes.

use super::RequestHead;
use super::line::{
    RequestLine, escape_target, line_bytes_max, line_too_long, malformed, parse_request_line,
    usual_request_line,
};
use crate::authority::{is_authority, is_same_authority};
use crate::connection::ConnectionFields;
use crate::error::excerpt;
use crate::field::{FieldSpan, KnownField, check_underscore_line, parse_field_line, whole_field_line};
use crate::framing::FramingFields;
use crate::grammar::{BLANK, TOKEN, is};
use crate::span::{HEAD_BYTES_CEILING, Span};
use crate::{Limits, RequestError, UnderscoreNames, Version};
use bytes::{Buf, BytesMut};
use std::mem::take;

/// Splits heads off the front of a buffer, and remembers its progress in a partial head.
///
/// Between two calls for the same head the buffer may only grow at its end. The reader percent-encodes UTF-8
/// in a target. The limit of the target counts the encoded form, and the limit of the head the bytes on the
/// wire.
#[derive(Debug, Default)]
pub struct HeadReader {
    /// Bytes of the blank line that was dropped before the request line.
    blank_bytes: usize,
    /// Offset at which the current line begins.
    line_start: usize,
    /// Offset up to which all line ends were found and handled.
    searched: usize,
    line: Option<RequestLine>,
    /// Bytes by which the percent-encoding of the target made the head longer.
    added_bytes: usize,
    fields: Vec<FieldSpan>,
    /// Field lines that were checked and dropped.
    dropped: usize,
    host: Option<Span>,
    framing: FramingFields,
    connection: ConnectionFields,
}

impl HeadReader {
    /// Splits the next head off the front of `buffer`, without a copy unless the target is UTF-8. `None` asks
    /// for more bytes.
    ///
    /// At most one blank line before the request line is dropped. This line counts towards the limit of the
    /// head. The limits apply to the bytes so far, even if the head is incomplete. The outcome does not
    /// depend on how the network splits the bytes.
    ///
    /// # Errors
    /// The head has a fault. Do not use the reader and the buffer again, because the connection closes.
    pub fn read(
        &mut self,
        buffer: &mut BytesMut,
        limits: &Limits,
    ) -> Result<Option<RequestHead>, RequestError> {
        if self.line.is_none() && !self.begin(buffer)? {
            return Ok(None);
        }
        loop {
            let rest = buffer.get(self.line_start..).unwrap_or_default();
            if self.line.is_some() && rest.starts_with(b"\r\n") {
                let end = self.line_start + 2;
                self.check_size(buffer, end, limits)?;
                return self.finish(buffer, end).map(Some);
            }
            if self.searched == self.line_start && self.take_usual_line(buffer, limits)? {
                continue;
            }
            let unsearched = buffer.get(self.searched..).unwrap_or_default();
            let Some(line_feed) = memchr::memchr(b'\n', unsearched) else { break };
            let line_end = self.searched + line_feed + 1;
            self.check_size(buffer, line_end, limits)?;
            let content_end = self.content_end(buffer, line_end)?;
            let added = if self.line.is_none() { escape_target(buffer, content_end) } else { 0 };
            self.added_bytes += added;
            self.take_line(buffer, content_end + added, limits)?;
            self.go_on_at(line_end + added);
        }
        self.searched = buffer.len();
        self.check_size(buffer, buffer.len(), limits)?;
        Ok(None)
    }

    /// Moves the memory of the field list from an answered `head` into the reader, for the next head.
    ///
    /// After this call `head` has no fields.
    pub fn recycle(&mut self, head: &mut RequestHead) {
        let mut fields = take(&mut head.fields);
        fields.clear();
        if self.fields.capacity() == 0 {
            self.fields = fields;
        }
    }

    /// Frees the memory that the reader keeps for the next head.
    pub fn let_go(&mut self) {
        if self.fields.is_empty() {
            self.fields = Vec::new();
        }
    }

    /// Returns whether the reader has consumed bytes of the present head. The deadline of a head begins with
    /// its first byte.
    pub fn has_started(&self) -> bool {
        self.blank_bytes > 0 || self.searched > 0
    }

    /// Drops one blank line before the request line (RFC 9112 section 2.2).
    ///
    /// A first byte that begins no method is refused at once. A client that sends a TLS ClientHello to a
    /// plain port therefore gets its refusal before any deadline.
    fn begin(&mut self, buffer: &mut BytesMut) -> Result<bool, RequestError> {
        match buffer.as_ref() {
            [b'\r'] if self.blank_bytes == 0 => Ok(false),
            [b'\r', b'\n', ..] if self.blank_bytes == 0 => {
                buffer.advance(2);
                self.blank_bytes = 2;
                self.begin(buffer)
            }
            [] => Ok(false),
            [b'\n', ..] => Err(RequestError::BareLineFeed),
            [first, ..] if !is(TOKEN, *first) => Err(malformed(&[*first])),
            _ => Ok(true),
        }
    }

    /// Parses a complete line in its usual form, in one pass. Returns false for any other line, without a
    /// verdict.
    ///
    /// This function accepts only lines that [`take_line`](Self::take_line) accepts. Only `take_line` refuses
    /// lines for their syntax.
    #[inline]
    fn take_usual_line(&mut self, buffer: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        let line_end = if self.line.is_none() {
            let Some((line, line_end)) = usual_request_line(buffer) else { return Ok(false) };
            if line.target.bytes_len() > limits.target_bytes_max || line_end > self.bytes_max(limits) {
                return Ok(false);
            }
            self.begin_fields(line);
            line_end
        } else {
            let Some((field, line_end)) = whole_field_line(buffer, self.line_start) else { return Ok(false) };
            if self.lines() >= limits.fields_max || line_end > self.bytes_max(limits) {
                return Ok(false);
            }
            self.note(buffer, field)?;
            self.fields.push(field);
            line_end
        };
        self.go_on_at(line_end);
        Ok(true)
    }

    fn go_on_at(&mut self, line_start: usize) {
        self.line_start = line_start;
        self.searched = line_start;
    }

    /// Returns the bound for the current state: for the head, or for the request line while it is incomplete.
    #[inline]
    fn bytes_max(&self, limits: &Limits) -> usize {
        let head_bytes_max = limits.head_bytes_max.min(HEAD_BYTES_CEILING);
        let bytes_max = match self.line {
            None => line_bytes_max(limits).min(head_bytes_max),
            Some(_) => head_bytes_max,
        };
        bytes_max.saturating_sub(self.blank_bytes) + self.added_bytes
    }

    /// Enforces the bounds on the head and on the request line. `end` is the number of bytes of the head so
    /// far.
    #[inline]
    fn check_size(&self, buffer: &[u8], end: usize, limits: &Limits) -> Result<(), RequestError> {
        if end <= self.bytes_max(limits) { Ok(()) } else { Err(self.too_large(buffer, end, limits)) }
    }

    /// Returns 414 if the target makes the request line too long. For any other excess, returns 431.
    #[cold]
    fn too_large(&self, buffer: &[u8], end: usize, limits: &Limits) -> RequestError {
        let bytes = self.blank_bytes + end - self.added_bytes;
        let limit = limits.head_bytes_max.min(HEAD_BYTES_CEILING);
        if self.line.is_some() {
            return RequestError::HeadTooLarge { bytes, limit };
        }
        let limit = line_bytes_max(limits).min(limit);
        let front = buffer.get(..limit.saturating_sub(self.blank_bytes)).unwrap_or(buffer);
        line_too_long(front, bytes, limit)
    }

    /// Refuses a bare LF as a line end, although RFC 9112 section 2.2 allows it.
    fn content_end(&self, buffer: &[u8], line_end: usize) -> Result<usize, RequestError> {
        match buffer.get(self.line_start..line_end) {
            Some([.., b'\r', b'\n']) => Ok(line_end - 2),
            _ => Err(RequestError::BareLineFeed),
        }
    }

    fn take_line(&mut self, buffer: &[u8], end: usize, limits: &Limits) -> Result<(), RequestError> {
        if self.line.is_some() {
            return self.take_field(buffer, &buffer[self.line_start..end], limits);
        }
        self.begin_fields(parse_request_line(&buffer[..end], limits)?);
        Ok(())
    }

    fn begin_fields(&mut self, line: RequestLine) {
        self.line = Some(line);
        self.fields.reserve(FIELDS_USUAL);
    }

    fn take_field(&mut self, buffer: &[u8], line: &[u8], limits: &Limits) -> Result<(), RequestError> {
        if line.first().is_some_and(|&byte| is(BLANK, byte)) {
            // A line that begins with a blank: RFC 9112 section 2.2 for the first field line, section 5.2 for
            // a folded line.
            let is_first = self.lines() == 0;
            return Err(if is_first {
                RequestError::WhitespaceBeforeFields
            } else {
                RequestError::FieldFolded
            });
        }
        if self.lines() >= limits.fields_max {
            return Err(RequestError::TooManyFields { limit: limits.fields_max });
        }
        let field = match parse_field_line(line, self.line_start) {
            Ok(field) => field,
            Err(error) => return self.leave_out(line, error, limits),
        };
        self.note(buffer, field)?;
        self.fields.push(field);
        Ok(())
    }

    /// Drops a field with `_` in its name, if `underscore_names` is `Drop`. Any other fault remains an error.
    #[cold]
    fn leave_out(&mut self, line: &[u8], error: RequestError, limits: &Limits) -> Result<(), RequestError> {
        match (&error, limits.underscore_names) {
            (RequestError::FieldNameUnderscore { .. }, UnderscoreNames::Drop) => {
                self.dropped += 1;
                check_underscore_line(line)
            }
            _ => Err(error),
        }
    }

    fn lines(&self) -> usize {
        self.fields.len() + self.dropped
    }

    /// Records the fields that [`finish`](Self::finish) needs to check the whole head.
    #[inline]
    fn note(&mut self, buffer: &[u8], field: FieldSpan) -> Result<(), RequestError> {
        let value = field.value.bytes(buffer);
        match KnownField::of(field.name.bytes(buffer)) {
            None => Ok(()),
            Some(KnownField::Host) => self.note_host(value, field.value),
            Some(KnownField::ContentLength) => self.framing.note_content_length(value),
            Some(KnownField::TransferEncoding) => self.framing.note_transfer_encoding(value),
            Some(KnownField::Connection) => self.connection.note_connection(value),
            Some(KnownField::Expect) => {
                self.connection.note_expect(value);
                Ok(())
            }
            Some(KnownField::Upgrade) => {
                self.connection.note_upgrade(value);
                Ok(())
            }
        }
    }

    /// Accepts one Host at most (RFC 9112 section 3.2).
    ///
    /// An empty Host is refused, because the host of an http URI is never empty (RFC 9110 section 4.2.1).
    fn note_host(&mut self, value: &[u8], span: Span) -> Result<(), RequestError> {
        if self.host.is_some() {
            return Err(RequestError::HostRepeated);
        }
        if !is_authority(value) {
            return Err(RequestError::HostInvalid { found: excerpt(value) });
        }
        self.host = Some(span);
        Ok(())
    }

    /// Checks the whole head, which ends at `end`, and resets the reader.
    fn finish(&mut self, buffer: &mut BytesMut, end: usize) -> Result<RequestHead, RequestError> {
        let Some(line) = self.line.take() else { return Err(malformed(b"")) };
        let host = resolve_host(line, self.host.take(), buffer)?;
        let framing = take(&mut self.framing).decide(line.version)?;
        let connection = take(&mut self.connection);
        connection.check_upgrade(line.version, framing)?;
        self.dropped = 0;
        self.go_on_at(0);
        Ok(RequestHead {
            expects_continue: connection.expects_continue(line.version, framing)?,
            is_persistent: connection.is_persistent(line.version),
            connection_names_fields: connection.names_fields(),
            bytes: buffer.split_to(end).freeze(),
            wire_bytes: take(&mut self.blank_bytes) + end - take(&mut self.added_bytes),
            line,
            fields: take(&mut self.fields),
            host,
            framing,
        })
    }
}

/// Returns the host of the request.
///
/// The authority of an absolute target has priority (RFC 9112 section 3.2.2). We also require that it names
/// the same host and port as Host.
fn resolve_host(line: RequestLine, host: Option<Span>, head: &[u8]) -> Result<Option<Span>, RequestError> {
    match (line.target.authority(), host) {
        (_, None) if line.version == Version::Http11 => Err(RequestError::HostMissing),
        (Some(target), Some(host))
            if !is_same_authority(
                target.bytes(head),
                host.bytes(head),
                line.target.scheme().unwrap_or_default(),
            ) =>
        {
            let [host, target] = [host, target].map(|span| excerpt(span.bytes(head)));
            Err(RequestError::HostMismatch { host, target })
        }
        (target, host) => Ok(target.or(host)),
    }
}

/// Initial capacity of the field list. Heads of browsers have fewer fields, so the vector is allocated only
/// once.
const FIELDS_USUAL: usize = 16;

#[cfg(test)]
mod tests;
