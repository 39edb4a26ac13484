//! A request whose head is complete, and its destination.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use tollgate_backend::UploadPlace;
use tollgate_http::route::MatchedPath;
use tollgate_http::{RequestHead, StatusCode, UriScheme};
use tollgate_script::TlsSession;

use crate::access_log::AccessEntry;
use crate::auth::Access;
use crate::cors::Grant;
use crate::handler::{Endpoint, Routes};
use crate::observe::WorkerCells;
use crate::options::{BodyPace, ConnectionLimits};
use crate::overload::RequestPermit;
use crate::reply::Reply;
use crate::trust::ClientHeader;
use crate::upload::Upload;
use crate::validation::RequestValidation;
use crate::verify::Verification;

/// Maximum bytes of a body that is read and discarded, so that the connection can be used again.
const DISCARDED_BODY_BYTES_MAX: u64 = 64 << 10;

/// A request whose head is complete.
pub(crate) struct Arrived {
    pub(crate) head: RequestHead,
    pub(crate) destination: Destination,
    /// Address of the client, if it is known.
    pub(crate) client: Option<IpAddr>,
    /// Time when the head was complete. `begun` is for durations. `time_us` is the same time for records, in
    /// microseconds since 1970.
    pub(crate) begun: Instant,
    pub(crate) time_us: i64,
    /// Access of the request to its route.
    pub(crate) access: Access,
    /// Permit that counts the request for its route, if the route limits concurrency.
    pub(crate) permit: Option<RequestPermit>,
    /// The verification of the signature, until the content is complete.
    pub(crate) verification: Option<Box<Verification>>,
    /// The validation of the content, until the content is complete.
    pub(crate) validation: Option<Box<RequestValidation>>,
    /// The content, if the handler begins before the content is complete.
    pub(crate) upload: Option<Rc<Upload>>,
    /// Whether the span of the request is exported.
    pub(crate) is_sampled: bool,
    /// The line of the request in the access log, if it gets one.
    pub(crate) line: Option<Box<AccessEntry>>,
}

/// Destination of a request.
pub(crate) enum Destination {
    /// A route handles the request.
    Endpoint { endpoint: Rc<Endpoint>, place: MatchedPath, routes: Rc<Routes> },
    /// The route refuses the request, and its stream records the refusal.
    Refused(Box<Refused>),
    /// The server answers without a handler. The reply is in a box, so that requests to routes stay small.
    Reply(Box<Reply>),
}

/// A request that its route refuses, and records.
pub(crate) struct Refused {
    pub(crate) endpoint: Rc<Endpoint>,
    pub(crate) place: MatchedPath,
    pub(crate) routes: Rc<Routes>,
    pub(crate) reply: Reply,
}

impl Destination {
    /// Returns the destination of a request that gets this refusal in place of its handler.
    #[cold]
    pub(crate) fn refused(self, reply: Box<Reply>) -> Self {
        match self {
            Self::Endpoint { endpoint, place, routes } if endpoint.records_refusal(&reply) => {
                Self::Refused(Refused { endpoint, place, routes, reply: *reply }.into())
            }
            _ => Self::Reply(reply),
        }
    }

