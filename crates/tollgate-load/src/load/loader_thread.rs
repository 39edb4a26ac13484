//! The thread of a loader: visits all logs, oldest first, chunk by chunk.
//!
//! | fault | effect |
//! | --- | --- |
//! | a log cannot be read | this log waits. The first wait is 100 ms, and each next wait is twice as long, up to 30 s. All other logs are loaded |
//! | the position belongs to another log, or the log has a later version | this log is stopped |
//! | another loader moved the position | this loader leaves the log to the other loader for half a second, and then checks it again |
//! | the file of the database was removed or replaced | as after a temporary failure of the sink. Only the new file decides which records are loaded |
//! | the sink fails temporarily | all logs wait, from 100 ms up to 30 s as above, or up to 1 s if replies wait for the sink. The sink is opened again |
//! | a broker does not take a load within `delivery_timeout` | as above, and the next load has half the bytes |
//! | the sink fails permanently (a changed type) | all logs wait 30 s. The state of the sink is `Stopped` |
//! | a log of an earlier run makes the sink fail permanently, or three times in a row | this log waits 30 s. All other logs are loaded |
//! | the thread panics | as after a temporary failure of the sink |
//!
//! If replies wait for the sink, the live log is loaded first, as soon as its records are synced. During a
//! commit, the next records gather. While the sink fails, the breaker is open, so that no further reply
//! waits.

mod gaps;
mod lag;
mod live;
mod log;
mod part;
mod tables;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_log::{LogError, LogId, Position, SinkBreaker, Storage, Watermark, join_chain, log_ids};

use super::backlog::{LoadBacklog, Pending};
use super::chunk::ChunkError;
use super::control::{LoaderControl, Order};
use super::deleted::deleted_ends;
use super::follow::{Following, end_of_log, is_lasting};
use super::load_size::LoadSize;
use super::options::{LoadOptions, OpenSink, RefusedLogs};
use super::status::LoadState;
use super::watched_sink::WatchedSink;
use crate::error::SinkError;
use crate::live::LiveLog;
use crate::sink::{LoadFrom, Sink, SinkOptions};

/// Longest time until the thread sees a new order while it waits for the watermark.
const ORDER_LATENCY: Duration = Duration::from_millis(50);

/// Number of failures in a row with one log after which the log counts as their cause.
const FAILURES_OF_LOG: u32 = 3;

/// Increase of the niceness of a loader's thread, so that requests get the processors first if these are
/// busy.
const LOADER_NICENESS: i32 = 5;
/// Longest wait before the next try to take a lock. The wait is short, because the holder of a lock usually
/// releases it soon.
const LOCKED_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Result of one pass over the logs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// All records that may be read are loaded, except the records of stopped logs.
    Done,
    /// The sink waits for the end of segments or for more segments. Other records are loaded.
    Gathering,
    /// A log is left to another loader.
    Left,
    /// A log waits for its next try.
    Waiting,
    /// The pass has to begin again, because replies wait for the live log.
    Anew,
    /// The owner ordered the end.
    Aborted,
}

/// Which logs a pass visits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    All,
    /// Only the live log. The other logs were visited recently.
    Live,
}

/// Whether the database knows the sink.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enrolled {
    /// The database has not been checked yet.
    Unknown,
    /// The database that was open before knows the sink.
    Before,
    Here,
}

/// The thread of a loader.
pub(super) struct LoaderThread {
    options: LoadOptions,
    storage: Arc<dyn Storage>,
    live: Option<Arc<dyn LiveLog>>,
    /// Watermark up to which the live log may be read in this pass.
    watermark: Option<Watermark>,
    open: OpenSink,
    sink: Option<Box<dyn Sink>>,
    enrolled: Enrolled,
    /// Whether a gap was made of the deleted records that the database lacks, since the database was opened.
    is_deleted_named: bool,
    /// Number of records in gaps that no operator has given up. `None` if the number may have changed.
    gap_records: Option<u64>,
    /// When these records were counted last.
    gaps_counted_at: Option<Instant>,
    logs: BTreeMap<LogId, Following>,
    control: Arc<LoaderControl>,
    /// Wait after the last error of the sink. `None` without an error.
    backoff: Option<Duration>,
    /// Last time when all readable records were loaded. At first, the time of the start.
    caught_up_at: Instant,
    pending: Pending,
    /// Time of the last warning that the sink lags. `None` if it does not lag.
    behind_reported_at: Option<Instant>,
    /// Time when a pass found that all logs are loaded. `None` if that may have changed since.
    all_looked_at: Option<Instant>,
    /// When the topics of a Kafka sink were described.
    described_at: Option<Instant>,
    /// Number of failures of the sink in a row with each log.
    failures: BTreeMap<LogId, u32>,
    load_size: LoadSize,
}

