//! Streamed content that leaves while it is valid.

use std::task::{Poll, ready};

use bytes::{Buf, Bytes, BytesMut};

use super::content_step::ContentStep;
use crate::validation::ReplyJudge;

/// The pieces of a content, between its source and the connection.
pub(crate) struct JudgedPieces {
    judge: Box<ReplyJudge>,
    /// Bytes of the source that were not judged yet.
    came: Bytes,
    /// Bytes that may leave.
    valid: BytesMut,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The source has given all its bytes.
    Ended,
    /// The content is not valid. No more bytes leave.
    Refused,
}

impl JudgedPieces {
    pub(super) fn new(judge: Box<ReplyJudge>) -> Self {
        Self { judge, came: Bytes::new(), valid: BytesMut::new(), state: State::Open }
    }

    /// Judges the bytes that came for a slice. If there are none, `next` asks the source for more.
    ///
    /// The last bytes leave only if the whole content is valid. So content with a fault never looks complete.
    pub(super) fn poll(&mut self, next: impl FnOnce() -> Poll<(ContentStep, Bytes)>) -> Poll<ContentStep> {
        if self.state == State::Open && self.came.is_empty() {
            let (step, bytes) = ready!(next());
            match step {
                ContentStep::Broken => return Poll::Ready(ContentStep::Broken),
                ContentStep::Ended => self.state = State::Ended,
                ContentStep::Written | ContentStep::Sliced if bytes.is_empty() => return Poll::Ready(step),
                ContentStep::Written | ContentStep::Sliced => {}
            }
            self.came = bytes;
        }
        Poll::Ready(self.step())
    }

    fn step(&mut self) -> ContentStep {
        let judged = match self.state {
            State::Refused => return ContentStep::Broken,
            State::Open | State::Ended => self.judge.feed(&self.came),
        };
        let Ok(judged) = judged else { return self.refuse() };
        let is_last = self.state == State::Ended && judged == self.came.len();
        if is_last && self.judge.finish().is_err() {
            return self.refuse();
        }
        self.valid.extend_from_slice(&self.came[..judged]);
        self.came.advance(judged);
        match is_last {
            true => ContentStep::Ended,
            false if self.came.is_empty() => ContentStep::Written,
            false => ContentStep::Sliced,
        }
    }

    #[cold]
    fn refuse(&mut self) -> ContentStep {
        self.state = State::Refused;
        self.came = Bytes::new();
        ContentStep::Broken
    }

    /// Removes and returns the bytes that may leave.
    pub(super) fn take(&mut self) -> Bytes {
        self.valid.split().freeze()
    }

    pub(super) fn is_refused(&self) -> bool {
        self.state == State::Refused
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.came.len() + self.valid.len() + self.judge.memory_bytes()
    }
}
