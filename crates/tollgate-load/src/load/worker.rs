//! The thread of a loader: passes over all logs, oldest first, chunk by chunk.
//!
//! | what fails | what follows |
//! | --- | --- |
//! | reading a log | that log waits, 100 ms doubling to 30 s; the others go on |
//! | a log is not the one that the position belongs to, or of a later version | that log is stopped |
//! | another loader moved the position | that log is left to it for half a second, then looked at again |
//! | the sink, for now | all wait, 100 ms doubling to 30 s; the sink is opened anew |
//! | the sink, for good (a changed type) | all wait 30 s, the state says stopped |
//! | a panic | as the sink for now |

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_log::{Cursor, Gap, LogError, LogId, Position, Sequence, Storage, Watermark, log_ids, segments};

use super::chunk::{Chunk, ChunkError, fill};
use super::fill::fill as fill_gap;
use super::follow::{Following, Reach, end_of_log, is_lasting, is_log_of_position, reach_of_sealed};
use super::share::Share;
use super::{Backlog, LoadOptions, LoadState, OpenSink, Order, Shared};
use crate::clock::now_us;
use crate::error::{SinkError, join_chain};
use crate::live::LiveLog;
use crate::sink::{LoadFrom, Sink, Tally};

/// How soon an order is heard while the watermark is waited for.
const ORDER_LATENCY: Duration = Duration::from_millis(50);

/// How long a log is left to another loader. If the position has not moved by then, it is anybody's.
const LEFT_PAUSE: Duration = Duration::from_millis(500);
/// A lock is asked for again after this at the latest: whoever holds it is at work, as a rule.
const LOCKED_PAUSE_MAX: Duration = Duration::from_secs(1);

/// What one pass over the logs came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// All that may be read is loaded, but for logs that are stopped.
    Done,
    /// Some log is left to another loader.
    Left,
    /// Some log waits for its next try.
    Waiting,
    /// Another share of the machine is wanted before it goes on.
    OtherShare,
    /// The owner has no time.
    Aborted,
}

/// Why a thread of the loader is over.
pub(super) enum Ended {
    /// The loader is.
    Over,
    /// It is to go on in a thread of another share.
    Wants(Share),
}

pub(super) struct Worker {
    options: LoadOptions,
    storage: Arc<dyn Storage>,
    live: Option<Box<dyn LiveLog>>,
    /// How far the log that is written now may be read in this pass.
    watermark: Option<Watermark>,
    open: OpenSink,
    sink: Option<Box<dyn Sink>>,
    is_enrolled: bool,
    logs: BTreeMap<LogId, Following>,
    shared: Arc<Shared>,
    /// The wait after the last error of the sink; none if all is well.
    backoff: Option<Duration>,
    /// What this thread was given.
    share: Share,
    /// When all was loaded that might be, the last time; the start, if never.
    caught_up_at: Instant,
    backlog_seen_at: Option<Instant>,
}

impl Worker {
    pub(super) fn new(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Box<dyn LiveLog>>,
        open: OpenSink,
        sink: Option<Box<dyn Sink>>,
        shared: Arc<Shared>,
    ) -> Self {
        let (watermark, is_enrolled, logs, backoff) = (None, false, BTreeMap::new(), None);
        let (share, caught_up_at, backlog_seen_at) = (Share::default(), Instant::now(), None);
        Self {
            options,
            storage,
            live,
            watermark,
            open,
            sink,
            is_enrolled,
            logs,
            shared,
            backoff,
            share,
            caught_up_at,
            backlog_seen_at,
        }
    }

