//! The state of backends as values, for metrics and status.

use crate::{BreakerState, HandshakeFault};

/// The state of one backend.
///
/// The counters start at 0 when the backend is created: at the start of the server, or at a reload that
/// changed the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendSnapshot {
    /// Name of the backend in the configuration.
    pub name: String,
    /// The best breaker state of the addresses. The state is open only if the breakers of all addresses are
    /// open.
    pub breaker: BreakerState,
    /// Number of requests in flight.
    pub in_flight: usize,
    /// Number of requests that wait for admission.
    pub queued: usize,
    /// Number of requests for the backend.
    pub requests: u64,
    /// Number of requests without a complete reply. Requests that were broken off by their clients are not
    /// counted.
    pub failures: u64,
    /// Number of failures without an attempt: no admission, no address, or open breakers.
    pub refusals: u64,
    /// Number of times that a failed request was sent to another address.
    pub retries: u64,
    /// Number of times that a request moved to a new connection, because a kept one was already closed.
    pub resends: u64,
    /// Number of connections that were created.
    pub connects: u64,
    /// Failed TLS handshakes by cause. All counts are zero without TLS.
    pub handshake_failures: [(&'static str, u64); HandshakeFault::ALL.len()],
    /// The addresses. Empty while none of its names is known.
    pub addresses: Vec<AddressSnapshot>,
    /// Names whose last lookup failed. The addresses from earlier lookups stay in use.
    pub missing_names: Vec<String>,
}

/// State of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressState {
    /// The address is reachable, and its breaker is closed.
    Closed,
    /// The breaker was open, and no request has probed the address for a minute.
    Untried,
    /// The breaker was open. A few requests probe the address, or the next requests will.
    HalfOpen,
    /// The breaker is open, so the address gets no requests.
    Open,
    /// The last connection attempt failed, so the address is tried last.
    Unreachable,
}

impl AddressState {
    /// All states of an address.
    pub const ALL: [Self; 5] = [Self::Closed, Self::Untried, Self::HalfOpen, Self::Open, Self::Unreachable];

    /// Returns the name in metrics and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Untried => "untried",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
            Self::Unreachable => "unreachable",
        }
    }

    /// Returns whether requests go to other addresses instead, except for a few probes.
    pub const fn is_failing(self) -> bool {
        matches!(self, Self::HalfOpen | Self::Open | Self::Unreachable)
    }
}

/// The state of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressSnapshot {
    /// Address of the backend, as text.
    pub address: String,
    /// State of its breaker.
    pub breaker: BreakerState,
    /// Whether the last connection attempt failed recently.
    pub is_lost: bool,
    /// Number of requests that the address has not yet replied to.
    pub outstanding: usize,
    /// Idle connections.
    pub idle: usize,
}

impl AddressSnapshot {
    /// Returns the state of the address.
    pub const fn state(&self) -> AddressState {
        match self.breaker {
            BreakerState::Open => AddressState::Open,
            _ if self.is_lost => AddressState::Unreachable,
            BreakerState::HalfOpen => AddressState::HalfOpen,
            BreakerState::Untried => AddressState::Untried,
            BreakerState::Closed => AddressState::Closed,
        }
    }
}
