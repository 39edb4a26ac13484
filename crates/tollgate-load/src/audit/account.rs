//! Compares the counts of a sink with the counts of the segments of one log.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_log::LogId;

use super::count::WrittenByStream;
use super::row::AuditRow;
use crate::sink::{LogCounts, STREAM_UNKNOWN, Taken};

/// Returns the account of one log. If the sink does not take a stream, the stream has a row only if the sink
/// took it earlier.
pub(super) fn account(
    log: LogId,
    taken: &Taken,
    counts: Option<&LogCounts>,
    written: &WrittenByStream,
) -> Vec<AuditRow> {
    let mut rows: BTreeMap<String, AuditRow> = BTreeMap::new();
    let in_sink = |stream: &String| counts.and_then(|counts| counts.streams.get(stream)).copied();
    let known = counts.iter().flat_map(|counts| counts.streams.keys());
    let mut known_records = 0_u64;
    for stream in known.chain(written.keys()).collect::<BTreeSet<_>>() {
        let count = in_sink(stream).unwrap_or_default();
        let written = written.get(stream).copied().unwrap_or_default();
        let accounted = count.settled().saturating_add(count.skipped);
        known_records = accounted.max(written.passed).saturating_add(known_records);
        let is_taken = taken.takes(stream);
        if is_taken || count.settled() > 0 {
            let row = row_of(&mut rows, log, stream);
            (row.loaded, row.rejected, row.duplicates) = (count.loaded, count.rejected, count.duplicates);
            if is_taken {
                row.pending = written.pending;
                row.missing = written.passed.saturating_sub(accounted);
            }
        }
    }
    let passed = counts.map_or(0, |counts| counts.position.last.0.saturating_sub(counts.start.0));
    if let Some(missing) = passed.checked_sub(known_records).filter(|missing| *missing > 0) {
        let row = row_of(&mut rows, log, STREAM_UNKNOWN);
        row.missing = row.missing.saturating_add(missing);
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.retain(|row| row.accounted() > 0);
    count_ingested(&mut rows, known_records.saturating_sub(passed));
    rows
}

/// Sets `ingested` of each row to the sum of its counts. Subtracts the records that the sink reports, but the
/// log never had.
fn count_ingested(rows: &mut [AuditRow], mut never_given: u64) {
    for row in rows {
        let taken_off = never_given.min(row.settled());
        never_given -= taken_off;
        row.ingested = row.accounted() - taken_off;
    }
}

fn row_of<'a>(rows: &'a mut BTreeMap<String, AuditRow>, log: LogId, stream: &str) -> &'a mut AuditRow {
    rows.entry(stream.to_owned()).or_insert_with(|| AuditRow::empty(log, stream))
}
