//! Replies: one as a value, and those of a connection that wait to leave, in the order of their requests.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate_http::{Connection, ReplyBody, StatusCode, begin_reply_head, end_reply_head, push_field};
use tollgate_script::{HeaderLine, Outcome, RequestId};

use crate::recorder::{Gate, Recorder};

const REQUEST_ID: &str = "X-Request-Id";

/// Memory for replies that an idle connection keeps.
const KEPT_BYTES_MAX: usize = 512;
const KEPT_ENTRIES_MAX: usize = 4;

/// A whole reply.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// Field lines as they leave, that many replies share.
    pub(crate) lines: Bytes,
    pub(crate) fields: Vec<HeaderLine>,
    pub(crate) content: Bytes,
}

impl Reply {
    /// A reply of our own: a line of text.
    pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        let mut content: String = text.into();
        content.push('\n');
        Self::new(status, "text/plain; charset=utf-8", content.into())
    }

    pub(crate) fn new(status: StatusCode, content_type: &'static str, content: Bytes) -> Self {
        let fields = vec![(Cow::Borrowed("Content-Type"), Bytes::from_static(content_type.as_bytes()))];
        Self { fields, content, ..Self::empty(status) }
    }

    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, lines: Bytes::new(), fields: Vec::new(), content: Bytes::new() }
    }

    /// Writes its fields out, so that copies of it do not have to.
    pub(crate) fn prepared(mut self) -> Self {
        let mut lines = Vec::from(self.lines);
        for (name, value) in self.fields.drain(..) {
            push_field(&mut lines, name.as_bytes(), &value);
        }
        Self { lines: lines.into(), ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Bytes>) -> Self {
        self.push(name, value);
        self
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    pub(crate) fn push(&mut self, name: &'static str, value: impl Into<Bytes>) {
        self.fields.push((Cow::Borrowed(name), value.into()));
    }

    /// Nothing was recorded: a retry is safe.
    pub(crate) fn refused(status: StatusCode, text: &'static str) -> Self {
        Self::text(status, text).with("Tollgate-Outcome", "refused").with("Retry-After", "1")
    }

    /// Adds what a written reply said about its request.
    fn with_kept_fields(mut self, written: &[u8]) -> Self {
        let head = written.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).skip(1);
        for line in head.take_while(|line| !line.is_empty()) {
            if let Some((name, value)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(": "))
                && is_kept(name)
            {
                self.fields.push((Cow::Owned(name.to_owned()), Bytes::copy_from_slice(value.as_bytes())));
            }
        }
        self
    }

    /// The log failed while the reply waited for it: the record may be on disk or not.
    fn unknown() -> Self {
        let text = "the record of this request may be lost: its outcome is unknown";
        Self::text(StatusCode::SERVICE_UNAVAILABLE, text).with("Tollgate-Outcome", "unknown")
    }
}

/// Fields that a reply keeps when another takes its place: they are about the request.
fn is_kept(name: &str) -> bool {
    let is_cors = name.get(..15).is_some_and(|front| front.eq_ignore_ascii_case("access-control-"));
    is_cors || name.eq_ignore_ascii_case(REQUEST_ID) || name.eq_ignore_ascii_case("vary")
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        Self {
            status: StatusCode::new(outcome.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            lines: outcome
                .content_type
                .map_or_else(Bytes::new, |kind| Bytes::from_static(kind.line().as_bytes())),
            fields: outcome.headers,
            content: outcome.body,
        }
    }
}

/// How a reply is written on its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing {
    /// The value of `Date`.
    pub(crate) date: [u8; 29],
    /// The content is left out: the request was HEAD.
    pub(crate) is_head: bool,
    /// What it says about the connection.
    pub(crate) connection: Option<Connection>,
}

/// Replies that wait to leave together.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Bytes and replies that left together last time: as many are expected.
    expected: (usize, usize),
}

#[derive(Debug)]
struct Entry {
    end: usize,
    gate: Option<Gate>,
    writing: Writing,
}

