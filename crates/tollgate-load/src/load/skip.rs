//! Skipping by hand: records that will not be had, or that nobody wants, become a gap, and the load goes on
//! behind them. Those of a gap that is there already are given up: nobody is told of them any more.

use std::path::Path;
use std::sync::Arc;

use tollgate_log::{Cursor, CursorStep, Gap, LogError, LogId, Position, Sequence, Storage};

use super::follow::{end_of_log, reach_of_sealed};
use crate::error::SinkError;
use crate::sink::{Sink, SinkOptions};

/// Why records are in a gap that could not be read. If they can be one day, they are loaded.
pub(super) const SKIPPED: &str = "skipped by command";
/// Why records are in a gap that could be read. They are not loaded by themselves.
pub(super) const SKIPPED_READABLE: &str = "skipped by command while readable";

/// Whether somebody knows of a gap and has given its records up.
pub(super) fn is_given_up(reason: &str) -> bool {
    reason.starts_with(SKIPPED)
}

/// Why nothing was skipped.
#[derive(Debug, thiserror::Error)]
pub enum SkipError {
    /// Not the records that are next, nor those of a gap that nobody has given up.
    #[error("records {first}-{last} of log {log} cannot be skipped: the next to be loaded is {next}")]
    NotNext {
        /// The log.
        log: LogId,
        /// What was asked for.
        first: Sequence,
        /// Its end.
        last: Sequence,
        /// What the sink waits for.
        next: Sequence,
    },
    /// Records that nobody has written yet, or that are in a segment that is open.
    #[error("record {last} of log {log} cannot be skipped: its sealed segments end at {end}")]
    Beyond {
        /// The log.
        log: LogId,
        /// What was asked for.
        last: Sequence,
        /// Where the log ends.
        end: Sequence,
    },
    /// A batch is skipped as a whole.
    #[error(
        "record {last} cannot be the last that is skipped: it is in the batch of {batch_first}-{batch_last}"
    )]
    InsideBatch {
        /// What was asked for.
        last: Sequence,
        /// The first of the batch.
        batch_first: Sequence,
        /// The last of the batch.
        batch_last: Sequence,
    },
    /// The log cannot be listed.
    #[error("cannot tell where the log ends")]
    Log(#[from] LogError),
    /// The database, or another loader that moved the position meanwhile.
    #[error("cannot note the gap")]
    Sink(#[from] SinkError),
}

/// Records `first` to `last` of a log become a gap of the sink, and its position moves behind them; or they
/// are one, which is given up. If its records turn up, they are loaded all the same.
///
/// # Errors
/// They are neither the next nor a gap, or not all of them exist here; the sink cannot be used.
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
        // Whoever filled it meanwhile has done better.
        sink.rename_gap(log, gap, &format!("{SKIPPED}: {}", gap.reason))?;
        return Ok(());
    }
    let position = sink.position(log)?;
    let next = position.map_or(first, |position| position.last.after(1));
    if first != next || first == Sequence(0) || last < first {
        return Err(SkipError::NotNext { log, first, last, next: next.max(Sequence::FIRST) });
    }
    check_end(storage, dir, log, last)?;
    let is_readable = is_readable(storage, dir, log, first, last)?;
    let reason = if is_readable { SKIPPED_READABLE } else { SKIPPED };
    let noted = note(&mut *sink, log, position, &Gap { first, last, reason: reason.to_owned() });
    if noted.is_err() {
        sink.rollback();
    }
    Ok(noted?)
}

/// A log of which nothing is here ends where the operator says.
fn check_end(storage: &Arc<dyn Storage>, dir: &Path, log: LogId, last: Sequence) -> Result<(), SkipError> {
    let reach = match reach_of_sealed(&**storage, dir, log) {
        Err(error) if error.is_not_found() => return Ok(()),
        reach => reach?,
    };
    match end_of_log(storage, dir, log, reach)? {
        Some(end) if end.last < last => Err(SkipError::Beyond { log, last, end: end.last }),
        _ => Ok(()),
    }
}

/// Whether any of the records can be read.
fn is_readable(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    first: Sequence,
    last: Sequence,
) -> Result<bool, SkipError> {
    let before = Position { last: first.before(), chain: None };
    let mut cursor = Cursor::new(storage.clone(), dir, log, Some(before));
    let mut is_readable = false;
    loop {
        match cursor.step(Some(last)) {
            Ok(CursorStep::Batch(batch)) if batch.end().last > last => {
                let (batch_first, batch_last) = (batch.first(), batch.end().last);
                return Err(SkipError::InsideBatch { last, batch_first, batch_last });
            }
            Ok(CursorStep::Batch(_)) => is_readable = true,
            Ok(CursorStep::Gap(_)) => {}
            Ok(CursorStep::CaughtUp) | Err(_) => return Ok(is_readable),
        }
    }
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
