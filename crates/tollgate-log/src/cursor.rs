//! Reads one log in order, beginning at a position. Continues from segment to segment, and after damage.
//!
//! A cursor returns record batches and gaps, and moves its position after each of them. A cursor takes no
//! lock. When the sealer renames a segment, the cursor finds it under the new name. If retention deletes a
//! segment that the cursor has open, the cursor still reads it to its end. If a segment is deleted before the
//! cursor opens it, the cursor searches again where the log continues.

mod batch;
mod made;
mod position;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch::BatchKind;
use crate::error::{FormatError, LogError};
use crate::id::{LogId, Sequence};
use crate::record::FRAME_BYTES;
use crate::recover::segment_names;
use crate::scan::{Found, Schemas, SegmentReader, StepError, scan_segment};
use crate::schema::{Schema, SchemaId};
use crate::segment::{SegmentName, SegmentState, read_footer};
use crate::storage::Storage;
pub use batch::RecordBatch;
pub use made::MadeBatch;
pub use position::Position;

/// A range of records that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The first record.
    pub first: Sequence,
    /// The last record.
    pub last: Sequence,
    /// Why the records cannot be read.
    pub reason: String,
}

/// Result of one step of a cursor.
#[derive(Debug)]
pub enum CursorStep<'a> {
    /// The next batch of records.
    Batch(RecordBatch<'a>),
    /// Records are damaged or missing.
    Gap(Gap),
    /// There are no more records up to the limit. A live log may have more later.
    CaughtUp,
}

/// Result of opening the segment at the position.
enum Opened {
    Ready,
    EndsBefore,
    Unreadable(FormatError),
}

/// Reads one log.
pub struct Cursor {
    storage: Arc<dyn Storage>,
    folder: PathBuf,
    log: LogId,
    position: Option<Position>,
    reader: Option<SegmentReader>,
    schemas: Schemas,
    deleted: Deleted,
}

/// How a cursor treats deleted records that precede the oldest kept segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deleted {
    /// The deleted records are a gap, because a reader with a position expects all records after the
    /// position.
    Missing,
    /// The deleted records are skipped without a gap, because a person who reads the kept records starts at
    /// the oldest one.
    Passed,
}

/// Result of a step in the current segment.
enum Advance {
    Batch {
        first: Sequence,
        last: Sequence,
        stamp_us: i64,
    },
    /// Records are missing, and the reader is at the next intact batch.
    Jumped(Gap),
    /// Records are missing, and the segment has no intact batch after them.
    Gap(Gap),
    /// A segment that is being written is damaged, and no intact batch follows the damage yet.
    DamagedEnd(LogError),
    CaughtUp,
    NextSegment,
}

impl Cursor {
    /// Starts after `position`. Without a position, starts at the oldest kept record.
    pub fn new(storage: Arc<dyn Storage>, dir: &Path, log: LogId, position: Option<Position>) -> Self {
        let folder = dir.join(log.to_string());
        let (reader, schemas, deleted) = (None, Schemas::new(), Deleted::Missing);
        Self { storage, folder, log, position, reader, schemas, deleted }
    }

    /// Reads the kept records after `position`, for a person. Records that retention deletes during the read
    /// are skipped without a gap.
    pub fn over_kept(storage: Arc<dyn Storage>, dir: &Path, log: LogId, position: Option<Position>) -> Self {
        Self { deleted: Deleted::Passed, ..Self::new(storage, dir, log, position) }
    }

    /// Returns the log that is read.
    pub fn log(&self) -> LogId {
        self.log
    }

    /// Returns the schemas read so far.
    pub fn schemas(&self) -> impl Iterator<Item = (SchemaId, &Arc<Schema>)> {
        let schemas = self.reader.as_ref().map_or(&self.schemas, |reader| &reader.schemas);
        schemas.iter().map(|(id, schema)| (*id, schema))
    }

