//! A reply that is held until all of it is valid.

use std::task::{Context, Poll};

use bytes::BytesMut;
use tollgate_http::StatusCode;

use super::content_source::ContentSource;
use super::content_step::ContentStep;
use super::script::Records;
use crate::reply::{Extent, Reply};
use crate::validation::{ReplyJudge, unread};

/// Maximum bytes of a streamed content that is held.
pub(super) const HELD_BYTES_MAX: usize = 1 << 20;

/// A reply that is held until all of it is valid.
pub(super) struct HeldReply {
    reply: Reply,
    records: Records,
    content: Content,
    judge: Box<ReplyJudge>,
    /// Bytes of the content that were judged.
    judged: usize,
    /// Whether the reply had a turn. Before its first turn, nothing wakes it.
    has_begun: bool,
}

enum Content {
    /// The reply has all of the content.
    Whole,
    /// The source still gives content.
    Growing { source: Box<ContentSource>, held: BytesMut },
}

/// The end of a held reply.
pub(super) enum HeldEnd {
    /// The content is valid.
    Valid(Box<Reply>, Records),
    /// The content is not valid, or too long.
    Refused,
    /// The source failed, and has logged the reason.
    Broken,
}

impl HeldReply {
    /// Holds a reply. The content follows from `source`, if there is one.
    pub(super) fn new(
        reply: Reply,
        records: Records,
        source: Option<Box<ContentSource>>,
        judge: Box<ReplyJudge>,
    ) -> Self {
        let content = match source {
            None => Content::Whole,
            Some(source) => Content::Growing { source, held: BytesMut::from(&reply.content[..]) },
        };
        Self { reply, records, content, judge, judged: 0, has_begun: false }
    }

    /// Returns whether the reply has not begun, bytes have come that are not judged, or no more bytes come.
    pub(super) fn can_run(&self) -> bool {
        match &self.content {
            Content::Whole => true,
            Content::Growing { held, .. } => !self.has_begun || self.judged < held.len(),
        }
    }

    /// Judges the bytes that have come for a slice. Returns the end when the reply has one.
    pub(super) fn run(&mut self) -> Option<HeldEnd> {
        self.has_begun = true;
        let bytes = match &self.content {
            Content::Whole => &self.reply.content[self.judged..],
            Content::Growing { held, .. } => &held[self.judged..],
        };
        let Ok(judged) = self.judge.feed(bytes) else { return Some(HeldEnd::Refused) };
        let is_over = judged == bytes.len();
        self.judged += judged;
        if !is_over || matches!(self.content, Content::Growing { .. }) {
            return None;
        }
        Some(match self.judge.finish() {
            Ok(()) => {
                let reply = std::mem::replace(&mut self.reply, Reply::empty(StatusCode::OK));
                HeldEnd::Valid(reply.into(), std::mem::take(&mut self.records))
            }
            Err(_) => HeldEnd::Refused,
        })
    }

    /// Asks the source for more bytes, if all that came are judged. Returns the end when the reply has one.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Option<HeldEnd> {
        if self.can_run() {
            return None;
        }
        let Content::Growing { source, held } = &mut self.content else { return None };
        let Poll::Ready(step) = source.poll(context) else { return None };
        held.extend_from_slice(&source.take());
        if held.len() > HELD_BYTES_MAX {
            return self.judge.note_unread(unread::TOO_LONG).err().map(|_| HeldEnd::Refused);
        }
        match step {
            ContentStep::Broken => return Some(HeldEnd::Broken),
            ContentStep::Ended => {
                self.reply.content = std::mem::take(held).freeze();
                self.reply.extent = Extent::Whole;
                self.content = Content::Whole;
            }
            ContentStep::Sliced | ContentStep::Written => context.waker().wake_by_ref(),
        }
        None
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let held_bytes = match &self.content {
            Content::Whole => 0,
            Content::Growing { source, held } => source.memory_bytes() + held.capacity(),
        };
        self.reply.memory_bytes() + self.records.memory_bytes() + held_bytes + self.judge.memory_bytes()
    }
}
