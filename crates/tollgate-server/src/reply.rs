//! Replies: one as a value, and those of a connection that wait to leave, in the order of their requests.

use std::borrow::Cow;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tollgate_http::{
    Connection, Methods, ReplyBody, StatusCode, begin_reply_head, end_reply_head, push_field,
};
use tollgate_script::{HeaderLine, Outcome, Replied, RequestId};

use crate::file_slice::FileSlice;
use crate::handler::{Flow, allowed_methods};
use crate::observe::{OwnCells, RouteTally, WorkerCells};
use crate::plain_reply::PlainReply;
use crate::recorder::{Gate, Recorder, Verdict};

/// The longest content that is read whole.
const READ_BYTES_MAX: u64 = 64 << 20;
pub(crate) const REQUEST_ID: &str = "X-Request-Id";

/// Room for the first reply of a connection, so that it grows once.
const REPLY_BYTES_USUAL: usize = 256;
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
    /// What follows the content.
    pub(crate) parts: Vec<FilePart>,
    pub(crate) extent: Extent,
    /// Interim replies that go before it, as they leave (RFC 9110 section 15.2).
    pub(crate) interim: Bytes,
}

/// When the content of a reply is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// With its head.
    Whole,
    /// As it is written, behind the head.
    Streamed,
    /// As it is written, so many bytes.
    Sized(u64),
}

/// A part of the content that is in a file, and the bytes behind it.
#[derive(Debug, Clone)]
pub(crate) struct FilePart {
    pub(crate) slice: FileSlice,
    pub(crate) then: Bytes,
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
        Self {
            status,
            lines: Bytes::new(),
            fields: Vec::new(),
            content: Bytes::new(),
            parts: Vec::new(),
            extent: Extent::Whole,
            interim: Bytes::new(),
        }
    }

    /// Writes its fields out, so that copies of it do not have to.
    pub(crate) fn prepared(mut self) -> Self {
        let mut lines = Vec::from(self.lines);
        for (name, value) in self.fields.drain(..) {
            push_field(&mut lines, name.as_bytes(), &value);
        }
        Self { lines: lines.into(), ..self }
    }

    /// Bytes of all of the content.
    pub(crate) fn content_bytes(&self) -> u64 {
        if let Extent::Sized(bytes) = self.extent {
            return bytes;
        }
        let parts = self.parts.iter().map(|part| part.slice.len + part.then.len() as u64);
        self.content.len() as u64 + parts.sum::<u64>()
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

    /// RFC 9110 section 15.5.6: a 405 says what is allowed, also one of a script.
    pub(crate) fn lacks_allow(&self) -> bool {
        self.status == StatusCode::METHOD_NOT_ALLOWED && !self.has("Allow")
    }

    /// Adds `Allow` where it has to be and is not.
    pub(crate) fn say_what_is_allowed(&mut self, methods: Methods) {
        if self.lacks_allow() {
            self.push("Allow", allowed_methods(methods));
        }
    }

    /// What `after` scripts are told of it.
    pub(crate) fn told(&self) -> Replied {
        Replied { status: self.status.as_u16(), fields: self.all_fields() }
    }

    /// All fields, those of its lines too.
    pub(crate) fn all_fields(&self) -> Vec<(String, Bytes)> {
        let written = self.lines.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let written = written.filter_map(|line| std::str::from_utf8(line).ok()?.split_once(": "));
        let written = written
            .map(|(name, value)| (name.to_ascii_lowercase(), Bytes::copy_from_slice(value.as_bytes())));
        let own = self.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
        written.chain(own).collect()
    }

    /// Adds fields; what was there of these names goes.
    pub(crate) fn overwrite(&mut self, fields: &[HeaderLine]) {
        let is_new =
            |known: &[u8]| fields.iter().any(|(name, _)| name.as_bytes().eq_ignore_ascii_case(known));
        let lines = self.lines.split_inclusive(|&byte| byte == b'\n');
        let name_of = |line: &[u8]| line.iter().position(|&byte| byte == b':').unwrap_or_default();
        if lines.clone().any(|line| is_new(&line[..name_of(line)])) {
            self.lines =
                lines.filter(|line| !is_new(&line[..name_of(line)])).collect::<Vec<_>>().concat().into();
        }
        self.fields.retain(|(name, _)| !is_new(name.as_bytes()));
        self.fields.extend_from_slice(fields);
    }

    /// Reads what is in files into the content, and waits for the disk: for who has no connection to send them by.
    pub(crate) fn read_parts(&mut self) -> io::Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        if self.content_bytes() > READ_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut content = self.content.to_vec();
        for part in self.parts.drain(..) {
            part.slice.read_through(|bytes| content.extend_from_slice(bytes))?;
            content.extend_from_slice(&part.then);
        }
        self.content = content.into();
        Ok(())
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

    /// The reply waited for its record, and what becomes of that is open.
    fn unknown(text: &'static str) -> Self {
        Self::text(StatusCode::SERVICE_UNAVAILABLE, text).with("Tollgate-Outcome", "unknown")
    }

    /// What is told in place of a reply whose records did not get where they should be. None: they did.
    fn in_place(verdict: Verdict, gate: &Gate) -> Option<Self> {
        match (verdict, gate) {
            (Verdict::Kept, _) => None,
            (Verdict::Rejected, Gate::Loaded(loading)) => {
                let reply =
                    Self::new(StatusCode::UNPROCESSABLE_CONTENT, "application/json", loading.summary());
                Some(reply.with("Tollgate-Outcome", "rejected"))
            }
            (Verdict::Late, _) => {
                let text = "the record of this request is in the log and not yet in the database: its outcome is unknown";
                Some(Self::unknown(text))
            }
            (Verdict::Lost | Verdict::Missing | Verdict::Rejected, _) => {
                Some(Self::unknown("the record of this request may be lost: its outcome is unknown"))
            }
        }
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
            parts: Vec::new(),
            extent: if outcome.streamed.is_some() { Extent::Streamed } else { Extent::Whole },
            interim: Bytes::new(),
        }
    }
}

