//! Skips records by command. Records that are lost or unwanted become a gap, and the load continues after
//! them.
//!
//! The records of an existing gap can be given up. Such records are then no longer reported as missing.

use std::path::Path;
use std::sync::Arc;

use tollgate_log::{Cursor, CursorStep, Gap, LogError, LogId, Position, Sequence, Storage};

use super::follow::{end_of_log, reach_of_sealed};
use crate::error::SinkError;
use crate::sink::{Decided, Sink, SinkOptions, Taken};

/// Reason of a gap whose records could not be read. If they become readable, they are loaded.
pub(super) const SKIPPED: &str = "skipped by command";
/// Reason of a gap whose records could be read. Such records are not loaded automatically.
pub(super) const SKIPPED_READABLE: &str = "skipped by command while readable";

/// Returns whether an operator has given up the records of a gap.
pub(crate) fn is_given_up(reason: &str) -> bool {
    reason.starts_with(SKIPPED)
}

/// Why no record was skipped.
#[derive(Debug, thiserror::Error)]
pub enum SkipError {
    /// The records are neither the next records of the log, nor the records of a gap that no operator has
    /// given up.
    #[error("records {first}-{last} of log {log} cannot be skipped: the next record to load is {next}")]
    NotNext {
        /// The log of the records.
        log: LogId,
        /// First record of the command.
        first: Sequence,
        /// Last record of the command.
        last: Sequence,
        /// Next record that the sink needs.
        next: Sequence,
    },
    /// The records are not written yet, or are in an open segment. They are not the end of a decided load.
    #[error("record {last} of log {log} cannot be skipped: its sealed segments end at {end}")]
    Beyond {
        /// The log of the records.
        log: LogId,
        /// Last record of the command.
        last: Sequence,
        /// Last record that may be skipped.
        end: Sequence,
    },
    /// The command ends inside a batch. A batch is skipped as a whole.
    #[error(
        "record {last} cannot be the last that is skipped: it is inside batch {batch_first}-{batch_last}, \
         and only whole batches can be skipped"
    )]
    InsideBatch {
        /// Last record of the command.
        last: Sequence,
        /// First record of the batch.
        batch_first: Sequence,
        /// Last record of the batch.
        batch_last: Sequence,
    },
    /// The log cannot be listed.
    #[error("cannot find the end of the log")]
    Log(#[from] LogError),
    /// The database failed, or another loader moved the position during the command.
    #[error("cannot record the gap")]
    Sink(#[from] SinkError),
}

/// Makes records `first` to `last` of a log a gap of the sink, and moves the sink's position after them. If
/// there is a gap with these records already, that gap is given up. If the records of such a gap are found
/// again, they are loaded nevertheless.
///
/// # Errors
/// The records are neither the next ones nor a gap, not all of them exist in the log, or the sink cannot be
/// used.
pub fn skip(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    sink: &SinkOptions,
    log: LogId,
    (first, last): (Sequence, Sequence),
) -> Result<(), SkipError> {
    let mut sink = sink.open()?;
    let is_meant = |gap: &&Gap| (gap.first, gap.last) == (first, last) && !is_given_up(&gap.reason);
    if let Some(gap) = sink.gaps(log)?.iter().find(is_meant) {
        // If a loader has filled the gap in the meantime, there is no gap to rename.
        sink.rename_gap(log, gap, &format!("{SKIPPED}: {}", gap.reason))?;
        return Ok(());
    }
    let position = sink.position(log)?;
    let next = position.map_or(first, |position| position.last.after(1));
    if first != next || first == Sequence(0) || last < first {
        return Err(SkipError::NotNext { log, first, last, next: next.max(Sequence::FIRST) });
    }
    let planned = planned_end(&mut *sink, log, position)?;
    let is_cut = check_end(storage, dir, log, last, planned)?;
    // The damage that stops a decided load may be after the records of the command.
    let is_whole = match planned.filter(|planned| *planned > last) {
        Some(planned) => !is_cut && readable(storage, dir, log, last.after(1), planned)? == Readable::All,
        None => !is_cut,
    };
    let readable = match readable(storage, dir, log, first, last)? {
        Readable::All if !is_whole => Readable::Part,
        readable => readable,
    };
    let skipped = skip_next(&mut *sink, log, position, (first, last), readable);
    if skipped.is_err() {
        sink.rollback();
    }
    skipped
}

/// Returns the last record of the next load, if an earlier try decided it.
fn planned_end(
    sink: &mut dyn Sink,
    log: LogId,
    position: Option<Position>,
) -> Result<Option<Sequence>, SinkError> {
    let planned = sink.planned(log, position, &Taken::All)?;
    if planned.is_some() {
        // The gap follows no plan.
        sink.rollback();
    }
    Ok(planned.map(|planned| planned.last))
}

/// Makes the next records of a log a gap. An earlier try may have decided a load of them.
fn skip_next(
    sink: &mut dyn Sink,
    log: LogId,
    position: Option<Position>,
    (first, last): (Sequence, Sequence),
    readable: Readable,
) -> Result<(), SkipError> {
    sink.begin(log, position)?;
    let reason = match (sink.replace_decided()?, readable) {
        (Decided::Committed, _) => {
            let next = sink.position(log)?.map_or(Sequence::FIRST, |position| position.last.after(1));
            return Err(SkipError::NotNext { log, first, last, next });
        }
        // The damage is the reason for the command. The records of the load that can be read are wanted.
        (Decided::Replaced, Readable::Part) | (_, Readable::None) => SKIPPED,
        (_, Readable::Part | Readable::All) => SKIPPED_READABLE,
    };
    sink.gap(&Gap { first, last, reason: reason.to_owned() })?;
    Ok(sink.commit(Position { last, chain: None }).map(drop)?)
}

/// Which of the records of a command can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readable {
    None,
    Part,
    All,
}

