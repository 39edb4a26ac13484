//! The lag of a loader, and its reports.

use std::time::{Duration, Instant};

use tollgate_log::{LogId, log_ids};

use super::super::backlog::LoadBacklog;
use super::super::follow::Following;
use super::LoaderThread;
use crate::error::SinkError;

/// Interval between two warnings that a sink lags.
const BEHIND_REPORT_PERIOD: Duration = Duration::from_mins(1);

impl LoaderThread {
    /// Returns whether the loader has not caught up for `lag_max`.
    fn is_behind(&self) -> bool {
        self.caught_up_at.elapsed() > self.options.tuning.lag_max
    }

    /// Reads the position in each log whose position was never read. Without it, all records of a log would
    /// count as pending while the load of another log waits for a lock.
    pub(super) fn learn_positions(&mut self, logs: &[LogId]) -> Result<(), SinkError> {
        for log in logs {
            if !self.control.state().unloaded.knows(*log) {
                let position = self.sink()?.position(*log)?;
                self.confirm_found(*log, position)?;
            }
        }
        Ok(())
    }

    /// Counts the backlog, at most once in `poll`.
    pub(super) fn look_at_backlog(&mut self) {
        if !self.pending.is_due(self.options.tuning.poll) {
            return;
        }
        let mut backlog = LoadBacklog::default();
        let logs = log_ids(&*self.storage, &self.options.dir).unwrap_or_default();
        let is_stopped =
            |log: &LogId| self.logs.get(log).is_some_and(|following: &Following| following.is_stopped);
        let logs: Vec<_> = logs.into_iter().filter(|log| !is_stopped(log) && self.is_ours(*log)).collect();
        for log in &logs {
            // The error is ignored here, because `failing_logs` reports a log that cannot be read.
            let on_disk = self.reach_of(*log).and_then(|reach| {
                self.pending.add(&mut backlog, &self.storage, &self.options.dir, *log, reach)
            });
            if let Ok(Some((first, last))) = on_disk {
                self.control.state().unloaded.saw(*log, first, last);
            }
        }
        let mut state = self.control.state();
        state.unloaded.retain(|log| logs.contains(&log));
        state.status.backlog = backlog;
        drop(state);
        self.report_behind();
    }

    /// Warns that the sink lags, once in `BEHIND_REPORT_PERIOD`.
    fn report_behind(&mut self) {
        if !self.is_behind() || self.behind_reported_at.is_some_and(|at| at.elapsed() < BEHIND_REPORT_PERIOD)
        {
            return;
        }
        self.behind_reported_at = Some(Instant::now());
        let status = self.control.status();
        tracing::warn!(
            sink = self.options.sink.name,
            state = status.state.name(),
            lag_seconds = status.lag.as_secs(),
            lag_bytes = status.backlog.bytes,
            lag_segments = status.backlog.segments,
            rows = status.rows,
            rejects = status.rejects,
            duplicates = status.duplicates,
            missing = status.missing,
            last_error = status.last_error.as_deref().unwrap_or_default(),
            "the sink is behind"
        );
    }
}
