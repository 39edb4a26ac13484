//! Content that is sent while it arrives: its framing, and the error if it breaks off.

use std::fmt;
use std::task::{Context, Poll};

use tollgate_http::{LAST_CHUNK, StatusCode, write_chunk};

/// Content that another peer sends in pieces.
pub trait StreamedContent: fmt::Debug {
    /// Returns the size in bytes, if it is known in advance.
    fn bytes_len(&self) -> Option<u64>;

    /// Returns whether no content was taken so far. Content that was taken cannot be sent a second time.
    fn is_untouched(&self) -> bool;

    /// Appends available content to `out`. The result is ready when content is available. After the last
    /// content, the call is ready and appends nothing.
    ///
    /// # Errors
    /// The content will never be complete.
    fn poll_take(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), BrokenOff>>;
}

/// Reason why arriving content will never be complete. The sender of the content is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BrokenOff {
    /// The status for the sender.
    pub status: StatusCode,
    /// The text for the sender.
    pub text: &'static str,
}

impl BrokenOff {
    /// The content did not arrive in time.
    pub const TOO_LATE: Self =
        Self { status: StatusCode::REQUEST_TIMEOUT, text: "the request did not arrive in time" };
}

/// Streamed content with its framing, and the number of bytes that were sent.
#[derive(Debug, Default)]
pub(crate) struct Framed {
    bytes: Vec<u8>,
    sent: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// More content may arrive.
    #[default]
    Open,
    /// No content was available at the last poll.
    Waiting,
    /// All content was taken.
    Taken,
}

impl Framed {
    /// Returns the next bytes to send. The result is empty while no content arrives, or after all content was
    /// sent.
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

    /// Records that bytes of the piece were sent.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Returns whether sending waits for the content to arrive, and not for the backend to accept it.
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

    /// Content in pieces. An empty piece stands for a wait.
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
            // The test sends one byte at a time, as to a slow backend.
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
