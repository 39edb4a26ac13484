//! The fixed reply that a configuration sets for a route.

use bytes::Bytes;
use tollgate_http::StatusCode;

use crate::options::{RequestIds, RouteSpec, ServerOptions};
use crate::reply::{PlainReply, Reply};

/// A fixed reply. The variants show whether other parts of the route may change or record the reply.
pub(super) enum FixedReply {
    /// No other part of the route changes or records the reply, so it is encoded in advance.
    Alone(PlainReply),
    /// Another part of the route may change or record the reply.
    Joined(Reply),
}

impl FixedReply {
    pub(super) fn new(reply: Reply, spec: &RouteSpec, options: &ServerOptions) -> Self {
        if is_alone(spec) {
            Self::Alone(PlainReply::new(reply, options.request_ids != RequestIds::Silent))
        } else {
            Self::Joined(reply)
        }
    }

    #[inline]
    pub(super) fn plain(&self) -> Option<&PlainReply> {
        match self {
            Self::Alone(plain) => Some(plain),
            Self::Joined(_) => None,
        }
    }

    pub(super) fn reply(&self) -> &Reply {
        match self {
            Self::Alone(plain) => &plain.reply,
            Self::Joined(reply) => reply,
        }
    }
}

/// Returns whether only the handler decides the replies of a route.
fn is_alone(spec: &RouteSpec) -> bool {
    spec.before.is_empty()
        && spec.after.is_empty()
        && spec.cors.is_none()
        && spec.stream.is_none()
        && spec.verify.is_none()
        && spec.validate.is_none()
}

pub(super) fn reply(status: u16, content_type: &str, body: &Bytes) -> Reply {
    let mut reply = Reply::empty(StatusCode::new(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    if !body.is_empty() {
        reply = reply.with("Content-Type", content_type.to_owned());
    }
    reply.content = body.clone();
    reply.prepared()
}
