//! Reads one log for `log cat` and `log tail`, from a given record on, batch by batch.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use tollgate_log::{
    Cursor, CursorStep, DiskStorage, Gap, LogError, LogId, Position, RecordBatch, Sequence, segments,
};

use super::format::Printer;
use crate::print::note;

/// The record at which the reading of a log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// The oldest kept record. Earlier records, which retention deleted, are not reported as a gap.
    Kept,
    /// The record with this number. If it is deleted, a gap is reported.
    At(Sequence),
    /// The first batch that was written at this time or later, in microseconds since 1970.
    Since(i64),
    /// The record after the position at which an earlier run ended.
    After(Position),
}

/// Reads one log.
pub(super) struct LogReader {
    cursor: Cursor,
    /// Records before this number are not printed.
    from: Sequence,
    /// Batches before the first batch that was written at this time or later are not printed.
    since_us: Option<i64>,
    /// Position up to which the log is printed or skipped.
    position: Position,
}

/// Position before the first record.
pub(super) const START: Position = Position { last: Sequence(0), chain: None };

impl LogReader {
    /// Opens a log.
    ///
    /// # Errors
    /// Its folder or a segment cannot be read.
    pub(super) fn open(dir: &Path, log: LogId, begin: Begin) -> Result<Self, LogError> {
        let cursor = |position| Cursor::new(Arc::new(DiskStorage), dir, log, Some(position));
        let (cursor, from, since_us, position) = match begin {
            Begin::Kept => {
                let cursor = Cursor::over_kept(Arc::new(DiskStorage), dir, log, None);
                (cursor, Sequence::FIRST, None, START)
            }
            Begin::After(position) if position.chain.is_some() => {
                (cursor(position), position.last.after(1), None, position)
            }
            Begin::After(Position { last, .. }) => return Self::open(dir, log, Begin::At(last.after(1))),
            Begin::At(from) => {
                let position = Position { last: from.before(), chain: None };
                (cursor(holding(dir, log, from)?.unwrap_or(position)), from, None, position)
            }
            Begin::Since(us) => {
                let position = before_time(dir, log, us)?;
                let cursor = Cursor::over_kept(Arc::new(DiskStorage), dir, log, position);
                (cursor, Sequence::FIRST, Some(us), position.unwrap_or(START))
            }
        };
        Ok(Self { cursor, from, since_us, position })
    }

    /// Returns the position up to which the log is printed or skipped.
    pub(super) const fn position(&self) -> Position {
        self.position
    }

    /// Returns the streams of the log so far.
    pub(super) fn streams(&self) -> impl Iterator<Item = &str> {
        self.cursor.schemas().map(|(_, schema)| schema.stream())
    }

    /// Prints the next batch, or notes the next gap, up to `limit`. Returns whether no record was missing.
    /// Returns `None` if there is no batch and no gap up to the limit.
    ///
    /// # Errors
    /// The log cannot be read ([`LogError`]), or the output cannot be written.
    pub(super) fn step(
        &mut self,
        limit: Option<Sequence>,
        printer: &mut Printer,
        out: &mut dyn Write,
    ) -> anyhow::Result<Option<bool>> {
        let log = self.cursor.log();
        let step = match self.cursor.step(limit) {
            // The next batch shows which records the damage destroyed.
            Err(LogError::DamagedEnd { .. }) => return Ok(None),
            step => step?,
        };
        let (is_whole, position) = match step {
            CursorStep::CaughtUp => return Ok(None),
            CursorStep::Batch(batch) => {
                let is_whole = if is_passed(&mut self.since_us, &batch) {
                    true
                } else {
                    printer.print(log, &batch, self.from, out)?
                };
                (is_whole, batch.end())
            }
            CursorStep::Gap(Gap { first, last, reason }) => {
                let is_whole = last < self.from;
                if !is_whole {
                    out.flush()?;
                    note(&format!("log {log}: records {first}-{last} are missing: {reason}"));
                }
                (is_whole, Position { last, chain: None })
            }
        };
        if position.last >= self.from.before() {
            self.position = position;
        }
        Ok(Some(is_whole))
    }
}

/// Returns whether a batch was written before the time to begin with. The first later batch ends the search,
/// because the clock may have been set back after that batch.
fn is_passed(since_us: &mut Option<i64>, batch: &RecordBatch<'_>) -> bool {
    let is_passed = since_us.is_some_and(|since| batch.stamp_us() < since);
    if !is_passed {
        *since_us = None;
    }
    is_passed
}

/// Returns the position before the segment that contains a record. `None` if all segments are newer.
fn holding(dir: &Path, log: LogId, record: Sequence) -> Result<Option<Position>, LogError> {
    let segments = segments(&DiskStorage, dir, log)?;
    let holding = segments.iter().rev().find(|(name, _)| name.first <= record);
    Ok(holding.map(|(name, _)| Position { last: name.first.before(), chain: None }))
}

/// Returns the position before the last segment whose first batch was written before a time. `None` if there
/// is no such segment.
fn before_time(dir: &Path, log: LogId, us: i64) -> Result<Option<Position>, LogError> {
    for (name, _) in segments(&DiskStorage, dir, log)?.into_iter().rev() {
        let position = Position { last: name.first.before(), chain: None };
        let mut cursor = Cursor::over_kept(Arc::new(DiskStorage), dir, log, Some(position));
        if let Ok(CursorStep::Batch(batch)) = cursor.step(None)
            && batch.stamp_us() < us
        {
            return Ok(Some(position));
        }
    }
    Ok(None)
}