/// Checks that the log contains the record `last`. If the folder of the log is missing, the log is assumed to
/// end with `last`. If the end of the log is lost, a decided load shows that the log had the record
/// `planned`.
///
/// Returns whether the log ends before this decided load.
fn check_end(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    last: Sequence,
    planned: Option<Sequence>,
) -> Result<bool, SkipError> {
    let reach = match reach_of_sealed(&**storage, dir, log) {
        Err(error) if error.is_not_found() => return Ok(false),
        reach => reach?,
    };
    match end_of_log(storage, dir, log, reach)? {
        Some(end) if end.last < last && planned != Some(last) => {
            Err(SkipError::Beyond { log, last, end: end.last })
        }
        end => Ok(planned.is_some_and(|planned| end.is_some_and(|end| end.last < planned))),
    }
}

/// Returns which of the records can be read.
fn readable(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    first: Sequence,
    last: Sequence,
) -> Result<Readable, SkipError> {
    let before = Position { last: first.before(), chain: None };
    let mut cursor = Cursor::new(storage.clone(), dir, log, Some(before));
    let (mut any, mut all) = (false, true);
    loop {
        match cursor.step(Some(last)) {
            Ok(CursorStep::Batch(batch)) if batch.end().last > last => {
                let (batch_first, batch_last) = (batch.first(), batch.end().last);
                return Err(SkipError::InsideBatch { last, batch_first, batch_last });
            }
            Ok(CursorStep::Batch(_)) => any = true,
            Ok(CursorStep::Gap(_)) => all = false,
            Ok(CursorStep::CaughtUp) => break,
            Err(_) => {
                all = false;
                break;
            }
        }
    }
    Ok(match (any, all) {
        (false, _) => Readable::None,
        (true, false) => Readable::Part,
        (true, true) => Readable::All,
    })
}

/// Makes the next records of a log a gap.
pub(super) fn note(
    sink: &mut dyn Sink,
    log: LogId,
    position: Option<Position>,
    gap: &Gap,
) -> Result<(), SinkError> {
    sink.begin(log, position)?;
    sink.gap(gap)?;
    sink.commit(Position { last: gap.last, chain: None }).map(drop)
}
