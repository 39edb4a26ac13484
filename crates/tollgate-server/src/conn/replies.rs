//! The replies of a connection that wait to be sent, in the order of their requests.

use std::rc::Rc;
use std::time::Instant;

use tollgate_files::FileSlice;
use tollgate_http::Connection;
use tollgate_script::RequestId;

use crate::access_log::AccessEntry;
use crate::handler::ContentSource;
use crate::observe::{OwnCells, RouteTally, WorkerCells};
use crate::recorder::{AckOutcome, Gate, Recorder};
use crate::reply::{Framing, PlainReply, Reply, Writing, write_closing, write_head};

/// Replies that are sent together.
#[derive(Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    entries: Vec<BufferedReply>,
    /// Number of replies.
    count: usize,
    /// Slices of files. Each has the position in `bytes` before which it is sent.
    slices: Vec<(usize, FileSlice)>,
    /// Source of the content of the last reply. The content is sent after all replies.
    streamed: Option<Box<ContentSource>>,
    /// Memory of the lines of the access log, in bytes.
    line_bytes: usize,
    /// Numbers of bytes and of entries that were sent together last time. Memory for the same numbers is
    /// reserved for the next replies.
    expected: (usize, usize),
}

/// A reply, or several plain replies that are counted together and wait for no record.
struct BufferedReply {
    /// Position of the head of the last reply.
    head: usize,
    end: usize,
    count: u64,
    gate: Option<Gate>,
    writing: Writing,
    tally: RouteTally,
    /// The line of the request in the access log, if it gets one. A request with a line has its own entry.
    line: Option<Box<AccessEntry>>,
}

impl Replies {
    /// Appends a reply, which is sent when `gate` is open. `id` adds the request id to the reply of a
    /// handler.
    pub(crate) fn push(
        &mut self,
        reply: &Reply,
        gate: Option<Gate>,
        id: Option<&RequestId>,
        writing: Writing,
        tally: RouteTally,
    ) {
        let is_content_sent = !writing.is_head && reply.status.may_have_content();
        let content_bytes = if is_content_sent { reply.content.len() } else { 0 };
        self.make_room(HEAD_BYTES_USUAL + reply.lines.len() + content_bytes);
        let head = self.bytes.len();
        write_head(&mut self.bytes, reply, id, writing);
        if is_content_sent {
            self.bytes.extend_from_slice(&reply.content);
            for part in &reply.parts {
                self.slices.push((self.bytes.len(), part.slice.clone()));
                self.bytes.extend_from_slice(&part.then);
            }
        }
        self.count += 1;
        let end = self.bytes.len();
        self.entries.push(BufferedReply { head, end, count: 1, gate, writing, tally, line: None });
    }

    /// Appends a plain reply with further encoded field lines. The reply waits for no record.
    #[inline]
    pub(crate) fn push_plain(
        &mut self,
        plain: &PlainReply,
        date: [u8; 29],
        lines: &[u8],
        id: impl FnOnce() -> RequestId,
        begun: Instant,
        route: &Rc<OwnCells>,
    ) {
        self.make_room_for_first(REPLY_BYTES_USUAL);
        let head = self.bytes.len();
        plain.write(&mut self.bytes, &date, lines, id);
        self.count += 1;
        match self.entries.last_mut() {
            Some(last) if last.gate.is_none() && last.tally.is_as(plain.reply.status, begun, route) => {
                (last.head, last.end) = (head, self.bytes.len());
                last.count += 1;
            }
            _ => {
                let writing = Writing::whole(date);
                let tally = RouteTally { status: plain.reply.status, begun, route: Some(route.clone()) };
                let end = self.bytes.len();
                self.entries.push(BufferedReply {
                    head,
                    end,
                    count: 1,
                    gate: None,
                    writing,
                    tally,
                    line: None,
                });
            }
        }
    }

    /// Adds the line of the last reply in the access log.
    pub(crate) fn describe_last(&mut self, line: Box<AccessEntry>) {
        self.line_bytes += line.memory_bytes();
        if let Some(last) = self.entries.last_mut() {
            last.line = Some(line);
        }
    }

    /// Takes the line of the last reply, because streamed content follows that reply.
    pub(crate) fn take_last_line(&mut self) -> Option<Box<AccessEntry>> {
        self.entries.last_mut()?.line.take()
    }

