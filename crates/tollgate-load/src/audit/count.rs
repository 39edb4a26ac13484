//! Counts the records of a log by the footers of its segments, or record by record.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_log::{
    Cursor, CursorStep, Gap, LogError, LogId, Position, RecordBatch, SchemaId, SegmentFooter, SegmentName,
    SegmentState, Sequence, Storage, read_footer, scan_segment,
};

use crate::load::is_given_up;
use crate::sink::{LogCounts, STREAM_UNKNOWN};

/// The last place that records after the position have reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The records are only on the machine that wrote them.
    Unshipped,
    /// A store has the records. The loader may not be able to load them yet.
    Shipped,
    /// The loader can load the records next.
    Pending,
}

/// Counts of the records of one stream, in the segments that were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamRecords {
    /// Number of records up to the position.
    pub passed: u64,
    /// Number of these records that were read, and that an operator gave up.
    pub given_up: u64,
    /// Number of records after the position that are only on the machine that wrote them.
    pub unshipped: u64,
    /// Number of records after the position that a store has.
    pub shipped: u64,
    /// Number of records after the position that the loader can load next.
    pub pending: u64,
}

impl StreamRecords {
    /// Returns the number of records after the position.
    pub fn after(&self) -> u64 {
        self.unshipped.saturating_add(self.shipped).saturating_add(self.pending)
    }

    fn at(&mut self, place: Place) -> &mut u64 {
        match place {
            Place::Unshipped => &mut self.unshipped,
            Place::Shipped => &mut self.shipped,
            Place::Pending => &mut self.pending,
        }
    }
}

/// Counts of records by the name of the stream.
pub type RecordsByStream = BTreeMap<String, StreamRecords>;

/// Range of a log that a loader has passed to a sink: the records after `start` up to `last`.
#[derive(Debug, Clone, Default)]
pub(super) struct Passed {
    start: Sequence,
    pub(super) last: Sequence,
    /// The ranges that an operator gave up.
    given_up: Vec<(Sequence, Sequence)>,
}

impl Passed {
    pub(super) fn of(counts: &LogCounts) -> Self {
        Self { start: counts.start, last: counts.position.last, given_up: given_up_ranges(counts) }
    }

    fn up_to(last: Sequence) -> Self {
        Self { last, ..Self::default() }
    }

    /// Returns whether an operator gave up a record between these two.
    fn is_given_up(&self, (first, last): (Sequence, Sequence)) -> bool {
        self.given_up.iter().any(|range| range.0 <= last && first <= range.1)
    }
}

/// Returns the ranges of records up to the position that an operator gave up.
pub(super) fn given_up_ranges(counts: &LogCounts) -> Vec<(Sequence, Sequence)> {
    let given_up = counts.gaps.iter().filter(|gap| is_given_up(&gap.reason));
    let range = |gap: &Gap| (gap.first.max(counts.start.after(1)), gap.last.min(counts.position.last));
    given_up.map(range).collect()
}

/// Counts the records of a folder's log by stream.
pub(super) fn count_log(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    passed: Passed,
    names: &[(SegmentName, PathBuf)],
) -> Result<RecordsByStream, LogError> {
    let mut counter = RecordCounter::new(storage.clone(), log, passed);
    for (index, (name, _)) in names.iter().enumerate() {
        let end = names.get(index + 1).map(|(next, _)| next.first.before());
        match counter.count(dir, *name, end, Place::Pending) {
            // The segment was deleted after it was listed. The counts of the sink have its records.
            Err(error) if error.is_not_found() => {}
            result => result?,
        }
    }
    Ok(counter.records)
}

/// Counts the records of one log by stream, segment by segment.
///
/// The footer of a segment has the counts. The records are read only if a segment has no intact footer, or
/// has the position inside.
pub struct RecordCounter {
    storage: Arc<dyn Storage>,
    log: LogId,
    passed: Passed,
    /// Streams by schema number. A schema has the same number throughout a log, so a segment with damaged
    /// schemas uses the streams of its neighbours.
    streams: HashMap<SchemaId, String>,
    records: RecordsByStream,
}

/// A segment that is counted.
#[derive(Debug, Clone, Copy)]
struct Counted<'a> {
    dir: &'a Path,
    name: SegmentName,
    place: Place,
}

impl RecordCounter {
    pub(super) fn new(storage: Arc<dyn Storage>, log: LogId, passed: Passed) -> Self {
        Self { storage, log, passed, streams: HashMap::new(), records: RecordsByStream::new() }
    }

    /// Starts to count a log whose records up to `last` are passed.
    pub fn up_to(storage: Arc<dyn Storage>, log: LogId, last: Sequence) -> Self {
        Self::new(storage, log, Passed::up_to(last))
    }

