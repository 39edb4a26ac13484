//! A request whose head has come, and where it leads.

use std::rc::Rc;
use std::time::Instant;

use tollgate_http::RequestHead;

use crate::handler::Endpoint;
use crate::reply::Reply;

/// Bytes of a body that is read only to be thrown away, so that the connection can go on.
const DISCARDED_BODY_BYTES_MAX: u64 = 64 << 10;

/// A request whose head has come.
pub(crate) struct Arrived {
    pub(crate) head: RequestHead,
    pub(crate) destination: Destination,
    /// The path, decoded and normalised; empty if it has no such form.
    pub(crate) path: String,
    /// When the head was complete: for durations, and for records in microseconds since 1970.
    pub(crate) begun: Instant,
    pub(crate) time_us: i64,
}

/// Where a request leads.
pub(crate) enum Destination {
    /// A route takes it.
    Endpoint { endpoint: Rc<Endpoint>, params: Vec<(String, String)>, path_info: String },
    /// The server answers by itself.
    Reply(Reply),
}

impl Arrived {
    /// Bytes of content that may come.
    pub(crate) fn body_bytes_max(&self) -> u64 {
        match &self.destination {
            Destination::Endpoint { endpoint, .. } => endpoint.body_bytes_max,
            Destination::Reply(_) => DISCARDED_BODY_BYTES_MAX,
        }
    }

    /// Whether the answer is known before the body came.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.destination, Destination::Reply(_))
    }
}
