//! Sends bytes and files to a peer until the deadline of its connection, in turns with other connections.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tollgate_files::{FileSlice, Passage};

use super::gone::Gone;
use super::replies::Replies;
use super::slow_reader::SlowReader;
use super::transport::FILE_BYTES_AT_ONCE;
use super::transport::{ConnectionEnd, Transport};
use crate::deadline::{Phase, Slot};
use crate::options::ConnectionLimits;
use crate::overload::HeldMemory;
use crate::scratch::Scratch;
use crate::task_turn::give_turn;

/// Maximum bytes that one connection sends from memory before other connections have their turn. The limit
/// for bytes that the system sends from a file is larger, because they cost less.
const WRITE_BYTES_MAX: usize = 32 << 10;
const SEND_FILE_BYTES_MAX: u64 = 256 << 10;

/// Bytes that were sent without a wait: from the bytes before the first slice, and from that slice.
#[derive(Default)]
struct Begun {
    head_bytes: usize,
    file_bytes: u64,
}

/// The event after the replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// More replies may follow later.
    More,
    /// The connection ends at once.
    End,
}

/// Sends the replies of a connection.
pub(super) struct Outlet<'a, S> {
    pub(super) stream: &'a mut S,
    pub(super) slot: &'a Slot,
    pub(super) held: &'a HeldMemory,
    pub(super) limits: &'a ConnectionLimits,
    pub(super) scratch: &'a Scratch,
}

