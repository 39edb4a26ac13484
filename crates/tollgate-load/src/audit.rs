//! Compares the records in the segments with the counts that the sink reports.
//!
//! In each row: ingested = pending + loaded + rejected + duplicates + given up + missing. The sink is read
//! first, so records that are written or loaded during the audit count as pending. A record before the
//! position that is neither loaded, rejected nor a duplicate is given up or missing. It is given up if it is
//! in a gap that an operator gave up by command. The sum of both counts does not use the gap table, so it can
//! be checked against that table.
//!
//! A log may have diverged from the log that the sink loaded under the same id. For example, a machine and
//! its snapshot both continued to write. The records of the diverged log are in no sink. All of them that are
//! kept count as missing, because the point where the two logs diverged is unknown.
//!
//! The stream of a record is unknown if the segment is gone or lost its footer. The record then counts in the
//! row of the stream [`STREAM_UNKNOWN`].
//!
//! The account of a sink covers the streams that the sink takes. Records of other streams count as skipped,
//! not as missing, even if a stream is added or removed later. Records before the start of the sink do not
//! count.
//!
//! Records in segments that retention deleted stay in the account. Records are numbered without gaps, so the
//! position shows how many records the log had. The sink counts the results of records in each transaction.
//! If the sink reports more results than the log had records, the excess is subtracted from ingested. The
//! account then does not add up.

mod account;
mod count;
mod diverged;
mod gap;
mod row;
mod sink;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_log::{
    LogError, LogId, Position, SegmentName, Sequence, Storage, log_ids, segment_header, segments,
};

use crate::error::AuditError;
use crate::load::deleted_ends;
use crate::sink::{LogCounts, STREAM_UNKNOWN, SinkOptions, Taken};
pub use account::LogAccount;
use account::account;
use count::{Passed, count_log};
pub use count::{Place, RecordCounter, RecordsByStream, StreamRecords};
use diverged::went_another_way;
use gap::gaps_of;
pub use gap::{SinkGap, sink_gaps};
pub use row::AuditRow;
pub use sink::SinkAccount;

/// Maximum number of reads of sink and segments. Both are read again if segments were deleted between the two
/// reads.
const LOOKS_MAX: usize = 3;

/// The accounts of a folder of logs in one sink.
#[derive(Debug, Default)]
pub struct Audit {
    /// One row for each log and stream.
    pub rows: Vec<AuditRow>,
    /// The gaps of the sink, including those that an operator gave up.
    pub gaps: Vec<SinkGap>,
    /// Logs that cannot be counted because their folder or a segment cannot be read, with the error. These
    /// logs have no rows.
    pub failed: Vec<(LogId, LogError)>,
}

