//! Proxied routes: a request goes on to a backend, and what comes back to the client.
//!
//! Both are written anew from what was read ([`request`], [`reply`]), never passed on as bytes (rule 20). A request with a
//! short body has come whole before it goes on, so a slow client holds no place at a backend, and what is idempotent can be
//! sent again; a long body goes on while it comes, if others leave it one of the places for such, else through the spool. A
//! short reply is gathered first, so that a backend that breaks off shows as 502; a longer one leaves as it comes ([`flow`]),
//! and one side waits for the other.

mod flow;
mod hops;
mod reply;
mod request;
mod rounds;
mod spec;

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tollgate_backend::{Failure, Incoming, UploadPlace, Upstream};
use tollgate_http::{Method, Methods, StatusCode};
use tollgate_script::Request;

use super::{Exchange, allowed_methods};
use crate::reply::{Extent, Reply};
use crate::seldom::{Few, Seldom};
pub(crate) use flow::{BackendFlow, Passed};
pub(crate) use reply::OwnWord;
pub use spec::{HostSent, ProxySpec};

/// A reply of a known length up to here is gathered before its head leaves.
const WHOLE_BYTES_MAX: u64 = 16 << 10;
/// What a request that waits for its reply takes beside its head and content.
const WAITING_BYTES: usize = 2 << 10;
/// Refusals of one route are told once in this time.
const TOLD_EACH: Duration = Duration::from_secs(1);

/// A route to a backend, in one worker.
pub(crate) struct Proxy {
    upstream: Rc<Upstream>,
    spec: ProxySpec,
    says: OwnWord,
    /// Segments of the path that are left out.
    stripped: usize,
    route: String,
    /// What it says of them where a request may go no further.
    methods: Methods,
    refusals: Seldom,
    failures: Few,
}

/// A request on its way to a backend and back.
pub(crate) struct Asked {
    future: Pin<Box<dyn Future<Output = Proxied>>>,
    bytes: usize,
}

/// What came back.
pub(crate) struct Proxied {
    pub(crate) reply: Reply,
    /// The rest of a content that is not whole.
    pub(crate) flow: Option<Box<BackendFlow>>,
}

impl From<Reply> for Proxied {
    fn from(reply: Reply) -> Self {
        Self { reply, flow: None }
    }
}

impl From<Reply> for Asked {
    /// Nobody is asked.
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
    /// Makes it for a route of that path.
    pub(crate) fn new(
        spec: &ProxySpec,
        route: &str,
        methods: Methods,
        upstream: &Rc<Upstream>,
        says: OwnWord,
    ) -> Rc<Self> {
        let stripped = if spec.strip_prefix { route.split('/').count().saturating_sub(2) } else { 0 };
        Rc::new(Self {
            upstream: upstream.clone(),
            spec: spec.clone(),
            says,
            stripped,
            route: route.to_owned(),
            methods,
            refusals: Seldom::new(TOLD_EACH),
            failures: Few::failures(),
        })
    }

    /// Leave to begin a request whose content is still coming.
    pub(super) fn upload_place(&self) -> Option<UploadPlace> {
        self.upstream.try_upload()
    }

    /// Begins a request; nothing is sent before it is polled.
    pub(crate) fn ask(self: &Rc<Self>, exchange: &Exchange) -> Asked {
        if hops::are_used_up(&exchange.request.head) {
            let reply = Reply::empty(StatusCode::NO_CONTENT).with("Allow", allowed_methods(self.methods));
            return reply.into();
        }
        if rounds::are_too_many(&exchange.request.head) {
            if let Some(left_out) = self.untold_refusals() {
                let (route, id) = (&self.route, &exchange.request.id);
                tracing::warn!(route, %id, left_out, "request refused: its backend leads back here, in a loop");
            }
            return rounds::reply().into();
        }
        let outgoing = self.outgoing(exchange);
        let bytes = outgoing.memory_bytes() + WAITING_BYTES;
        let (proxy, request) = (self.clone(), exchange.request.clone());
        let future = async move {
            let sent = proxy.upstream.clone().send(outgoing, None).await;
            let proxied = match sent {
                Ok(incoming) => proxy.take(incoming, &request).await,
                Err(failure) => Err(failure),
            };
            proxied.unwrap_or_else(|failure| {
                proxy.tell(&failure, &request);
                reply::of_failure(&failure).into()
            })
        };
        Asked { future: Box::pin(future), bytes }
    }

    /// Makes the reply of what came, as far as it is worth waiting for.
    async fn take(self: &Rc<Self>, incoming: Incoming, request: &Rc<Request>) -> Result<Proxied, Failure> {
        let mut reply = self.reply(&incoming);
        let Incoming { head, mut content, .. } = incoming;
        let is_head = request.head.method() == Method::Head;
        if content.is_over() {
            // RFC 9110 section 9.3.2: what GET would bring.
            reply.extent = match head.length() {
                Some(bytes) if is_head => Extent::Sized(bytes),
                None if is_head && reply.status.may_have_content() => Extent::Streamed,
                _ => Extent::Whole,
            };
            return Ok(reply.into());
        }
        if !reply.status.may_have_content() {
            // RFC 9110 section 15.3.6: a 205 has none, whatever comes behind it. That connection ends.
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
        // What has trailers has to be in chunks (RFC 9112 section 7.1.2).
        if content.is_over() && content.trailers().is_empty() {
            reply.content = came.freeze();
            reply.extent = Extent::Whole;
            return Ok(reply.into());
        }
        if matches!(reply.extent, Extent::Sized(_)) {
            // What is there leaves with the head.
            reply.content = came.split().freeze();
        }
        let flow = BackendFlow::new(&head, content, came, self.clone(), request.clone());
        Ok(Proxied { reply, flow: Some(Box::new(flow)) })
    }

    /// Tells why a request got no reply, unless many do not. Where nobody was asked, once a second: the breaker told why.
    fn tell(&self, failure: &Failure, request: &Request) {
        let (route, id) = (&self.route, &request.id);
        let Failure { backend, address, phase, .. } = failure;
        if failure.is_of_client() {
            tracing::debug!(route, %id, backend, %phase, "{failure}");
            return;
        }
        if !failure.is_refusal() {
            if let Some(left_out) = self.failures.note(Instant::now()) {
                let address = address.as_deref();
                tracing::warn!(route, %id, backend, address, %phase, left_out, "no reply of the backend: {failure}");
            }
            return;
        }
        if let Some(left_out) = self.untold_refusals() {
            tracing::warn!(route, %id, backend, %phase, left_out, "request refused: {failure}");
        }
    }

    /// How many refusals were left out before this one, if it is time to tell of it.
    fn untold_refusals(&self) -> Option<u64> {
        self.refusals.note();
        self.refusals.due(Instant::now()).map(|count| count - 1)
    }
}