/// How the end of a content is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length.
    Length,
    /// By the last chunk.
    Chunked,
    /// By the end of the connection (HTTP/1.0).
    UntilClose,
}

/// How a reply is written on its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing {
    /// The value of `Date`.
    pub(crate) date: [u8; 29],
    /// The content is left out: the request was HEAD.
    pub(crate) is_head: bool,
    pub(crate) framing: Framing,
    /// What it says about the connection.
    pub(crate) connection: Option<Connection>,
}

/// Replies that wait to leave together.
#[derive(Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// How many there are.
    count: usize,
    /// Parts of files, each with the place in the bytes before which it is sent.
    slices: Vec<(usize, FileSlice)>,
    /// What writes the content of the last reply, once the others left.
    flow: Option<Box<Flow>>,
    /// Bytes and entries that left together last time: as many are expected.
    expected: (usize, usize),
}

/// A reply, or some with one tally that wait for nothing.
#[derive(Debug)]
struct Entry {
    /// Where the head of the last one begins.
    head: usize,
    end: usize,
    count: u64,
    gate: Option<Gate>,
    writing: Writing,
    tally: RouteTally,
}

impl Replies {
    /// Appends a reply, which leaves when `gate` is open. The reply of a handler tells the id of its request.
    pub(crate) fn push(
        &mut self,
        reply: &Reply,
        gate: Option<Gate>,
        id: Option<&RequestId>,
        writing: Writing,
        tally: RouteTally,
    ) {
        self.make_room();
        let head = self.bytes.len();
        write_head(&mut self.bytes, reply, id, writing);
        if !writing.is_head && reply.status.may_have_content() {
            self.bytes.extend_from_slice(&reply.content);
            for part in &reply.parts {
                self.slices.push((self.bytes.len(), part.slice.clone()));
                self.bytes.extend_from_slice(&part.then);
            }
        }
        self.count += 1;
        self.entries.push(Entry { head, end: self.bytes.len(), count: 1, gate, writing, tally });
    }

    /// Appends a plain reply, which waits for nothing.
    #[inline]
    pub(crate) fn push_plain(
        &mut self,
        plain: &PlainReply,
        date: [u8; 29],
        id: impl FnOnce() -> RequestId,
        begun: Instant,
        route: &Rc<OwnCells>,
    ) {
        self.make_room();
        let head = self.bytes.len();
        plain.write(&mut self.bytes, &date, id);
        self.count += 1;
        match self.entries.last_mut() {
            Some(last) if last.gate.is_none() && last.tally.is_as(plain.reply.status, begun, route) => {
                (last.head, last.end) = (head, self.bytes.len());
                last.count += 1;
            }
            _ => {
                let writing = Writing { date, is_head: false, framing: Framing::Length, connection: None };
                let tally = RouteTally { status: plain.reply.status, begun, route: Some(route.clone()) };
                let end = self.bytes.len();
                self.entries.push(Entry { head, end, count: 1, gate: None, writing, tally });
            }
        }
    }

    #[inline]
    fn make_room(&mut self) {
        if self.entries.is_empty() {
            self.bytes.reserve(self.expected.0.max(REPLY_BYTES_USUAL));
            self.entries.reserve(self.expected.1);
        }
    }

