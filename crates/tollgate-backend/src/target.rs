//! One address of a backend, with the state that all workers share.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::ServerName;

use crate::breaker::{AttemptResult, Breaker, BreakerChange, BreakerPermit};
use crate::reachability::Reachability;
use crate::tls::server_name;
use crate::{Address, BackendOptions, BreakerOptions, FailureKind, Phase, Scheme};

/// Target of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetAddress {
    Tcp(SocketAddr),
    /// A socket address over TLS. The certificate must be for `name`.
    Tls {
        address: SocketAddr,
        name: ServerName<'static>,
    },
    Unix(PathBuf),
}

impl TargetAddress {
    /// Returns the target for a socket address that belongs to a configured address.
    pub(crate) fn at(
        socket: SocketAddr,
        scheme: Scheme,
        address: &Address,
        options: &BackendOptions,
    ) -> Self {
        if scheme == Scheme::Http {
            return Self::Tcp(socket);
        }
        let configured = options.tls.as_ref().and_then(|tls| tls.server_name());
        let name = match (configured, address) {
            (Some(name), _) => Some(name.clone()),
            // The name was checked when the address was parsed.
            (None, Address::Name { name, .. }) => server_name(name).ok(),
            (None, _) => None,
        };
        Self::Tls { address: socket, name: name.unwrap_or_else(|| socket.ip().into()) }
    }
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Tls { address, name: ServerName::DnsName(name) } => {
                write!(f, "{address} ({})", name.as_ref())
            }
            Self::Tls { address, .. } => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) place: TargetAddress,
    pub(crate) breaker: Breaker,
    pub(crate) reach: Reachability,
    /// Number of requests that the address has not yet replied to.
    pub(crate) outstanding: AtomicUsize,
    /// Idle connections of all workers.
    pub(crate) idle: AtomicUsize,
}

impl Target {
    pub(crate) fn new(place: TargetAddress, breaker: &BreakerOptions) -> Self {
        Self {
            place,
            breaker: Breaker::new(breaker),
            reach: Reachability::default(),
            outstanding: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Admits a request, if the breaker allows it.
    pub(crate) fn admit(&self, now_ms: u64) -> Option<BreakerPermit> {
        let pass = self.breaker.admit(now_ms)?;
        self.reach.try_on(now_ms);
        Some(pass)
    }

    /// Records that the address accepted a connection or replied. Logs if it was unreachable before.
    pub(crate) fn find(&self, backend: &str) {
        if self.reach.find() {
            tracing::info!(backend, address = %self.place, "the address is reachable again");
        }
    }

    /// Records that a connection failed. Logs if the address was reachable before.
    pub(crate) fn lose(&self, backend: &str, phase: Phase, kind: &FailureKind, now_ms: u64) {
        if kind.blames_backend() && self.reach.lose(now_ms) {
            tracing::warn!(backend, address = %self.place, "the address is unreachable, {phase}: {kind}");
        }
    }

    /// Reports the result of a request to the breaker, and logs a change of its state.
    pub(crate) fn conclude(&self, backend: &str, pass: BreakerPermit, result: AttemptResult, now_ms: u64) {
        let address = &self.place;
        match self.breaker.conclude(pass, result, now_ms) {
            None => {}
            Some(BreakerChange::Opened { requests, failures }) => {
                let text = "the breaker opened: the address gets no request";
                tracing::warn!(backend, %address, requests, failures, "{text}");
            }
            Some(BreakerChange::OpenedAgain) => {
                tracing::warn!(backend, %address, "the breaker opened again: the address gets no request");
            }
            Some(BreakerChange::Closed) => {
                tracing::info!(backend, %address, "the breaker closed: the address gets requests");
            }
        }
    }
}