impl LoaderThread {
    pub(super) fn new(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Arc<dyn LiveLog>>,
        open: OpenSink,
        control: Arc<LoaderControl>,
    ) -> Self {
        control.update(|status| status.notes = options.sink.notes());
        Self {
            options,
            storage,
            live,
            watermark: None,
            open,
            sink: None,
            enrolled: Enrolled::Unknown,
            is_deleted_named: false,
            gap_records: None,
            gaps_counted_at: None,
            logs: BTreeMap::new(),
            control,
            backoff: None,
            caught_up_at: Instant::now(),
            pending: Pending::default(),
            behind_reported_at: None,
            all_looked_at: None,
            described_at: None,
            failures: BTreeMap::new(),
            load_size: LoadSize::default(),
        }
    }

    /// Runs until the owner orders the end. After a panic, the thread waits, and repeats the current chunk.
    pub(super) fn run(&mut self) {
        // A failure is only logged, because the loader also works with another priority.
        if let Err(error) = rustix::process::nice(LOADER_NICENESS) {
            tracing::debug!(%error, "the loader keeps the priority of the process");
        }
        while catch_unwind(AssertUnwindSafe(|| self.follow())).is_err() {
            let sink = &self.options.sink.name;
            tracing::error!(sink, "the loader panicked and restarts: this is a bug, please report it");
            self.control.update(|status| {
                status.restarts += 1;
                status.last_error = Some("the loader panicked".to_owned());
            });
            self.forget_sink();
            self.set_breaker(SinkBreaker::Open);
            self.wait_out(LoadState::Retrying);
            if self.control.order() == Order::Abort {
                break;
            }
        }
        // The sink is closed before the owner sees that the thread ended.
        self.sink = None;
        self.control.end();
    }

    /// Notes that all visited logs are loaded up to their readable end, or as far as the sink takes them now.
    fn caught_up(&mut self, look: Look) {
        self.caught_up_at = Instant::now();
        if look == Look::All {
            self.control.update(|status| status.failing_logs.clear());
            self.all_looked_at = Some(self.caught_up_at);
            let is_followed = |log| self.logs.get(&log).is_some_and(|following| !following.is_stopped);
            self.control.state().unloaded.retain(is_followed);
        }
        self.pending.paused();
        self.control.update(|status| status.caught_up += 1);
        self.went_well(LoadState::CaughtUp);
        if self.behind_reported_at.take().is_some() {
            tracing::info!(sink = self.options.sink.name, "the sink caught up");
        }
    }

    fn follow(&mut self) {
        loop {
            let order = self.control.order();
            if order == Order::Abort {
                return;
            }
            self.take_change();
            self.look_at_live();
            let look = self.look_due(order);
            if self.sink.is_none() {
                // The records are counted first, because the database may not answer.
                self.look_at_backlog();
            }
            self.control.note_progress();
            let result = self.pass(look);
            self.note_failing(matches!(result, Ok(Pass::Waiting)));
            match (result, order) {
                (Ok(Pass::Aborted), _) => return,
                (Ok(Pass::Done | Pass::Gathering), Order::Finish | Order::Abort) => return,
                (Ok(Pass::Anew), _) => {}
                (Ok(Pass::Done), Order::Follow) => {
                    self.caught_up(look);
                    self.control.update(|status| status.backlog = LoadBacklog::default());
                    self.wait_for_more();
                }
                (Ok(Pass::Gathering), Order::Follow) => {
                    self.caught_up(look);
                    self.look_at_backlog();
                    self.wait_for_more();
                }
                (Ok(Pass::Left), _) => {
                    self.went_well(LoadState::Loading);
                    self.look_at_backlog();
                    self.control.rest(order, self.options.tuning.gather);
                }
                (Ok(Pass::Waiting), _) => {
                    self.went_well(LoadState::Retrying);
                    self.look_at_backlog();
                    self.control.rest(order, self.options.tuning.backoff_min);
                }
                (Err(error), _) => self.sink_failed(&error),
            }
        }
    }

