//! The commit pipeline of a log: the shared state, the queue of batches, and the end after a failure.

use super::queue::WriteQueue;
use super::state::LogState;
use crate::error::{LogError, join_chain};
use crate::event::LogEvent;

/// The queue in which a batch waits between an appender and the disk, and the state that the threads of the
/// log share.
pub(crate) struct CommitPipeline {
    pub(crate) state: LogState,
    pub(crate) queue: WriteQueue,
}

impl CommitPipeline {
    /// Stops the log because of an error. Only the first error is kept and reported.
    pub(crate) fn fail(&self, error: &LogError) {
        let reason = format!("{}; {}", join_chain(error), what_is_kept(error));
        if self.state.set_failure(&reason) {
            self.queue.wake_thread();
            self.state.report(&LogEvent::Failed(reason));
        }
    }
}

/// Returns the text that says which records a restart will find after this failure.
fn what_is_kept(error: &LogError) -> &'static str {
    match error {
        LogError::Io { .. } => "a restart keeps every record that was acknowledged as synced",
        LogError::Damaged { .. } | LogError::DamagedEnd { .. } => {
            "the disk returned other bytes than were written: `tollgate log verify` reports the damage"
        }
    }
}
