//! A complete request, with the values that the handlers of its route need.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use tollgate_files::FileRequest;
use tollgate_http::UriScheme;
use tollgate_http::route::RouteTable;
use tollgate_script::Request;

use super::endpoint::Endpoint;
use crate::overload::RequestPermit;
use crate::trust::ClientHeader;
use crate::upload::Upload;

/// All routes of a configuration. `None` stands for the paths of an app that no route of the app matches.
pub(crate) type Routes = RouteTable<Option<Rc<Endpoint>>>;

/// A complete request in a handler.
pub(crate) struct Exchange {
    pub(crate) endpoint: Rc<Endpoint>,
    pub(crate) request: Rc<Request>,
    /// Routes to which a handler can pass the request.
    pub(crate) routes: Rc<Routes>,
    /// Time when the head was complete.
    pub(crate) begun: Instant,
    /// Address of the peer.
    pub(crate) peer: Option<IpAddr>,
    /// The header in which the peer names its client, if the peer is a trusted proxy.
    pub(crate) trusted_header: Option<ClientHeader>,
    /// The scheme of the connection.
    pub(crate) scheme: UriScheme,
    /// Permit that counts the request for its route, if the route limits concurrency.
    pub(crate) permit: Option<RequestPermit>,
    /// The content, while it still arrives.
    pub(crate) upload: Option<Rc<Upload>>,
}

impl Exchange {
    /// Returns whether a trusted proxy sent the request.
    pub(super) fn is_from_proxy(&self) -> bool {
        self.trusted_header.is_some()
    }

    /// Returns the request in the form for the file handler.
    pub(super) fn file_request(&self) -> FileRequest<'_> {
        let Request { head, place, id, time_us, .. } = &*self.request;
        FileRequest { head, place, id, begun: self.begun, time_us: *time_us }
    }

    pub(super) fn took_us(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}