    /// Notes the time since which only unreadable logs remain to be loaded.
    fn note_failing(&self, is_left: bool) {
        self.control.update(|status| {
            status.only_failing_since =
                if is_left { status.only_failing_since.or_else(|| Some(Instant::now())) } else { None };
        });
    }

    /// Returns which logs are due. New logs and segments are searched once in `poll`, and more often while
    /// records remain to be loaded.
    fn look_due(&self, order: Order) -> Look {
        let is_known = self.watermark.is_some_and(|watermark| self.logs.contains_key(&watermark.log));
        let is_recent = self.all_looked_at.is_some_and(|at| at.elapsed() < self.options.tuning.poll);
        if order == Order::Follow && is_known && is_recent { Look::Live } else { Look::All }
    }

    fn went_well(&mut self, state: LoadState) {
        let is_live_well =
            self.watermark.and_then(|live| self.logs.get(&live.log)).is_none_or(Following::is_well);
        self.set_breaker(if is_live_well { SinkBreaker::Closed } else { SinkBreaker::Open });
        self.control.calls.answered();
        if self.backoff.take().is_some() {
            tracing::info!(sink = self.options.sink.name, "the sink works again");
        }
        self.control.update(|status| {
            (status.state, status.backoff, status.failing_since) = (state, Duration::ZERO, None);
        });
    }

    /// Uses the new options of the sink, if there are any. Unless only the streams changed, the sink is
    /// opened again.
    fn take_change(&mut self) {
        let Some(sink) = self.control.take_change() else { return };
        let before = std::mem::replace(&mut self.options.sink, sink);
        if before != (SinkOptions { taken: before.taken.clone(), ..self.options.sink.clone() }) {
            self.forget_sink();
        }
        self.control.state().rejects.retain(&self.options.sink.taken);
        self.control.update(|status| status.notes = self.options.sink.notes());
        self.backoff = None;
        tracing::info!(sink = self.options.sink.name, "the sink continues with its new configuration");
    }

    fn sink_failed(&mut self, error: &SinkError) {
        self.set_breaker(SinkBreaker::Open);
        if !error.is_unanswered() {
            self.control.calls.answered();
        }
        let (sink, reason) = (&self.options.sink.name, join_chain(error));
        let is_first = self.backoff.is_none();
        if !error.is_retriable() {
            tracing::error!(sink, reason, "the sink stopped: it loads nothing until the cause is removed");
        } else if is_first {
            tracing::warn!(sink, reason, "the sink accepts no rows: the loader tries again");
        }
        self.control.update(|status| {
            status.last_error = Some(reason);
            status.failing_since = status.failing_since.or_else(|| Some(Instant::now()));
        });
        if error.is_retriable() {
            match error {
                // The connection is kept, because it works and only waited for a lock.
                SinkError::Locked { .. } => {
                    self.restart_logs();
                    self.backoff = self.backoff.map(|wait| wait.min(LOCKED_PAUSE_MAX / 2));
                }
                SinkError::Moved { .. } => {
                    self.forget_sink();
                    self.forget_stopped();
                }
                _ => self.forget_sink(),
            }
            self.wait_out(LoadState::Retrying);
        } else {
            self.forget_sink();
            self.backoff = Some(self.options.tuning.backoff_max);
            self.wait_out(LoadState::Stopped);
        }
    }

    fn forget_sink(&mut self) {
        self.sink = None;
        self.forget_positions();
        self.restart_logs();
    }

    /// Forgets the known state of the database.
    fn forget_positions(&mut self) {
        self.is_deleted_named = false;
        self.gap_records = None;
        if self.enrolled == Enrolled::Here {
            self.enrolled = Enrolled::Before;
        }
    }

