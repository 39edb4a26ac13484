//! A reply, and what it has to wait for.

use std::borrow::Cow;

use tollgate_log::Level;

use super::flow::Flow;
use crate::recorder::Gate;
use crate::reply::Reply;

/// A reply, and what it has to wait for.
pub(crate) struct Answer<'a> {
    pub(crate) reply: Cow<'a, Reply>,
    pub(crate) gate: Option<Gate>,
    /// Where its records are by then, if it says so.
    pub(crate) level: Option<Level>,
    /// What writes the content of a streamed reply.
    pub(crate) flow: Option<Box<Flow>>,
}

impl<'a> Answer<'a> {
    /// A reply that waits for nothing.
    pub(crate) fn plain(reply: &'a Reply) -> Self {
        Self { reply: Cow::Borrowed(reply), gate: None, level: None, flow: None }
    }

    pub(crate) fn into_owned(self) -> Answer<'static> {
        let Self { reply, gate, level, flow } = self;
        Answer { reply: Cow::Owned(reply.into_owned()), gate, level, flow }
    }
}

impl From<Reply> for Answer<'_> {
    fn from(reply: Reply) -> Self {
        Self { reply: Cow::Owned(reply), gate: None, level: None, flow: None }
    }
}