    /// Appends interim replies, which belong to the reply that is pushed next.
    pub(crate) fn lead(&mut self, interim: &[u8]) {
        self.bytes.extend_from_slice(interim);
    }

    /// Lets the content of the last reply, which is streamed, follow it. No other reply can be pushed before it did.
    pub(crate) fn follow(&mut self, flow: Box<Flow>) {
        self.flow = Some(flow);
    }

    pub(crate) fn is_followed(&self) -> bool {
        self.flow.is_some()
    }

    /// Takes what follows the replies, and how its content is framed.
    pub(crate) fn take_flow(&mut self) -> Option<(Flow, Framing)> {
        let framing = self.entries.last()?.writing.framing;
        self.flow.take().map(|flow| (*flow, framing))
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What is sent, files too.
    pub(crate) fn bytes_len(&self) -> usize {
        let slices = self.slices.iter().map(|(_, slice)| usize::try_from(slice.len).unwrap_or(usize::MAX));
        slices.fold(self.bytes.len(), usize::saturating_add)
    }

    /// What is held for the replies.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.flow.as_ref().map_or(0, |flow| flow.memory_bytes())
    }

    /// Waits until every reply may leave. What says something that did not come true is told otherwise. False: the log
    /// failed.
    pub(crate) async fn release(&mut self, recorder: &Recorder) -> bool {
        let (mut are_kept, mut is_lost) = (true, false);
        for entry in &self.entries {
            let Some(gate) = &entry.gate else { continue };
            let verdict = recorder.wait(gate).await;
            are_kept &= verdict == Verdict::Kept;
            is_lost = verdict == Verdict::Lost;
            if is_lost {
                break;
            }
        }
        if is_lost {
            self.close_behind_last();
        }
        if !are_kept {
            self.replace_untrue(recorder);
        }
        !is_lost
    }

    /// The connection ends behind these replies, and the last one says so (RFC 9112 section 9.6).
    fn close_behind_last(&mut self) {
        let Some(last) = self.entries.last_mut() else { return };
        if last.writing.connection.replace(Connection::Close) == Some(Connection::Close) {
            return;
        }
        let written = self.bytes.split_off(last.head);
        write_closing(&mut self.bytes, &written);
        let moved = |place: usize| place + self.bytes.len() - last.end;
        for (place, _) in self.slices.iter_mut().filter(|(place, _)| *place > last.head) {
            *place = moved(*place);
        }
        last.end = self.bytes.len();
    }

    fn replace_untrue(&mut self, recorder: &Recorder) {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut slices = std::mem::take(&mut self.slices).into_iter().peekable();
        let mut start = 0;
        let mut is_last_replaced = false;
        for entry in &mut self.entries {
            let end = entry.end;
            let written = &self.bytes[start..end];
            let own = std::iter::from_fn(|| slices.next_if(|(place, _)| *place <= end));
            let gate = entry.gate.take();
            is_last_replaced = false;
            let replacement = gate.and_then(|gate| {
                let verdict = recorder.verdict(&gate);
                recorder.cells().count_unconfirmed(verdict);
                Reply::in_place(verdict, &gate)
            });
            match replacement {
                None => {
                    let moved = bytes.len();
                    self.slices.extend(own.map(|(place, slice)| (place - start + moved, slice)));
                    bytes.extend_from_slice(written);
                }
                Some(reply) => {
                    own.for_each(drop);
                    is_last_replaced = true;
                    entry.writing.framing = Framing::Length;
                    entry.tally.status = reply.status;
                    let reply = reply.with_kept_fields(written);
                    write_head(&mut bytes, &reply, None, entry.writing);
                    if !entry.writing.is_head {
                        bytes.extend_from_slice(&reply.content);
                    }
                }
            }
            start = end;
            entry.end = bytes.len();
        }
        self.bytes = bytes;
        if is_last_replaced {
            // It may have been streamed, and another took its place.
            self.flow = None;
        }
    }

    /// Counts them: they may leave.
    pub(crate) fn count_leaving(&self, cells: &WorkerCells) {
        let mut leaving = cells.leaving();
        for entry in &self.entries {
            leaving.count(&entry.tally, entry.count);
        }
    }

    /// The parts of files among [`bytes`](Self::bytes), each with its place in them, in their order.
    pub(crate) fn slices(&self) -> impl Iterator<Item = (usize, &FileSlice)> {
        self.slices.iter().map(|(place, slice)| (*place, slice))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.expected = (self.bytes.len(), self.entries.len());
        self.entries.clear();
        self.count = 0;
        self.slices.clear();
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
        if self.entries.capacity() > KEPT_ENTRIES_MAX {
            self.entries = Vec::new();
        }
        if self.slices.capacity() > KEPT_ENTRIES_MAX {
            self.slices = Vec::new();
        }
    }
}

