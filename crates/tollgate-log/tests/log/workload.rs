//! A log that a test writes step by step, and the [`Law`] that every later read has to obey.
//!
//! The content of the n-th record is computed from n, so each read can be checked.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_log::{
    AppendError, AppendedRecords, Appender, ClosedSegment, Column, ColumnOrigin, ColumnType, Cursor,
    CursorStep, Gap, Handover, Level, LogError, LogId, Position, RecordBody, RecoveryReport, RowEncoder,
    Schema, SchemaId, SegmentDigestAlgorithm, SegmentName, SegmentState, SegmentWriter, Sequence, SyncWork,
    Value, log_ids, make_folder, recover, scan_segment, segments,
};

use crate::sim::Sim;

/// Returns the folder of all logs. The log has to create it and its parent.
pub(crate) fn dir() -> PathBuf {
    PathBuf::from("/data/log")
}

pub(crate) fn schema() -> Schema {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored };
    Schema::new("visits", vec![column("n", ColumnType::Int), column("path", ColumnType::Text)]).unwrap()
}

/// Returns the text of the n-th record. Some texts are long, so that batches cross sectors and pages.
pub(crate) fn text(n: u64) -> String {
    let length = if n % 17 == 16 { 5_000 } else { n as usize % 90 };
    format!("{n}:{}", "x".repeat(length))
}

/// Appends one row in the bytes of the format.
fn push_row(out: &mut Vec<u8>, n: u64) {
    let text = text(n);
    out.extend_from_slice(&(1 + 8 + 4 + text.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0, 0, 0, 0, 0b11]);
    out.extend_from_slice(&n.to_le_bytes());
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Makes a batch of `count` records, beginning with `first`.
pub(crate) fn batch(first: u64, count: u32) -> Handover {
    let mut payload = Vec::new();
    for n in first..first + u64::from(count) {
        push_row(&mut payload, n);
    }
    Handover { payload_checksum: crc32c::crc32c(&payload), payload, count, schema_mask: SchemaId(0).mask() }
}

pub(crate) fn new_writer(sim: &Sim) -> SegmentWriter {
    SegmentWriter::new(sim.storage(), &dir(), None, "node", vec![(SchemaId(0), Arc::new(schema()))])
}

/// Appends the records of these numbers as one transaction.
pub(crate) fn append(
    appender: &mut Appender,
    level: Level,
    numbers: RangeInclusive<u64>,
) -> Result<AppendedRecords, AppendError> {
    let push = |row: &mut RowEncoder<'_>, n: u64| {
        row.push(Value::Int(n as i64))?;
        row.push(Value::Text(&text(n)))
    };
    let (appended, ()) = appender.append(level, |transaction| {
        for n in numbers {
            transaction.row(SchemaId(0), |row| push(row, n)).unwrap();
        }
    })?;
    Ok(appended.unwrap())
}

/// Bytes of zeros by which files grow in workloads: none, and a number between the sizes of the writes.
pub(crate) const RUNWAYS: [usize; 2] = [0, 700];

/// A step of a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Two batches in one write: one of this many records, and one of a single record.
    Write(u32),
    /// Take the sync work so far. This work does not cover later writes.
    Take,
    /// Sync the taken work, or all work if none was taken.
    Sync,
    Close,
    /// Seal the oldest closed segment, if its records are synced.
    Seal,
}

/// Writes one log, and notes which records are acknowledged.
pub(crate) struct Driver {
    sim: Sim,
    writer: SegmentWriter,
    taken: SyncWork,
    closed: Vec<ClosedSegment>,
    digest_before: [u8; 64],
    pub(crate) law: Law,
}

impl Driver {
    pub(crate) fn new(sim: &Sim) -> Self {
        Self::with_runway(sim, 0)
    }

    /// Makes a driver whose files grow by `bytes` zeros.
    pub(crate) fn with_runway(sim: &Sim, bytes: usize) -> Self {
        let writer = new_writer(sim).with_runway(bytes);
        let law = Law { log: writer.log(), acknowledged: 0, attempted: 0, ends: vec![0] };
        let sim = sim.clone();
        Self { sim, writer, taken: SyncWork::default(), closed: Vec::new(), digest_before: [0; 64], law }
    }