    /// Forgets stopped logs, because their positions belong to another database.
    fn forget_stopped(&mut self) {
        self.logs.clear();
        let mut state = self.control.state();
        state.status.stopped_logs.clear();
        state.unloaded.go_on();
    }

    fn restart_logs(&mut self) {
        self.pending.paused();
        // A log that is stopped permanently stays stopped. The other logs are read again.
        self.logs.retain(|_, following| following.is_stopped);
        self.all_looked_at = None;
    }

    fn wait_out(&mut self, state: LoadState) {
        let tuning = self.options.tuning;
        let max = match (state, self.options.sink.is_awaited) {
            (LoadState::Retrying, true) => tuning.backoff_awaited_max,
            _ => tuning.backoff_max,
        };
        let wait = self.backoff.map_or(tuning.backoff_min, |wait| (wait * 2).min(max));
        self.backoff = Some(wait);
        self.control.update(|status| (status.state, status.backoff) = (state, wait));
        self.control.wake.notify_all();
        self.rest_and_look(wait);
    }

    /// Waits for `wait`, or until the owner gives another order. Counts the backlog during the wait.
    fn rest_and_look(&mut self, wait: Duration) {
        let (order, until) = (self.control.order(), Instant::now() + wait);
        loop {
            self.look_at_live();
            self.look_at_backlog();
            let left = until.saturating_duration_since(Instant::now());
            let part = left.min(self.options.tuning.poll);
            if !self.control.is_undisturbed_for(order, part) || part == left {
                return;
            }
        }
    }

    /// Visits each log once, and loads the records that may be read. Returns only errors of the sink.
    fn pass(&mut self, look: Look) -> Result<Pass, SinkError> {
        self.sink()?;
        if let (Look::Live, Some(live)) = (look, self.watermark) {
            return self.pass_over(vec![live.log], look);
        }
        let mut logs = match log_ids(&*self.storage, &self.options.dir) {
            Ok(logs) => logs,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Ok(self.put_off(&error)),
        };
        self.look_at_database()?;
        match self.enroll(&logs).and_then(|()| self.name_deleted()) {
            Ok(()) => {}
            Err(ChunkError::Log(error)) => return Ok(self.put_off(&error)),
            Err(ChunkError::Sink(error)) => return Err(error),
        }
        self.count_gaps()?;
        self.look_for_tables()?;
        self.describe_topics()?;
        logs.retain(|log| self.is_ours(*log));
        let ended: Vec<_> = logs.iter().copied().filter(|log| !self.is_live(*log)).collect();
        self.sink()?.note_ended(&ended);
        self.learn_positions(&logs)?;
        self.logs.retain(|log, _| logs.contains(log));
        if self.is_awaited() {
            logs.sort_by_key(|log| !self.is_live(*log));
        }
        self.pass_over(logs, look)
    }

    fn pass_over(&mut self, logs: Vec<LogId>, look: Look) -> Result<Pass, SinkError> {
        let mut refused = None;
        for log in logs {
            let mut following = self.logs.remove(&log);
            let is_new = following.is_none();
            let mut result = self.follow_log(log, following.get_or_insert_default(), is_new, look);
            if let (Err(error), Some(following)) = (&result, &mut following)
                && self.is_fault_of_log(log, error)
            {
                self.log_refused(log, following, error);
                refused = result.err().or(refused);
                result = Ok(Pass::Done);
            }
            self.logs.extend(following.map(|following| (log, following)));
            match result? {
                over @ (Pass::Aborted | Pass::Anew) => return Ok(over),
                Pass::Done | Pass::Gathering | Pass::Left | Pass::Waiting => {}
            }
        }
        // If a server writes a log, other logs are loaded while this log waits. Without a server, all other
        // logs are loaded already, so the sink stops.
        if let (Some(error), None, RefusedLogs::StopSink) = (refused, self.watermark, self.options.refused) {
            return Err(error);
        }
        Ok(if self.logs.values().any(Following::is_failing) {
            Pass::Waiting
        } else if self.logs.values().any(Following::is_left) {
            Pass::Left
        } else if self.logs.values().any(|following| following.is_gathering) {
            Pass::Gathering
        } else {
            Pass::Done
        })
    }

