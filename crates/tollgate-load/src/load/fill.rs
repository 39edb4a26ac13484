//! Fills gaps. A segment that was repaired or added later has records that the sink counts as missing.
//!
//! The gaps of a log are checked again if its segment files changed since the last check.

use std::path::Path;
use std::sync::Arc;

use tollgate_log::{Cursor, CursorStep, Gap, LogId, Position, Storage};

use super::chunk::{ChunkError, leave_out};
use super::skip::SKIPPED_READABLE;
use crate::sink::{Sink, Taken};

/// Sizes at which a fill ends, after the current batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct FillLimits {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// Records of a gap in the open transaction of a sink.
pub(super) struct Fill {
    /// The remaining gaps.
    pub(super) left: Vec<Gap>,
    pub(super) bytes: u64,
}

/// Writes the records of a gap that can be read into a transaction, which the caller commits. Returns `None`
/// if no record can be read.
///
/// One call ends after the batch that reaches one of the `limits`. The remaining gap is checked again by the
/// next call.
pub(super) fn fill(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    gap: &Gap,
    (sink, taken): (&mut dyn Sink, &Taken),
    limits: FillLimits,
) -> Result<Option<Fill>, ChunkError> {
    if gap.reason == SKIPPED_READABLE {
        return Ok(None);
    }
    let mut next = gap.first;
    let (mut left, mut rows, mut bytes) = (Vec::new(), 0, 0);
    // The streams of the fill. `None`: it has not begun.
    let mut streams: Option<Taken> = None;
    let mut cursor =
        Cursor::new(storage.clone(), dir, log, Some(Position { last: gap.first.before(), chain: None }));
    while next <= gap.last && rows < limits.rows && bytes < limits.bytes {
        match cursor.step(Some(gap.last))? {
            CursorStep::CaughtUp => break,
            CursorStep::Gap(found) => {
                left.push(Gap { reason: gap.reason.clone(), ..found });
                next = found.last.after(1);
            }
            // The gap covers only the end of this batch, because an operator skipped it. So the batch is not
            // loaded.
            CursorStep::Batch(batch) if batch.end().last > gap.last => break,
            CursorStep::Batch(mut batch) => {
                let streams = match &mut streams {
                    Some(streams) => streams,
                    None => streams.insert(sink.begin_fill(log, gap, taken)?),
                };
                leave_out(&mut batch, streams, sink);
                sink.write(&batch)?;
                rows += batch.first().count_to(batch.end().last);
                bytes += batch.bytes() as u64;
                next = batch.end().last.after(1);
            }
        }
    }
    if streams.is_none() {
        return Ok(None);
    }
    if next <= gap.last {
        left.push(Gap { first: next, last: gap.last, reason: gap.reason.clone() });
    }
    Ok(Some(Fill { left, bytes }))
}