impl Replies {
    /// Appends a reply, which leaves when `gate` is open. The reply of a handler tells the id of its request.
    pub(crate) fn push(
        &mut self,
        reply: &Reply,
        gate: Option<Gate>,
        id: Option<&RequestId>,
        writing: Writing,
    ) {
        if self.entries.is_empty() {
            self.bytes.reserve(self.expected.0);
            self.entries.reserve(self.expected.1);
        }
        write_reply(&mut self.bytes, reply, id, writing);
        self.entries.push(Entry { end: self.bytes.len(), gate, writing });
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// What is held for the replies.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Waits until every reply may leave, and returns the bytes to send. False: the log failed, and replies that
    /// waited for it say so instead of what they said.
    pub(crate) async fn release(&mut self, recorder: &Recorder) -> bool {
        for entry in &self.entries {
            if let Some(gate) = entry.gate
                && recorder.wait(gate).await.is_err()
            {
                self.replace_lost(recorder);
                return false;
            }
        }
        true
    }

    fn replace_lost(&mut self, recorder: &Recorder) {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut start = 0;
        // The connection ends behind these replies, and the last one says so (RFC 9112 section 9.6).
        if let Some(last) = self.entries.last_mut() {
            last.writing.connection = Some(Connection::Close);
        }
        for entry in &mut self.entries {
            if entry.gate.is_none_or(|gate| recorder.is_open(gate)) {
                bytes.extend_from_slice(&self.bytes[start..entry.end]);
            } else {
                let reply = Reply::unknown().with_kept_fields(&self.bytes[start..entry.end]);
                write_reply(&mut bytes, &reply, None, entry.writing);
            }
            start = entry.end;
            entry.end = bytes.len();
            entry.gate = None;
        }
        self.bytes = bytes;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.expected = (self.bytes.len(), self.entries.len());
        self.entries.clear();
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
        if self.entries.capacity() > KEPT_ENTRIES_MAX {
            self.entries = Vec::new();
        }
    }
}

fn write_reply(out: &mut Vec<u8>, reply: &Reply, id: Option<&RequestId>, writing: Writing) {
    let content = if reply.status.may_have_content() { &reply.content[..] } else { b"" };
    let body = ReplyBody::Length(content.len() as u64);
    begin_reply_head(out, reply.status, &writing.date, body, writing.connection);
    out.extend_from_slice(&reply.lines);
    for (name, value) in &reply.fields {
        push_field(out, name.as_bytes(), value);
    }
    if let Some(id) = id
        && !reply.has(REQUEST_ID)
    {
        write_id(out, id);
    }
    end_reply_head(out);
    if !writing.is_head {
        out.extend_from_slice(content);
    }
}

/// An id needs no look at its bytes: it was made of letters and digits, or looked at when it was taken.
fn write_id(out: &mut Vec<u8>, id: &RequestId) {
    out.extend_from_slice(REQUEST_ID.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(id.text(&mut [0; 36]));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn writing(is_head: bool) -> Writing {
        Writing { date: *b"Thu, 01 Jan 1970 00:00:00 GMT", is_head, connection: None }
    }

    #[test]
    fn head_announces_the_content_and_leaves_it_out() {
        let reply = Reply::text(StatusCode::OK, "hello");
        let mut replies = Replies::default();
        replies.push(&reply, None, None, writing(true));
        let head = replies.bytes().to_vec();
        assert!(String::from_utf8_lossy(&head).contains("Content-Length: 6\r\n"));
        assert!(head.ends_with(b"\r\n\r\n"));
        replies.push(&reply, None, None, writing(false));
        assert_eq!(&replies.bytes()[head.len()..head.len() * 2], head);
        assert!(replies.bytes().ends_with(b"\r\n\r\nhello\n"));
    }

    #[test]
    fn a_status_without_content_has_none() {
        let mut replies = Replies::default();
        replies.push(&Reply::text(StatusCode::NO_CONTENT, "hidden"), None, None, writing(false));
        let text = String::from_utf8_lossy(replies.bytes());
        assert!(text.ends_with("\r\n\r\n") && !text.contains("Content-Length"), "{text}");
    }

    #[test]
    fn a_handlers_reply_tells_the_id_of_its_request_unless_it_says_one_itself() {
        let check = |reply: &Reply, expect: &str| {
            let mut replies = Replies::default();
            replies.push(reply, None, Some(&RequestId::Made(Uuid::from_u128(1))), writing(false));
            let text = String::from_utf8(replies.bytes().to_vec()).unwrap();
            let ids: Vec<_> =
                text.lines().filter(|line| line.contains("-id: ") || line.contains("-Id: ")).collect();
            assert_eq!(ids, [expect], "{text}");
        };
        let reply = Reply::text(StatusCode::OK, "hello");
        check(&reply, "X-Request-Id: 00000000-0000-0000-0000-000000000001");
        check(&reply.with("x-request-id", "mine"), "x-request-id: mine");
    }

    #[test]
    fn a_reply_in_place_of_another_keeps_what_is_about_the_request() {
        let reply = Reply::text(StatusCode::OK, "Vary: no field")
            .with("access-control-allow-origin", "https://a.example")
            .with("Vary", "Origin")
            .with("ETag", "\"1\"");
        let mut written = Vec::new();
        write_reply(&mut written, &reply, Some(&RequestId::Made(Uuid::from_u128(1))), writing(false));
        let kept = Reply::empty(StatusCode::OK).with_kept_fields(&written);
        let names: Vec<_> = kept.fields.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names, ["access-control-allow-origin", "Vary", "X-Request-Id"]);
    }
}
