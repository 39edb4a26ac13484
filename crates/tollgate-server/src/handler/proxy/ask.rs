//! Sends a request to a backend, and creates the reply from the result.

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use tollgate_backend::{Failure, Incoming};
use tollgate_http::{Method, StatusCode};
use tollgate_script::Request;

use super::backend_content::BackendContent;
use super::target::Proxy;
use super::{hops, reply, rounds};
use crate::handler::exchange::Exchange;
use crate::reply::{Extent, Reply, allowed_methods};
use crate::upload::Upload;

/// Maximum length of a reply that is read completely before its head is sent, in bytes. The length must be
/// known.
const WHOLE_BYTES_MAX: u64 = 16 << 10;

/// Estimated memory of a request that waits for its reply, in bytes, in addition to its head and content.
const WAITING_BYTES: usize = 2 << 10;

/// A request to a backend, from its start until its reply is complete enough to be sent.
pub(crate) struct Asked {
    future: Pin<Box<dyn Future<Output = Proxied>>>,
    bytes: usize,
}

/// The result of a request to a backend.
pub(crate) struct Proxied {
    pub(crate) reply: Reply,
    /// The source of the remaining content. `None` if the content is complete.
    pub(crate) streamed: Option<Box<BackendContent>>,
}

impl From<Reply> for Proxied {
    fn from(reply: Reply) -> Self {
        Self { reply, streamed: None }
    }
}

impl From<Reply> for Asked {
    /// Creates a finished request from a reply, without a request to a backend.
    fn from(reply: Reply) -> Self {
        Self { future: Box::pin(ready(reply.into())), bytes: 0 }
    }
}

impl Asked {
    pub(crate) fn poll(&mut self, context: &mut std::task::Context<'_>) -> Poll<Proxied> {
        self.future.as_mut().poll(context)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

impl Proxy {
    /// Prepares a request, which is sent at its first poll.
    pub(crate) fn ask(self: &Rc<Self>, exchange: &Exchange) -> Asked {
        if hops::are_used_up(&exchange.request.head) {
            let reply = Reply::empty(StatusCode::NO_CONTENT).with("Allow", allowed_methods(self.methods));
            return reply.into();
        }
        if rounds::are_too_many(&exchange.request.head) {
            if let Some(left_out) = self.unlogged_refusals() {
                let (route, id) = (&self.route, &exchange.request.id);
                tracing::warn!(route, %id, left_out, "request refused: its backend sends it back in a loop");
            }
            return rounds::reply().into();
        }
        let outgoing = self.outgoing(exchange);
        let bytes = outgoing.memory_bytes() + WAITING_BYTES;
        let (proxy, request) = (self.clone(), exchange.request.clone());
        let upload = exchange.upload.clone();
        let future = async move {
            let sent = proxy.upstream.clone().send(outgoing, None).await;
            let proxied = match sent {
                Ok(incoming) => proxy.take(incoming, &request).await,
                Err(failure) => Err(failure),
            };
            let refusal = |upload: Rc<Upload>| upload.take_refusal();
            proxied.unwrap_or_else(|failure| {
                if let Some(refusal) = upload.and_then(refusal) {
                    return refusal.into();
                }
                proxy.log_failure(&failure, &request);
                reply::of_failure(&failure).into()
            })
        };
        Asked { future: Box::pin(future), bytes }
    }

    /// Creates the reply from a head and the available content. Short content is awaited completely.
    async fn take(self: &Rc<Self>, incoming: Incoming, request: &Rc<Request>) -> Result<Proxied, Failure> {
        let mut reply = self.reply(&incoming);
        let Incoming { head, mut content, .. } = incoming;
        let is_head = request.head.method() == Method::Head;
        if content.is_over() {
            // RFC 9110 section 9.3.2: a reply to HEAD announces the content that GET would get.
            reply.extent = match head.length() {
                Some(bytes) if is_head => Extent::Sized(bytes),
                None if is_head && reply.status.may_have_content() => Extent::Streamed,
                _ => Extent::Whole,
            };
            return Ok(reply.into());
        }
        if !reply.status.may_have_content() {
            // RFC 9110 section 15.3.6: a 205 has no content. If the backend sends content nevertheless, its
            // connection ends.
            return Ok(reply.into());
        }
        let mut came = BytesMut::new();
        match content.missing_bytes() {
            Some(bytes) if bytes <= WHOLE_BYTES_MAX => {
                reply.content = content.gather(WHOLE_BYTES_MAX as usize, |_| true).await?;
                return Ok(reply.into());
            }
            Some(bytes) => reply.extent = Extent::Sized(bytes),
            None => reply.extent = Extent::Streamed,
        }
        let at_once = poll_fn(|context| match content.poll_first(context, &mut came) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => Poll::Ready(None),
        });
        at_once.await.transpose()?;
        // Content with trailers has to be chunked (RFC 9112 section 7.1.2).
        if content.is_over() && content.trailers().is_empty() {
            reply.content = came.freeze();
            reply.extent = Extent::Whole;
            return Ok(reply.into());
        }
        if matches!(reply.extent, Extent::Sized(_)) {
            // The available bytes are sent together with the head.
            reply.content = came.split().freeze();
        }
        let streamed = BackendContent::new(&head, content, came, self.clone(), request.clone());
        Ok(Proxied { reply, streamed: Some(Box::new(streamed)) })
    }
}
