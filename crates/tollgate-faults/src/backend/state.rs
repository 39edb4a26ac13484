//! The state of a backend. Its thread writes the state, and its handle reads it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::fault::Fault;
use crate::request::Request;

/// The counts of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Number of accepted connections.
    pub connections: u64,
    /// Number of connections that are open now.
    pub open: u64,
    /// Highest number of connections open at the same time.
    pub open_max: u64,
    /// Number of requests whose heads arrived.
    pub requests: u64,
    /// Number of requests whose reply is not finished yet.
    pub in_flight: u64,
    /// Highest number of requests in flight at the same time.
    pub in_flight_max: u64,
}

/// The state that the thread and the handle of a backend share.
pub(super) struct BackendState {
    observed: Mutex<Observed>,
    pub(super) changed: Condvar,
    pub(super) change: watch::Sender<Fault>,
}

/// Requests and counts of the thread, and the results of the changes of its fault.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) seen: Seen,
    pub(super) requests: VecDeque<Request>,
    /// Number of changes of the fault that the thread has applied.
    pub(super) changes: u64,
    pub(super) failed: Option<io::Error>,
}

impl BackendState {
    pub(super) fn new(change: watch::Sender<Fault>) -> Self {
        Self { observed: Mutex::default(), changed: Condvar::new(), change }
    }

    pub(super) fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, what: impl FnOnce(&mut Observed)) {
        what(&mut self.observed());
        self.changed.notify_all();
    }

    pub(super) fn remember(&self, request: &Request) {
        self.note(|observed| {
            if observed.requests.len() == REQUESTS_KEPT_MAX {
                observed.requests.pop_front();
            }
            observed.requests.push_back(request.clone());
        });
    }
}

/// Maximum number of requests that are kept. The oldest request is dropped first.
const REQUESTS_KEPT_MAX: usize = 1000;
