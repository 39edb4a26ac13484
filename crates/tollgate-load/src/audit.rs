//! Compares the records in the segments with the counts that the sink reports.
//!
//! In each row: ingested = pending + loaded + rejected + duplicates + missing. The sink is read first, so
//! records that are written or loaded during the audit count as pending. A record before the position that is
//! neither loaded, rejected nor a duplicate is missing. The count of missing records does not use the gap
//! table, so it can be checked against that table.
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

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_log::{
    Cursor, CursorStep, FormatError, LogError, LogId, Position, RecordBatch, SchemaId, SegmentFooter,
    SegmentName, SegmentState, Sequence, Storage, log_ids, scan_segment, segment_header, segments,
};

use crate::error::AuditError;
use crate::footer::read_footer;
use crate::load::deleted_ends;
use crate::sink::{LogCounts, STREAM_UNKNOWN, SinkOptions, Taken};

/// Maximum number of reads of sink and segments. Both are read again if segments were deleted between the two
/// reads.
const LOOKS_MAX: usize = 3;

/// The account of one stream of one log in one sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Id of the log.
    pub log: LogId,
    /// The name of the machine that wrote the log: from its segments, or from the sink if they are gone.
    /// `None` if it is unknown.
    pub node: Option<String>,
    /// Name of the stream.
    pub stream: String,
    /// Number of records that were written.
    pub ingested: u64,
    /// Number of records after the position, which are still to be loaded.
    pub pending: u64,
    /// Number of rows in the sink.
    pub loaded: u64,
    /// Number of rejects in the sink.
    pub rejected: u64,
    /// Number of duplicates: records whose key another record has. The sink only counted them.
    pub duplicates: u64,
    /// Number of all other records, which are damaged or lost.
    pub missing: u64,
}

impl AuditRow {
    fn empty(log: LogId, stream: &str) -> Self {
        let stream = stream.to_owned();
        Self {
            log,
            node: None,
            stream,
            ingested: 0,
            pending: 0,
            loaded: 0,
            rejected: 0,
            duplicates: 0,
            missing: 0,
        }
    }

    /// Returns the number of records that have a result in the sink.
    fn settled(&self) -> u64 {
        self.loaded.saturating_add(self.rejected).saturating_add(self.duplicates)
    }

    /// Returns the number of records that the account has with any result.
    fn accounted(&self) -> u64 {
        self.pending.saturating_add(self.settled()).saturating_add(self.missing)
    }
}

/// The accounts of a folder of logs in one sink.
#[derive(Debug, Default)]
pub struct Audit {
    /// One row for each log and stream.
    pub rows: Vec<AuditRow>,
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
    let Look { mut rows, failed, .. } = look;
    rows.sort_by(|a, b| (a.log, &a.stream).cmp(&(b.log, &b.stream)));
    Ok(Audit { rows, failed })
}

/// One read of the sink, and then of the segments.
struct Look {
    rows: Vec<AuditRow>,
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
        let mut look = Self { rows: Vec::new(), failed: Vec::new(), is_outrun: false };
        for log in logs {
            let counts = in_sink.remove(&log);
            if let Err(error) = look.add(storage, dir, log, counts.as_ref(), &sink.taken) {
                look.failed.push((log, error));
            }
        }
        // The logs that remain in the map have no folder any more.
        for (log, counts) in &in_sink {
            look.rows.extend(account(*log, &sink.taken, Some(counts), &BTreeMap::new()));
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
        let passed = counts.map_or(Passed::default(), Passed::of);
        let names = segments(&**storage, dir, log)?;
        self.is_outrun |= is_outrun(&names, passed.last);
        let written = count_log(storage, dir, log, passed, &names)?;
        Ok(account(log, taken, counts, &written))
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

/// Returns whether the log has diverged from the log of `position`: the chain of the next batch is not the
/// chain of `position`. Deleted segments are not compared.
fn went_another_way(storage: &Arc<dyn Storage>, dir: &Path, log: LogId, position: Position) -> bool {
    let mut cursor = Cursor::new(storage.clone(), dir, log, Some(position));
    let step = cursor.step(Some(position.last.after(1)));
    matches!(step, Err(LogError::Damaged { source: FormatError::Chain { .. }, .. }))
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
    let mut rows = account(log, taken, None, &written);
    for row in &mut rows {
        (row.missing, row.pending) = (row.pending, 0);
    }
    Ok(rows)
}

/// Returns whether all remaining segments begin after the record that is to be loaded next.
fn is_outrun(names: &[(SegmentName, PathBuf)], position: Sequence) -> bool {
    names.first().is_some_and(|(oldest, _)| position > Sequence(0) && oldest.first > position.after(1))
}

/// Counts of the records of one stream in the existing segments.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    /// Number of records up to the position.
    passed: u64,
    pending: u64,
}

/// Range of a log that a loader has passed to a sink: the records after `start` up to `last`.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    start: Sequence,
    last: Sequence,
}

impl Passed {
    fn of(counts: &LogCounts) -> Self {
        Self { start: counts.start, last: counts.position.last }
    }
}

type WrittenByStream = BTreeMap<String, Written>;

