//! Tests of the bytes of replies and their order, with peers that take them in small parts.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_files::{FilePart, SentFile};
use tollgate_http::StatusCode;

use super::*;
use crate::clock::{TICK, WorkerClock};
use crate::deadline::Deadlines;
use crate::observe::RouteTally;
use crate::options::CapacityLimits;
use crate::overload::Capacity;
use crate::reply::{Reply, Writing};

/// A peer that takes given numbers of bytes. No real socket allows that control.
struct Sips {
    /// Number of bytes that each call takes. With 0 the peer takes nothing, and the call is repeated.
    sips: Box<dyn Iterator<Item = usize>>,
    taken: Vec<u8>,
    /// Number of bytes that the system holds for the peer. Between two checks, the peer takes [`STEP`] bytes
    /// of them.
    untaken: Cell<usize>,
    ending: ConnectionEnd,
    is_corked: bool,
    /// Whether the last bytes wait for the bytes that follow.
    is_held_back: bool,
}

const STEP: usize = 1000;

impl From<Box<dyn Iterator<Item = usize>>> for Sips {
    fn from(sips: Box<dyn Iterator<Item = usize>>) -> Self {
        Self {
            sips,
            taken: Vec::new(),
            untaken: Cell::new(0),
            ending: ConnectionEnd::Close,
            is_corked: false,
            is_held_back: false,
        }
    }
}

impl Sips {
    fn sip(&mut self, context: &Context<'_>) -> Option<usize> {
        let sip = self.sips.next().unwrap_or(usize::MAX);
        if sip == 0 {
            context.waker().wake_by_ref();
            return None;
        }
        Some(sip)
    }
}

impl Transport for Sips {
    fn poll_write_more(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *self).poll_write(context, bytes);
        self.is_held_back = true;
        written
    }

    fn hold_back(&mut self) -> io::Result<()> {
        self.is_corked = true;
        Ok(())
    }

    fn poll_send_file(
        &mut self,
        context: &mut Context<'_>,
        file: &File,
        offset: u64,
        len: usize,
    ) -> Option<Poll<io::Result<usize>>> {
        let Some(sip) = self.sip(context) else { return Some(Poll::Pending) };
        let mut part = vec![0; len.min(sip)];
        let read = file.read_at(&mut part, offset).unwrap();
        self.taken.extend_from_slice(&part[..read]);
        self.is_held_back = self.is_corked;
        Some(Poll::Ready(Ok(read)))
    }

    fn untaken_bytes(&self) -> Option<usize> {
        Some(self.untaken.replace(self.untaken.get().saturating_sub(STEP)))
    }

    fn when_dropped(&mut self, ending: ConnectionEnd) {
        self.ending = ending;
    }
}

