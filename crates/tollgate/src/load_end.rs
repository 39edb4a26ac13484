//! The end of a load that ends by itself: whether a loader can continue, and the printed result.

use std::time::Duration;

use tollgate_load::{LoadState, LoadStatus};

use crate::print::{counted, note};

/// Time for which unreadable logs are tried again when nothing else is left to load.
const FAILING_PATIENCE: Duration = Duration::from_secs(5);

/// Returns whether every log that a loader still has to load has failed for `FAILING_PATIENCE`.
pub(crate) fn is_left_with_failing(status: &LoadStatus) -> bool {
    status.only_failing_since.is_some_and(|since| since.elapsed() >= FAILING_PATIENCE)
}

/// Prints the counts of a sink, and the fault that stopped its loader. Returns whether there was no fault.
pub(crate) fn print_end(sink: &str, status: &LoadStatus) -> bool {
    let LoadStatus { rows, rejects, missing, .. } = status;
    note(&format!(
        "sink {sink}: {}, {}, {missing} missing",
        counted(*rows, "row"),
        counted(*rejects, "reject")
    ));
    for (log, reason) in &status.stopped_logs {
        note(&format!("sink {sink}: loading of log {log} stopped: {reason}"));
    }
    let is_failing = is_left_with_failing(status);
    for (log, reason) in status.failing_logs.iter().filter(|_| is_failing) {
        note(&format!("sink {sink}: log {log} cannot be read: {reason}"));
    }
    let is_stopped = status.is_unusable || status.state == LoadState::Stopped;
    if is_stopped {
        note(&format!("sink {sink} is stopped: {}", status.last_error.as_deref().unwrap_or_default()));
    }
    !is_stopped && !is_failing && status.stopped_logs.is_empty()
}