    /// Reads the next batch or gap, up to `limit`. For a live log pass its synced watermark, for a dead log
    /// `None`.
    ///
    /// # Errors
    /// The disk cannot be read. [`FormatError::Chain`]: the log at the position is not the log that was read
    /// before. The position then belongs to another copy of the log. [`LogError::DamagedEnd`]: records up to
    /// `limit` are damaged, and the cursor has not found yet where the log continues. The next call searches
    /// again.
    pub fn step(&mut self, limit: Option<Sequence>) -> Result<CursorStep<'_>, LogError> {
        loop {
            if limit.is_some_and(|limit| self.next() > limit) {
                return Ok(CursorStep::CaughtUp);
            }
            let advance = match self.reader {
                Some(_) => self.advance(limit)?,
                None => match self.open_next()? {
                    Some(advance) => advance,
                    None => continue,
                },
            };
            match advance {
                Advance::Batch { first, last, stamp_us } => return Ok(self.batch(first, last, stamp_us)),
                Advance::Jumped(gap) => return self.gap(gap, limit),
                Advance::Gap(gap) => {
                    self.close_segment();
                    return self.gap(gap, limit);
                }
                // Without a limit, the damage may be a batch that is only partly written yet. Up to a limit,
                // all batches are written.
                Advance::DamagedEnd(error) if limit.is_some() => return Err(error),
                Advance::DamagedEnd(_) | Advance::CaughtUp => return Ok(CursorStep::CaughtUp),
                Advance::NextSegment => self.close_segment(),
            }
        }
    }

    fn next(&self) -> Sequence {
        self.position.map_or(Sequence::FIRST, |position| position.last.after(1))
    }

    fn batch(&mut self, first: Sequence, last: Sequence, stamp_us: i64) -> CursorStep<'_> {
        let chain = self.reader.as_ref().map_or(0, |reader| reader.chain);
        self.position = Some(Position { last, chain: Some(chain) });
        match &self.reader {
            None => CursorStep::CaughtUp,
            Some(reader) => CursorStep::Batch(RecordBatch {
                log: self.log,
                segment: reader.header.first,
                node: &reader.header.node,
                first,
                last,
                chain,
                stamp_us,
                payload: reader.payload(),
                schemas: &reader.schemas,
                left_out: Vec::new(),
            }),
        }
    }

    /// Moves the position over a gap, at most up to the limit. Records after the limit are not known yet.
    ///
    /// # Errors
    /// No log can have this gap. Without this error the reader would move to an impossible position and stay
    /// there forever.
    fn gap(&mut self, gap: Gap, limit: Option<Sequence>) -> Result<CursorStep<'static>, LogError> {
        let last = limit.map_or(gap.last, |limit| gap.last.min(limit));
        if !gap.first.is_possible() || !last.is_possible() || last < gap.first {
            let error =
                FormatError::Value { what: "last missing record", found: last.0, allowed: "1 to 2^56 - 1" };
            return Err(LogError::damaged(&self.folder, 0, error));
        }
        self.position = Some(Position { last, chain: None });
        Ok(CursorStep::Gap(Gap { last, ..gap }))
    }

    fn close_segment(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.schemas = reader.schemas;
        }
    }

    /// Opens the segment with the next record. Returns `Some` if there is no such segment, or if records
    /// before the next segment cannot be read.
    fn open_next(&mut self) -> Result<Option<Advance>, LogError> {
        let names = segment_names(&*self.storage, &self.folder)?;
        let before = self.position;
        self.start_at_oldest(&names);
        let next = self.next();
        let Some(name) = names.iter().rev().find(|name| name.first <= next).copied() else {
            return self.go_on(&names, next, Sequence(0)).map(Some);
        };
        match self.open_at(name) {
            Err(error) if error.is_not_found() && self.is_gone(name)? => {
                self.position = before;
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(Opened::Ready) => Ok(None),
            Ok(Opened::EndsBefore) => self.go_on(&names, next, name.first).map(Some),
            Ok(Opened::Unreadable(error)) => {
                let path = name.path(&self.folder);
                let last = self.end_of_segment(next, &path)?;
                Ok(Some(match last {
                    Some(last) if last >= next => {
                        Advance::Gap(Gap { first: next, last, reason: error.to_string() })
                    }
                    Some(_) => self.go_on(&names, next, name.first)?,
                    None => Advance::DamagedEnd(LogError::DamagedEnd { path, offset: 0, source: error }),
                }))
            }
        }
    }

    /// Finds where the log continues after the segment that begins at `passed`. `next` is the next record.
    ///
    /// # Errors
    /// The next segment cannot be opened, or its name has an impossible record number. In both cases the
    /// number of missing records is unknown.
    fn go_on(&self, names: &[SegmentName], next: Sequence, passed: Sequence) -> Result<Advance, LogError> {
        match names.iter().find(|name| name.first > passed && name.first >= next) {
            Some(name) if !name.first.is_possible() => {
                let (found, allowed) = (name.first.0, "1 to 2^56 - 1");
                let error = FormatError::Value { what: "sequence number in its file name", found, allowed };
                Err(LogError::damaged(&name.path(&self.folder), 0, error))
            }
            Some(name) if name.first == next => Ok(Advance::NextSegment),
            Some(name) => {
                // A name without a regular file does not prove that records are missing.
                let path = name.path(&self.folder);
                match self.storage.open_read(&path).map_err(LogError::io("open", &path)) {
                    Err(error) if !error.is_not_found() => return Err(error),
                    _ => {}
                }
                let (last, reason) = (name.first.before(), "segment is missing".to_owned());
                Ok(Advance::Gap(Gap { first: next, last, reason }))
            }
            None => Ok(Advance::CaughtUp),
        }
    }

    /// Starts a reader without a position at the oldest kept record. The deleted records before this record
    /// are not reported as lost.
    fn start_at_oldest(&mut self, names: &[SegmentName]) {
        let Some(oldest) = names.first() else { return };
        let is_deleted = self.deleted == Deleted::Passed && oldest.first > self.next();
        if self.position.is_none() || is_deleted {
            self.position = Some(Position { last: oldest.first.before(), chain: None });
        }
    }

    /// Returns whether a segment was deleted after it was listed. Its file then has no name any more.
    fn is_gone(&self, name: SegmentName) -> Result<bool, LogError> {
        let names = segment_names(&*self.storage, &self.folder)?;
        Ok(names.iter().all(|kept| kept.first != name.first))
    }

    /// Opens a segment and moves the reader to the position in it.
    fn open_at(&mut self, name: SegmentName) -> Result<Opened, LogError> {
        let mut reader = match self.open_reader(name) {
            Ok(reader) if reader.is_header_whole && reader.header.log != self.log => {
                let error = FormatError::Stranger { found: reader.header.log, expected: self.log };
                return Ok(Opened::Unreadable(error));
            }
            Ok(reader) if reader.is_header_whole && reader.header.first != name.first => {
                return Ok(Opened::Unreadable(FormatError::misnamed(reader.header.first, name.first)));
            }
            Err(LogError::Damaged { source, .. }) if !matches!(source, FormatError::Version { .. }) => {
                return Ok(Opened::Unreadable(source));
            }
            reader => reader?,
        };
        let Some(position) = self.position else { return Ok(Opened::EndsBefore) };
        while reader.next <= position.last {
            match reader.step() {
                Ok(Found::Batch(_)) => {}
                Ok(Found::Footer(_) | Found::End) => return Ok(Opened::EndsBefore),
                Err(StepError::Io(error)) => return Err(error),
                Err(StepError::Format(error)) => {
                    if !self.pass_damage(&mut reader, error.clone())? {
                        return Ok(Opened::Unreadable(error));
                    }
                }
            }
        }
        self.check_position(&reader, position)?;
        self.reader = Some(reader);
        Ok(Opened::Ready)
    }

    fn check_position(&self, reader: &SegmentReader, position: Position) -> Result<(), LogError> {
        let is_at_first = reader.next == reader.header.first;
        match position.chain {
            Some(_) if is_at_first && !reader.is_header_whole => Ok(()),
            Some(expected)
                if !is_at_first && reader.next == position.last.after(1) && reader.chain != expected =>
            {
                let found = reader.chain;
                let error = FormatError::Chain { found, expected };
                Err(LogError::damaged(reader.path(), reader.offset, error))
            }
            Some(expected)
                if is_at_first && reader.header.chain != expected && position.last != Sequence(0) =>
            {
                let found = reader.header.chain;
                Err(LogError::damaged(reader.path(), 0, FormatError::Chain { found, expected }))
            }
            _ => Ok(()),
        }
    }

    /// Opens a segment. The sealer may rename an open segment between the listing and this call, so both
    /// names are tried.
    fn open_reader(&self, name: SegmentName) -> Result<SegmentReader, LogError> {
        let open = |name: SegmentName| {
            SegmentReader::open(&*self.storage, &name.path(&self.folder), self.schemas.clone())
        };
        match open(name) {
            Err(LogError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound && name.state == SegmentState::Open =>
            {
                open(name.with_state(SegmentState::Sealed))
            }
            result => result,
        }
    }

    fn advance(&mut self, limit: Option<Sequence>) -> Result<Advance, LogError> {
        let first = self.next();
        let mut is_last_look = false;
        loop {
            let Some(reader) = &mut self.reader else { return Ok(Advance::CaughtUp) };
            if reader.next > first {
                let reason = reader.damage.as_ref().map_or_else(String::new, ToString::to_string);
                return Ok(Advance::Jumped(Gap { first, last: reader.next.before(), reason }));
            }
            if limit.is_some_and(|limit| reader.next > limit) {
                return Ok(Advance::CaughtUp);
            }
            match reader.step() {
                Ok(Found::Batch(header)) if header.kind == BatchKind::Records => {
                    return Ok(Advance::Batch { first, last: header.last(), stamp_us: header.stamp_us });
                }
                Ok(Found::Batch(_)) => {}
                Ok(Found::Footer(_)) => {
                    let passed = reader.header.first;
                    return self.go_on_behind(passed, first);
                }
                Ok(Found::End) => {
                    // Once a later segment exists, this segment has all its batches. One more read then finds
                    // all remaining batches.
                    let passed = reader.header.first;
                    let end = self.go_on_behind(passed, first)?;
                    if is_last_look || matches!(end, Advance::CaughtUp) {
                        return Ok(end);
                    }
                    is_last_look = true;
                }
                Err(StepError::Io(error)) => return Err(error),
                Err(StepError::Format(error)) => {
                    if let Some(end) = self.around_damage(first, error)? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Finds where the log continues after a segment that the cursor has read to its end.
    fn go_on_behind(&self, passed: Sequence, next: Sequence) -> Result<Advance, LogError> {
        let names = segment_names(&*self.storage, &self.folder)?;
        match self.go_on(&names, next, passed)? {
            // The next search starts at the oldest kept segment, and finds out whether records are missing.
            Advance::Gap(_) if self.deleted == Deleted::Passed && names[0].first > next => {
                Ok(Advance::NextSegment)
            }
            end => Ok(end),
        }
    }

    /// Reads around damage. Returns `None` when the reader is at the next intact batch.
    fn around_damage(&mut self, first: Sequence, error: FormatError) -> Result<Option<Advance>, LogError> {
        let Some(mut reader) = self.reader.take() else { return Ok(Some(Advance::CaughtUp)) };
        let (path, segment, offset) = (reader.path().to_owned(), reader.header.first, reader.offset);
        let is_passed = self.pass_damage(&mut reader, error.clone());
        self.reader = Some(reader);
        if is_passed? {
            return Ok(None);
        }
        Ok(Some(match self.end_of_segment(first, &path)? {
            Some(last) if last >= first => Advance::Gap(Gap { first, last, reason: error.to_string() }),
            Some(_) => self.go_on(&segment_names(&*self.storage, &self.folder)?, first, segment)?,
            None => Advance::DamagedEnd(LogError::DamagedEnd { path, offset, source: error }),
        }))
    }

    /// Moves a reader to the next batch that can be read. Returns false if there is none.
    ///
    /// A segment whose schemas are damaged gets the schemas of another segment of the log. The cursor need
    /// not have read that other segment.
    fn pass_damage(&self, reader: &mut SegmentReader, error: FormatError) -> Result<bool, LogError> {
        let is_schema_missing = matches!(error, FormatError::UnknownSchema(_));
        reader.damage = Some(error);
        if !reader.has_foreign_schemas {
            reader.has_foreign_schemas = true;
            for (id, schema) in self.foreign_schemas(reader)? {
                reader.schemas.entry(id).or_insert(schema);
            }
            if is_schema_missing {
                return Ok(true);
            }
        }
        reader.skip_damage()
    }

    /// Returns the schemas of the nearest other segment whose first batches of schemas can be read.
    fn foreign_schemas(&self, reader: &SegmentReader) -> Result<Schemas, LogError> {
        let mut names = segment_names(&*self.storage, &self.folder)?;
        names.retain(|name| name.first != reader.header.first);
        names.sort_by_key(|name| name.first.0.abs_diff(reader.header.first.0));
        for name in names {
            let path = name.path(&self.folder);
            let Ok(mut other) = SegmentReader::open(&*self.storage, &path, Schemas::new()) else { continue };
            while matches!(other.step(), Ok(Found::Batch(header)) if header.kind == BatchKind::Schemas) {}
            if !other.schemas.is_empty() {
                return Ok(other.schemas);
            }
        }
        Ok(Schemas::new())
    }

    /// Returns the last record that the damaged segment should have. Returns `None` if a segment is being
    /// written, because the last record is then not known yet.
    fn end_of_segment(&self, next: Sequence, path: &Path) -> Result<Option<Sequence>, LogError> {
        let names = segment_names(&*self.storage, &self.folder)?;
        if let Some(name) = names.iter().find(|name| name.first >= next && name.path(&self.folder) != path) {
            return Ok(Some(name.first.before()));
        }
        if names.iter().any(|name| name.state == SegmentState::Open) {
            return Ok(None);
        }
        match read_footer(&*self.storage, path) {
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
            Ok(Some(footer)) => Ok(Some(footer.last)),
            Ok(None) => {
                let scan = scan_segment(&*self.storage, path)?;
                // A header may be forged. Each record has a frame, so the size of the segment bounds the
                // number of its records. The file name of the segment is the number of its first record.
                let first = SegmentName::of(path).map_or(next, |name| name.first);
                Ok(Some(scan.durable.min(first.after(scan.file_bytes / FRAME_BYTES as u64))))
            }
        }
    }
}
