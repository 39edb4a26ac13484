//! The end of a load that ends by itself: whether a loader can continue, the printed result, and the gaps of
//! the sinks.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tollgate_load::{LoadState, LoadStatus, SinkGap, sink_gaps};
use tollgate_log::{LogId, Sequence, join_chain};
use tollgate_ship::FetchStatus;

use crate::config::SinkConfig;
use crate::print::{counted, note, problem};

/// Time for which unreadable logs are tried again when nothing else is left to load.
const FAILING_PATIENCE: Duration = Duration::from_secs(5);

/// Time for which other loaders may load nothing of the logs that they have leases for. The lease of a loader
/// that was killed ends earlier.
const LEFT_PATIENCE: Duration = Duration::from_secs(60);

/// Logs that are left to other loaders, and the time of their last progress.
#[derive(Debug, Default)]
pub(crate) struct LeftLogs {
    loaded: BTreeMap<LogId, Sequence>,
    moved_at: Option<Instant>,
}

impl LeftLogs {
    /// Returns whether other loaders have logs to load, and loaded records within `LEFT_PATIENCE`.
    pub(crate) fn look(&mut self, fetch: &FetchStatus) -> bool {
        let left = fetch.logs.iter().filter(|(_, log)| !log.is_fetched_here && log.behind_since.is_some());
        let loaded: BTreeMap<_, _> = left.map(|(id, log)| (*id, log.loaded)).collect();
        if self.loaded != loaded {
            (self.loaded, self.moved_at) = (loaded, Some(Instant::now()));
        }
        !self.loaded.is_empty() && self.moved_at.is_some_and(|at| at.elapsed() < LEFT_PATIENCE)
    }
}

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
        problem(&format!("sink {sink}: loading of log {log} stopped: {reason}"));
    }
    let is_failing = is_left_with_failing(status);
    for (log, reason) in status.failing_logs.iter().filter(|_| is_failing) {
        problem(&format!("sink {sink}: log {log} cannot be read: {reason}"));
    }
    let is_stopped = status.is_unusable || status.state == LoadState::Stopped;
    if is_stopped {
        problem(&format!("sink {sink} is stopped: {}", status.last_error.as_deref().unwrap_or_default()));
    }
    !is_stopped && !is_failing && status.stopped_logs.is_empty()
}

/// The end of a load that ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnceEnd {
    /// All records that could be read are loaded.
    Loaded,
    /// Some records could not be loaded.
    Incomplete,
    /// A signal stopped the load.
    Stopped,
}

impl OnceEnd {
    pub(crate) fn of(is_loaded: bool) -> Self {
        if is_loaded { Self::Loaded } else { Self::Incomplete }
    }

    /// Prints the gaps of the sinks, and returns the exit code. After a signal no database is asked, because
    /// the command must end at once.
    pub(crate) fn exit_code(self, sinks: &[SinkConfig]) -> ExitCode {
        let is_well = self != Self::Stopped && print_gaps(sinks) && self == Self::Loaded;
        if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Prints the gaps of all sinks, each with its range. Returns whether an operator gave up all of them.
fn print_gaps(sinks: &[SinkConfig]) -> bool {
    let mut are_given_up = true;
    for sink in sinks {
        match sink_gaps(&sink.options) {
            Ok(gaps) => {
                gaps.iter().for_each(|gap| note(&format!("sink {}: {}", sink.name(), gap_text(gap))));
                are_given_up &= gaps.iter().all(|gap| gap.is_given_up);
            }
            Err(error) => {
                problem(&format!("sink {}: the gaps cannot be read: {}", sink.name(), join_chain(&error)));
                are_given_up = false;
            }
        }
    }
    are_given_up
}

/// Returns the text of a gap, for people.
pub(crate) fn gap_text(gap: &SinkGap) -> String {
    let SinkGap { log, first, last, reason, is_given_up } = gap;
    let state = if *is_given_up { "given up" } else { "missing" };
    format!("{state}: records {first}-{last} of log {log}: {reason}")
}
