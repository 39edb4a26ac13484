//! Reads a segment batch by batch, in bounded memory, with every check that the format allows. The reader can
//! skip damage.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch::{BATCH_BYTES_MAX, BATCH_HEADER_BYTES, BatchHeader, BatchKind, u64_at};
use crate::error::{FormatError, LogError};
use crate::id::Sequence;
use crate::record::{FRAME_BYTES, RecordKind, split_record};
use crate::schema::{BATCH_SCHEMAS_MAX, SCHEMAS_MAX, Schema, SchemaId};
use crate::segment::{
    FOOTER_HEAD_BYTES, FOOTER_MAGIC, SEGMENT_HEADER_BYTES, SegmentFooter, SegmentHeader, SegmentName,
    footer_at_end, is_nonce,
};
use crate::storage::{Storage, StorageFile};

/// Bytes of one read from the file. Batches are small, so one read returns many of them.
pub(super) const WINDOW_BYTES: usize = 256 << 10;
/// Batches begin at multiples of this many bytes.
const BATCH_ALIGNMENT: u64 = 8;

/// The schemas that a log has declared so far.
pub(crate) type Schemas = HashMap<SchemaId, Arc<Schema>>;

/// Part of the segment that the reader found at its offset.
pub(crate) enum Found {
    /// An intact batch. [`SegmentReader::payload`] returns its payload until the next step.
    Batch(BatchHeader),
    /// The footer of the segment.
    Footer(SegmentFooter),
    /// The end of the batches, in a file without a footer.
    End,
}

/// Error of a step: of the disk, or of the bytes.
pub(crate) enum StepError {
    Io(LogError),
    Format(FormatError),
}

impl From<LogError> for StepError {
    fn from(error: LogError) -> Self {
        Self::Io(error)
    }
}

impl From<FormatError> for StepError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

/// Steps through the batches of one segment.
pub(crate) struct SegmentReader {
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    pub(crate) header: SegmentHeader,
    pub(crate) schemas: Schemas,
    /// Offset where the next batch begins.
    pub(crate) offset: u64,
    /// Header checksum of the batch before that offset.
    pub(crate) chain: u32,
    /// Number of the next record.
    pub(crate) next: Sequence,
    /// Count of the batches so far. `None` after the reader skipped damage.
    batches: Option<u64>,
    /// Whether the segment header is intact. If it is not, `header` is a stand-in.
    pub(crate) is_header_whole: bool,
    /// The last damage that the reader found.
    pub(crate) damage: Option<FormatError>,
    /// Offset to which the last search moved the reader. The next search moves the reader further, so that
    /// the number of searches is bounded.
    jumped_to: Option<u64>,
    /// Bytes of all batches that searches after damage examined.
    searched_bytes: u64,
    /// Whether the reader also has schemas of other segments.
    pub(crate) has_foreign_schemas: bool,
    /// Read buffer. Its first `window_bytes` bytes hold the file from offset `window_start`.
    window: Vec<u8>,
    window_bytes: usize,
    window_start: u64,
    payload: std::ops::Range<usize>,
}

impl SegmentReader {
    /// Opens a segment. `schemas` are the schemas of the segments before it.
    ///
    /// A segment with a damaged header is read nevertheless if its nonce can be found.
    pub(crate) fn open(storage: &dyn Storage, path: &Path, schemas: Schemas) -> Result<Self, LogError> {
        let file = storage.open_read(path).map_err(LogError::io("open", path))?;
        let error = match read_header(&*file, path)? {
            Ok((header, checksum)) => return Ok(Self::at_start(path, file, header, checksum, schemas)),
            Err(error) => error,
        };
        if !matches!(error, FormatError::Version { .. })
            && let Some(reader) = Self::behind_damaged_header(path, &file, &schemas)?
        {
            return Ok(Self { damage: Some(error), ..reader });
        }
        Err(LogError::damaged(path, 0, error))
    }