    /// Runs steps until one fails.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<(), LogError> {
        steps.iter().try_for_each(|step| self.step(*step))
    }

    pub(crate) fn step(&mut self, step: Step) -> Result<(), LogError> {
        match step {
            Step::Write(count) => self.write(count)?,
            Step::Take => self.taken.merge(self.writer.take_sync_work()),
            Step::Sync => self.sync()?,
            Step::Close => self.closed.extend(self.writer.close_segment()),
            Step::Seal => self.seal()?,
        }
        Ok(())
    }

    pub(crate) fn declare(&mut self, schemas: Vec<(SchemaId, Arc<Schema>)>) {
        self.writer.declare(schemas);
    }

    fn write(&mut self, count: u32) -> Result<(), LogError> {
        let first = self.law.attempted + 1;
        let batches = [batch(first, count), batch(first + u64::from(count), 1)];
        self.law.attempt(count);
        self.law.attempt(1);
        self.writer.write(&batches, Sequence(self.law.acknowledged), 0)?;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogError> {
        if self.taken.is_empty() {
            self.taken = self.writer.take_sync_work();
        }
        let work = std::mem::take(&mut self.taken);
        if !work.is_empty() {
            self.law.acknowledged = work.run(&self.sim)?.0;
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), LogError> {
        if self.closed.first().is_some_and(|segment| segment.last().0 <= self.law.acknowledged) {
            let footer =
                self.closed.remove(0).seal(&self.sim, SegmentDigestAlgorithm::Sha256, self.digest_before)?;
            self.digest_before = footer.digest_bytes();
        }
        Ok(())
    }
}

/// The records that may and must be found in a log.
#[derive(Debug, Clone)]
pub(crate) struct Law {
    pub(crate) log: LogId,
    /// All records up to this one must exist.
    pub(crate) acknowledged: u64,
    /// No record after this one may exist.
    pub(crate) attempted: u64,
    /// Last record number of each batch. A read ends at one of these numbers.
    ends: Vec<u64>,
}

impl Law {
    pub(crate) fn new(log: LogId) -> Self {
        Self { log, acknowledged: 0, attempted: 0, ends: vec![0] }
    }

    pub(crate) fn attempt(&mut self, count: u32) {
        self.attempted += u64::from(count);
        self.ends.push(self.attempted);
    }

    /// Checks the records that a reader finds, and returns the number of the last one.
    pub(crate) fn check(&self, sim: &Sim, report: &RecoveryReport, context: &str) -> u64 {
        assert!(report.failed.is_empty(), "{context}: {:?}", report.failed);
        let found = read(sim, self.log);
        if !has_headless_segment(sim, self.log, context) {
            assert!(found.gaps.is_empty(), "{context}: {:?}", found.gaps);
            let whole: Vec<_> = (1..=found.numbers.len() as u64).collect();
            assert_eq!(found.numbers, whole, "{context}: not gap-free");
            assert!(self.ends.contains(&found.last()), "{context}: {} is inside a batch", found.last());
        }
        for n in 1..=self.acknowledged {
            assert!(
                found.numbers.contains(&n),
                "{context}: {n} was acknowledged of {self:?}, found {found:?}"
            );
        }
        assert!(found.last() <= self.attempted, "{context}: {} was never written", found.last());
        found.last()
    }
}

/// Returns whether a segment was set aside because its header was lost, and batches after the header were
/// not.
///
/// The records of these batches were never acknowledged, but the file does not show that. The batches are
/// kept, with a gap before them. A power cut must not cause any other segment to be set aside.
fn has_headless_segment(sim: &Sim, log: LogId, context: &str) -> bool {
    let segments = segments_of(sim, log);
    let mut aside = segments.iter().filter(|(name, _)| name.state == SegmentState::Damaged).peekable();
    let is_any = aside.peek().is_some();
    for (name, path) in aside {
        let scan = scan_segment(sim, path).unwrap();
        assert!(scan.header.is_none(), "{context}: {name} was set aside: {:?}", scan.failure);
    }
    is_any
}

/// Records and gaps that a cursor finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) numbers: Vec<u64>,
    pub(crate) gaps: Vec<Gap>,
    /// Whether records up to the limit are damaged, and the cursor does not know yet which.
    pub(crate) has_damaged_end: bool,
}

impl Found {
    pub(crate) fn last(&self) -> u64 {
        self.numbers.last().copied().unwrap_or_default()
    }