    /// Runs until told to end, or until it wants another share. A panic costs a wait and the chunk at hand.
    pub(super) fn run(&mut self, share: Share) -> Ended {
        self.share = share;
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.follow())) {
                Ok(Ended::Wants(other)) => return Ended::Wants(other),
                Ok(Ended::Over) => break,
                Err(_) => {}
            }
            let sink = &self.options.sink.name;
            tracing::error!(
                sink,
                "the loader panicked and is started again: this is a bug, please report it"
            );
            self.shared.update(|status| {
                status.restarts += 1;
                status.last_error = Some("the loader panicked".to_owned());
            });
            self.forget_sink();
            self.wait_out(LoadState::Retrying);
            if self.shared.order() == Order::Abort {
                break;
            }
        }
        // The sink is closed before anybody is told that the thread is over.
        self.sink = None;
        self.shared.end();
        Ended::Over
    }

    /// The share that is due: an equal one from `lag_max` on, until all is loaded.
    fn share_due(&self) -> Share {
        let is_behind = self.caught_up_at.elapsed() > self.options.tuning.lag_max;
        if is_behind { Share::Equal } else { Share::Small }
    }

    /// Counts what is still to be loaded, not more often than new logs are looked for.
    fn look_at_backlog(&mut self) {
        if self.backlog_seen_at.is_some_and(|at| at.elapsed() < self.options.tuning.poll) {
            return;
        }
        self.backlog_seen_at = Some(Instant::now());
        let mut backlog = Backlog::default();
        for (log, following) in &self.logs {
            let position = following.position.map_or(Sequence(0), |position| position.last);
            // A log that cannot be read now is told of elsewhere.
            let _ = self
                .reach_of(*log)
                .and_then(|reach| backlog.add(&*self.storage, &self.options.dir, *log, position, reach));
        }
        self.shared.update(|status| status.backlog = backlog);
    }

    fn follow(&mut self) -> Ended {
        loop {
            if self.share_due() != self.share {
                return Ended::Wants(self.share_due());
            }
            let order = self.shared.order();
            self.look_at_live();
            let result = self.pass();
            match (result, order) {
                (Ok(Pass::Aborted), _) | (_, Order::Abort) | (Ok(Pass::Done), Order::Finish) => {
                    return Ended::Over;
                }
                (Ok(Pass::OtherShare), _) => {}
                (Ok(Pass::Done), Order::Follow) => {
                    self.caught_up_at = Instant::now();
                    self.went_well(LoadState::CaughtUp);
                    self.wait_for_more();
                }
                (Ok(Pass::Left), _) => {
                    self.went_well(LoadState::Loading);
                    self.shared.rest(order, self.options.tuning.gather);
                }
                (Ok(Pass::Waiting), _) => {
                    self.went_well(LoadState::Retrying);
                    self.shared.rest(order, self.options.tuning.backoff_min);
                }
                (Err(error), _) => self.sink_failed(&error),
            }
        }
    }

    fn went_well(&mut self, state: LoadState) {
        if self.backoff.take().is_some() {
            tracing::info!(sink = self.options.sink.name, "the sink works again");
        }
        self.shared.update(|status| {
            status.state = state;
            if state == LoadState::CaughtUp {
                (status.lag, status.backlog) = (Duration::ZERO, Backlog::default());
            }
        });
    }

    /// Asks how far the live log is. Another one is that of another run, which has been told nothing yet.
    fn look_at_live(&mut self) {
        let watermark = self.live.as_ref().and_then(|live| live.watermark());
        let log = |watermark: Option<Watermark>| watermark.map(|watermark| watermark.log);
        if log(watermark) != log(self.watermark) {
            self.restart_logs();
        }
        self.watermark = watermark;
    }

    /// Waits for the watermark to move or the next look for logs, then lets records gather.
    fn wait_for_more(&self) {
        let until = Instant::now() + self.options.tuning.poll;
        match (&self.live, self.watermark) {
            (Some(live), Some(seen)) => {
                while self.shared.order() == Order::Follow && Instant::now() < until {
                    let is_beyond = |now: Watermark| now.log != seen.log || now.synced > seen.synced;
                    if live.wait_beyond(seen.synced, ORDER_LATENCY).is_none_or(is_beyond) {
                        return self.shared.rest(Order::Follow, self.options.tuning.gather);
                    }
                }
            }
            _ => self.shared.rest(Order::Follow, self.options.tuning.poll),
        }
    }

    fn sink_failed(&mut self, error: &SinkError) {
        let (sink, reason) = (&self.options.sink.name, join_chain(error));
        let is_first = self.backoff.is_none();
        if !error.is_retriable() {
            tracing::error!(sink, reason, "the sink stopped, nothing is loaded until this is mended");
        } else if is_first {
            tracing::warn!(sink, reason, "the sink does not take rows, trying again");
        }
        self.shared.update(|status| status.last_error = Some(reason));
        if error.is_retriable() {
            if let SinkError::Locked { .. } = error {
                // A connection that only waited for a lock is as good as a new one.
                self.restart_logs();
                self.backoff = self.backoff.map(|wait| wait.min(LOCKED_PAUSE_MAX / 2));
            } else {
                self.forget_sink();
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
        self.restart_logs();
    }

    fn restart_logs(&mut self) {
        // What stopped a log for good is known; the rest is read again.
        self.logs.retain(|_, following| following.is_stopped);
    }

    fn wait_out(&mut self, state: LoadState) {
        let tuning = self.options.tuning;
        let wait = self.backoff.map_or(tuning.backoff_min, |wait| (wait * 2).min(tuning.backoff_max));
        self.backoff = Some(wait);
        self.shared.update(|status| status.state = state);
        self.shared.wake.notify_all();
        let order = self.shared.order();
        self.shared.rest(order, wait);
    }

    /// Looks at every log once and loads what may be loaded of it. Errors are those of the sink.
    fn pass(&mut self) -> Result<Pass, SinkError> {
        self.sink()?;
        let logs = match log_ids(&*self.storage, &self.options.dir) {
            Ok(logs) => logs,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Ok(self.put_off(&error)),
        };
        match self.enroll(&logs) {
            Ok(()) => {}
            Err(ChunkError::Log(error)) => return Ok(self.put_off(&error)),
            Err(ChunkError::Sink(error)) => return Err(error),
        }
        self.logs.retain(|log, _| logs.contains(log));
        for log in logs {
            let mut following = self.logs.remove(&log);
            let is_new = following.is_none();
            let result = self.follow_log(log, following.get_or_insert_default(), is_new);
            self.logs.extend(following.map(|following| (log, following)));
            match result? {
                over @ (Pass::Aborted | Pass::OtherShare) => return Ok(over),
                Pass::Done | Pass::Left | Pass::Waiting => {}
            }
        }
        Ok(if self.logs.values().any(Following::is_failing) {
            Pass::Waiting
        } else if self.logs.values().any(Following::is_left) {
            Pass::Left
        } else {
            Pass::Done
        })
    }

    /// Nothing can be said of the logs for now.
    fn put_off(&self, error: &LogError) -> Pass {
        self.shared.update(|status| status.last_error = Some(join_chain(error)));
        Pass::Waiting
    }

    /// Has the sink begin where its configuration says, if the database has never seen it.
    fn enroll(&mut self, logs: &[LogId]) -> Result<(), ChunkError> {
        if self.is_enrolled {
            return Ok(());
        }
        if !self.sink()?.is_enrolled()? {
            let ends = match self.options.sink.from {
                LoadFrom::Oldest => BTreeMap::new(),
                LoadFrom::Now => self.ends_of(logs)?,
            };
            self.sink()?.enroll(&ends)?;
        }
        self.is_enrolled = true;
        Ok(())
    }

    fn ends_of(&self, logs: &[LogId]) -> Result<BTreeMap<LogId, Position>, LogError> {
        let mut ends = BTreeMap::new();
        for log in logs {
            let reach = self.reach_of(*log)?;
            ends.extend(end_of_log(&self.storage, &self.options.dir, *log, reach)?.map(|end| (*log, end)));
        }
        Ok(ends)
    }

    fn follow_log(&mut self, log: LogId, following: &mut Following, is_new: bool) -> Result<Pass, SinkError> {
        if !following.is_due() {
            return Ok(Pass::Done);
        }
        if is_new {
            following.position = self.sink()?.position(log)?;
            self.confirm_found(log, following.position);
        } else if following.is_left() && self.is_moving(log, following)? {
            return Ok(Pass::Done);
        }
        if let Err(ChunkError::Sink(error)) = self.fill_gaps(log, following) {
            self.sink()?.rollback();
            return Err(error);
        }
        loop {
            match self.chunk(log, following) {
                Ok(true) => following.went_well(),
                Ok(false) => {
                    following.went_well();
                    return Ok(Pass::Done);
                }
                Err(ChunkError::Log(error)) => {
                    self.sink()?.rollback();
                    self.log_failed(log, following, &error);
                    return Ok(Pass::Done);
                }
                Err(ChunkError::Sink(SinkError::Lost { .. })) => {
                    tracing::debug!(sink = self.options.sink.name, %log, "another loader was faster");
                    self.sink()?.rollback();
                    self.is_moving(log, following)?;
                    return Ok(Pass::Done);
                }
                Err(ChunkError::Sink(error)) => {
                    self.sink()?.rollback();
                    return Err(error);
                }
            }
            if self.shared.order() == Order::Abort {
                return Ok(Pass::Aborted);
            }
            self.look_at_backlog();
            if self.share_due() != self.share {
                return Ok(Pass::OtherShare);
            }
        }
    }

    /// Looks at the gaps of a log if its segments are others than at the last look. What cannot be read stays a gap.
    fn fill_gaps(&mut self, log: LogId, following: &mut Following) -> Result<(), ChunkError> {
        let (storage, dir) = (self.storage.clone(), self.options.dir.clone());
        let names: Vec<_> = segments(&*storage, &dir, log)?.into_iter().map(|(name, _)| name).collect();
        if following.gaps_looked_at.as_ref() == Some(&names) {
            return Ok(());
        }
        while self.fill_gap(log)? {}
        following.gaps_looked_at = Some(names);
        Ok(())
    }

    /// Loads what it can of the first gap that anything can be read of. False: nothing can of any.
    fn fill_gap(&mut self, log: LogId) -> Result<bool, ChunkError> {
        let (storage, dir, taken) =
            (self.storage.clone(), self.options.dir.clone(), self.options.sink.taken.clone());
        for gap in self.sink()?.gaps(log)? {
            let rows_max = self.options.tuning.chunk_rows_max;
            match fill_gap(&storage, &dir, log, &gap, (self.sink()?, &taken), rows_max) {
                Ok(None) => {}
                Ok(Some(tally)) => {
                    self.filled(log, &gap, tally);
                    return Ok(true);
                }
                Err(ChunkError::Log(_) | ChunkError::Sink(SinkError::Lost { .. })) => self.sink()?.rollback(),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn filled(&self, log: LogId, gap: &Gap, tally: Tally) {
        let (sink, records) = (&self.options.sink.name, tally.records());
        tracing::info!(sink, %log, first = %gap.first, last = %gap.last, records, "records of a gap are loaded");
        self.shared.update(|status| {
            status.rows += tally.rows;
            status.rejects += tally.rejects;
            status.duplicates += tally.duplicates;
            status.filled += records;
        });
    }

    /// Looks whether another loader is at the log; if so, leaves it to that one.
    fn is_moving(&mut self, log: LogId, following: &mut Following) -> Result<bool, SinkError> {
        let position = self.sink()?.position(log)?;
        if position == following.position {
            return Ok(false);
        }
        self.confirm_found(log, position);
        following.leave(position, LEFT_PAUSE);
        Ok(true)
    }

    fn sink(&mut self) -> Result<&mut dyn Sink, SinkError> {
        if self.sink.is_none() {
            self.sink = Some((self.open)()?);
        }
        match &mut self.sink {
            Some(sink) => Ok(&mut **sink),
            None => unreachable!("it was just opened"),
        }
    }

    fn log_failed(&self, log: LogId, following: &mut Following, error: &LogError) {
        let (sink, reason) = (&self.options.sink.name, join_chain(error));
        following.is_stopped = is_lasting(error);
        if following.is_stopped {
            following.reset();
            tracing::error!(sink, %log, reason, "this log is not loaded any further, others are");
            self.shared.update(|status| drop(status.stopped_logs.insert(log, reason.clone())));
        } else {
            if !following.is_failing() {
                tracing::warn!(sink, %log, reason, "this log cannot be read, trying again");
            }
            following.put_off(self.options.tuning.backoff_min, self.options.tuning.backoff_max);
        }
        self.shared.update(|status| status.last_error = Some(reason));
    }

    fn reach_of(&self, log: LogId) -> Result<Reach, LogError> {
        match self.watermark {
            Some(watermark) if watermark.log == log => Ok(Reach::UpTo(watermark.synced)),
            _ => reach_of_sealed(&*self.storage, &self.options.dir, log),
        }
    }

    /// How far the log may be read now; warns of an old copy.
    fn reach(&self, log: LogId, following: &mut Following) -> Result<Reach, LogError> {
        let reach = self.reach_of(log)?;
        if self.watermark.is_some_and(|watermark| watermark.log == log) {
            return Ok(reach);
        }
        if let (Reach::UpTo(end), Some(position)) = (reach, following.position)
            && end < position.last
            && !following.is_old_copy_warned
        {
            following.is_old_copy_warned = true;
            let (sink, position) = (&self.options.sink.name, position.last);
            tracing::warn!(sink, %log, %end, %position, "this log ends before its position: an older copy");
        }
        Ok(reach)
    }

    /// Loads one chunk. False: nothing more may be read.
    fn chunk(&mut self, log: LogId, following: &mut Following) -> Result<bool, ChunkError> {
        let limit = self.reach(log, following)?.limit();
        if following.position.is_some_and(|position| limit.is_some_and(|limit| position.last >= limit)) {
            return Ok(false);
        }
        if !following.are_tables_ensured {
            self.ensure_tables(log, following.position, limit)?;
            following.are_tables_ensured = true;
        }
        let expected = following.position;
        let (storage, dir, tuning) = (self.storage.clone(), self.options.dir.clone(), self.options.tuning);
        let taken = self.options.sink.taken.clone();
        let cursor = following.cursor_at(&storage, &dir, log);
        let chunk = fill(cursor, self.sink()?, &taken, expected, limit, &tuning)?;
        let Some(end) = chunk.end else { return Ok(false) };
        let tally = self.sink()?.commit(end)?;
        following.position = Some(end);
        self.confirm(log, end.last);
        self.committed(&chunk, tally);
        if let Err(error) = self.sink()?.tidy(tuning.tidy_bytes) {
            tracing::debug!(sink = self.options.sink.name, reason = join_chain(&error), "checkpoint put off");
        }
        Ok(true)
    }

    /// Confirms a position that was found in the sink, if it belongs to this log.
    fn confirm_found(&self, log: LogId, position: Option<Position>) {
        let is_of_log =
            |position: &Position| is_log_of_position(&self.storage, &self.options.dir, log, *position);
        let position = position.filter(|position| is_of_log(position).unwrap_or(false));
        self.confirm(log, position.map_or(Sequence(0), |position| position.last));
    }

    /// What the sink has for good may be deleted.
    fn confirm(&self, log: LogId, last: Sequence) {
        if let Some(live) = &self.live {
            live.confirm(log, last);
        }
    }

    /// Looks ahead with a cursor of its own: a type that changed since another run has to be told before anything of this
    /// one is loaded. What is declared later is ensured by the sink when it comes.
    fn ensure_tables(
        &mut self,
        log: LogId,
        position: Option<Position>,
        limit: Option<Sequence>,
    ) -> Result<(), ChunkError> {
        let mut ahead = Cursor::new(self.storage.clone(), &self.options.dir, log, position);
        ahead.step(limit)?;
        let taken = &self.options.sink.taken;
        let schemas = ahead.schemas().map(|(_, schema)| schema);
        let schemas: Vec<_> = schemas.filter(|schema| taken.takes(schema.stream())).cloned().collect();
        let sink = self.sink()?;
        for schema in schemas {
            sink.ensure(&schema)?;
        }
        Ok(())
    }

    fn committed(&self, chunk: &Chunk, tally: Tally) {
        let lag_us = chunk.stamp_us.map_or(0, |stamp_us| now_us().saturating_sub(stamp_us).max(0));
        self.shared.update(|status| {
            status.state = LoadState::Loading;
            status.rows += tally.rows;
            status.rejects += tally.rejects;
            status.duplicates += tally.duplicates;
            status.missing += tally.missing;
            status.commits += 1;
            status.lag = Duration::from_micros(lag_us.cast_unsigned());
        });
    }
}
