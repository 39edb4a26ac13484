//! The state that a loader's thread and its owner share: the owner's order to the thread, and the status of
//! the thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::calls::SinkCalls;
use super::rejecting::RecentRejects;
use super::status::{LoadState, LoadStatus, STALLED_MIN};
use super::unloaded::UnloadedRecords;
use crate::live::LiveLog;
use crate::sink::SinkOptions;

/// Order of the owner to the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    #[default]
    Follow,
    /// Load all synced records, then end.
    Finish,
    /// End after the current chunk.
    Abort,
}

#[derive(Default)]
pub(super) struct ControlState {
    pub(super) order: Order,
    /// New options of the sink that the thread does not use yet.
    pub(super) change: Option<SinkOptions>,
    pub(super) status: LoadStatus,
    pub(super) unloaded: UnloadedRecords,
    pub(super) rejects: RecentRejects,
}

/// The state that the thread and its owner share.
pub(super) struct LoaderControl {
    pub(super) state: Mutex<ControlState>,
    /// Signals that the order changed, or that the thread ended.
    pub(super) wake: Condvar,
    pub(super) begun: Instant,
    /// Milliseconds from `begun` to the last progress, or [`RESTING`] while the thread waits.
    pub(super) progress_ms: AtomicU64,
    pub(super) calls: Arc<SinkCalls>,
    /// The live log, which belongs to the thread.
    pub(super) live: Option<Weak<dyn LiveLog>>,
}

/// Value of `progress_ms` while the thread waits for more records or for its next try.
const RESTING: u64 = u64::MAX;

impl Default for LoaderControl {
    fn default() -> Self {
        let (state, wake, progress_ms) = (Mutex::default(), Condvar::new(), AtomicU64::new(RESTING));
        Self { state, wake, begun: Instant::now(), progress_ms, calls: Arc::default(), live: None }
    }
}

impl LoaderControl {
    /// Returns the state before the thread begins.
    pub(super) fn new(live: Option<&Arc<dyn LiveLog>>) -> Self {
        Self { live: live.map(Arc::downgrade), ..Self::default() }
    }

    /// Notes progress of the thread.
    pub(super) fn note_progress(&self) {
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(RESTING - 1);
        self.progress_ms.store(ms, Ordering::Relaxed);
    }

    /// Notes that the thread waits for records or for its next try.
    pub(super) fn note_rest(&self) {
        self.progress_ms.store(RESTING, Ordering::Relaxed);
    }

    /// Returns how long the thread has made no progress. Returns zero if that is shorter than
    /// [`STALLED_MIN`].
    pub(super) fn stalled(&self) -> Duration {
        let progress_ms = self.progress_ms.load(Ordering::Relaxed);
        if progress_ms == RESTING {
            return Duration::ZERO;
        }
        let idle = self.begun.elapsed().saturating_sub(Duration::from_millis(progress_ms));
        if idle < STALLED_MIN { Duration::ZERO } else { idle }
    }

    /// Locks the state. A poisoned lock is taken too, because each statement leaves the state consistent.
    pub(super) fn state(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn order(&self) -> Order {
        self.state().order
    }

    pub(super) fn give(&self, order: Order) {
        self.state().order = order;
        self.wake.notify_all();
    }

    /// Returns the state of the loader. The pending records and the wait for the database are those of this
    /// moment, also if the thread does not run.
    pub(super) fn status(&self) -> LoadStatus {
        let live = self.live.as_ref().and_then(Weak::upgrade).and_then(|live| live.watermark());
        let mut state = self.state();
        let unloaded = state.unloaded.count(live);
        if unloaded.records > 0 {
            state.status.backlog.saw_more();
        }
        let mut status = state.status.clone();
        status.rejecting_streams = state.rejects.streams(Instant::now());
        drop(state);
        (status.backlog.records, status.backlog.is_bound) = (unloaded.records, unloaded.is_bound);
        status.waiting = self.calls.waiting_at(Instant::now());
        status.stalled = match status.state {
            LoadState::Ended | LoadState::Opening => Duration::ZERO,
            _ => self.stalled(),
        };
        status.lag = status.backlog.age();
        status.state = shown_state(&status);
        status
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut LoadStatus)) {
        change(&mut self.state().status);
    }

    /// Waits at most `time`. Returns earlier if the order is no longer `seen` or the options of the sink
    /// change. Returns at once if the loader has to end.
    pub(super) fn rest(&self, seen: Order, time: Duration) {
        self.is_undisturbed_for(seen, time);
    }

    /// Waits as [`Self::rest`] does. Returns whether the call waited the whole time.
    pub(super) fn is_undisturbed_for(&self, seen: Order, time: Duration) -> bool {
        let state = self.state();
        let is_undisturbed =
            |state: &mut ControlState| state.order == seen && seen != Order::Abort && state.change.is_none();
        self.note_rest();
        let waited = self.wake.wait_timeout_while(state, time, is_undisturbed);
        let is_over = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        self.note_progress();
        is_over
    }

    pub(super) fn change(&self, sink: SinkOptions) {
        self.state().change = Some(sink);
        self.wake.notify_all();
    }

    pub(super) fn take_change(&self) -> Option<SinkOptions> {
        self.state().change.take()
    }

    pub(super) fn end(&self) {
        self.update(|status| status.state = LoadState::Ended);
        self.wake.notify_all();
    }
}

/// Returns the state that readers see. The thread sets its own state step by step, and cannot set it while it
/// waits for the database.
fn shown_state(status: &LoadStatus) -> LoadState {
    match status.state {
        // Each try of a failing sink begins with these steps, and most end with the same error.
        LoadState::Loading | LoadState::Opening if status.failing_since.is_some() => LoadState::Retrying,
        LoadState::CaughtUp if status.backlog.records > 0 || !status.stalled.is_zero() => LoadState::Loading,
        state => state,
    }
}
