//! Admits, refuses or answers a request with a complete head, and finds its route. This is step 3 of a
//! transaction.
//!
//! [`find`] looks up the route, and [`arrived`] is the request while its content arrives. [`Worker::receive`]
//! asks the admission gates before the request causes any other work.

mod arrived;
mod find;

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use tollgate_http::RequestHead;
use tollgate_script::{Body, Context, Request, RequestId, TlsSession, TraceRule};

use crate::auth::Access;
use crate::clock::Moment;
use crate::handler::{Endpoint, Exchange, Visit};
use crate::identity;
use crate::observe::Refusal;
use crate::overload::{RequestPermit, refusal_text};
use crate::reply::Reply;
use crate::service::Service;
use crate::worker::Worker;
pub(crate) use arrived::{Arrived, Destination, RequestOrigin};
use find::FoundRoute;

/// Fields about the origin of a request that the server accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// Whether the id of the request is accepted.
    pub(crate) id: bool,
    /// Rule for the trace of the request.
    pub(crate) trace: TraceRule,
}

/// An admitted request with its route.
pub(crate) struct Received<'s> {
    pub(crate) found: FoundRoute<'s>,
    pub(crate) permit: Option<RequestPermit>,
    pub(crate) access: Access,
}

/// A request that no handler gets.
pub(crate) struct Unserved<'s> {
    pub(crate) destination: Destination,
    /// The route that refused the request. `None` if the request has no route.
    pub(crate) endpoint: Option<&'s Rc<Endpoint>>,
}

impl Unserved<'_> {
    /// Creates the result for a request without a route.
    pub(crate) fn unrouted(reply: Box<Reply>) -> Self {
        Self { destination: Destination::Reply(reply), endpoint: None }
    }
}

impl Worker {
    /// Finds the route of a request with a complete head, and admits the request. Returns the destination of
    /// a request that has no route, or that an admission gate refuses.
    #[inline]
    pub(crate) fn receive<'s>(
        &self,
        service: &'s Service,
        head: &RequestHead,
        now: Moment,
        tls: Option<&TlsSession>,
        client: impl Fn() -> Option<IpAddr>,
    ) -> Result<Received<'s>, Unserved<'s>> {
        let found = service.find(head).map_err(Unserved::unrouted)?;
        let is_accepted = found.endpoint.check_certificate(head, tls);
        let taken = is_accepted
            .and_then(|()| self.take_on(&found, head, now, client).inspect_err(|_| self.book_pause(now.at)));
        match taken {
            Ok((permit, access)) => Ok(Received { found, permit, access }),
            Err(reply) => {
                let endpoint = Some(found.endpoint);
                Err(Unserved { destination: found.refused(head, reply), endpoint })
            }
        }
    }

    #[inline]
    fn take_on(
        &self,
        found: &FoundRoute<'_>,
        head: &RequestHead,
        now: Moment,
        client: impl Fn() -> Option<IpAddr>,
    ) -> Result<(Option<RequestPermit>, Access), Box<Reply>> {
        if let Some((refusal, text)) = self.refusal(found.endpoint, head, now.at) {
            self.cells.count_refusal(refusal);
            found.endpoint.cells.count_refusal(refusal);
            return Err(found.endpoint.unavailable(text, head).into());
        }
        // Limits by address come before the credentials, so that a refused client costs no check.
        let permit = found.endpoint.admit(head, &client, now.at, &self.recorder)?;
        let access = found.endpoint.authenticate(head, client, now, &self.cells)?;
        Ok((permit, access))
    }

    /// Books a pause for the connection before its next request, if other requests wait for the worker.
    #[cold]
    fn book_pause(&self, now: Instant) {
        if self.admission.is_queue_long(now) {
            self.refusal_pauses.book(now);
        }
    }

    /// Refuses a request with `reply`, because its client has too many connections.
    #[cold]
    pub(crate) fn refuse_client(
        &self,
        service: &Service,
        head: &RequestHead,
        now: Instant,
        reply: Reply,
    ) -> Box<Reply> {
        self.cells.count_refusal(Refusal::ClientConnections);
        self.book_pause(now);
        let Ok(found) = service.find(head) else { return reply.into() };
        found.endpoint.cells.count_refusal(Refusal::ClientConnections);
        found.endpoint.granted(reply, head).into()
    }

    /// Refuses a request that was admitted and has not begun, because too much memory is held now.
    pub(crate) fn refuse_late(&self, visit: &Visit) -> Reply {
        self.cells.count_refusal(Refusal::Memory);
        visit.handled().route.count_refusal(Refusal::Memory);
        visit.unavailable(refusal_text::MEMORY)
    }

    /// Returns the reason why a request cannot be admitted now.
    ///
    /// A fixed reply without request content costs no more than a refusal. For such a request, the age of the
    /// run queue does not matter.
    #[inline]
    fn refusal(
        &self,
        endpoint: &Endpoint,
        head: &RequestHead,
        now: Instant,
    ) -> Option<(Refusal, &'static str)> {
        if self.capacity.is_full() {
            Some((Refusal::Memory, refusal_text::MEMORY))
        } else if !endpoint.replies_plainly_to(head) && !self.admission.admits(now) {
            Some((Refusal::Behind, refusal_text::BEHIND))
        } else {
            endpoint.refusal_now(now, &self.recorder)
        }
    }

    #[inline]
    pub(crate) fn request_id(&self, head: &RequestHead, time_us: i64, is_taken: bool) -> RequestId {
        let made = self.ids.next(time_us);
        let came = if is_taken { head.field_bytes("x-request-id") } else { None };
        came.and_then(|text| identity::taken(text, made)).unwrap_or(RequestId::Made(made))
    }

    /// Creates the exchange for a handler from a complete request. If no handler is needed, returns the
    /// reply, also for a request that its route refuses. The id of the client is used only if `taken` accepts
    /// it.
    #[inline]
    pub(crate) fn exchange(
        &self,
        arrived: Arrived,
        body: Body,
        origin: RequestOrigin,
        taken: Taken,
    ) -> Result<Exchange, Box<Reply>> {
        match arrived.destination {
            Destination::Reply(reply) => Err(reply),
            Destination::Refused(refused) => Err(refused.reply.into()),
            Destination::Endpoint { endpoint, place, routes } => {
                let id = self.request_id(&arrived.head, arrived.time_us, taken.id);
                let RequestOrigin { client: remote_addr, peer, trusted_header, scheme, tls } = origin;
                let request = Request {
                    head: arrived.head,
                    place,
                    remote_addr,
                    tls,
                    id,
                    time_us: arrived.time_us,
                    caller: arrived.access.caller().cloned(),
                    trace_rule: taken.trace,
                    is_sampled: arrived.is_sampled,
                    body,
                    context: Context::default(),
                    choice: std::cell::RefCell::default(),
                };
                let (request, begun, permit) = (Rc::new(request), arrived.begun, arrived.permit);
                let upload = arrived.upload;
                Ok(Exchange {
                    endpoint,
                    request,
                    routes,
                    begun,
                    peer,
                    trusted_header,
                    scheme,
                    permit,
                    upload,
                })
            }
        }
    }
}
