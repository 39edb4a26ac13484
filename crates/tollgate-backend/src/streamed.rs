//! A content that is still coming while it is sent: how it is framed, and what becomes of it when it breaks
//! off.

use std::fmt;
use std::task::{Context, Poll};

use tollgate_http::{LAST_CHUNK, StatusCode, write_chunk};

/// A content that comes from somebody else, piece by piece.
pub trait StreamedContent: fmt::Debug {
    /// Its bytes, where they are known before.
    fn bytes_len(&self) -> Option<u64>;

    /// Whether nothing of it was taken: what was is gone.
    fn is_untouched(&self) -> bool;

    /// Appends what is there to `out`, ready when it is some; or when there is no more, with nothing.
    ///
    /// # Errors
    /// It will never be whole.
    fn poll_take(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), BrokenOff>>;
}

/// Why a content that was coming will never be whole: it is whoever sends it that is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BrokenOff {
    /// What whoever sends it is told.
    pub status: StatusCode,
    /// The same in words.
    pub text: &'static str,
}

impl BrokenOff {
    /// It did not come in time.
    pub const TOO_LATE: Self =
        Self { status: StatusCode::REQUEST_TIMEOUT, text: "the request took too long" };
}

/// A streamed content on its way: what was taken of it, framed, and how much of that left.
#[derive(Debug, Default)]
pub(crate) struct Framed {
    bytes: Vec<u8>,
    sent: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// More may come.
    #[default]
    Open,
    /// The last time it was asked for more, there was none.
    Waiting,
    /// All of it was taken.
    Taken,
}

impl Framed {
    /// What is to be sent next; nothing while the content does not come, or when all of it left.
    pub(crate) fn poll_piece(
        &mut self,
        content: &dyn StreamedContent,
        context: &mut Context<'_>,
    ) -> Result<&[u8], BrokenOff> {
        if self.sent == self.bytes.len() && self.state != State::Taken {
            self.bytes.clear();
            self.sent = 0;
            self.take(content, context)?;
        }
        Ok(&self.bytes[self.sent..])
    }

    fn take(&mut self, content: &dyn StreamedContent, context: &mut Context<'_>) -> Result<(), BrokenOff> {
        let is_chunked = content.bytes_len().is_none();
        let mut came = Vec::new();
        let taken = content.poll_take(context, if is_chunked { &mut came } else { &mut self.bytes });
        self.state = match taken {
            Poll::Pending => State::Waiting,
            Poll::Ready(taken) => {
                taken?;
                if is_chunked {
                    write_chunk(&mut self.bytes, &came);
                }
                let is_over = self.bytes.is_empty();
                if is_over && is_chunked {
                    self.bytes.extend_from_slice(LAST_CHUNK);
                }
                if is_over { State::Taken } else { State::Open }
            }
        };
        Ok(())
    }

    /// So many bytes of the piece left.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Whether it is the content that does not come, and not the backend that does not take it.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state == State::Waiting && self.sent == self.bytes.len()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Taken && self.sent == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::task::Waker;

    use super::*;

    /// Pieces; an empty one is a wait.
    #[derive(Debug)]
    struct Pieces(Option<u64>, RefCell<VecDeque<&'static str>>);

    impl StreamedContent for Pieces {
        fn bytes_len(&self) -> Option<u64> {
            self.0
        }

        fn is_untouched(&self) -> bool {
            false
        }

        fn poll_take(&self, _: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), BrokenOff>> {
            match self.1.borrow_mut().pop_front() {
                Some("") => Poll::Pending,
                piece => {
                    out.extend_from_slice(piece.unwrap_or_default().as_bytes());
                    Poll::Ready(Ok(()))
                }
            }
        }
    }

    fn check(bytes_len: Option<u64>, expect: &str) {
        let content = Pieces(bytes_len, RefCell::new(["abc", "", "defghijklmnopqrs"].into()));
        let (mut framed, mut found, mut waits) = (Framed::default(), String::new(), 0);
        let mut context = Context::from_waker(Waker::noop());
        while !framed.is_done() {
            // Byte by byte, as a slow backend takes it.
            match framed.poll_piece(&content, &mut context).unwrap() {
                [] => waits += usize::from(framed.is_waiting()),
                [byte, ..] => {
                    found.push(char::from(*byte));
                    framed.advance(1);
                    assert!(!framed.is_waiting());
                }
            }
        }
        assert_eq!((found.as_str(), waits), (expect, 1));
    }

    #[test]
    fn a_content_of_unknown_length_leaves_in_chunks_and_another_as_it_is() {
        check(None, "3\r\nabc\r\n10\r\ndefghijklmnopqrs\r\n0\r\n\r\n");
        check(Some(19), "abcdefghijklmnopqrs");
    }
}
