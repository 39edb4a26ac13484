//! One address of a backend, as all workers see it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::ServerName;

use crate::breaker::{AttemptResult, Breaker, BreakerChange, BreakerPermit};
use crate::reachability::Reachability;
use crate::tls::server_name;
use crate::{Address, BackendOptions, BreakerOptions, FailureKind, Phase, Scheme};

/// Where connections lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetAddress {
    Tcp(SocketAddr),
    /// Over TLS, with whom certificates have to be for.
    Tls {
        address: SocketAddr,
        name: ServerName<'static>,
    },
    Unix(PathBuf),
}

impl TargetAddress {
    /// A socket address that an address leads to.
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
            // It was looked at when the address was read.
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
    /// Requests that it was asked and has not answered.
    pub(crate) outstanding: AtomicUsize,
    /// Connections that workers keep.
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

    /// Lets a request through, if it may be.
    pub(crate) fn admit(&self, now_ms: u64) -> Option<BreakerPermit> {
        let pass = self.breaker.admit(now_ms)?;
        self.reach.try_on(now_ms);
        Some(pass)
    }

    /// It could be connected to, or answered: tells if that is news.
    pub(crate) fn find(&self, backend: &str) {
        if self.reach.find() {
            tracing::info!(backend, address = %self.place, "reachable again");
        }
    }

    /// It could not be connected to: tells if that is news.
    pub(crate) fn lose(&self, backend: &str, phase: Phase, kind: &FailureKind, now_ms: u64) {
        if kind.blames_backend() && self.reach.lose(now_ms) {
            tracing::warn!(backend, address = %self.place, "unreachable, {phase}: {kind}");
        }
    }

    /// Takes what became of a request, and tells of a breaker that changed.
    pub(crate) fn conclude(&self, backend: &str, pass: BreakerPermit, result: AttemptResult, now_ms: u64) {
        let address = &self.place;
        match self.breaker.conclude(pass, result, now_ms) {
            None => {}
            Some(BreakerChange::Opened { requests, failures }) => {
                tracing::warn!(backend, %address, requests, failures, "breaker opened");
            }
            Some(BreakerChange::OpenedAgain) => tracing::warn!(backend, %address, "breaker opened again"),
            Some(BreakerChange::Closed) => tracing::info!(backend, %address, "breaker closed"),
        }
    }
}
