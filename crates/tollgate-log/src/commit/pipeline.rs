//! The commit pipeline of a log: its state, the queue of batches before it, and how it stops.

use super::queue::WriteQueue;
use super::state::LogState;
use crate::error::{LogError, join_chain};
use crate::event::LogEvent;

/// The state and the queue that a batch passes from an appender to the disk.
pub(crate) struct CommitPipeline {
    pub(crate) state: LogState,
    pub(crate) queue: WriteQueue,
}

impl CommitPipeline {
    /// Stops the log. Only the first reason is kept and reported.
    pub(crate) fn fail(&self, error: &LogError) {
        let reason = format!("{}; {}", join_chain(error), what_is_kept(error));
        if self.state.set_failure(&reason) {
            self.queue.wake_thread();
            self.state.report(&LogEvent::Failed(reason));
        }
    }
}

/// Returns what a restart will find after this failure.
fn what_is_kept(error: &LogError) -> &'static str {
    match error {
        LogError::Io { .. } => "a restart keeps every record that was acknowledged as synced",
        LogError::Damaged { .. } | LogError::DamagedEnd { .. } => {
            "the disk returned other bytes than were written: `tollgate log verify` reports the damage"
        }
    }
}