pub(crate) fn write_head(out: &mut Vec<u8>, reply: &Reply, id: Option<&RequestId>, writing: Writing) {
    let body = match writing.framing {
        Framing::Length if reply.status.may_have_content() => ReplyBody::Length(reply.content_bytes()),
        Framing::Length => ReplyBody::Length(0),
        Framing::Chunked => ReplyBody::Chunked,
        Framing::UntilClose => ReplyBody::None,
    };
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
}

/// Writes a reply that is written already as one behind which the connection ends.
fn write_closing(out: &mut Vec<u8>, written: &[u8]) {
    let mut rest = written;
    while let Some(line) = rest.split_inclusive(|&byte| byte == b'\n').next().filter(|line| *line != b"\r\n")
    {
        if line != KEEP_ALIVE {
            out.extend_from_slice(line);
        }
        rest = &rest[line.len()..];
    }
    out.extend_from_slice(b"Connection: close\r\n");
    out.extend_from_slice(rest);
}

/// As it is told to clients of HTTP/1.0.
const KEEP_ALIVE: &[u8] = b"Connection: keep-alive\r\n";

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
    use crate::observe::RouteName;

    fn tally() -> RouteTally {
        RouteTally { status: StatusCode::OK, begun: std::time::Instant::now(), route: None }
    }

    fn writing(is_head: bool) -> Writing {
        Writing {
            date: *b"Thu, 01 Jan 1970 00:00:00 GMT",
            is_head,
            framing: Framing::Length,
            connection: None,
        }
    }

    #[test]
    fn head_announces_the_content_and_leaves_it_out() {
        let reply = Reply::text(StatusCode::OK, "hello");
        let mut replies = Replies::default();
        replies.push(&reply, None, None, writing(true), tally());
        let head = replies.bytes().to_vec();
        assert!(String::from_utf8_lossy(&head).contains("Content-Length: 6\r\n"));
        assert!(head.ends_with(b"\r\n\r\n"));
        replies.push(&reply, None, None, writing(false), tally());
        assert_eq!(&replies.bytes()[head.len()..head.len() * 2], head);
        assert!(replies.bytes().ends_with(b"\r\n\r\nhello\n"));
    }

    #[test]
    fn plain_replies_of_one_moment_are_counted_together_and_all_of_them_are() {
        let reply = PlainReply::new(Reply::text(StatusCode::OK, "hello"), false);
        let worker = WorkerCells::new();
        let name = |path: &str| RouteName { path: path.to_owned(), host: None, methods: None };
        let routes = ["/a", "/b"].map(|path| OwnCells::new(worker.route(name(path))));
        let (early, late) = (Instant::now(), Instant::now() + std::time::Duration::from_secs(1));
        let mut replies = Replies::default();
        let id = || RequestId::Made(Uuid::nil());
        for (route, begun) in [(0, early), (0, early), (0, late), (1, late), (1, late)] {
            replies.push_plain(&reply, writing(false).date, id, begun, &routes[route]);
        }
        replies.push(&Reply::text(StatusCode::OK, "hello"), None, None, writing(false), tally());
        assert_eq!((replies.count(), replies.entries.len()), (6, 4));
        let one = replies.bytes().len() / 6;
        assert!(replies.bytes().chunks(one).all(|reply| reply == &replies.bytes()[..one]));
        assert!(replies.entries.iter().map(|entry| entry.end).eq([2, 3, 5, 6].map(|count| count * one)));
        replies.count_leaving(&worker);
        assert_eq!(routes.map(|route| route.observed().count()), [3, 2]);
        replies.clear();
        assert_eq!(replies.count(), 0);
    }

    #[test]
    fn a_status_without_content_has_none() {
        let mut replies = Replies::default();
        replies.push(&Reply::text(StatusCode::NO_CONTENT, "hidden"), None, None, writing(false), tally());
        let text = String::from_utf8_lossy(replies.bytes());
        assert!(text.ends_with("\r\n\r\n") && !text.contains("Content-Length"), "{text}");
    }

    #[test]
    fn a_handlers_reply_tells_the_id_of_its_request_unless_it_says_one_itself() {
        let check = |reply: &Reply, expect: &str| {
            let mut replies = Replies::default();
            replies.push(reply, None, Some(&RequestId::Made(Uuid::from_u128(1))), writing(false), tally());
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
        write_head(&mut written, &reply, Some(&RequestId::Made(Uuid::from_u128(1))), writing(false));
        let kept = Reply::empty(StatusCode::OK).with_kept_fields(&written);
        let names: Vec<_> = kept.fields.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names, ["access-control-allow-origin", "Vary", "X-Request-Id"]);
    }
}
