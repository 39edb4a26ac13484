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
    /// Those that got no reply, or no whole one.
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

/// One address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressSnapshot {
    /// The address.
    pub address: String,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Requests that it has not answered.
    pub outstanding: usize,
    /// Connections that are kept.
    pub idle: usize,
}
