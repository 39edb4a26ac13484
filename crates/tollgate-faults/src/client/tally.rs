//! The counts of the clients' connections.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The results of the clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of connections that were made.
    pub connected: u64,
    /// Number of connections that could not be made.
    pub unconnected: u64,
    /// Number of connections that are open now.
    pub open: u64,
    /// Number of connections that the server closed.
    pub closed: u64,
    /// Number of connections that the server reset.
    pub reset: u64,
    /// Number of connections that the client ended, as its fault says.
    pub left: u64,
    /// For each status, the number of connections whose first reply had it.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes received on all connections.
    pub bytes: u64,
    /// The longest time that an ended connection was open.
    pub open_for_max: Duration,
}

impl Tally {
    /// Returns the number of connections that ended or could not be made.
    pub fn ended(&self) -> u64 {
        self.closed + self.reset + self.left + self.unconnected
    }
}

/// The counts that the thread of the clients and its handle share.
#[derive(Default)]
pub(super) struct SharedTally {
    tally: Mutex<Tally>,
    pub(super) changed: Condvar,
}

impl SharedTally {
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, what: impl FnOnce(&mut Tally)) {
        what(&mut self.tally());
        self.changed.notify_all();
    }
}
