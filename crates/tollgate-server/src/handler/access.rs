//! Proves the caller of a request at its route, and refuses a request without access.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use tollgate_http::{RequestHead, StatusCode};
use tollgate_script::Caller;

use super::endpoint::Endpoint;
use crate::auth::{Access, Checking, Counted, Denied, Guard};
use crate::clock::Moment;
use crate::observe::WorkerCells;
use crate::overload::Sender;
use crate::reply::Reply;

impl Endpoint {
    /// Proves who sent a request, if the route asks for credentials. Limits by the name of the caller apply
    /// here.
    #[inline]
    pub(crate) fn authenticate(
        &self,
        head: &RequestHead,
        client: impl Fn() -> Option<IpAddr>,
        now: Moment,
        cells: &WorkerCells,
    ) -> Result<Access, Box<Reply>> {
        let Some(guard) = &self.auth else { return Ok(Access::Open) };
        let access =
            guard.check(head, client, now).map_err(|denied| self.deny(guard, &denied, head, cells))?;
        if let Some(caller) = access.caller() {
            self.admit_caller(caller, head, now.at, cells)?;
        }
        Ok(access)
    }

    /// Waits for a check of credentials.
    ///
    /// # Cancel safety
    /// The wait can be repeated until it has returned once.
    pub(crate) async fn finish_check(
        &self,
        checking: &mut Checking,
        head: &RequestHead,
        cells: &WorkerCells,
    ) -> Result<Access, Box<Reply>> {
        let Some(guard) = &self.auth else {
            // Only a route with a guard begins a check.
            return Err(Reply::text(StatusCode::FORBIDDEN, "the credentials cannot be checked").into());
        };
        let finished = guard.finish(checking).await;
        let caller = finished.map_err(|denied| self.deny(guard, &denied, head, cells))?;
        self.admit_caller(&caller, head, Instant::now(), cells)?;
        Ok(Access::Known(caller))
    }

    /// Admits a caller that a test names. The inner error is the reply if the route does not allow the
    /// caller.
    ///
    /// # Errors
    /// The route asks for no credentials, so it would get no caller from a client.
    pub(crate) fn admit_given(
        &self,
        caller: Caller,
        head: &RequestHead,
        cells: &WorkerCells,
    ) -> Result<Result<Rc<Caller>, Box<Reply>>, String> {
        let Some(guard) = &self.auth else {
            return Err(format!("route {:?} has no auth: remove auth from the request", self.path));
        };
        if !guard.allows(&caller) {
            return Ok(Err(self.deny(guard, &Denied::Forbidden, head, cells)));
        }
        let caller = Rc::new(caller);
        Ok(self.admit_caller(&caller, head, Instant::now(), cells).map(|()| caller))
    }

    fn admit_caller(
        &self,
        caller: &Rc<Caller>,
        head: &RequestHead,
        now: Instant,
        cells: &WorkerCells,
    ) -> Result<(), Box<Reply>> {
        let Some(throttle) = &self.throttle else { return Ok(()) };
        let admitted = throttle.admit_caller(&caller.name, now);
        admitted.map_err(|excess| {
            self.exceeded((throttle, excess), Sender::Caller(&caller.name), head, now, cells)
        })
    }

    /// Counts and logs a refusal, and creates its reply.
    #[cold]
    fn deny(&self, guard: &Guard, denied: &Denied, head: &RequestHead, cells: &WorkerCells) -> Box<Reply> {
        let reply = self.granted(denied.reply(guard.spec()), head);
        let reason = match denied.counted() {
            Counted::Fault(fault) => {
                self.cells.count_fault(fault);
                fault.name()
            }
            Counted::Refusal(refusal) => {
                cells.count_refusal(refusal);
                self.cells.count_refusal(refusal);
                refusal.name()
            }
        };
        tracing::debug!(
            route = self.path,
            method = head.method_name(),
            reason,
            status = reply.status.as_u16(),
            "request refused: {}",
            denied.text()
        );
        reply.into()
    }

    /// Returns whether this route may take over a request from the route `before`, whose handler passes it
    /// on.
    ///
    /// The credentials were checked at the first route. A route that asks for other credentials, or allows
    /// other callers, therefore does not take the request.
    pub(super) fn takes_over(&self, before: &Self, head: &RequestHead, caller: Option<&Caller>) -> bool {
        self.auth.as_ref().is_none_or(|guard| guard.takes_over(before.auth.as_ref(), head, caller))
    }

    /// Returns the field in which a backend gets the name of the caller.
    pub(crate) fn name_header(&self) -> Option<&str> {
        self.auth.as_ref()?.spec().name_header.as_deref()
    }
}
