//! The end of a loader, as its owner sees it. The thread loads all remaining records, or only the current
//! chunk. If the thread hangs, the owner does not wait for it.
//!
//! A thread that waits for a database or a disk cannot be woken, so it is not joined. If the process ends
//! before the thread, that is like a kill: work is repeated, but no row is lost. If the process continues,
//! the thread ends after its wait.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

#[cfg(doc)]
use super::LoadTuning;
use super::Loader;
use super::control::Order;
use super::status::{LoadState, LoadStatus};
use crate::error::FinishError;

/// Pause between two checks of the state.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Why the owner stops waiting for the thread.
enum Late {
    /// The timeout passed.
    Timeout,
    /// The sink does not answer.
    Away,
}

impl Loader {
    /// Loads all synced records, then ends the thread. Call this after the log was closed.
    ///
    /// `Ok` does not promise that every log is loaded: see `stopped_logs`. The call waits at most
    /// [`LoadTuning::away_wait_max`] for a sink that does not answer. For a sink that hangs in a load, the
    /// call waits at most [`LoadTuning::commit_wait_max`].
    ///
    /// # Errors
    /// The timeout passed, the sink does not answer, or the loader stopped. No record is lost: the next run
    /// continues.
    pub fn finish(mut self, timeout: Duration) -> Result<LoadStatus, FinishError> {
        let began = Instant::now();
        self.control.give(Order::Finish);
        let late = self.wait_while(timeout, |state| !matches!(state, LoadState::Ended | LoadState::Stopped));
        let (name, status) = (self.name.clone(), self.status());
        let Err(late) = late else {
            return match status.state {
                LoadState::Stopped => {
                    Err(FinishError::Stopped { name, reason: status.last_error.unwrap_or_default() })
                }
                _ => Ok(status),
            };
        };
        self.abandon();
        let (waited_ms, last_error) = (began.elapsed().as_millis(), status.last_error);
        Err(match late {
            Late::Timeout => FinishError::Timeout { name, waited_ms, last_error },
            Late::Away => FinishError::Away { name, waited_ms, last_error },
        })
    }

    /// Waits until the state of the loader changes. Stops waiting if the sink does not answer or `timeout`
    /// passes.
    fn wait_while(&self, timeout: Duration, is_waiting: impl Fn(LoadState) -> bool) -> Result<(), Late> {
        let began = Instant::now();
        let (mut present_at, mut committed_at, mut commits) = (began, began, None);
        let mut state = self.control.state();
        while is_waiting(state.status.state) {
            if !matches!(state.status.state, LoadState::Opening | LoadState::Retrying) {
                present_at = Instant::now();
            }
            if commits.replace(state.status.commits) != Some(state.status.commits) {
                committed_at = Instant::now();
            }
            if began.elapsed() >= timeout {
                return Err(Late::Timeout);
            }
            if present_at.elapsed() >= self.away_wait_max || committed_at.elapsed() >= self.commit_wait_max {
                return Err(Late::Away);
            }
            let left = timeout.saturating_sub(began.elapsed()).min(LOOK_PAUSE);
            state = self.control.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Orders the thread to end, without waiting for it.
    fn abandon(&mut self) {
        self.control.give(Order::Abort);
        self.thread = None;
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.control.give(Order::Abort);
        let Some(thread) = self.thread.take() else { return };
        let is_running = |state| state != LoadState::Ended && !thread.is_finished();
        if self.wait_while(Duration::MAX, is_running).is_ok() {
            // If the thread panicked, it has logged the panic.
            let _ = thread.join();
        }
    }
}
