//! Passes a request from a handler to the next matching route, as if the earlier routes did not exist. The
//! stream, bounds and policy of the route that answers apply.

use std::rc::Rc;

use tollgate_http::StatusCode;
use tollgate_http::route::Match;

use super::endpoint::Endpoint;
use super::exchange::Exchange;
use super::returned::Returned;
use super::script::Records;
use super::visit::{Stage, Visit, VisitPhase};
use crate::observe::RequestFault;
use crate::reply::Reply;
use crate::verify::SignatureFault;

impl Visit {
    pub(super) fn pass(&mut self) {
        self.forget();
        // The old stage holds a reference to the request, so the stage has to be dropped first.
        self.stage = Stage::AtOnce;
        match self.exchange.go_on() {
            Ok(()) => {
                self.phase = VisitPhase::Before(0);
                self.enter();
            }
            // The server answers without a handler, so nothing is recorded.
            Err(reply) => {
                let (records, took_us, tail) = (Records::default(), None, None);
                let reply = *reply;
                self.stage = Stage::Returned(Some(Returned { reply, records, took_us, tail }));
            }
        }
    }
}

impl Exchange {
    /// Moves the request to the next route.
    ///
    /// # Errors
    /// No other route matches, or the next route does not accept the content or the signature.
    fn go_on(&mut self) -> Result<(), Box<Reply>> {
        let head = &self.request.head;
        let path = self.request.path().to_owned();
        let routes = self.routes.clone();
        let all = routes.find_all(head.host(), path.as_bytes(), head.method());
        let is_other = |found: &&Match<'_, Option<Rc<Endpoint>>>| {
            found.endpoint().as_ref().is_none_or(|endpoint| !Rc::ptr_eq(endpoint, &self.endpoint))
        };
        let next = all.iter().skip_while(is_other).nth(1);
        let Some((next, endpoint)) = next.and_then(|next| Some((next, next.endpoint().as_ref()?))) else {
            return Err(Reply::text(StatusCode::NOT_FOUND, "no resource has this path").into());
        };
        endpoint.check_certificate(head, self.request.tls.as_deref())?;
        if endpoint.verify.is_some() && endpoint.verify != self.endpoint.verify {
            // The bytes as sent are gone, so only the signature of the earlier route was verified.
            return Err(endpoint.refuse_signature(&SignatureFault::Passed, head).into());
        }
        if self.request.body.bytes_len() > endpoint.body_bytes_max {
            let reply = Reply::text(StatusCode::CONTENT_TOO_LARGE, "content too large");
            endpoint.note_fault(RequestFault::Content, head, &reply);
            return Err(reply.into());
        }
        if !endpoint.decodes_content() && head.field_bytes("content-encoding").is_some() {
            // The earlier route has already decoded the content.
            let text = "this path accepts no content coding";
            let reply = Reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
            endpoint.note_fault(RequestFault::ContentCoding, head, &reply);
            return Err(reply.into());
        }
        if let Some(refusal) = endpoint.refusal(head) {
            return Err(refusal.into());
        }
        endpoint.validate_whole(head, &self.request.body)?;
        if !endpoint.takes_over(&self.endpoint, head, self.request.caller.as_deref()) {
            let text = "this path needs credentials that the route before it did not check";
            let reply = Reply::text(StatusCode::FORBIDDEN, text);
            endpoint.note_fault(RequestFault::Forbidden, head, &reply);
            return Err(reply.into());
        }
        let mut place = next.place(path.as_bytes());
        place.decoded = self.request.place.decoded.clone();
        self.endpoint = endpoint.clone();
        self.request = self.request.clone().at(place);
        self.choose()
    }
}
