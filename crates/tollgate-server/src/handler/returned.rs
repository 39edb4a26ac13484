//! The result of a handler, and the source of content that follows a head.

use std::rc::Rc;

use tollgate_script::{Call, Request};

use super::content_source::{ContentSource, ScriptContent};
use super::endpoint::Endpoint;
use super::proxy::BackendContent;
use super::script::Records;
use crate::overload::RequestPermit;
use crate::reply::Reply;

/// The result of a handler.
pub(super) struct Returned {
    pub(super) reply: Reply,
    pub(super) records: Records,
    /// Duration of the transaction in microseconds. `None` if no record has the duration.
    pub(super) took_us: Option<i64>,
    /// Source of the content of a streamed reply.
    pub(super) tail: Option<Tail>,
}

/// Source of the content that follows a head.
pub(super) enum Tail {
    Call(Box<Call>),
    Backend(Box<BackendContent>),
}

impl Tail {
    /// Makes the source of the content. The request counts for its route until the content ends.
    pub(super) fn source(
        self,
        endpoint: &Rc<Endpoint>,
        request: &Rc<Request>,
        permit: Option<RequestPermit>,
    ) -> Option<Box<ContentSource>> {
        Some(Box::new(match self {
            Self::Backend(mut streamed) => {
                streamed.hold(permit);
                ContentSource::Backend(streamed)
            }
            Self::Call(call) => {
                ContentSource::Script(Box::new(ScriptContent::new(*call, endpoint, request, permit)?))
            }
        }))
    }
}

impl Returned {
    pub(super) fn memory_bytes(&self) -> usize {
        let tail_bytes = match &self.tail {
            None => 0,
            Some(Tail::Call(call)) => call.memory_bytes(),
            Some(Tail::Backend(streamed)) => streamed.memory_bytes(),
        };
        self.reply.memory_bytes() + self.records.memory_bytes() + tail_bytes
    }
}