    /// Returns the numbers that the gaps name.
    pub(crate) fn missing(&self) -> Vec<u64> {
        self.gaps.iter().flat_map(|gap| gap.first.0..=gap.last.0).collect()
    }
}

/// Reads a log from its beginning. Checks that every row has the content that was written.
pub(crate) fn read(sim: &Sim, log: LogId) -> Found {
    read_from(sim, log, None)
}

pub(crate) fn read_from(sim: &Sim, log: LogId, position: Option<Position>) -> Found {
    let mut cursor = Cursor::new(sim.storage(), &dir(), log, position);
    drain(&mut cursor, None)
}

/// Continues to read up to the limit.
pub(crate) fn drain(cursor: &mut Cursor, limit: Option<Sequence>) -> Found {
    let mut found = Found::default();
    loop {
        let step = cursor.step(limit);
        if let Err(LogError::DamagedEnd { .. }) = step {
            found.has_damaged_end = true;
            return found;
        }
        match step.unwrap() {
            CursorStep::CaughtUp => return found,
            CursorStep::Gap(gap) => {
                assert!(gap.first <= gap.last, "{gap:?}");
                found.gaps.push(gap);
            }
            CursorStep::Batch(batch) => {
                for record in batch.records() {
                    let record = record.unwrap();
                    check_row(record.sequence, &record.body);
                    found.numbers.push(record.sequence.0);
                }
            }
        }
    }
}

fn check_row(sequence: Sequence, body: &RecordBody<'_>) {
    let text = text(sequence.0);
    match body {
        RecordBody::Row(values) => {
            assert_eq!(values[..], [Value::Int(sequence.0 as i64), Value::Text(&text)], "{sequence}");
        }
        RecordBody::Reject { reason, .. } => panic!("{sequence} is a reject: {reason}"),
    }
}

/// Creates the folder and recovers its logs, as a start does.
pub(crate) fn mend(sim: &Sim) -> RecoveryReport {
    try_mend(sim).unwrap()
}

pub(crate) fn try_mend(sim: &Sim) -> Result<RecoveryReport, LogError> {
    make_folder(sim, &dir())?;
    recover(&sim.storage(), &dir(), SegmentDigestAlgorithm::Sha256)
}

/// Returns the segments of a log. A missing folder has none.
pub(crate) fn segments_of(sim: &Sim, log: LogId) -> Vec<(SegmentName, PathBuf)> {
    segments(sim, &dir(), log).unwrap_or_default()
}

/// Returns the names of a log's segments, in order.
pub(crate) fn names_of(sim: &Sim, log: LogId) -> Vec<String> {
    segments_of(sim, log).iter().map(|(name, _)| name.to_string()).collect()
}

/// Returns the only log of the folder.
pub(crate) fn only_log(sim: &Sim) -> LogId {
    let ids = log_ids(sim, &dir()).unwrap();
    assert_eq!(ids.len(), 1);
    ids[0]
}

/// Returns the offset of each batch in a segment, and the number of its first record.
pub(crate) fn batches_in(bytes: &[u8]) -> Vec<(usize, u64)> {
    let mut places = Vec::new();
    let mut at = 128;
    while at + 64 <= bytes.len() && bytes[at..at + 8] != *b"TGSEALED" && bytes[at..at + 8] != [0; 8] {
        places.push((at, u64::from_le_bytes(bytes[at + 16..at + 24].try_into().unwrap())));
        let payload = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        at += 64 + payload.next_multiple_of(8);
    }
    places
}

/// Makes a dead log on its own disk: the steps ran, then the process ended.
pub(crate) fn dead_log(steps: &[Step]) -> (Sim, Law) {
    dead_log_with_runway(steps, 0)
}

pub(crate) fn dead_log_with_runway(steps: &[Step], runway: usize) -> (Sim, Law) {
    let sim = Sim::new();
    let mut driver = Driver::with_runway(&sim, runway);
    driver.run(steps).unwrap();
    (sim.restart(), driver.law.clone())
}

pub(crate) fn segment_path(sim: &Sim, log: LogId, index: usize) -> PathBuf {
    segments_of(sim, log)[index].1.clone()
}

pub(crate) fn file_bytes(sim: &Sim, path: &Path) -> Vec<u8> {
    sim.files()[path].clone()
}
