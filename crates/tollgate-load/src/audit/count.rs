//! Counts the records of a log by the footers of its segments, or record by record.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_log::{
    Cursor, CursorStep, LogError, LogId, Position, RecordBatch, SchemaId, SegmentFooter, SegmentName,
    SegmentState, Sequence, Storage, scan_segment,
};

use crate::footer::read_footer;
use crate::sink::{LogCounts, STREAM_UNKNOWN};

/// Counts of the records of one stream in the existing segments.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    /// Number of records up to the position.
    pub(super) passed: u64,
    pub(super) pending: u64,
}

/// Range of a log that a loader has passed to a sink: the records after `start` up to `last`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passed {
    start: Sequence,
    pub(super) last: Sequence,
}

impl Passed {
    pub(super) fn of(counts: &LogCounts) -> Self {
        Self { start: counts.start, last: counts.position.last }
    }
}

pub(super) type WrittenByStream = BTreeMap<String, Written>;

/// Counts the records of a log by the footers of its segments. Reads the records if a segment has no intact
/// footer, or has the position inside.
pub(super) fn count_log(
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
