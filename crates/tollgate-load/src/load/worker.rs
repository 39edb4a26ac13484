//! The thread of a loader: passes over all logs, oldest first, chunk by chunk.
//!
//! | what fails | what follows |
//! | --- | --- |
//! | reading a log | that log waits, 100 ms doubling to 30 s; the others go on |
//! | a log is not the one that the position belongs to, or of a later version | that log is stopped |
//! | another loader moved the position | read again, go on there |
//! | the sink, for now | all wait, 100 ms doubling to 30 s; the sink is opened anew |
//! | the sink, for good (a changed type) | all wait 30 s, the state says stopped |
//! | a panic | as the sink for now |

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_log::{Cursor, CursorStep, Follower, LogError, LogId, Position, Sequence, Storage, log_ids};

use super::follow::{Following, Reach, is_lasting, is_log_of_position, reach_of_sealed};
use super::{LoadOptions, LoadState, OpenSink, Order, Shared};
use crate::clock::now_us;
use crate::error::{SinkError, join_chain};
use crate::sink::{Sink, Tally};

/// How soon an order is heard while the watermark is waited for.
const ORDER_LATENCY: Duration = Duration::from_millis(50);

/// Whose fault it is that a chunk is not loaded.
enum ChunkError {
    Log(LogError),
    Sink(SinkError),
}

impl From<LogError> for ChunkError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<SinkError> for ChunkError {
    fn from(error: SinkError) -> Self {
        Self::Sink(error)
    }
}

/// What one pass over the logs came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// All that may be read is loaded, but for logs that are stopped.
    Done,
    /// Some log waits for its next try.
    Waiting,
    /// The owner has no time.
    Aborted,
}

/// One chunk while it is made.
#[derive(Default)]
struct Chunk {
    end: Option<Position>,
    rows: u64,
    bytes: u64,
    stamp_us: Option<i64>,
}

pub(super) struct Worker {
    options: LoadOptions,
    storage: Arc<dyn Storage>,
    live: Option<Follower>,
    open: OpenSink,
    sink: Option<Box<dyn Sink>>,
    logs: BTreeMap<LogId, Following>,
    shared: Arc<Shared>,
    /// The wait after the last error of the sink; none if all is well.
    backoff: Option<Duration>,
}

impl Worker {
    pub(super) fn new(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Follower>,
        open: OpenSink,
        sink: Option<Box<dyn Sink>>,
        shared: Arc<Shared>,
    ) -> Self {
        Self { options, storage, live, open, sink, logs: BTreeMap::new(), shared, backoff: None }
    }

