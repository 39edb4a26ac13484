//! A request whose head has come, and where it leads.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use tollgate_backend::UploadPlace;
use tollgate_http::RequestHead;
use tollgate_http::route::MatchedPath;

use crate::cors::Grant;
use crate::handler::{Endpoint, Routes};
use crate::options::{BodyPace, ConnectionLimits};
use crate::overload::RequestPermit;
use crate::reply::Reply;
use crate::trust::ClientHeader;
use crate::upload::Upload;

/// Bytes of a body that is read only to be thrown away, so that the connection can go on.
const DISCARDED_BODY_BYTES_MAX: u64 = 64 << 10;

/// A request whose head has come.
pub(crate) struct Arrived {
    pub(crate) head: RequestHead,
    pub(crate) destination: Destination,
    /// Who asks, where that is known.
    pub(crate) client: Option<IpAddr>,
    /// When the head was complete: for durations, and for records in microseconds since 1970.
    pub(crate) begun: Instant,
    pub(crate) time_us: i64,
    /// Its place among those of its route, where they are counted.
    pub(crate) permit: Option<RequestPermit>,
    /// Its content, where the handler begins before that is whole.
    pub(crate) upload: Option<Rc<Upload>>,
}

/// Where a request leads.
pub(crate) enum Destination {
    /// A route takes it.
    Endpoint { endpoint: Rc<Endpoint>, place: MatchedPath, routes: Rc<Routes> },
    /// The server answers by itself. In a box, so that requests on their way elsewhere stay small.
    Reply(Box<Reply>),
}

impl Arrived {
    /// Bytes of content that may come.
    pub(crate) fn body_bytes_max(&self) -> u64 {
        match &self.destination {
            Destination::Endpoint { endpoint, .. } => endpoint.body_bytes_max,
            Destination::Reply(_) => DISCARDED_BODY_BYTES_MAX,
        }
    }

    /// How fast the content has to come.
    pub(crate) fn body_pace(&self, limits: &ConnectionLimits) -> BodyPace {
        let own = match &self.destination {
            Destination::Endpoint { endpoint, .. } => endpoint.body_pace,
            Destination::Reply(_) => None,
        };
        own.unwrap_or(limits.body_pace)
    }

    /// Leave to have the handler begin with a content that is still coming.
    pub(crate) fn upload_place(&self) -> Option<UploadPlace> {
        match &self.destination {
            Destination::Endpoint { endpoint, .. } => endpoint.upload_place(),
            Destination::Reply(_) => None,
        }
    }

    /// What a reply to it says to pages of other origins.
    pub(crate) fn grant(&self) -> Option<Grant> {
        match &self.destination {
            Destination::Endpoint { endpoint, .. } => {
                endpoint.cors.as_ref().map(|cors| cors.grant(&self.head))
            }
            Destination::Reply(_) => None,
        }
    }

    /// Whether the answer is known before the body came.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.destination, Destination::Reply(_))
    }
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestOrigin {
    /// Who asks, as far as those are trusted who say so.
    pub(crate) client: Option<IpAddr>,
    /// Who sent it.
    pub(crate) peer: Option<IpAddr>,
    /// The header in which the peer names its client, if the peer is a trusted proxy.
    pub(crate) trusted_header: Option<ClientHeader>,
}