    /// Reserves memory for one more reply. Above [`EXPECTED_BYTES_MAX`] the buffer grows only by the reply
    /// and [`STEP_BYTES`], because doubling could hold twice the memory of the replies.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if self.bytes.len() + bytes <= EXPECTED_BYTES_MAX {
            self.make_room_for_first(bytes);
        } else if self.bytes.capacity() - self.bytes.len() < bytes + HEAD_BYTES_SPARE {
            self.bytes.reserve_exact(bytes + STEP_BYTES);
        }
    }

    /// Reserves memory for the first reply, and for as many replies as were sent together last time.
    #[inline]
    fn make_room_for_first(&mut self, bytes: usize) {
        if self.entries.is_empty() {
            self.bytes.reserve(self.expected.0.max(bytes));
            self.entries.reserve(self.expected.1);
        }
    }

    /// Appends interim replies, which belong to the reply that is pushed next.
    pub(crate) fn lead(&mut self, interim: &[u8]) {
        self.bytes.extend_from_slice(interim);
    }

    /// Sets the streamed content of the last reply. No other reply can be pushed until that content is sent.
    pub(crate) fn follow(&mut self, streamed: Box<ContentSource>) {
        self.streamed = Some(streamed);
    }

    pub(crate) fn is_followed(&self) -> bool {
        self.streamed.is_some()
    }

    /// Removes and returns the source of the streamed content, and its framing.
    pub(crate) fn take_streamed(&mut self) -> Option<(ContentSource, Framing)> {
        let framing = self.entries.last()?.writing.framing;
        self.streamed.take().map(|streamed| (*streamed, framing))
    }

    /// Returns the time when the head of the last request with a reply was complete.
    pub(crate) fn last_begun(&self) -> Option<Instant> {
        self.entries.last().map(|entry| entry.tally.begun)
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of bytes to send, including the bytes of file slices.
    pub(crate) fn bytes_len(&self) -> usize {
        let slices = self.slices.iter().map(|(_, slice)| usize::try_from(slice.len).unwrap_or(usize::MAX));
        slices.fold(self.bytes.len(), usize::saturating_add)
    }

    /// Returns the memory that the replies hold, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.entries.capacity() * size_of::<BufferedReply>()
            + self.slices.capacity() * size_of::<(usize, FileSlice)>()
            + self.streamed.as_ref().map_or(0, |streamed| streamed.memory_bytes())
            + self.line_bytes
    }

    /// Waits until every reply may be sent. If the records of a reply did not reach their ack level, another
    /// reply with the actual outcome replaces it.
    ///
    /// Returns false if the log failed.
    pub(crate) async fn release(&mut self, recorder: &Recorder) -> bool {
        let (mut are_kept, mut is_lost) = (true, false);
        for entry in &self.entries {
            let Some(gate) = &entry.gate else { continue };
            let outcome = recorder.wait(gate).await;
            are_kept &= outcome == AckOutcome::Kept;
            is_lost = outcome == AckOutcome::Lost;
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

    /// Makes these replies the last replies of the connection. The last reply gets `Connection: close` (RFC
    /// 9112 section 9.6).
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
                let outcome = recorder.outcome(&gate);
                if let Some(unconfirmed) = outcome.unconfirmed() {
                    recorder.cells().count_unconfirmed(unconfirmed);
                }
                Reply::in_place(outcome, &gate)
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
                    (entry.writing.framing, entry.writing.level) = (Framing::Length, None);
                    entry.tally.status = reply.status;
                    if let Some(line) = &mut entry.line {
                        let bytes = if entry.writing.is_head { 0 } else { reply.content.len() };
                        line.note_replacement(reply.status, reply.outcome(), bytes as u64);
                    }
                    let reply = reply.with_kept_fields(&self.bytes[entry.head..end]);
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
            // The replaced reply may have been the reply with the streamed content.
            self.streamed = None;
        }
    }

    /// Counts the replies in the metrics, because they may be sent now.
    pub(crate) fn count_leaving(&self, cells: &WorkerCells) {
        let mut leaving = cells.leaving();
        for entry in &self.entries {
            leaving.count(&entry.tally, entry.count);
        }
    }

    /// Returns the slices of files in their order, each with its position in [`bytes`](Self::bytes).
    pub(crate) fn slices(&self) -> impl Iterator<Item = (usize, &FileSlice)> {
        self.slices.iter().map(|(place, slice)| (*place, slice))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the replies, because all of them have left.
    pub(crate) fn clear(&mut self) {
        self.expected = (self.bytes.len().min(EXPECTED_BYTES_MAX), self.entries.len());
        if self.line_bytes > 0 {
            self.finish_lines();
        }
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

impl Replies {
    /// Ends the lines of the access log, because the replies have left.
    #[cold]
    fn finish_lines(&mut self) {
        let now = Instant::now();
        self.line_bytes = 0;
        for mut line in self.entries.iter_mut().filter_map(|entry| entry.line.take()) {
            line.leave(now);
        }
    }
}

/// Bytes that are reserved for the first reply of a connection, so that the buffer grows once.
/// `REPLY_BYTES_USUAL` is for a plain reply. `HEAD_BYTES_USUAL` is for the fields of any other reply that are
/// not encoded yet.
const REPLY_BYTES_USUAL: usize = 256;
const HEAD_BYTES_USUAL: usize = 192;
/// Bytes that are reserved for the fields of a head, so that the buffer grows at most once for a reply.
const HEAD_BYTES_SPARE: usize = 1 << 10;
/// Bytes that are reserved for short replies after long replies.
const STEP_BYTES: usize = 16 << 10;
/// Maximum bytes that are reserved because earlier replies were that long.
const EXPECTED_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of the reply buffer that an idle connection keeps.
const KEPT_BYTES_MAX: usize = 512;
const KEPT_ENTRIES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use tollgate_http::StatusCode;
    use uuid::Uuid;

    use super::*;
    use crate::observe::RouteName;

    fn tally() -> RouteTally {
        RouteTally { status: StatusCode::OK, begun: std::time::Instant::now(), route: None }
    }

    const WHOLE: Writing = Writing::whole(*b"Thu, 01 Jan 1970 00:00:00 GMT");

    #[test]
    fn head_announces_the_content_and_leaves_it_out() {
        let reply = Reply::text(StatusCode::OK, "hello");
        let mut replies = Replies::default();
        replies.push(&reply, None, None, Writing { is_head: true, ..WHOLE }, tally());
        let head = replies.bytes().to_vec();
        assert!(String::from_utf8_lossy(&head).contains("Content-Length: 6\r\n"));
        assert!(head.ends_with(b"\r\n\r\n"));
        replies.push(&reply, None, None, WHOLE, tally());
        assert_eq!(&replies.bytes()[head.len()..head.len() * 2], head);
        assert!(replies.bytes().ends_with(b"\r\n\r\nhello\n"));
    }

    #[test]
    fn plain_replies_of_one_moment_are_counted_together_and_all_of_them_are() {
        let reply = PlainReply::new(Reply::text(StatusCode::OK, "hello"), false);
        let worker = WorkerCells::new();
        let name = |path: &str| RouteName { path: path.to_owned(), host: None, methods: None };
        let routes = ["/a", "/b"].map(|path| OwnCells::new(worker.route(name(path)), None));
        let (early, late) = (Instant::now(), Instant::now() + std::time::Duration::from_secs(1));
        let mut replies = Replies::default();
        let id = || RequestId::Made(Uuid::nil());
        for (route, begun) in [(0, early), (0, early), (0, late), (1, late), (1, late)] {
            replies.push_plain(&reply, WHOLE.date, b"", id, begun, &routes[route]);
        }
        replies.push(&Reply::text(StatusCode::OK, "hello"), None, None, WHOLE, tally());
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
    fn replies_that_are_long_hold_little_more_memory_than_their_bytes() {
        let (short, long) =
            (Reply::text(StatusCode::OK, "hello"), Reply::text(StatusCode::OK, "x".repeat(1_000_000)));
        let id = RequestId::Made(Uuid::nil());
        for order in [[&short, &long, &short, &long], [&long, &long, &short, &short]] {
            let mut replies = Replies::default();
            for reply in order {
                replies.push(reply, None, Some(&id), WHOLE, tally());
                let spare_bytes = replies.memory_bytes() - replies.bytes_len();
                assert!(spare_bytes < 64 << 10, "{spare_bytes} bytes beside {} replies", replies.count());
            }
            for _ in 0..1000 {
                replies.push(&short, None, Some(&id), WHOLE, tally());
            }
            assert!(replies.memory_bytes() < replies.bytes_len() * 5 / 4, "{}", replies.memory_bytes());
        }
    }

    #[test]
    fn a_status_without_content_has_none() {
        let mut replies = Replies::default();
        replies.push(&Reply::text(StatusCode::NO_CONTENT, "hidden"), None, None, WHOLE, tally());
        let text = String::from_utf8_lossy(replies.bytes());
        assert!(text.ends_with("\r\n\r\n") && !text.contains("Content-Length"), "{text}");
    }

    #[test]
    fn a_handlers_reply_tells_the_id_of_its_request_unless_it_says_one_itself() {
        let check = |reply: &Reply, expect: &str| {
            let mut replies = Replies::default();
            replies.push(reply, None, Some(&RequestId::Made(Uuid::from_u128(1))), WHOLE, tally());
            let text = String::from_utf8(replies.bytes().to_vec()).unwrap();
            let ids: Vec<_> =
                text.lines().filter(|line| line.contains("-id: ") || line.contains("-Id: ")).collect();
            assert_eq!(ids, [expect], "{text}");
        };
        let reply = Reply::text(StatusCode::OK, "hello");
        check(&reply, "X-Request-Id: 00000000-0000-0000-0000-000000000001");
        check(&reply.with("x-request-id", "mine"), "x-request-id: mine");
    }
}