    /// Opens a segment whose header is damaged. Returns `None` if no batch has one of the possible nonces.
    pub(super) fn behind_damaged_header(
        path: &Path,
        file: &Arc<dyn StorageFile>,
        schemas: &Schemas,
    ) -> Result<Option<Self>, LogError> {
        let first = SegmentName::of(path).map_or(Sequence::FIRST, |name| name.first);
        for nonce in nonces_of_damaged(&**file, path)? {
            let header = SegmentHeader::stand_in(nonce, first);
            let mut reader = Self::at_start(path, file.clone(), header, 0, schemas.clone());
            if let Some((_, batch)) = reader.find_header(SEGMENT_HEADER_BYTES as u64)? {
                return Ok(Some(Self { chain: batch.previous, is_header_whole: false, ..reader }));
            }
        }
        Ok(None)
    }

    pub(super) fn at_start(
        path: &Path,
        file: Arc<dyn StorageFile>,
        header: SegmentHeader,
        checksum: u32,
        schemas: Schemas,
    ) -> Self {
        Self {
            path: path.to_owned(),
            file,
            offset: SEGMENT_HEADER_BYTES as u64,
            chain: checksum,
            next: header.first,
            header,
            schemas,
            batches: Some(0),
            is_header_whole: true,
            damage: None,
            jumped_to: None,
            searched_bytes: 0,
            has_foreign_schemas: false,
            window: Vec::new(),
            window_bytes: 0,
            window_start: 0,
            payload: 0..0,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the payload of the batch that the last step found.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.window[self.payload.clone()]
    }

    /// Reads the part at the offset. If the part is a batch, moves the offset to the end of the batch.
    ///
    /// The window may be older than the file. So the reader fills the window again before it returns a
    /// footer, the end or an error.
    pub(crate) fn step(&mut self) -> Result<Found, StepError> {
        match self.look() {
            Ok(Found::End) | Err(StepError::Format(_)) => {
                self.window_bytes = 0;
                let found = self.look();
                if !matches!(found, Ok(Found::Batch(_))) {
                    self.window_bytes = 0;
                }
                found
            }
            found => found,
        }
    }

    fn look(&mut self) -> Result<Found, StepError> {
        let start = self.window_of(self.offset, BATCH_HEADER_BYTES)?;
        let bytes = &self.window[start..self.window_bytes];
        let bytes = &bytes[..bytes.len().min(BATCH_HEADER_BYTES)];
        if is_zero(bytes) {
            let behind = self.offset + bytes.len() as u64;
            return if self.is_zero_behind(behind)? { Ok(Found::End) } else { Err(FormatError::Hole.into()) };
        }
        if bytes.starts_with(FOOTER_MAGIC) {
            return self.footer().map(Found::Footer);
        }
        let Some(bytes) = bytes.first_chunk() else {
            let found = bytes.len() as u64;
            return Err(FormatError::CutOff { what: "batch header", found, needed: 64 }.into());
        };
        let (header, checksum) = BatchHeader::decode(bytes, self.header.nonce)?;
        self.check_continues(&header)?;
        self.read_payload(&header)?;
        self.accept(&header, checksum);
        Ok(Found::Batch(header))
    }

    /// Returns whether all bytes from an offset to the end of the file are zero.
    fn is_zero_behind(&self, offset: u64) -> Result<bool, StepError> {
        let size = self.file.size().map_err(|error| self.io("read the size of", error))?;
        Ok(used_bytes(&*self.file, &self.path, offset, size)? <= offset)
    }

    fn check_continues(&self, header: &BatchHeader) -> Result<(), FormatError> {
        if header.previous != self.chain {
            return Err(FormatError::Chain { found: header.previous, expected: self.chain });
        }
        if header.first != self.next {
            return Err(FormatError::Order { found: header.first.0, expected: self.next.0 });
        }
        Ok(())
    }

    /// Reads the payload of the batch at the offset into the window, and checks it record by record.
    fn read_payload(&mut self, header: &BatchHeader) -> Result<(), StepError> {
        let batch_bytes = header.batch_bytes() as usize;
        let start = self.window_of(self.offset, batch_bytes)?;
        let found = self.window_bytes - start;
        if found < batch_bytes {
            let (found, needed) = (found as u64, batch_bytes as u64);
            return Err(FormatError::CutOff { what: "batch", found, needed }.into());
        }
        let payload = start + BATCH_HEADER_BYTES..start + BATCH_HEADER_BYTES + header.payload_bytes as usize;
        let checksum = crc32c::crc32c(&self.window[payload.clone()]);
        if checksum != header.payload_checksum {
            let stored = header.payload_checksum;
            return Err(FormatError::Checksum { what: "payload", found: checksum, stored }.into());
        }
        if let Some(byte) = self.window[payload.end..start + batch_bytes].iter().find(|byte| **byte != 0) {
            return Err(FormatError::Value { what: "padding", found: (*byte).into(), allowed: "0" }.into());
        }
        let schemas = check_records(&self.window[payload.clone()], header, &self.schemas)?;
        self.schemas.extend(schemas);
        self.payload = payload;
        Ok(())
    }

    fn accept(&mut self, header: &BatchHeader, checksum: u32) {
        self.offset += header.batch_bytes();
        self.chain = checksum;
        self.next = header.last().after(1);
        self.batches = self.batches.map(|count| count + 1);
    }

    /// Reads the footer at the offset. Zeros of a runway may follow it.
    fn footer(&mut self) -> Result<SegmentFooter, StepError> {
        let head = self.window_of(self.offset, FOOTER_HEAD_BYTES)?;
        let bytes = SegmentFooter::bytes_from_head(&self.window[head..self.window_bytes]);
        let bytes = bytes.unwrap_or(FOOTER_HEAD_BYTES);
        let start = self.window_of(self.offset, bytes)?;
        let footer = SegmentFooter::decode(&self.window[start..self.window_bytes.min(start + bytes)])?;
        self.batches.map_or(Ok(()), |batches| self.check_footer(&footer, batches))?;
        if !self.is_zero_behind(self.offset + bytes as u64)? {
            return Err(FormatError::BehindFooter.into());
        }
        Ok(footer)
    }

    fn check_footer(&self, footer: &SegmentFooter, batches: u64) -> Result<(), FormatError> {
        let records = self.header.first.count_to(self.next.before());
        let checks = [
            ("footer nonce", footer.nonce, self.header.nonce),
            ("footer content bytes", footer.content_bytes, self.offset),
            ("footer last sequence number", footer.last.0, self.next.before().0),
            ("footer batch count", footer.batches, batches),
            ("footer record count", footer.records, records),
            ("footer chain", footer.chain.into(), self.chain.into()),
        ];
        match checks.into_iter().find(|(_, found, expected)| found != expected) {
            Some((what, found, _)) => {
                Err(FormatError::Value { what, found, allowed: "the value of the batches" })
            }
            None => Ok(()),
        }
    }

    /// Searches after damage for the next batch with an intact header and payload, and moves the offset to
    /// it.
    ///
    /// Returns false and keeps the offset if there is no such batch. The records between the old and the new
    /// offset are a gap. Each search begins after the batch that the previous search found. If it did not, a
    /// batch that is intact here, but fails at the next step, would be found again and again.
    ///
    /// Batches do not overlap, so together they have at most as many bytes as the file. Forged headers may
    /// claim more bytes, to make the search long. The search ends when the examined batches have more than
    /// twice the bytes of the file.
    pub(crate) fn skip_damage(&mut self) -> Result<bool, LogError> {
        let (place, batches) = ((self.offset, self.chain, self.next), self.batches.take());
        let mut from = self.jumped_to.map_or(self.offset, |before| self.offset.max(before + BATCH_ALIGNMENT));
        while let Some((offset, header)) = self.find_header(from)? {
            from = offset + BATCH_ALIGNMENT;
            if header.first < self.next {
                continue;
            }
            self.searched_bytes = self.searched_bytes.saturating_add(header.batch_bytes());
            let size = self.file.size().map_err(LogError::io("read the size of", &self.path))?;
            if self.searched_bytes > size.saturating_mul(2) + BATCH_BYTES_MAX as u64 {
                break;
            }
            (self.offset, self.chain, self.next) = (offset, header.previous, header.first);
            match self.read_payload(&header) {
                Ok(()) => {
                    self.jumped_to = Some(offset);
                    return Ok(true);
                }
                Err(StepError::Format(_)) => {}
                Err(StepError::Io(error)) => return Err(error),
            }
        }
        ((self.offset, self.chain, self.next), self.batches) = (place, batches);
        Ok(false)
    }

    /// Finds the next intact header at or after an offset. Its record numbers must be possible in a segment
    /// of this size.
    pub(crate) fn find_header(&mut self, from: u64) -> Result<Option<(u64, BatchHeader)>, LogError> {
        let nonce = self.header.nonce;
        let size = self.file.size().map_err(LogError::io("read the size of", &self.path))?;
        // Each record has at least the bytes of its frame. The number of frames that fit into the file
        // therefore bounds the number of records.
        let last_possible = self.header.first.after(size / FRAME_BYTES as u64);
        let mut at = from.next_multiple_of(BATCH_ALIGNMENT);
        loop {
            let data = self.file.next_data(at).map_err(LogError::io("look for data in", &self.path))?;
            let Some(data) = data else { return Ok(None) };
            at = at.max(data / BATCH_ALIGNMENT * BATCH_ALIGNMENT);
            let start = self.window_of(at, BATCH_HEADER_BYTES).map_err(|error| self.unwrap_io(error))?;
            if self.window_bytes - start < BATCH_HEADER_BYTES {
                return Ok(None);
            }
            let last = self.window_bytes - BATCH_HEADER_BYTES;
            for place in (start..=last).step_by(8) {
                if u64_at(&self.window, place) == nonce
                    && let Some(bytes) = self.window[place..].first_chunk()
                    && let Ok((header, _)) = BatchHeader::decode(bytes, nonce)
                    && header.first >= self.header.first
                    && header.last() <= last_possible
                {
                    return Ok(Some((at + (place - start) as u64, header)));
                }
            }
            at += (last - start + 8) as u64 / 8 * 8;
        }
    }

    /// Reads `count` bytes at an offset into the window, or fewer at the end of the file. Returns the index
    /// of the first one in the window.
    fn window_of(&mut self, at: u64, count: usize) -> Result<usize, StepError> {
        let window_end = self.window_start + self.window_bytes as u64;
        if at >= self.window_start && at.saturating_add(count as u64) <= window_end {
            return Ok((at - self.window_start) as usize);
        }
        if self.window.len() < count.max(WINDOW_BYTES) {
            self.window = vec![0; count.max(WINDOW_BYTES)];
        }
        // After a failed read the window counts as empty.
        self.window_bytes = 0;
        self.window_bytes =
            self.file.read_at(at, &mut self.window).map_err(|error| self.io("read", error))?;
        self.window_start = at;
        Ok(0)
    }

    fn io(&self, action: &'static str, error: std::io::Error) -> StepError {
        StepError::Io(LogError::io(action, &self.path)(error))
    }

    fn unwrap_io(&self, error: StepError) -> LogError {
        match error {
            StepError::Io(error) => error,
            StepError::Format(error) => LogError::damaged(&self.path, self.offset, error),
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns the offset after the last byte that is not zero, or `from` if all bytes after `from` are zero.
///
/// The search runs backwards from the end, because an unused runway is short. The search reads no holes,
/// because a sparse file may have terabytes of them.
pub(crate) fn used_bytes(file: &dyn StorageFile, path: &Path, from: u64, size: u64) -> Result<u64, LogError> {
    const PIECE_BYTES: u64 = 64 << 10;
    let extents = file.data_extents(from, size).map_err(LogError::io("look for data in", path))?;
    let mut piece = Vec::new();
    for extent in extents.into_iter().rev() {
        let mut end = extent.end.min(size);
        while end > extent.start {
            let start = end.saturating_sub(PIECE_BYTES).max(extent.start);
            piece.resize((end - start) as usize, 0);
            let read = file.read_at(start, &mut piece).map_err(LogError::io("read", path))?;
            if let Some(last) = last_byte(&piece[..read]) {
                return Ok(start + last as u64 + 1);
            }
            end = start;
        }
    }
    Ok(from)
}

/// Returns the index of the last byte that is not zero. Blocks of zeros are compared as a whole, because that
/// is faster.
fn last_byte(bytes: &[u8]) -> Option<usize> {
    const BLOCK_BYTES: usize = 4 << 10;
    let mut end = bytes.len();
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES);
        let block = &bytes[start..end];
        if *block != [0; BLOCK_BYTES][..block.len()] {
            return block.iter().rposition(|byte| *byte != 0).map(|last| start + last);
        }
        end = start;
    }
    None
}

/// Reads the header of a segment. Returns the header and its checksum.
///
/// # Errors
/// An error of the disk. The result reports damage of the bytes.
pub(crate) fn read_header(
    file: &dyn StorageFile,
    path: &Path,
) -> Result<Result<(SegmentHeader, u32), FormatError>, LogError> {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let read = file.read_at(0, &mut bytes).map_err(LogError::io("read", path))?;
    if read < bytes.len() {
        let (found, needed) = (read as u64, bytes.len() as u64);
        return Ok(Err(FormatError::CutOff { what: "segment header", found, needed }));
    }
    Ok(SegmentHeader::decode(&bytes))
}

/// Returns the possible nonces of a segment with a damaged header: those in the header, the first batch and
/// the footer.
///
/// Batches at other offsets are not used. The bytes there could be part of a payload, which a client sent.
fn nonces_of_damaged(file: &dyn StorageFile, path: &Path) -> Result<Vec<u64>, LogError> {
    let mut bytes = [0; SEGMENT_HEADER_BYTES + 8];
    file.read_at(0, &mut bytes).map_err(LogError::io("read", path))?;
    let footer = footer_at_end(file, path)?;
    let nonces =
        [Some(u64_at(&bytes, 48)), Some(u64_at(&bytes, SEGMENT_HEADER_BYTES)), footer.map(|one| one.nonce)];
    Ok(nonces.into_iter().flatten().filter(|nonce| is_nonce(*nonce)).collect())
}

/// Checks the records of a payload, and returns the schemas that the payload declares.
fn check_records(
    payload: &[u8],
    header: &BatchHeader,
    known: &Schemas,
) -> Result<Vec<(SchemaId, Arc<Schema>)>, FormatError> {
    let mut rest = payload;
    let mut schemas = Vec::new();
    let mut used = UsedSchemas::default();
    for _ in 0..header.count {
        let (record, behind) = split_record(rest)?;
        rest = behind;
        used.add(record.schema)?;
        match (header.kind, record.kind) {
            (BatchKind::Schemas, RecordKind::Schema) => {
                schemas.push((record.schema, Arc::new(Schema::decode(record.body)?)));
            }
            (BatchKind::Records, RecordKind::Row | RecordKind::Reject) => {
                if !known.contains_key(&record.schema) {
                    return Err(FormatError::UnknownSchema(record.schema.0));
                }
            }
            (_, kind) => {
                let found = kind as u64;
                return Err(FormatError::Value {
                    what: "record kind",
                    found,
                    allowed: "the kind of its batch",
                });
            }
        }
    }
    if !rest.is_empty() {
        let found = rest.len() as u64;
        return Err(FormatError::Value { what: "bytes after the records", found, allowed: "0" });
    }
    let found = used.count();
    if header.kind == BatchKind::Records && found > BATCH_SCHEMAS_MAX as u64 {
        return Err(FormatError::Value { what: "schemas of the records", found, allowed: "at most 1024" });
    }
    Ok(schemas)
}

/// The set of schemas that the records of a batch use. Each schema has one bit.
struct UsedSchemas([u64; SCHEMAS_MAX / 64]);

impl Default for UsedSchemas {
    fn default() -> Self {
        Self([0; SCHEMAS_MAX / 64])
    }
}

impl UsedSchemas {
    fn add(&mut self, schema: SchemaId) -> Result<(), FormatError> {
        let number = usize::from(schema.0);
        let Some(word) = self.0.get_mut(number / 64) else {
            let found = number as u64;
            return Err(FormatError::Value { what: "schema number", found, allowed: "0 to 4095" });
        };
        *word |= schema.mask();
        Ok(())
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