    /// Takes the reply to a request that its route refuses and records. The destination is then the route.
    #[cold]
    pub(crate) fn take_refusal(&mut self) -> Option<Reply> {
        match std::mem::replace(self, Self::nowhere()) {
            Self::Refused(refused) => {
                let Refused { endpoint, place, routes, reply } = *refused;
                *self = Self::Endpoint { endpoint, place, routes };
                Some(reply)
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// Returns a destination for the moment of an exchange.
    fn nowhere() -> Self {
        Self::Reply(Reply::empty(StatusCode::NOT_FOUND).into())
    }
}

impl Arrived {
    /// Waits for the check of the credentials. A request without access gets a reply as its destination.
    ///
    /// # Cancel safety
    /// The wait can be repeated until it has returned once.
    pub(crate) async fn finish_check(&mut self, cells: &WorkerCells) {
        let Access::Checking(checking) = &mut self.access else { return };
        let Destination::Endpoint { endpoint, .. } = &self.destination else { return };
        match endpoint.finish_check(checking, &self.head, cells).await {
            Ok(access) => self.access = access,
            Err(reply) => {
                self.access = Access::Open;
                self.permit = None;
                self.refuse(reply);
            }
        }
    }

    /// Refuses the request in place of its handler.
    #[cold]
    fn refuse(&mut self, reply: Box<Reply>) {
        self.destination = std::mem::replace(&mut self.destination, Destination::nowhere()).refused(reply);
    }

    /// Returns the maximum size of the content, in bytes.
    pub(crate) fn body_bytes_max(&self) -> u64 {
        match &self.destination {
            Destination::Endpoint { endpoint, .. } => endpoint.body_bytes_max,
            Destination::Refused(_) | Destination::Reply(_) => DISCARDED_BODY_BYTES_MAX,
        }
    }

    /// Returns the pace at which the content has to arrive.
    pub(crate) fn body_pace(&self, limits: &ConnectionLimits) -> BodyPace {
        let own = match &self.destination {
            Destination::Endpoint { endpoint, .. } => endpoint.body_pace,
            Destination::Refused(_) | Destination::Reply(_) => None,
        };
        own.unwrap_or(limits.body_pace)
    }

    /// Returns the number of bytes of the content that the rules of the route read before its handler begins.
    pub(crate) fn look_ahead_bytes(&self) -> usize {
        match &self.destination {
            Destination::Endpoint { endpoint, .. } => {
                endpoint.choice.as_ref().map_or(0, |choice| choice.look_ahead_bytes)
            }
            Destination::Refused(_) | Destination::Reply(_) => 0,
        }
    }

    /// Returns a permit to start the handler while the content still arrives.
    pub(crate) fn upload_place(&self) -> Option<UploadPlace> {
        match &self.destination {
            Destination::Endpoint { endpoint, .. } => endpoint.upload_place(),
            Destination::Refused(_) | Destination::Reply(_) => None,
        }
    }

    /// Returns the CORS permission for the reply.
    pub(crate) fn grant(&self) -> Option<Grant> {
        match &self.destination {
            Destination::Endpoint { endpoint, .. } => {
                endpoint.cors.as_ref().map(|cors| cors.grant(&self.head))
            }
            Destination::Refused(_) | Destination::Reply(_) => None,
        }
    }

    /// Begins to verify the signature, if the route needs one. If the head decides that no signature holds,
    /// the request is answered at once.
    #[inline]
    pub(crate) fn begin_verification(&mut self, scheme: impl FnOnce(&RequestHead) -> UriScheme) {
        let Destination::Endpoint { endpoint, .. } = &self.destination else { return };
        let Some(verify) = &endpoint.verify else { return };
        let now_s = self.time_us.div_euclid(1_000_000);
        match verify.begin(&self.head, scheme(&self.head), now_s) {
            Ok(verification) => self.verification = Some(verification.into()),
            Err(fault) => {
                let refusal = endpoint.refuse_signature(&fault, &self.head);
                self.refuse(refusal.into());
            }
        }
    }

    /// Ends the verification. If the signature does not hold, the request gets a refusal in place of its
    /// handler.
    #[inline]
    pub(crate) fn end_verification(&mut self) {
        if let Some(verification) = self.verification.take() {
            self.finish_verification(*verification);
        }
    }

    fn finish_verification(&mut self, verification: Verification) {
        if let Err(fault) = verification.finish()
            && let Destination::Endpoint { endpoint, .. } = &self.destination
        {
            let refusal = endpoint.refuse_signature(&fault, &self.head);
            self.refuse(refusal.into());
        }
    }

    /// Begins to validate the content, if the route validates requests.
    #[inline]
    pub(crate) fn begin_validation(&mut self) {
        let Destination::Endpoint { endpoint, .. } = &self.destination else { return };
        let Some(validation) = &endpoint.validation else { return };
        self.validation = validation.begin_request(&self.head, &endpoint.cells).map(Box::new);
    }

    /// Validates the next bytes of the content for a slice. Returns the number of bytes that need no further
    /// look. At a fault, the request gets a refusal in place of its handler, unless its signature is not
    /// verified yet.
    pub(crate) fn validate(&mut self, bytes: &[u8]) -> usize {
        let Some(validation) = &mut self.validation else { return bytes.len() };
        let fed = validation.feed(bytes);
        if self.verification.is_none() {
            self.refuse_invalid();
        }
        fed
    }

    /// Ends the validation of the complete content. The signature is verified before.
    #[inline]
    pub(crate) fn end_validation(&mut self) {
        if let Some(validation) = &mut self.validation {
            validation.finish();
            self.refuse_invalid();
            self.validation = None;
        }
    }

    /// Refuses a request whose content has a fault, if the route refuses such requests.
    fn refuse_invalid(&mut self) {
        if let Some(refusal) = self.validation.as_ref().and_then(|validation| validation.refusal())
            && let Destination::Endpoint { endpoint, .. } = &self.destination
        {
            let refusal = endpoint.refuse_document(refusal, &self.head);
            self.refuse(refusal.into());
            self.validation = None;
        }
    }

    /// Takes the line of the request, with the caller.
    pub(crate) fn take_line(&mut self) -> Option<Box<AccessEntry>> {
        let mut line = self.line.take()?;
        line.note_caller(self.access.caller());
        Some(line)
    }

    /// Returns whether the reply is known before the body has arrived.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.destination, Destination::Refused(_) | Destination::Reply(_))
    }
}

/// Origin of a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestOrigin {
    /// Address of the client. `None` if no trusted source names the address.
    pub(crate) client: Option<IpAddr>,
    /// Address of the peer of the connection.
    pub(crate) peer: Option<IpAddr>,
    /// The header in which the peer names its client, if the peer is a trusted proxy.
    pub(crate) trusted_header: Option<ClientHeader>,
    /// The scheme of the connection.
    pub(crate) scheme: UriScheme,
    /// The TLS session of the connection.
    pub(crate) tls: Option<Rc<TlsSession>>,
}