impl AsyncWrite for Sips {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(sip) = self.sip(context) else { return Poll::Pending };
        let taken = bytes.len().min(sip);
        self.taken.extend_from_slice(&bytes[..taken]);
        self.is_held_back = self.is_corked;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Sips {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// Creates a reply for each list, with slices of these lengths. Each slice is from a different position of
/// the file.
fn replies(file: &Arc<SentFile>, lens: &[&[u64]]) -> Replies {
    let mut replies = Replies::default();
    for lens in lens {
        let mut reply = Reply::empty(StatusCode::OK);
        for (place, &len) in lens.iter().enumerate() {
            let slice = FileSlice { file: file.clone(), offset: place as u64 * 1000, len };
            reply.parts.push(FilePart { slice, then: Bytes::from_static(b"then") });
        }
        let writing = Writing::whole(*b"Thu, 01 Jan 1970 00:00:00 GMT");
        let tally = RouteTally { status: reply.status, begun: Instant::now(), route: None };
        replies.push(&reply, None, None, writing, tally);
    }
    replies
}

/// Returns all bytes that were sent, or an error if the connection was given up.
fn sent(replies: &Replies, sips: Box<dyn Iterator<Item = usize>>) -> Result<Vec<u8>, Gone> {
    Ok(sent_before(Then::More, replies, sips)?.taken)
}

/// Returns the peer after the replies were sent. `then` is the event after the replies.
fn sent_before(then: Then, replies: &Replies, sips: Box<dyn Iterator<Item = usize>>) -> Result<Sips, Gone> {
    let capacity = Capacity::new(&CapacityLimits::default(), 1);
    let deadlines = Rc::new(Deadlines::new(Rc::new(WorkerClock::new())));
    let (slot, held) = (Deadlines::enter(&deadlines), HeldMemory::new(&capacity));
    let (limits, scratch) = (ConnectionLimits::default(), Scratch::default());
    let mut stream = Sips::from(sips);
    let mut outlet =
        Outlet { stream: &mut stream, slot: &slot, held: &held, limits: &limits, scratch: &scratch };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(outlet.send(replies, then))?;
    Ok(stream)
}

fn sent_file(len: u64, passage: Passage) -> Arc<SentFile> {
    let file = tempfile::tempfile().unwrap();
    let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    file.write_all_at(&content, 0).unwrap();
    Arc::new(SentFile::new(file, len, passage))
}

#[test]
fn all_replies_leave_in_their_order_whatever_the_peer_takes_at_once() {
    const LONG: u64 = SEND_FILE_BYTES_MAX * 2 + 70_000;
    for passage in [Passage::System, Passage::Copy] {
        let file = sent_file(LONG + 10_000, passage);
        let all: [&[&[u64]]; 5] =
            [&[&[20_000]], &[&[LONG]], &[&[5000, 1]], &[&[], &[LONG, 9], &[]], &[&[7], &[8]]];
        for lens in all {
            let replies = replies(&file, lens);
            let mut expected = Vec::new();
            let mut from = 0;
            for (end, slice) in replies.slices() {
                expected.extend_from_slice(&replies.bytes()[from..end]);
                let mut part = vec![0; slice.len as usize];
                file.file.read_exact_at(&mut part, slice.offset).unwrap();
                expected.append(&mut part);
                from = end;
            }
            expected.extend_from_slice(&replies.bytes()[from..]);
            let head = replies.slices().next().map_or(0, |(end, _)| end);
            let all_sips: [&[usize]; 8] =
                [&[], &[0], &[3], &[3, 0], &[head], &[head, 0], &[head, 3, 0], &[head - 1, 1, 0, 4000]];
            for sips in all_sips {
                for rest in [usize::MAX, 8191] {
                    let each = Vec::from(sips).into_iter().chain(std::iter::repeat(rest));
                    let taken = sent(&replies, Box::new(each)).ok().unwrap();
                    assert!(taken == expected, "{lens:?} {sips:?} {rest}");
                }
            }
        }
    }
}

#[test]
fn the_last_bytes_of_a_connection_are_held_back_for_its_end_and_no_others() {
    for passage in [Passage::System, Passage::Copy] {
        let file = sent_file(SEND_FILE_BYTES_MAX * 2, passage);
        let all: [&[&[u64]]; 4] = [&[&[]], &[&[7]], &[&[SEND_FILE_BYTES_MAX + 1]], &[&[7], &[]]];
        for lens in all {
            for (then, is_held_back) in [(Then::More, false), (Then::End, true)] {
                let replies = replies(&file, lens);
                let peer = sent_before(then, &replies, Box::new(std::iter::empty()));
                assert_eq!(peer.ok().unwrap().is_held_back, is_held_back, "{lens:?} {then:?}");
            }
        }
    }
}

#[test]
fn a_peer_that_takes_only_what_the_system_holds_is_given_up_when_that_is_gone() {
    let capacity = Capacity::new(&CapacityLimits::default(), 1);
    let clock = Rc::new(WorkerClock::new());
    let deadlines = Rc::new(Deadlines::new(clock.clone()));
    let (slot, held) = (Deadlines::enter(&deadlines), HeldMemory::new(&capacity));
    let limits =
        ConnectionLimits { write_timeout: Duration::from_millis(100), ..ConnectionLimits::default() };
    let scratch = Scratch::default();
    let mut stream = Sips::from(Box::new(std::iter::repeat(0_usize)) as Box<dyn Iterator<Item = usize>>);
    stream.untaken.set(3 * STEP);
    let mut outlet =
        Outlet { stream: &mut stream, slot: &slot, held: &held, limits: &limits, scratch: &scratch };
    let mut context = Context::from_waker(Waker::noop());
    let begun = clock.coarse();
    let mut write = Box::pin(outlet.write(b"more"));
    while write.as_mut().poll(&mut context).is_pending() {
        std::thread::sleep(Duration::from_millis(1));
        clock.tick();
        deadlines.sweep(Duration::ZERO);
    }
    drop(write);
    // The time is one deadline, and one more deadline for each check at which the peer had taken a step.
    assert!(clock.coarse() - begun >= TICK * 5);
    assert_eq!((stream.untaken.get(), stream.ending), (0, ConnectionEnd::Reset));
}

#[test]
fn a_file_that_ends_too_early_ends_the_connection() {
    for passage in [Passage::System, Passage::Copy] {
        let file = sent_file(5000, passage);
        for len in [5001, SEND_FILE_BYTES_MAX + 1] {
            assert!(sent(&replies(&file, &[&[len]]), Box::new(std::iter::empty())).is_err(), "{len}");
        }
        file.file.set_len(0).unwrap();
        assert!(sent(&replies(&file, &[&[5000]]), Box::new(std::iter::empty())).is_err());
    }
}
