//! Compares the counts of a sink with the counts of the segments of one log.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_log::LogId;

use super::count::{RecordsByStream, given_up_ranges};
use super::row::AuditRow;
use crate::sink::{LogCounts, STREAM_UNKNOWN, Taken};

/// The account of one log.
#[derive(Debug, Clone, Default)]
pub struct LogAccount {
    /// One row for each stream that the sink takes, or took earlier.
    pub rows: Vec<AuditRow>,
    /// Number of the other records: those of streams that the sink does not take.
    pub not_taken: u64,
}

/// Returns the account of one log. If the sink does not take a stream, the stream has a row only if the sink
/// took it earlier.
pub(super) fn account(
    log: LogId,
    taken: &Taken,
    counts: Option<&LogCounts>,
    records: &RecordsByStream,
) -> LogAccount {
    let mut rows: BTreeMap<String, AuditRow> = BTreeMap::new();
    let in_sink = |stream: &String| counts.and_then(|counts| counts.streams.get(stream)).copied();
    let known = counts.iter().flat_map(|counts| counts.streams.keys());
    let (mut known_records, mut not_taken) = (0_u64, 0_u64);
    for stream in known.chain(records.keys()).collect::<BTreeSet<_>>() {
        let count = in_sink(stream).unwrap_or_default();
        let found = records.get(stream).copied().unwrap_or_default();
        let accounted = count.settled().saturating_add(count.skipped);
        let passed = accounted.max(found.passed);
        known_records = known_records.saturating_add(passed);
        let is_taken = taken.takes(stream);
        if is_taken || count.settled() > 0 {
            let row = row_of(&mut rows, log, stream);
            (row.loaded, row.rejected, row.duplicates) = (count.loaded, count.rejected, count.duplicates);
            if is_taken {
                (row.shipped, row.pending) = (found.shipped, found.pending);
                row.missing = found.passed.saturating_sub(accounted);
                give_up(row, found.given_up);
            }
        }
        let in_row = rows.get(stream).map_or(0, AuditRow::accounted);
        not_taken += passed.saturating_add(found.after()).saturating_sub(in_row);
    }
    let passed = counts.map_or(0, |counts| records_passed(counts, known_records));
    if let Some(missing) = passed.checked_sub(known_records).filter(|missing| *missing > 0) {
        let row = row_of(&mut rows, log, STREAM_UNKNOWN);
        row.missing = row.missing.saturating_add(missing);
    }
    let read = records.values().map(|records| records.given_up).sum();
    give_up_unread(&mut rows, counts.map_or(0, given_up_records).saturating_sub(read));
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.retain(|row| row.accounted() > 0);
    count_ingested(&mut rows, known_records.saturating_sub(passed));
    LogAccount { rows, not_taken }
}

/// Returns the number of records up to the position. Some offsets of a topic have no record.
fn records_passed(counts: &LogCounts, known: u64) -> u64 {
    if counts.log.is_of_partition() {
        let missing = counts.gaps.iter().map(|gap| gap.first.count_to(gap.last));
        return missing.fold(known, u64::saturating_add);
    }
    counts.position.last.0.saturating_sub(counts.start.0)
}

/// Returns the number of records up to the position that an operator gave up.
fn given_up_records(counts: &LogCounts) -> u64 {
    let ranges = given_up_ranges(counts).into_iter();
    ranges.map(|(first, last)| first.count_to(last)).fold(0, u64::saturating_add)
}

/// Moves up to `records` records of a row from missing to given up.
fn give_up(row: &mut AuditRow, records: u64) {
    let given_up = records.min(row.missing);
    row.missing -= given_up;
    row.given_up += given_up;
}

/// Moves the records that were given up and could not be read from missing to given up. Their streams are
/// unknown, so the row of the unknown stream is the first.
fn give_up_unread(rows: &mut BTreeMap<String, AuditRow>, mut left: u64) {
    // The name of the unknown stream is before all others, because it begins with a parenthesis.
    for row in rows.values_mut() {
        let before = row.missing;
        give_up(row, left);
        left -= before - row.missing;
    }
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
