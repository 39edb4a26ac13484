//! A reply with the condition (`Gate`) that it waits for.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate_log::Level;

use super::content_source::ContentSource;
use crate::options::stream::Ack;
use crate::recorder::Gate;
use crate::reply::{Reply, STRICT_TRANSPORT_SECURITY};

/// A reply with the condition (`Gate`) that it waits for.
pub(crate) struct GatedReply<'a> {
    pub(crate) reply: Cow<'a, Reply>,
    pub(crate) gate: Option<Gate>,
    /// Ack level that the records have when the reply is sent. `None`: the request left no record.
    pub(crate) ack: Option<Ack>,
    /// Source of the content of a streamed reply.
    pub(crate) streamed: Option<Box<ContentSource>>,
}

impl<'a> GatedReply<'a> {
    /// Returns a reply that waits for nothing.
    pub(crate) fn plain(reply: &'a Reply) -> Self {
        Self { reply: Cow::Borrowed(reply), gate: None, ack: None, streamed: None }
    }

    /// Adds the policy of `Strict-Transport-Security`, unless the handler set one. A browser reads only the
    /// first policy (RFC 6797 section 8.1).
    pub(crate) fn add_policy(&mut self, value: &Bytes) {
        if !self.reply.has_line(STRICT_TRANSPORT_SECURITY) {
            self.reply.to_mut().push(STRICT_TRANSPORT_SECURITY, value.clone());
        }
    }

    /// Returns the ack level that the reply names. A successful reply names the level if its records are not
    /// synced when the reply is sent, or if it waits for the disk because the queue of the stream is away.
    #[inline]
    pub(crate) fn reported_level(&self) -> Option<Level> {
        match self.ack? {
            Ack::Log(level) if level < Level::Synced && self.reply.status.as_u16() < 400 => Some(level),
            Ack::Queued { .. } if self.waits_for_disk() && self.reply.status.as_u16() < 400 => {
                Some(Level::Synced)
            }
            Ack::Log(_) | Ack::Loaded { .. } | Ack::Queued { .. } => None,
        }
    }

    fn waits_for_disk(&self) -> bool {
        matches!(self.gate, Some(Gate::Log { .. }))
    }

    pub(crate) fn into_owned(self) -> GatedReply<'static> {
        let Self { reply, gate, ack, streamed } = self;
        GatedReply { reply: Cow::Owned(reply.into_owned()), gate, ack, streamed }
    }
}

impl From<Reply> for GatedReply<'_> {
    fn from(reply: Reply) -> Self {
        Self { reply: Cow::Owned(reply), gate: None, ack: None, streamed: None }
    }
}