/// Returns the account of one log. If the sink does not take a stream, the stream has a row only if the sink
/// took it earlier.
fn account(
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

/// Counts the records of a log by the footers of its segments. Reads the records if a segment has no intact
/// footer, or has the position inside.
fn count_log(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    passed: Passed,
    names: &[(SegmentName, PathBuf)],
) -> Result<WrittenByStream, LogError> {
    let mut counter =
        Counter { storage, dir, log, passed, streams: HashMap::new(), written: WrittenByStream::new() };
    for (index, (name, path)) in names.iter().enumerate() {
        let end = names.get(index + 1).map(|(next, _)| next.first.before());
        match counter.segment(*name, path, end) {
            // The segment was deleted after it was listed. The counts of the sink have its records.
            Err(error) if error.is_not_found() => {}
            result => result?,
        }
    }
    Ok(counter.written)
}

struct Counter<'a> {
    storage: &'a Arc<dyn Storage>,
    dir: &'a Path,
    log: LogId,
    passed: Passed,
    /// Streams by schema number. A schema has the same number throughout a log, so a segment with damaged
    /// schemas uses the streams of its neighbours.
    streams: HashMap<SchemaId, String>,
    written: WrittenByStream,
}

impl Counter<'_> {
    fn segment(&mut self, name: SegmentName, path: &Path, end: Option<Sequence>) -> Result<(), LogError> {
        let footer = match name.state {
            SegmentState::Sealed => read_footer(&**self.storage, path)?,
            SegmentState::Open | SegmentState::Damaged => None,
        };
        let Some(footer) = footer else { return self.walk(name, end) };
        if footer.last <= self.passed.start {
            return Ok(());
        }
        if name.first <= self.passed.start {
            return self.walk(name, Some(footer.last));
        }
        self.learn_streams(name, path, &footer)?;
        let is_passed = footer.last <= self.passed.last;
        if !is_passed && name.first <= self.passed.last {
            return self.walk_divided(name, &footer);
        }
        for count in &footer.counts {
            let records = count.rows + count.rejects;
            let written = self.stream(count.schema);
            let side = if is_passed { &mut written.passed } else { &mut written.pending };
            *side += records;
        }
        Ok(())
    }

    fn stream(&mut self, schema: SchemaId) -> &mut Written {
        let stream = self.streams.get(&schema).map_or(STREAM_UNKNOWN, String::as_str);
        if !self.written.contains_key(stream) {
            self.written.insert(stream.to_owned(), Written::default());
        }
        match self.written.get_mut(stream) {
            Some(written) => written,
            None => unreachable!("it was just put in"),
        }
    }

    /// Reads the schemas of a segment, which are before its first record. If that part is damaged, or if the
    /// segment has later schemas, reads the segment to its end.
    fn learn_streams(
        &mut self,
        name: SegmentName,
        path: &Path,
        footer: &SegmentFooter,
    ) -> Result<(), LogError> {
        if self.knows_all(footer) {
            return Ok(());
        }
        let mut cursor = self.cursor_at(name);
        cursor.step(Some(name.first))?;
        self.streams.extend(cursor.schemas().map(|(id, schema)| (id, schema.stream().to_owned())));
        if !self.knows_all(footer) {
            let scan = scan_segment(&**self.storage, path)?;
            self.streams.extend(scan.schemas.iter().map(|(id, schema)| (*id, schema.stream().to_owned())));
        }
        Ok(())
    }

    fn knows_all(&self, footer: &SegmentFooter) -> bool {
        footer.counts.iter().all(|count| self.streams.contains_key(&count.schema))
    }

    fn cursor_at(&self, name: SegmentName) -> Cursor {
        let before = Position { last: name.first.before(), chain: None };
        Cursor::new(self.storage.clone(), self.dir, self.log, Some(before))
    }

    /// Counts a segment with the position inside. Intact records after the position are pending. All other
    /// records that the footer counts are treated as passed.
    fn walk_divided(&mut self, name: SegmentName, footer: &SegmentFooter) -> Result<(), LogError> {
        let before = self.written.clone();
        self.walk(name, Some(footer.last))?;
        let mut totals: HashMap<SchemaId, u64> = HashMap::new();
        for count in &footer.counts {
            // A stream whose columns changed has several schemas. The counts of all of them are added to the
            // first schema.
            let stream = self.streams.get(&count.schema);
            let same = totals.keys().find(|known| self.streams.get(*known) == stream).copied();
            *totals.entry(same.unwrap_or(count.schema)).or_default() += count.rows + count.rejects;
        }
        for (schema, total) in totals {
            let stream = self.streams.get(&schema).map_or(STREAM_UNKNOWN, String::as_str);
            let old = before.get(stream).copied().unwrap_or_default();
            let written = self.stream(schema);
            let pending = written.pending.saturating_sub(old.pending);
            written.passed = old.passed.saturating_add(total.saturating_sub(pending));
        }
        Ok(())
    }

    fn walk(&mut self, name: SegmentName, end: Option<Sequence>) -> Result<(), LogError> {
        let mut cursor = self.cursor_at(name);
        loop {
            match cursor.step(end)? {
                CursorStep::CaughtUp => return Ok(()),
                CursorStep::Gap(_) => {}
                CursorStep::Batch(batch) => self.batch(&batch),
            }
        }
    }

    fn batch(&mut self, batch: &RecordBatch<'_>) {
        for record in batch.records().flatten() {
            let stream = self.streams.entry(record.schema_id);
            stream.or_insert_with(|| record.schema.stream().to_owned());
            if record.sequence <= self.passed.start {
                continue;
            }
            let is_passed = record.sequence <= self.passed.last;
            let written = self.stream(record.schema_id);
            let side = if is_passed { &mut written.passed } else { &mut written.pending };
            *side += 1;
        }
    }
}
