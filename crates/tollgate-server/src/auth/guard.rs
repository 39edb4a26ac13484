//! Decides whether a request may use one route.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_auth::{Identity, Requirement};
use tollgate_http::RequestHead;
use tollgate_script::Caller;

use super::authenticator::{Authenticator, Check};
use super::checking::Checking;
use super::denied::Denied;
use crate::clock::Moment;
use crate::cors::is_preflight;
use crate::options::AuthSpec;

/// The credentials that a route asks for, and the callers that may use it.
#[derive(Debug)]
pub(crate) struct Guard {
    authenticator: Arc<Authenticator>,
    requirement: Requirement,
}

/// The access of a request to its route.
#[derive(Debug, Default)]
pub(crate) enum Access {
    /// The route asks for no credentials, or the request is a preflight.
    #[default]
    Open,
    /// The caller is known and may use the route.
    Known(Rc<Caller>),
    /// The check needs a wait.
    Checking(Box<Checking>),
}

impl Access {
    /// Returns the caller, if it is known.
    pub(crate) fn caller(&self) -> Option<&Rc<Caller>> {
        match self {
            Self::Known(caller) => Some(caller),
            Self::Open | Self::Checking(_) => None,
        }
    }
}

impl Guard {
    pub(crate) fn new(authenticator: Arc<Authenticator>, requirement: Requirement) -> Self {
        Self { authenticator, requirement }
    }

    pub(crate) fn spec(&self) -> &AuthSpec {
        &self.authenticator.spec
    }

    /// Decides about a request by its head.
    ///
    /// A preflight passes, because a browser sends no credentials with it (Fetch standard, section 3.3.5).
    pub(crate) fn check(
        &self,
        head: &RequestHead,
        client: impl Fn() -> Option<IpAddr>,
        now: Moment,
    ) -> Result<Access, Denied> {
        if is_preflight(head) {
            return Ok(Access::Open);
        }
        match self.authenticator.check(head, &client, now)? {
            Check::Known(identity) => self.admit(identity).map(Access::Known),
            Check::Waits(wait) => {
                Ok(Access::Checking(Box::new(Checking::new(self.authenticator.clone(), wait, client()))))
            }
        }
    }

    /// Waits for a check by a thread, and decides about the request.
    ///
    /// # Cancel safety
    /// The wait can be repeated until it has returned once.
    pub(crate) async fn finish(&self, checking: &mut Checking) -> Result<Rc<Caller>, Denied> {
        self.admit(checking.identity().await?)
    }

    fn admit(&self, identity: Identity) -> Result<Rc<Caller>, Denied> {
        if !self.requirement.allows(&identity) {
            return Err(Denied::Forbidden);
        }
        let Identity { scheme, name, claims } = identity;
        Ok(Rc::new(Caller { scheme: scheme.name(), name, claims }))
    }

    /// Returns whether the route allows a caller that is already known.
    pub(crate) fn allows(&self, caller: &Caller) -> bool {
        self.requirement.allows_named(&caller.name, caller.claims.as_ref())
    }

    /// Returns whether a request that the guard `before` admitted may also use the route of this guard.
    pub(crate) fn takes_over(
        &self,
        before: Option<&Self>,
        head: &RequestHead,
        caller: Option<&Caller>,
    ) -> bool {
        let is_same = before.is_some_and(|before| Arc::ptr_eq(&before.authenticator, &self.authenticator));
        is_preflight(head) || (is_same && caller.is_some_and(|caller| self.allows(caller)))
    }
}
