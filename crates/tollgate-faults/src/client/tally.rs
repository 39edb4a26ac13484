//! The tally of the connections of clients.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How clients fared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections that were made.
    pub connected: u64,
    /// Those that could not be made.
    pub unconnected: u64,
    /// Of those made, those that are open now.
    pub open: u64,
    /// Of those made, those that the server ended.
    pub closed: u64,
    /// Of those made, those that the server reset.
    pub reset: u64,
    /// Of those made, those that their client ended, as its fault says.
    pub left: u64,
    /// The status of the first reply on each connection that had one, and how many had it.
    pub statuses: BTreeMap<u16, u64>,
    /// The bytes that came, of all connections.
    pub bytes: u64,
    /// How long the connection that was open for the longest was open, of those that ended.
    pub open_for_max: Duration,
}

impl Tally {
    /// How many came to their end, or were never there.
    pub fn ended(&self) -> u64 {
        self.closed + self.reset + self.left + self.unconnected
    }
}

/// The tally that the thread of the clients and its handle share.
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