    /// Returns the counts by the name of the stream.
    pub fn records(&self) -> &RecordsByStream {
        &self.records
    }

    /// Counts a segment in a folder of logs. Records after the position are at `place`.
    ///
    /// `end`: the last record that is read, if the segment has no footer.
    ///
    /// # Errors
    /// The segment cannot be read, or a sealed segment is gone.
    pub fn count(
        &mut self,
        dir: &Path,
        name: SegmentName,
        end: Option<Sequence>,
        place: Place,
    ) -> Result<(), LogError> {
        let segment = Counted { dir, name, place };
        let path = name.path(&dir.join(self.log.to_string()));
        let footer = match name.state {
            SegmentState::Sealed => read_footer(&*self.storage, &path)?,
            SegmentState::Open | SegmentState::Damaged => None,
        };
        let Some(footer) = footer else { return self.walk(segment, end) };
        if footer.last <= self.passed.start {
            return Ok(());
        }
        if name.first <= self.passed.start {
            return self.walk(segment, Some(footer.last));
        }
        self.learn_streams(segment, &path, &footer)?;
        let is_passed = footer.last <= self.passed.last;
        let is_divided = !is_passed && name.first <= self.passed.last;
        if is_divided || self.passed.is_given_up((name.first, footer.last)) {
            return self.walk_divided(segment, &footer);
        }
        for count in &footer.counts {
            let records = count.rows + count.rejects;
            let counts = self.stream(count.schema);
            let side = if is_passed { &mut counts.passed } else { counts.at(place) };
            *side += records;
        }
        Ok(())
    }

    fn stream(&mut self, schema: SchemaId) -> &mut StreamRecords {
        let stream = self.streams.get(&schema).map_or(STREAM_UNKNOWN, String::as_str);
        if !self.records.contains_key(stream) {
            self.records.insert(stream.to_owned(), StreamRecords::default());
        }
        match self.records.get_mut(stream) {
            Some(records) => records,
            None => unreachable!("it was just put in"),
        }
    }

    /// Reads the schemas of a segment, which are before its first record. If that part is damaged, or if the
    /// segment has later schemas, reads the segment to its end.
    fn learn_streams(
        &mut self,
        segment: Counted<'_>,
        path: &Path,
        footer: &SegmentFooter,
    ) -> Result<(), LogError> {
        if self.knows_all(footer) {
            return Ok(());
        }
        let mut cursor = self.cursor_at(segment);
        cursor.step(Some(segment.name.first))?;
        self.streams.extend(cursor.schemas().map(|(id, schema)| (id, schema.stream().to_owned())));
        if !self.knows_all(footer) {
            let scan = scan_segment(&*self.storage, path)?;
            self.streams.extend(scan.schemas.iter().map(|(id, schema)| (*id, schema.stream().to_owned())));
        }
        Ok(())
    }

    fn knows_all(&self, footer: &SegmentFooter) -> bool {
        footer.counts.iter().all(|count| self.streams.contains_key(&count.schema))
    }

    fn cursor_at(&self, segment: Counted<'_>) -> Cursor {
        let before = Position { last: segment.name.first.before(), chain: None };
        Cursor::new(self.storage.clone(), segment.dir, self.log, Some(before))
    }

    /// Counts a segment with the position, or a record that was given up, inside. All records that the footer
    /// counts are treated as passed, except intact records after the position.
    fn walk_divided(&mut self, segment: Counted<'_>, footer: &SegmentFooter) -> Result<(), LogError> {
        let before = self.records.clone();
        self.walk(segment, Some(footer.last))?;
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
            let counts = self.stream(schema);
            let after = counts.after().saturating_sub(old.after());
            counts.passed = old.passed.saturating_add(total.saturating_sub(after));
        }
        Ok(())
    }

    fn walk(&mut self, segment: Counted<'_>, end: Option<Sequence>) -> Result<(), LogError> {
        let mut cursor = self.cursor_at(segment);
        loop {
            match cursor.step(end)? {
                CursorStep::CaughtUp => return Ok(()),
                CursorStep::Gap(_) => {}
                CursorStep::Batch(batch) => self.batch(&batch, segment.place),
            }
        }
    }

    fn batch(&mut self, batch: &RecordBatch<'_>, place: Place) {
        for record in batch.records().flatten() {
            let stream = self.streams.entry(record.schema_id);
            stream.or_insert_with(|| record.schema.stream().to_owned());
            if record.sequence <= self.passed.start {
                continue;
            }
            let is_passed = record.sequence <= self.passed.last;
            let is_given_up = self.passed.is_given_up((record.sequence, record.sequence));
            let counts = self.stream(record.schema_id);
            let side = if is_passed { &mut counts.passed } else { counts.at(place) };
            *side += 1;
            counts.given_up += u64::from(is_given_up);
        }
    }
}
