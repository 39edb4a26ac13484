//! Loads one log, chunk by chunk, as far as it may be read, and handles errors of the log.

use std::time::{Duration, Instant};

use tollgate_log::{Cursor, LogError, LogId, Position, Sequence, join_chain};

use super::super::chunk::{ChunkError, fill};
use super::super::control::Order;
use super::super::follow::{Following, Gaps, ReadableEnd, is_lasting, reach_of_sealed};
use super::super::settle::Brought;
use super::super::status::LoadState;
use super::part::Part;
use super::{LoaderThread, Look, Pass};
use crate::error::SinkError;
use crate::sink::StreamTallies;

/// How long a log is left to another loader. If the position has not moved after that time, this loader loads
/// the log.
const LEFT_PAUSE: Duration = Duration::from_millis(500);

/// Maximum number of schemas of a log whose tables are checked before its first record is loaded. A
/// configuration has fewer streams.
const SCHEMAS_LOOKED_AT_MAX: usize = 512;

impl LoaderThread {
    pub(super) fn follow_log(
        &mut self,
        log: LogId,
        following: &mut Following,
        is_new: bool,
        look: Look,
    ) -> Result<Pass, SinkError> {
        if !following.is_due() {
            return Ok(Pass::Done);
        }
        if is_new {
            following.position = self.sink()?.position(log)?;
            self.confirm_found(log, following.position)?;
        } else if following.is_left() && self.is_moving(log, following)? {
            return Ok(Pass::Done);
        }
        if look == Look::All
            && let Err(ChunkError::Sink(error)) = self.fill_gaps(log, following)
        {
            self.sink()?.rollback();
            return Err(error);
        }
        if self.control.order() == Order::Abort {
            return Ok(Pass::Aborted);
        }
        loop {
            match self.chunk(log, following) {
                Ok(true) => self.log_went_well(log, following),
                Ok(false) => {
                    self.log_went_well(log, following);
                    return Ok(Pass::Done);
                }
                Err(ChunkError::Log(error)) => {
                    self.sink()?.rollback();
                    self.log_failed(log, following, &error);
                    return Ok(Pass::Done);
                }
                Err(ChunkError::Sink(SinkError::Orphans { .. })) => {
                    self.sink()?.rollback();
                    following.reset();
                }
                Err(ChunkError::Sink(SinkError::Lost { .. })) => {
                    tracing::debug!(sink = self.options.sink.name, %log, "another loader loaded first");
                    self.sink()?.rollback();
                    // The other loader may have decided the load, and not moved the position yet. The
                    // cursor is after the records of the load, which this loader may have to finish.
                    following.reset();
                    if let Some(leases) = &self.options.leases {
                        leases.lost(&self.options.sink.name, log);
                    }
                    self.is_moving(log, following)?;
                    return Ok(Pass::Done);
                }
                Err(ChunkError::Sink(error)) => {
                    self.sink()?.rollback();
                    return Err(error);
                }
            }
            if self.control.order() == Order::Abort {
                return Ok(Pass::Aborted);
            }
            self.look_at_backlog();
            if !self.is_ours(log) || self.is_awaited() && !self.is_live(log) {
                return Ok(Pass::Anew);
            }
        }
    }

    /// Checks whether another loader is loading the log. If so, leaves the log to that loader.
    pub(super) fn is_moving(&mut self, log: LogId, following: &mut Following) -> Result<bool, SinkError> {
        let position = self.sink()?.position(log)?;
        if position == following.position {
            return Ok(false);
        }
        self.confirm_found(log, position)?;
        following.leave(position, LEFT_PAUSE);
        Ok(true)
    }

    /// Delays the next visit of a log whose records the sink refuses.
    pub(super) fn log_refused(&self, log: LogId, following: &mut Following, error: &SinkError) {
        let (sink, reason) = (&self.options.sink.name, join_chain(error));
        tracing::error!(sink, %log, reason, "the sink refuses this log, other logs are loaded");
        let wait = self.options.tuning.backoff_max;
        following.put_off(wait, wait);
        self.control.update(|status| {
            status.failing_logs.insert(log, reason.clone());
            status.last_error = Some(reason);
        });
    }

    fn log_went_well(&mut self, log: LogId, following: &mut Following) {
        self.failures.remove(&log);
        if following.is_failing() {
            self.control.update(|status| drop(status.failing_logs.remove(&log)));
        }
        following.went_well();
    }

    pub(super) fn log_failed(&self, log: LogId, following: &mut Following, error: &LogError) {
        let (sink, reason) = (&self.options.sink.name, join_chain(error));
        following.is_stopped = is_lasting(error);
        if following.is_stopped {
            following.reset();
            tracing::error!(sink, %log, reason, "the sink stopped loading this log, other logs are loaded");
            let mut state = self.control.state();
            state.status.failing_logs.remove(&log);
            state.status.stopped_logs.insert(log, reason.clone());
            state.unloaded.stop(log);
            drop(state);
        } else {
            if !following.is_failing() {
                tracing::warn!(sink, %log, reason, "this log cannot be read: the loader tries again");
            }
            following.put_off(self.options.tuning.backoff_min, self.options.tuning.backoff_max);
            self.control.update(|status| drop(status.failing_logs.insert(log, reason.clone())));
        }
        self.control.update(|status| status.last_error = Some(reason));
    }

    pub(super) fn reach_of(&self, log: LogId) -> Result<ReadableEnd, LogError> {
        match self.watermark {
            Some(watermark) if watermark.log == log => Ok(ReadableEnd::UpTo(watermark.synced)),
            _ => reach_of_sealed(&*self.storage, &self.options.dir, log),
        }
    }