    /// Runs until told to end. A panic costs a wait and the chunk at hand.
    pub(super) fn run(&mut self) {
        while catch_unwind(AssertUnwindSafe(|| self.follow())).is_err() {
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
    }

    fn follow(&mut self) {
        loop {
            let order = self.shared.order();
            let seen = self.live.as_ref().map(|live| live.watermark().synced);
            let result = self.pass();
            match (result, order) {
                (Ok(Pass::Aborted), _) | (_, Order::Abort) | (Ok(Pass::Done), Order::Finish) => return,
                (Ok(Pass::Done), Order::Follow) => {
                    self.went_well(LoadState::CaughtUp);
                    self.wait_for_more(seen);
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
            status.lag = if state == LoadState::CaughtUp { Duration::ZERO } else { status.lag };
        });
    }

    /// Waits for the watermark to move or the next look for logs, then lets records gather.
    fn wait_for_more(&self, seen: Option<Sequence>) {
        let until = Instant::now() + self.options.tuning.poll;
        match (&self.live, seen) {
            (Some(live), Some(seen)) => {
                while self.shared.order() == Order::Follow && Instant::now() < until {
                    if live.wait_beyond(seen, ORDER_LATENCY).synced > seen {
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
            // A connection that only waited for a lock is as good as a new one.
            match error {
                SinkError::Locked { .. } => self.restart_logs(),
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
        if self.sink.is_none() {
            self.sink = Some((self.open)()?);
        }
        let logs = match log_ids(&*self.storage, &self.options.dir) {
            Ok(logs) => logs,
            Err(LogError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                self.shared.update(|status| status.last_error = Some(join_chain(&error)));
                return Ok(Pass::Waiting);
            }
        };
        self.logs.retain(|log, _| logs.contains(log));
        for log in logs {
            let mut following = self.logs.remove(&log);
            let is_new = following.is_none();
            let result = self.follow_log(log, following.get_or_insert_default(), is_new);
            self.logs.extend(following.map(|following| (log, following)));
            if result? == Pass::Aborted {
                return Ok(Pass::Aborted);
            }
        }
        Ok(if self.logs.values().any(Following::is_waiting) { Pass::Waiting } else { Pass::Done })
    }

    fn follow_log(&mut self, log: LogId, following: &mut Following, is_new: bool) -> Result<Pass, SinkError> {
        if !following.is_due() {
            return Ok(Pass::Done);
        }
        if is_new {
            following.position = self.sink()?.position(log)?;
            self.confirm_found(log, following.position);
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
                    following.reset();
                    following.position = self.sink()?.position(log)?;
                    self.confirm_found(log, following.position);
                }
                Err(ChunkError::Sink(error)) => {
                    self.sink()?.rollback();
                    return Err(error);
                }
            }
            if self.shared.order() == Order::Abort {
                return Ok(Pass::Aborted);
            }
        }
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
            if !following.is_waiting() {
                tracing::warn!(sink, %log, reason, "this log cannot be read, trying again");
            }
            following.put_off(self.options.tuning.backoff_min, self.options.tuning.backoff_max);
        }
        self.shared.update(|status| status.last_error = Some(reason));
    }

    /// How far the log may be read now.
    fn reach(&self, log: LogId, following: &mut Following) -> Result<Reach, LogError> {
        if let Some(live) = &self.live {
            let watermark = live.watermark();
            if watermark.log == log {
                return Ok(Reach::UpTo(watermark.synced));
            }
        }
        let reach = reach_of_sealed(&*self.storage, &self.options.dir, log)?;
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
        let chunk = fill(following.cursor_at(&storage, &dir, log), self.sink()?, expected, limit, &tuning)?;
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
        let schemas: Vec<_> = ahead.schemas().map(|(_, schema)| schema.clone()).collect();
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

/// Brings batches and gaps into a transaction until the chunk is full or nothing more may be read.
///
/// Nothing is copied: a batch goes from the cursor's window into the database. The transaction begins with the first.
fn fill(
    cursor: &mut Cursor,
    sink: &mut dyn Sink,
    expected: Option<Position>,
    limit: Option<Sequence>,
    tuning: &super::LoadTuning,
) -> Result<Chunk, ChunkError> {
    let log = cursor.log();
    let mut chunk = Chunk::default();
    while chunk.rows < tuning.chunk_rows_max && chunk.bytes < tuning.chunk_bytes_max {
        match cursor.step(limit)? {
            CursorStep::CaughtUp => break,
            CursorStep::Batch(batch) => {
                if chunk.end.is_none() {
                    sink.begin(log, expected)?;
                }
                sink.write(&batch)?;
                chunk.rows += batch.end().last.after(1).0 - batch.first().0;
                chunk.bytes += batch.bytes() as u64;
                chunk.stamp_us.get_or_insert(batch.stamp_us());
                chunk.end = Some(batch.end());
            }
            CursorStep::Gap(gap) => {
                if chunk.end.is_none() {
                    sink.begin(log, expected)?;
                }
                tracing::error!(%log, first = %gap.first, last = %gap.last, reason = gap.reason, "records are missing");
                sink.gap(&gap)?;
                chunk.end = Some(Position { last: gap.last, chain: None });
            }
        }
    }
    Ok(chunk)
}