/// Compares the logs of a folder with a sink.
///
/// # Errors
/// The folder or the sink cannot be read. The error of one log is in the result, next to the rows of the
/// other logs.
pub fn audit(
    storage: &(impl Storage + Clone + 'static),
    dir: &Path,
    sink: &SinkOptions,
) -> Result<Audit, AuditError> {
    // A cursor owns its storage.
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut look = Look::take(&storage, dir, sink)?;
    for _ in 1..LOOKS_MAX {
        if !look.is_outrun {
            break;
        }
        look = Look::take(&storage, dir, sink)?;
    }
    let Look { mut rows, gaps, failed, .. } = look;
    rows.sort_by(|a, b| (a.log, &a.stream).cmp(&(b.log, &b.stream)));
    Ok(Audit { rows, gaps, failed })
}

/// One read of the sink, and then of the segments.
struct Look {
    rows: Vec<AuditRow>,
    gaps: Vec<SinkGap>,
    failed: Vec<(LogId, LogError)>,
    /// Whether segments with pending records are gone. The records were loaded and deleted between the two
    /// reads, or they are lost.
    is_outrun: bool,
}

impl Look {
    fn take(storage: &Arc<dyn Storage>, dir: &Path, sink: &SinkOptions) -> Result<Self, AuditError> {
        // The deleted records are read before the sink, so the sink had all of them already.
        let deleted = deleted_ends(&**storage, dir)?;
        let counts = sink.counts()?.into_iter().map(|counts| (counts.log, counts));
        let mut in_sink: BTreeMap<_, _> = counts.collect();
        let nodes: BTreeMap<_, _> =
            in_sink.iter().filter_map(|(log, counts)| Some((*log, counts.node.clone()?))).collect();
        let lost = lost(&deleted, &in_sink);
        let logs = match log_ids(&**storage, dir) {
            Err(error) if error.is_not_found() => Vec::new(),
            logs => logs?,
        };
        let gaps = in_sink.values().flat_map(gaps_of).collect();
        let mut look = Self { rows: Vec::new(), gaps, failed: Vec::new(), is_outrun: false };
        for log in logs {
            let counts = in_sink.remove(&log);
            if let Err(error) = look.add(storage, dir, log, counts.as_ref(), &sink.taken) {
                look.failed.push((log, error));
            }
        }
        // The logs that remain in the map have no folder any more.
        for (log, counts) in &in_sink {
            look.rows.extend(account(*log, &sink.taken, Some(counts), &RecordsByStream::new()).rows);
        }
        look.rows.extend(lost);
        for row in look.rows.iter_mut().filter(|row| row.node.is_none()) {
            row.node = nodes.get(&row.log).cloned();
        }
        Ok(look)
    }

    /// Adds the account of one log.
    fn add(
        &mut self,
        storage: &Arc<dyn Storage>,
        dir: &Path,
        log: LogId,
        counts: Option<&LogCounts>,
        taken: &Taken,
    ) -> Result<(), LogError> {
        let mut rows = self.rows_of(storage, dir, log, counts, taken)?;
        let node = node_of(&**storage, dir, log)?;
        rows.iter_mut().for_each(|row| row.node.clone_from(&node));
        self.rows.extend(rows);
        Ok(())
    }

    fn rows_of(
        &mut self,
        storage: &Arc<dyn Storage>,
        dir: &Path,
        log: LogId,
        counts: Option<&LogCounts>,
        taken: &Taken,
    ) -> Result<Vec<AuditRow>, LogError> {
        if let Some(counts) = counts
            && went_another_way(storage, dir, log, counts.position)
        {
            return nowhere(storage, dir, log, taken);
        }
        let passed = counts.map_or_else(Passed::default, Passed::of);
        let names = segments(&**storage, dir, log)?;
        self.is_outrun |= is_outrun(&names, passed.last);
        let written = count_log(storage, dir, log, passed, &names)?;
        Ok(account(log, taken, counts, &written).rows)
    }
}

/// Returns the name of the machine in the first intact header of a log.
fn node_of(storage: &dyn Storage, dir: &Path, log: LogId) -> Result<Option<String>, LogError> {
    for (_, path) in segments(storage, dir, log)? {
        match segment_header(storage, &path) {
            Ok(Some(header)) => return Ok(Some(header.node).filter(|node| !node.is_empty())),
            Ok(None) => {}
            // The segment was renamed or deleted after it was listed.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns rows for deleted records that a restored database lacks. The loader of the sink will report these
/// records as a gap. A sink without any position is new, and has no such rows.
fn lost(deleted: &BTreeMap<LogId, Position>, in_sink: &BTreeMap<LogId, LogCounts>) -> Vec<AuditRow> {
    let lost = deleted.iter().filter_map(|(log, end)| {
        let has = in_sink.get(log).map_or(Sequence(0), |counts| counts.position.last);
        let missing = end.last.0.checked_sub(has.0).filter(|missing| *missing > 0)?;
        Some(AuditRow { missing, ingested: missing, ..AuditRow::empty(*log, STREAM_UNKNOWN) })
    });
    if in_sink.is_empty() { Vec::new() } else { lost.collect() }
}

/// Returns the audit rows of a log that has diverged from the log of the sink's position. All its records
/// count as missing, because the sink has none of them.
fn nowhere(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    taken: &Taken,
) -> Result<Vec<AuditRow>, LogError> {
    let names = segments(&**storage, dir, log)?;
    let written = count_log(storage, dir, log, Passed::default(), &names)?;
    let mut rows = account(log, taken, None, &written).rows;
    for row in &mut rows {
        (row.missing, row.pending) = (row.pending, 0);
    }
    Ok(rows)
}

/// Returns whether all remaining segments begin after the record that is to be loaded next.
fn is_outrun(names: &[(SegmentName, PathBuf)], position: Sequence) -> bool {
    names.first().is_some_and(|(oldest, _)| position > Sequence(0) && oldest.first > position.after(1))
}