    /// Returns the end of the part of the log that may be read now. Warns if the log ends before the loaded
    /// position, because it is then an old copy.
    pub(super) fn reach(&self, log: LogId, following: &mut Following) -> Result<ReadableEnd, LogError> {
        let reach = self.reach_of(log)?;
        if self.watermark.is_some_and(|watermark| watermark.log == log) {
            return Ok(reach);
        }
        if let (ReadableEnd::UpTo(end), Some(position)) = (reach, following.position)
            && end < position.last
            && !following.is_old_copy_warned
        {
            following.is_old_copy_warned = true;
            let (sink, position) = (&self.options.sink.name, position.last);
            tracing::warn!(sink, %log, %end, %position, "this log ends before the loaded position: it is an older copy");
        }
        Ok(reach)
    }

    /// Loads one chunk. Returns false if no more records may be read.
    pub(super) fn chunk(&mut self, log: LogId, following: &mut Following) -> Result<bool, ChunkError> {
        let limit = self.reach(log, following)?.limit();
        if following.position.is_some_and(|position| limit.is_some_and(|limit| position.last >= limit)) {
            following.is_gathering = false;
            return Ok(false);
        }
        if !following.are_tables_looked_at {
            self.look_at_tables(log, following.position, limit)?;
            following.are_tables_looked_at = true;
        }
        let expected = following.position;
        let taken = self.options.sink.taken.clone();
        let part = self.part(log, following, limit, taken)?;
        following.is_gathering = part.is_none();
        let Some(Part { limit, ends, taken }) = part else { return Ok(false) };
        let (storage, dir, mut tuning) =
            (self.storage.clone(), self.options.dir.clone(), self.options.tuning);
        tuning.chunk_bytes_max = self.load_size.bytes(tuning.chunk_bytes_max);
        let cursor = following.cursor_at(&storage, &dir, log);
        let control = self.control.clone();
        let on_progress = || control.note_progress();
        let chunk = fill(cursor, self.sink()?, &taken, (expected, limit), (ends, &tuning), &on_progress)?;
        let Some(end) = chunk.end else { return Ok(false) };
        let tallies = self.commit(end, chunk.bytes)?;
        let tally = tallies.total();
        if tally.missing > 0 {
            following.gaps = Gaps::Unknown;
            self.gap_records = None;
        }
        (following.position, following.waiting_since) = (Some(end), None);
        self.confirm(log, end.last);
        self.pending.loaded(log, chunk.stamp_us);
        self.committed(chunk.bytes, &tallies);
        let is_plain = tally.rejects == 0 && tally.missing == 0;
        self.settle(log, end.last, if is_plain { Brought::Rows } else { Brought::Anything })?;
        if let Err(error) = self.sink()?.tidy(tuning.tidy_bytes) {
            tracing::debug!(
                sink = self.options.sink.name,
                reason = join_chain(&error),
                "the checkpoint is tried again later"
            );
        }
        Ok(true)
    }

    /// Commits a load of `bytes`.
    fn commit(&mut self, end: Position, bytes: u64) -> Result<StreamTallies, SinkError> {
        let committed = self.sink()?.commit(end);
        self.resize_loads(&committed, bytes);
        committed
    }

    /// Changes the size of the next load by the result of a load of `bytes`.
    pub(super) fn resize_loads<T>(&mut self, committed: &Result<T, SinkError>, bytes: u64) {
        match committed {
            Ok(_) => self.load_size.succeeded(self.options.tuning.chunk_bytes_max),
            Err(error) if error.is_of_slow_load() => self.load_size.failed(bytes),
            Err(_) => {}
        }
    }

    /// Checks the tables of the log's schemas, which a second cursor reads. A type that changed since an
    /// earlier run has to be reported before any record of this log is loaded.
    ///
    /// The sink checks all other schemas at their first record: schemas that are declared later, and those
    /// beyond the limit.
    fn look_at_tables(
        &mut self,
        log: LogId,
        position: Option<Position>,
        limit: Option<Sequence>,
    ) -> Result<(), ChunkError> {
        let mut ahead = Cursor::new(self.storage.clone(), &self.options.dir, log, position);
        ahead.step(limit)?;
        let taken = &self.options.sink.taken;
        let schemas = ahead.schemas().map(|(_, schema)| schema);
        let schemas = schemas.filter(|schema| taken.takes(schema.stream()));
        let schemas: Vec<_> = schemas.take(SCHEMAS_LOOKED_AT_MAX).cloned().collect();
        let sink = self.sink()?;
        for schema in schemas {
            sink.look(&schema)?;
        }
        Ok(())
    }

    fn committed(&self, bytes: u64, tallies: &StreamTallies) {
        self.control.calls.answered();
        self.note_remade(tallies);
        let tally = tallies.total();
        let mut state = self.control.state();
        state.rejects.committed(Instant::now(), tallies);
        let status = &mut state.status;
        (status.state, status.failing_since) = (LoadState::Loading, None);
        status.rows += tally.rows;
        status.rejects += tally.rejects;
        status.duplicates += tally.duplicates;
        status.missing = status.missing.saturating_add(tally.missing);
        status.in_gaps = status.in_gaps.saturating_add(tally.missing);
        status.commits += 1;
        status.files += tallies.files.0;
        status.file_bytes += tallies.files.1;
        status.bytes += bytes;
    }
}
