//! The state that the thread of leases, the fetcher and the loaders share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_log::LogId;

use super::plan::LogOffer;

/// Longest wait for the leases of logs that are offered for the first time.
const OFFER_WAIT: Duration = Duration::from_secs(5);

/// The leases of a loader at its last turn.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Logs that the loader has a lease for, in at least one sink.
    pub(super) logs: BTreeSet<LogId>,
    /// Logs among them that the loader fetches no more.
    pub(super) leaving: BTreeSet<LogId>,
    /// Logs that other loaders have, each with the id of the loader.
    pub(super) taken: BTreeMap<LogId, String>,
    /// Whether the loader deletes segments from the store.
    pub(super) deletes: bool,
    /// Number of live loaders. 0: not known yet.
    pub(super) loaders: usize,
    /// When the leases end, by the clock of this process. It started before the database set their end.
    pub(super) until: Option<Instant>,
}

impl Held {
    fn is_live(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

#[derive(Default)]
pub(super) struct LeaseState {
    pub(super) is_ended: bool,
    /// Whether the thread has ended its leases, after `is_ended`.
    pub(super) is_over: bool,
    /// Whether the loader can fetch. Without it, the loader has no leases.
    pub(super) is_fetching: bool,
    pub(super) offered: BTreeMap<LogId, LogOffer>,
    /// Number of offers.
    pub(super) offers: u64,
    /// Number of turns that were asked for.
    pub(super) asked: u64,
    /// The value of `asked` at the last turn.
    pub(super) answered: u64,
    /// Sinks and logs whose positions another loader moved.
    pub(super) lost: BTreeSet<(String, LogId)>,
    pub(super) held: Held,
    pub(super) last_error: Option<String>,
    /// Time since which no turn has worked. `None`: the last turn worked.
    pub(super) failing_since: Option<Instant>,
    pub(super) on_gain: Option<Arc<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<LeaseState>,
    pub(super) wake: Condvar,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_over` is true or `time` passes.
    pub(super) fn wait_until(&self, time: Duration, is_over: impl Fn(&LeaseState) -> bool) {
        let state = self.state();
        drop(self.wake.wait_timeout_while(state, time, |state| !is_over(state)));
    }
}

/// State of the leases of a loader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Logs that the loader has a lease for.
    pub logs: BTreeSet<LogId>,
    /// Logs that other loaders have a lease for, each with the id of the loader.
    pub taken: BTreeMap<LogId, String>,
    /// Number of live loaders, with this one. 0: not known yet.
    pub loaders: usize,
    /// Whether the loader deletes segments from the store.
    pub deletes: bool,
    /// Why the last turn failed. `None`: it did not fail.
    pub last_error: Option<String>,
    /// Time since which no turn has worked. `None`: the last turn worked.
    pub failing_since: Option<Instant>,
}

/// The leases of a loader, for its fetcher, its loads and its status. Clones share the state.
#[derive(Clone, Default)]
pub struct LeaseWatch(pub(super) Arc<Shared>);

impl fmt::Debug for LeaseWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status().fmt(f)
    }
}

impl LeaseWatch {
    /// Replaces the logs that the loader may fetch. Logs without a lease are not fetched.
    ///
    /// If a log is offered for the first time, waits until the leases of the offered logs are decided, but at
    /// most five seconds.
    pub fn offer(&self, logs: BTreeMap<LogId, LogOffer>) {
        let asked = {
            let mut state = self.0.state();
            let is_new = !state.is_fetching || logs.keys().any(|log| !state.offered.contains_key(log));
            (state.offered, state.is_fetching) = (logs, true);
            state.offers += 1;
            if !is_new {
                return;
            }
            state.asked += 1;
            state.asked
        };
        self.0.wake.notify_all();
        self.0.wait_until(OFFER_WAIT, |state| state.answered >= asked || state.is_ended);
    }

    /// Ends all leases until the next offer, because the loader cannot fetch.
    pub fn pause(&self) {
        {
            let mut state = self.0.state();
            if !state.is_fetching {
                return;
            }
            (state.is_fetching, state.held) = (false, Held::default());
            state.offered.clear();
            state.asked += 1;
        }
        self.0.wake.notify_all();
    }

    /// Notes that another loader moved the position of a sink in a log. The lease of the log ends.
    pub fn lost(&self, sink: &str, log: LogId) {
        {
            let mut state = self.0.state();
            if !state.held.logs.contains(&log) {
                return;
            }
            state.lost.insert((sink.to_owned(), log));
            state.asked += 1;
        }
        self.0.wake.notify_all();
    }

    /// Returns whether the loader has a lease for the log.
    pub fn holds(&self, log: LogId) -> bool {
        let state = self.0.state();
        state.held.is_live() && state.held.logs.contains(&log)
    }

    /// Returns whether the loader may fetch further segments of the log.
    pub fn may_fetch(&self, log: LogId) -> bool {
        self.holds(log) && !self.0.state().held.leaving.contains(&log)
    }

    /// Returns whether the loader deletes segments from the store.
    pub fn may_delete(&self) -> bool {
        let state = self.0.state();
        state.held.is_live() && state.held.deletes
    }

    /// Sets the function that is called when the loader has leases for further logs.
    pub fn on_gain(&self, gain: impl Fn() + Send + Sync + 'static) {
        self.0.state().on_gain = Some(Arc::new(gain));
    }

    /// Returns the state of the leases.
    pub fn status(&self) -> LeaseStatus {
        let state = self.0.state();
        let held = &state.held;
        LeaseStatus {
            logs: if held.is_live() { held.logs.clone() } else { BTreeSet::new() },
            taken: held.taken.clone(),
            loaders: held.loaders,
            deletes: held.is_live() && held.deletes,
            last_error: state.last_error.clone(),
            failing_since: state.failing_since,
        }
    }
}
