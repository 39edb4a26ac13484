//! Whose connection it is, and whose request: the address of the peer, of its PROXY header, or what a trusted
//! proxy says in the request.

use std::net::IpAddr;

use tollgate_http::{RequestHead, StatusCode};

use crate::admit::RequestOrigin;
use crate::overload::{ClientPermit, refusal_text};
use crate::reply::Reply;
use crate::service::Rules;
use crate::worker::Worker;

/// Where a connection comes from, as it was accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// None for a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// A PROXY header has to come first.
    pub(crate) proxy_protocol: bool,
}

/// Whose a connection is.
#[derive(Default)]
pub(super) struct ConnectionClient {
    pub(super) peer: Option<IpAddr>,
    is_trusted_proxy: bool,
    permit: Option<Box<ClientPermit>>,
}

/// The client has as many connections as it may have.
#[derive(Clone, Copy)]
pub(super) struct TooMany;

impl ConnectionClient {
    /// Takes the place of `peer`. That of a trusted proxy is taken by the client of each request.
    pub(super) fn enter(peer: Option<IpAddr>, worker: &Worker, rules: &Rules) -> Result<Self, TooMany> {
        let mut client = Self { peer, is_trusted_proxy: rules.trusted_proxies.trusts(peer), permit: None };
        if !client.is_trusted_proxy {
            client.count_for(peer, worker)?;
        }
        Ok(client)
    }

    /// Looks again whether the peer is a proxy, under other rules. A connection that is there stays.
    pub(super) fn reconsider(&mut self, worker: &Worker, rules: &Rules) {
        let is_trusted_proxy = rules.trusted_proxies.trusts(self.peer);
        if self.is_trusted_proxy && !is_trusted_proxy {
            self.permit = None;
            // It stays even if the peer has too many.
            let _ = self.count_for(self.peer, worker);
        }
        self.is_trusted_proxy = is_trusted_proxy;
    }

    fn address(&self, head: &RequestHead, rules: &Rules) -> Option<IpAddr> {
        if self.is_trusted_proxy { rules.trusted_proxies.client(head, self.peer) } else { self.peer }
    }

    /// The client of a request, whose connection this is from its head on.
    #[inline]
    pub(super) fn of(
        &mut self,
        head: &RequestHead,
        worker: &Worker,
        rules: &Rules,
    ) -> Result<Option<IpAddr>, TooMany> {
        let client = self.address(head, rules);
        if !self.is_trusted_proxy {
            return Ok(client);
        }
        if rules.trusted_proxies.trusts(client) {
            self.permit = None;
        } else {
            self.count_for(client, worker)?;
        }
        Ok(client)
    }

    /// Whether it is a trusted proxy that hands on the requests of others.
    pub(super) fn is_trusted_proxy(&self) -> bool {
        self.is_trusted_proxy
    }

    /// Where a request of that client comes from.
    pub(super) fn origin(&self, client: Option<IpAddr>, rules: &Rules) -> RequestOrigin {
        let trusted_header = self.is_trusted_proxy.then_some(rules.trusted_proxies.header);
        RequestOrigin { client, peer: self.peer, trusted_header }
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
