//! How backends do, as values: for metrics and the status.

use crate::{BreakerState, HandshakeFault};

/// One backend. Counters count since the backend was made: at the start, or at a reload that changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendSnapshot {
    /// Its name.
    pub name: String,
    /// The best state of its addresses: open once all of them are.
    pub breaker: BreakerState,
    /// Requests in flight.
    pub in_flight: usize,
    /// Requests that wait for a place.
    pub queued: usize,
    /// Requests that came for it.
    pub requests: u64,
    /// Those that got no reply, or no whole one, but for those that their clients broke off.
    pub failures: u64,
    /// Of these, those that asked nobody: no place, no address, breakers open.
    pub refusals: u64,
    /// How often a request that had failed was sent to another address.
    pub retries: u64,
    /// How often one was sent on a new connection, because a kept one turned out to be closed.
    pub resends: u64,
    /// Connections that were made.
    pub connects: u64,
    /// Handshakes of TLS that failed, by why; none where it is asked without.
    pub handshake_failures: [(&'static str, u64); HandshakeFault::ALL.len()],
    /// Its addresses; none while no name of it is known.
    pub addresses: Vec<AddressSnapshot>,
    /// Names that were not found the last time; what was known of them before is used.
    pub missing_names: Vec<String>,
}

/// What an address is held to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressState {
    /// It could be connected to; its breaker is closed.
    Closed,
    /// It was left alone, and nobody has tried it for a minute.
    Untried,
    /// It was left alone: a few requests try it, or the next ones will.
    HalfOpen,
    /// It is left alone.
    Open,
    /// It could not be connected to when that was last tried: it is asked last.
    Unreachable,
}

impl AddressState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Closed, Self::Untried, Self::HalfOpen, Self::Open, Self::Unreachable];

    /// Returns its name, as metrics and the status have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Untried => "untried",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
            Self::Unreachable => "unreachable",
        }
    }

    /// Whether others are asked in its place, all the time or but for a few requests that try it.
    pub const fn is_failing(self) -> bool {
        matches!(self, Self::HalfOpen | Self::Open | Self::Unreachable)
    }
}

/// One address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressSnapshot {
    /// The address.
    pub address: String,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Whether it could not be connected to when that was last tried, which was not long ago.
    pub is_lost: bool,
    /// Requests that it has not answered.
    pub outstanding: usize,
    /// Connections that are kept.
    pub idle: usize,
}

impl AddressSnapshot {
    /// What it is held to be.
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
