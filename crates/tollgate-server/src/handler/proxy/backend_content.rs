//! The content of a long reply, from the backend to the client. Further bytes are read only after the client
//! has taken the earlier bytes.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tollgate_backend::{Content, Failure, Relayed};
use tollgate_http::ReplyHead;
use tollgate_script::Request;

use super::target::Proxy;
use crate::handler::content_step::ContentStep;
use crate::overload::RequestPermit;

/// The result of relaying one piece of a content.
pub(crate) struct RelayedPiece {
    pub(crate) step: ContentStep,
    /// Bytes of the piece that were sent.
    pub(crate) sent_bytes: usize,
    /// Whether more bytes are likely to be available.
    pub(crate) is_more_there: bool,
}

/// The content of a reply that a backend sends.
pub(crate) struct BackendContent {
    content: Content,
    /// Bytes that were received from the backend and not sent to the client.
    came: BytesMut,
    proxy: Rc<Proxy>,
    request: Rc<Request>,
    /// Permit that counts the request until its content ends.
    permit: Option<RequestPermit>,
    ending: Ending,
    /// Names of fields that concern only the connection to the backend (RFC 9110 section 7.6.1).
    connection_options: Vec<Vec<u8>>,
}

/// State of the end of the content.
#[derive(PartialEq, Eq)]
enum Ending {
    /// The backend decides where the content ends.
    Whole,
    /// The content was given up, so later bytes are ignored.
    Cut,
}

impl BackendContent {
    pub(super) fn new(
        head: &ReplyHead,
        content: Content,
        came: BytesMut,
        proxy: Rc<Proxy>,
        request: Rc<Request>,
    ) -> Self {
        let connection_options = head.connection_options().map(<[u8]>::to_vec).collect();
        Self { content, came, proxy, request, permit: None, ending: Ending::Whole, connection_options }
    }

    /// Stores the permit that counts the request until its content ends.
    pub(crate) fn hold(&mut self, permit: Option<RequestPermit>) {
        self.permit = permit;
    }

    pub(crate) fn take(&mut self) -> Bytes {
        self.came.split().freeze()
    }

    /// Returns the trailer fields after the content, as lines.
    pub(crate) fn trailers(&self) -> Vec<u8> {
        let ends_here = |line: &&[u8]| {
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
            self.proxy.ends_here(name)
                || self.connection_options.iter().any(|option| option.eq_ignore_ascii_case(name))
        };
        let lines = self.content.trailers().split_inclusive(|&byte| byte == b'\n');
        lines.filter(|line| !ends_here(line)).collect::<Vec<_>>().concat()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.came.len()
    }

    /// Reads the available bytes.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<ContentStep> {
        if self.ending == Ending::Cut {
            return Poll::Ready(ContentStep::Broken);
        }
        if self.content.is_over() {
            return Poll::Ready(ContentStep::Ended);
        }
        if !self.came.is_empty() {
            return Poll::Ready(ContentStep::Written);
        }
        match self.content.poll_read(context, &mut self.came) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) if self.content.is_over() => Poll::Ready(ContentStep::Ended),
            Poll::Ready(Ok(())) => Poll::Ready(ContentStep::Written),
            Poll::Ready(Err(failure)) => Poll::Ready(self.broken(&failure)),
        }
    }

    /// Returns whether the content can be [relayed](Self::poll_relay).
    pub(crate) fn is_plain(&self) -> bool {
        self.content.is_plain() && self.came.is_empty()
    }

    /// Passes available bytes to `send` without keeping them. Bytes that `send` does not send are kept for
    /// [`take`](Self::take).
    pub(crate) fn poll_relay(
        &mut self,
        context: &mut Context<'_>,
        send: impl FnOnce(&mut Context<'_>, &[u8]) -> usize,
    ) -> Poll<RelayedPiece> {
        match self.content.poll_relay(context, &mut self.came, send) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(relayed)) => {
                let step = if self.content.is_over() { ContentStep::Ended } else { ContentStep::Written };
                let Relayed { sent_bytes, is_more_there } = relayed;
                Poll::Ready(RelayedPiece { step, sent_bytes, is_more_there })
            }
            Poll::Ready(Err(failure)) => {
                let step = self.broken(&failure);
                Poll::Ready(RelayedPiece { step, sent_bytes: 0, is_more_there: false })
            }
        }
    }

    /// Returns ready once if the time limit of the request passes while the client takes no bytes.
    pub(crate) fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.content.poll_overdue(context).map(|failure| {
            self.broken(&failure);
        })
    }

    fn broken(&mut self, failure: &Failure) -> ContentStep {
        self.ending = Ending::Cut;
        self.proxy.log_failure(failure, &self.request);
        ContentStep::Broken
    }
}