    /// Returns whether the records of this log cause an error of the sink. For example, a table does not fit
    /// a stream, or refuses rows.
    ///
    /// A permanent error counts as a fault of the log. An error of the database counts as such a fault after
    /// `FAILURES_OF_LOG` failures in a row. An error of the live log always counts as a fault of the sink.
    fn is_fault_of_log(&mut self, log: LogId, error: &SinkError) -> bool {
        if self.is_live(log) {
            return false;
        }
        match error {
            SinkError::Denied { .. } | SinkError::Database { .. } | SinkError::RolledBack { .. } => {
                let failures = self.failures.entry(log).or_default();
                *failures += 1;
                *failures >= FAILURES_OF_LOG
            }
            error => !error.is_retriable(),
        }
    }

    /// Notes that the logs cannot be listed at present. The next pass lists them again.
    fn put_off(&self, error: &LogError) -> Pass {
        self.control.update(|status| status.last_error = Some(join_chain(error)));
        Pass::Waiting
    }

    /// If the database does not know the sink, enrolls the sink at the positions that its configuration asks
    /// for.
    fn enroll(&mut self, logs: &[LogId]) -> Result<(), ChunkError> {
        if self.enrolled == Enrolled::Here {
            return Ok(());
        }
        if !self.sink()?.is_enrolled()? {
            let mut ends = deleted_ends(&*self.storage, &self.options.dir)?;
            match (self.options.sink.from, self.enrolled) {
                (LoadFrom::Oldest, _) => {}
                // The database no longer knows the sink, but knew it earlier in this run. The records after
                // the last known positions have to be loaded, and replies wait for them.
                (LoadFrom::Now, Enrolled::Before) => ends.extend(self.pending.ends()),
                (LoadFrom::Now, _) => ends.extend(self.ends_of(logs)?),
            }
            self.sink()?.enroll(&ends)?;
        }
        self.enrolled = Enrolled::Here;
        Ok(())
    }

    /// Checks whether the database was restored to an older state while the connection was open.
    fn look_at_database(&mut self) -> Result<(), SinkError> {
        if !self.sink()?.is_changed()? {
            return Ok(());
        }
        self.forget_positions();
        for log in self.logs.keys().copied().collect::<Vec<_>>() {
            let Some(mut following) = self.logs.remove(&log) else { continue };
            let moved = if following.is_stopped { Ok(false) } else { self.is_moving(log, &mut following) };
            self.logs.insert(log, following);
            moved?;
        }
        Ok(())
    }

    fn ends_of(&self, logs: &[LogId]) -> Result<BTreeMap<LogId, Position>, LogError> {
        let mut ends = BTreeMap::new();
        for log in logs {
            let reach = self.reach_of(*log);
            let end = reach.and_then(|reach| end_of_log(&self.storage, &self.options.dir, *log, reach));
            match end {
                Ok(end) => ends.extend(end.map(|end| (*log, end))),
                // The pass over the logs reports this error. The ends of the other logs can still be used.
                Err(error) if is_lasting(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ends)
    }

    fn sink(&mut self) -> Result<&mut dyn Sink, SinkError> {
        if self.sink.is_none() {
            self.control.update(|status| status.state = LoadState::Opening);
            let opened = self.control.calls.call(|| (self.open)(&self.options.sink));
            self.control.update(|status| match &opened {
                Ok(_) => status.is_unusable = false,
                Err(error) => {
                    status.is_unusable = !error.is_waited_for();
                    status.last_error = Some(join_chain(error));
                }
            });
            self.sink = Some(Box::new(WatchedSink::new(opened?, self.control.calls.clone())));
            // The state shows that the sink answers, so an owner that waits for the end of the loader
            // continues to wait.
            self.control.update(|status| status.state = LoadState::Loading);
        }
        match &mut self.sink {
            Some(sink) => Ok(&mut **sink),
            None => unreachable!("it was just opened"),
        }
    }
}
