//! The client of a connection, and of each of its requests. The address comes from the socket, from a PROXY
//! header, or from a field that a trusted proxy sends.

use std::net::IpAddr;
use std::rc::Rc;

use tollgate_http::{RequestHead, StatusCode, UriScheme};
use tollgate_script::TlsSession;

use crate::admit::RequestOrigin;
use crate::overload::{ClientPermit, refusal_text};
use crate::reply::Reply;
use crate::service::Rules;
use crate::trust::ClientHeader;
use crate::worker::Worker;

/// Origin of an accepted connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// Address of the peer. `None` for a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// Whether the connection must begin with a PROXY header.
    pub(crate) proxy_protocol: bool,
    /// Whether the connection uses TLS.
    pub(crate) tls: bool,
    /// Whether requests without TLS get a redirect to HTTPS.
    pub(crate) redirect_to_https: bool,
}

impl Origin {
    pub(super) fn scheme(&self) -> UriScheme {
        if self.tls { UriScheme::Https } else { UriScheme::Http }
    }
}

/// The client for which a connection is counted.
#[derive(Default)]
pub(super) struct ConnectionClient {
    pub(super) peer: Option<IpAddr>,
    is_trusted_proxy: bool,
    scheme: UriScheme,
    redirect_to_https: bool,
    /// The TLS session of the connection.
    tls: Option<Rc<TlsSession>>,
    permit: Option<Box<ClientPermit>>,
    /// Whether the first request was searched for fields of an untrusted proxy.
    is_searched: bool,
}

/// The client already has the maximum number of connections.
#[derive(Clone, Copy)]
pub(super) struct TooMany;

impl ConnectionClient {
    /// Counts the connection for `peer`. A connection from a trusted proxy is counted for the client of each
    /// request.
    pub(super) fn enter(
        peer: Option<IpAddr>,
        origin: &Origin,
        worker: &Worker,
        rules: &Rules,
    ) -> Result<Self, TooMany> {
        let is_trusted_proxy = rules.trusted_proxies.trusts(peer);
        let (scheme, redirect_to_https) = (origin.scheme(), origin.redirect_to_https);
        let (tls, permit, is_searched) = (None, None, false);
        let mut client = Self { peer, is_trusted_proxy, scheme, redirect_to_https, tls, permit, is_searched };
        if !client.is_trusted_proxy {
            client.count_for(peer, worker)?;
        }
        Ok(client)
    }

    /// Checks under new rules whether the peer is a trusted proxy. This check never closes the connection.
    pub(super) fn reconsider(&mut self, worker: &Worker, rules: &Rules) {
        let is_trusted_proxy = rules.trusted_proxies.trusts(self.peer);
        if self.is_trusted_proxy && !is_trusted_proxy {
            self.permit = None;
            // The connection stays open even if its client now exceeds the maximum number of connections.
            let _ = self.count_for(self.peer, worker);
        }
        self.is_trusted_proxy = is_trusted_proxy;
    }

    fn address(&self, head: &RequestHead, rules: &Rules) -> Option<IpAddr> {
        if self.is_trusted_proxy { rules.trusted_proxies.client(head, self.peer) } else { self.peer }
    }

    /// Returns the client of a request. A connection from a trusted proxy counts for this client from now on.
    #[inline]
    pub(super) fn of(
        &mut self,
        head: &RequestHead,
        worker: &Worker,
        rules: &Rules,
    ) -> Result<Option<IpAddr>, TooMany> {
        let client = self.address(head, rules);
        if !self.is_trusted_proxy {
            if !self.is_searched {
                self.search_first_request(head, worker);
            }
            return Ok(client);
        }
        if rules.trusted_proxies.trusts(client) {
            self.permit = None;
        } else {
            self.count_for(client, worker)?;
        }
        Ok(client)
    }

    /// Reports a peer that is no trusted proxy, and names a client in the first request of its connection.
    /// The server ignores such a client, so all clients of a proxy that is not configured count as one.
    #[cold]
    fn search_first_request(&mut self, head: &RequestHead, worker: &Worker) {
        self.is_searched = true;
        if ClientHeader::ALL.into_iter().any(|header| head.field_bytes(header.name()).is_some()) {
            worker.cells.untrusted_proxies.add(1);
            worker.capacity.note_untrusted_proxy(self.peer);
        }
    }

    /// Returns whether the peer is a trusted proxy that forwards the requests of others.
    pub(super) fn is_trusted_proxy(&self) -> bool {
        self.is_trusted_proxy
    }

    /// Returns the scheme that the client of a request used. A trusted proxy that ended TLS tells the scheme.
    pub(super) fn scheme_of(&self, head: &RequestHead, rules: &Rules) -> UriScheme {
        let told = if self.is_trusted_proxy { rules.trusted_proxies.scheme(head) } else { None };
        told.unwrap_or(self.scheme)
    }

    /// Returns the redirect for a request that did not use TLS, if its address leads clients to HTTPS.
    #[inline]
    pub(super) fn redirect(&self, head: &RequestHead, rules: &Rules) -> Option<Reply> {
        if !self.redirect_to_https || self.scheme_of(head, rules) == UriScheme::Https {
            return None;
        }
        rules.https.redirect(head)
    }

    /// Returns whether the reply to a request announces the policy of `Strict-Transport-Security`. A browser
    /// ignores the policy without TLS (RFC 6797 section 7.2).
    #[inline]
    pub(super) fn gets_policy(&self, head: &RequestHead, rules: &Rules) -> bool {
        rules.https.has_policy() && self.scheme_of(head, rules) == UriScheme::Https
    }

    /// Sets the TLS session of the connection.
    pub(super) fn set_tls(&mut self, tls: Option<Rc<TlsSession>>) {
        self.tls = tls;
    }

    /// Returns the TLS session of the connection.
    #[inline]
    pub(super) fn tls(&self) -> Option<&TlsSession> {
        self.tls.as_deref()
    }

    /// Returns whether the connection uses TLS.
    pub(super) fn uses_tls(&self) -> bool {
        self.scheme == UriScheme::Https
    }

    /// Returns the origin of a request from `client`.
    pub(super) fn origin(&self, client: Option<IpAddr>, rules: &Rules) -> RequestOrigin {
        let trusted_header = self.is_trusted_proxy.then_some(rules.trusted_proxies.header);
        RequestOrigin { client, peer: self.peer, trusted_header, scheme: self.scheme, tls: self.tls.clone() }
    }

    fn count_for(&mut self, client: Option<IpAddr>, worker: &Worker) -> Result<(), TooMany> {
        if !worker.capacity.counts_clients()
            || self.permit.as_ref().is_some_and(|permit| permit.is_of(client))
        {
            return Ok(());
        }
        self.permit = None;
        let Some(client) = client else { return Ok(()) };
        self.permit = Some(Box::new(worker.capacity.admit_client(client).ok_or(TooMany)?));
        Ok(())
    }
}

impl TooMany {
    pub(super) fn reply(&self) -> Reply {
        Reply::refused(StatusCode::TOO_MANY_REQUESTS, refusal_text::CLIENT_CONNECTIONS)
    }
}