impl<S: Transport> Outlet<'_, S> {
    /// Sends replies that may be sent. The current bytes of files are sent. If a file became shorter, the
    /// connection is reset, because the announced length cannot be sent.
    pub(super) async fn send(&mut self, replies: &Replies, then: Then) -> Result<(), Gone> {
        if then == Then::End {
            self.expect_end(replies)?;
        }
        let mut sent = 0;
        if let Some((end, slice)) = replies.slices().next() {
            let head = &replies.bytes()[..end];
            let begun = poll_fn(|context| Poll::Ready(self.begin(head, slice, context))).await?;
            let is_over = begun.file_bytes == slice.len && replies.slices().nth(1).is_none();
            // The future is on the heap, so that connections that send no file stay small.
            sent = if is_over { end } else { Box::pin(self.send_slices(replies, begun)).await? };
        }
        let rest = &replies.bytes()[sent..];
        match then {
            Then::More => self.write(rest).await?,
            Then::End => self.write_more(rest).await?,
        }
        self.flush().await
    }

    /// Waits until the system has all bytes. Only a stream that encodes its bytes can still hold some.
    async fn flush(&mut self) -> Result<(), Gone> {
        if self.stream.is_flushed() {
            return Ok(());
        }
        let turn = |outlet: &mut Self, _: usize, context: &mut Context<'_>| {
            Pin::new(&mut *outlet.stream).poll_flush(context).map_ok(|()| 1)
        };
        self.push(1, turn).await
    }

    /// Prepares the socket so that one packet carries the last reply and the FIN. Memory is sent with
    /// `MSG_MORE`, and files with `TCP_CORK`.
    fn expect_end(&mut self, replies: &Replies) -> io::Result<()> {
        let Some(longest) = replies.slices().map(|(_, slice)| slice.len).max() else { return Ok(()) };
        if longest > FILE_BYTES_AT_ONCE {
            self.stream.let_files_go_ahead()?;
        }
        self.stream.hold_back()
    }

    /// Sends as many bytes of `head`, and of the slice after it, as the peer takes at once. The peer usually
    /// takes all of them, so that the connection does not wait.
    fn begin(&mut self, head: &[u8], slice: &FileSlice, context: &mut Context<'_>) -> Result<Begun, Gone> {
        let first = slice.first(SEND_FILE_BYTES_MAX);
        if head.len() > WRITE_BYTES_MAX || !first.is_in_memory(self.slot.ticks()) {
            return Ok(Begun::default());
        }
        let mut begun = Begun::default();
        if let Poll::Ready(taken) = self.stream.poll_write_more(context, head)? {
            begun.head_bytes = taken;
        }
        if begun.head_bytes == head.len()
            && let Poll::Ready(taken) = self.poll_file(&first, 0, context)?
        {
            begun.file_bytes = taken as u64;
        }
        Ok(begun)
    }

    /// Sends all remaining bytes up to the end of the last slice. Returns the position of the bytes after
    /// that slice.
    async fn send_slices(&mut self, replies: &Replies, begun: Begun) -> Result<usize, Gone> {
        let Begun { head_bytes: mut sent, file_bytes: mut of_slice } = begun;
        if of_slice > 0 {
            tokio::task::yield_now().await;
        }
        for (end, slice) in replies.slices() {
            let mut slice = slice.clone();
            let mut first = slice.first(SEND_FILE_BYTES_MAX);
            if of_slice == 0 {
                self.bring(&first).await;
                self.write_more(&replies.bytes()[sent..end]).await?;
            }
            slice.advance(of_slice);
            first.advance(of_slice);
            of_slice = 0;
            self.send_file(slice, first.len).await?;
            sent = end;
        }
        Ok(sent)
    }

    /// Sends all of `bytes`. Each part that the peer takes extends the deadline. A peer that takes nothing is
    /// disconnected if peers hold too much memory.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let turn = |outlet: &mut Self, sent: usize, context: &mut Context<'_>| {
            Pin::new(&mut *outlet.stream).poll_write(context, turn_of(&bytes[sent..]))
        };
        self.push(bytes.len(), turn).await
    }

    /// Sends `bytes` like [`write`](Self::write), and waits until the system has all of them.
    pub(super) async fn write_through(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.write(bytes).await?;
        self.flush().await
    }

    /// Sends `bytes` like [`write`](Self::write), if more bytes follow at once.
    async fn write_more(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let turn = |outlet: &mut Self, sent: usize, context: &mut Context<'_>| {
            outlet.stream.poll_write_more(context, turn_of(&bytes[sent..]))
        };
        self.push(bytes.len(), turn).await
    }

    /// Sends all of a slice, whose first `brought` bytes are already in memory.
    async fn send_file(&mut self, mut slice: FileSlice, mut brought: u64) -> Result<(), Gone> {
        while slice.len > 0 {
            let mut part = slice.first(brought);
            if brought == 0 {
                part = slice.first(SEND_FILE_BYTES_MAX);
                self.bring(&part).await;
            }
            brought = 0;
            let len = usize::try_from(part.len).unwrap_or(usize::MAX);
            let turn = |outlet: &mut Self, sent: usize, context: &mut Context<'_>| {
                outlet.poll_file(&part, sent, context)
            };
            self.push(len, turn).await?;
            slice.advance(part.len);
            if slice.len > 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Waits until a thread has read a part into the page cache. A blocking read in the send call would stop
    /// the other connections of the worker.
    async fn bring(&mut self, part: &FileSlice) {
        if !part.is_in_memory(self.slot.ticks()) {
            self.slot.set(Phase::Handling);
            part.bring().await;
        }
    }

    fn poll_file(
        &mut self,
        part: &FileSlice,
        sent: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let (file, offset) = (&part.file, part.offset + sent as u64);
        let left = usize::try_from(part.len).unwrap_or(usize::MAX) - sent;
        let by_system = match file.passage {
            Passage::System => self.stream.poll_send_file(context, &file.file, offset, left),
            Passage::Copy => None,
        };
        by_system.unwrap_or_else(|| {
            let mut scratch = self.scratch.bytes.borrow_mut();
            let buffer = &mut scratch[..left.min(WRITE_BYTES_MAX)];
            match rustix::io::pread(&file.file, &mut *buffer, offset)? {
                0 => Poll::Ready(Ok(0)),
                read => Pin::new(&mut *self.stream).poll_write(context, &buffer[..read]),
            }
        })
    }

    /// Calls `turn` until all `len` bytes are sent.
    async fn push(
        &mut self,
        len: usize,
        mut turn: impl FnMut(&mut Self, usize, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Result<(), Gone> {
        let mut sent = 0;
        let mut reader = SlowReader::default();
        if len == 0 {
            return Ok(());
        }
        self.slot.arm(Phase::Writing, self.limits.write_timeout);
        poll_fn(|context| {
            if self.slot.is_over() {
                let untaken = self.stream.untaken_bytes();
                match untaken.and_then(|untaken| reader.more_time(untaken, self.limits)) {
                    Some(time) => self.slot.prolong(time),
                    None => return Poll::Ready(Err(self.give_up())),
                }
            }
            self.slot.watch(context.waker());
            let written = turn(self, sent, context);
            if written.is_pending() && self.held.is_too_much() {
                return Poll::Ready(Err(self.give_up()));
            }
            let taken = ready!(written)?;
            if taken == 0 {
                // The file became shorter. The system may hold zeros in place of the lost bytes, so nothing
                // more is sent.
                return Poll::Ready(Err(self.give_up()));
            }
            sent += taken;
            reader.add(taken);
            let most = self.slot.within(self.limits.write_timeout);
            self.slot.earn(taken, self.limits.write_rate_min, most);
            if sent == len {
                return Poll::Ready(Ok(()));
            }
            give_turn(context);
            Poll::Pending
        })
        .await
    }

    /// Resets the connection when it is dropped. Without a reset the system keeps the bytes that the peer
    /// does not take. The system also probes the window of the peer (RFC 9293 section 3.8.6.1) as long as the
    /// peer answers. No limit of the server would count those bytes.
    fn give_up(&mut self) -> Gone {
        self.stream.when_dropped(ConnectionEnd::Reset);
        Gone
    }
}

fn turn_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(WRITE_BYTES_MAX)]
}

#[cfg(test)]
mod tests;
