//! The state that a loader's thread and its owner share: the owner's order to the thread, and the status of
//! the thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::status::{LoadState, LoadStatus, STALLED_MIN};
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
}

/// The state that the thread and its owner share.
pub(super) struct LoaderControl {
    pub(super) state: Mutex<ControlState>,
    /// Signals that the order changed, or that the thread ended.
    pub(super) wake: Condvar,
    pub(super) begun: Instant,
    /// Milliseconds from `begun` to the last progress, or [`RESTING`] while the thread waits.
    pub(super) progress_ms: AtomicU64,
}

/// Value of `progress_ms` while the thread waits for more records or for its next try.
const RESTING: u64 = u64::MAX;

impl Default for LoaderControl {
    fn default() -> Self {
        let (state, wake, progress_ms) = (Mutex::default(), Condvar::new(), AtomicU64::new(RESTING));
        Self { state, wake, begun: Instant::now(), progress_ms }
    }
}

impl LoaderControl {
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

    pub(super) fn status(&self) -> LoadStatus {
        let status = self.state().status.clone();
        let stalled = match status.state {
            LoadState::Ended | LoadState::Opening => Duration::ZERO,
            _ => self.stalled(),
        };
        // A stalled thread has not seen the records that were written after it stalled.
        let is_outdated = status.state == LoadState::CaughtUp && !stalled.is_zero();
        let state = if is_outdated { LoadState::Loading } else { status.state };
        LoadStatus { state, lag: status.backlog.age(), stalled, ..status }
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
