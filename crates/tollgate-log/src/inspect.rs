//! Shows one segment file to a person: every part in file order, with its problems.
//!
//! Unlike a reader, the inspector does not stop at damage. A batch with a damaged payload is shown with its
//! header. Bytes that belong to no part are counted, and the inspection continues at the next intact header.
//! The inspector reads one file and changes none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch::{BATCH_HEADER_BYTES, BatchHeader, BatchKind, u32_at};
use crate::digest::digest_of;
use crate::error::{FormatError, LogError};
use crate::id::{LogId, Sequence};
use crate::record::{RawRecord, RecordKind, decode_reject, decode_row, split_record};
use crate::scan::{Schemas, SegmentReader, used_bytes};
use crate::schema::{Schema, SchemaId};
use crate::segment::{
    Digest, FOOTER_HEAD_BYTES, FOOTER_MAGIC, SEGMENT_HEADER_BYTES, SegmentFooter, SegmentHeader,
    footer_at_end,
};
use crate::storage::{Storage, StorageFile};

/// One part of a segment file.
#[derive(Debug)]
pub enum SegmentPart {
    /// The first 128 bytes.
    Header {
        /// The stored format version. `None` if the file is too short.
        version: Option<u16>,
        /// The stored fields. `None` if the file is too short, or has a later version.
        header: Option<SegmentHeader>,
        /// The stored checksum.
        checksum: Option<u32>,
        /// Error of the header, if any.
        problem: Option<FormatError>,
    },
    /// A batch whose header is intact.
    Batch(BatchPart),
    /// Bytes that belong to no part.
    Damage {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// Why the bytes belong to no part.
        problem: FormatError,
    },
    /// The runway: zeros up to the end of the file.
    Runway {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// The footer of a sealed segment.
    Footer(FooterPart),
}

/// A batch whose header is intact.
#[derive(Debug)]
pub struct BatchPart {
    /// Offset of the batch.
    pub offset: u64,
    /// Header of the batch.
    pub header: BatchHeader,
    /// Checksum of the header. The next batch repeats it as `previous`.
    pub checksum: u32,
    /// Errors of the batch. Empty if the batch is intact.
    pub problems: Vec<FormatError>,
    /// Records of the batch, up to the first that cannot be split off.
    pub records: Vec<RecordPart>,
}

/// A record in a batch.
#[derive(Debug)]
pub struct RecordPart {
    /// Offset of the record in the file.
    pub offset: u64,
    /// Bytes of the record, with its frame.
    pub bytes: u64,
    /// Number of the record in the log. `None` for a schema.
    pub sequence: Option<Sequence>,
    /// Number of the schema of the record.
    pub schema: SchemaId,
    /// Content of the record.
    pub content: RecordContent,
}

/// Content of a record.
#[derive(Debug)]
pub enum RecordContent {
    /// A row of the stream with this name.
    Row(String),
    /// A reject of the stream with this name.
    Reject(String),
    /// A schema.
    Schema(Arc<Schema>),
    /// A record that does not follow its schema, or whose schema is unknown.
    Unreadable(FormatError),
}

/// The footer of a sealed segment.
#[derive(Debug)]
pub struct FooterPart {
    /// Offset of the footer.
    pub offset: u64,
    /// Size of the footer in bytes.
    pub bytes: u64,
    /// Fields of the footer, or why it cannot be read.
    pub footer: Result<SegmentFooter, FormatError>,
    /// Digest of the bytes before the footer.
    pub digest: Option<Digest>,
    /// Errors of fields that differ from the batches.
    pub problems: Vec<FormatError>,
}

/// Chain and record number that the next batch has to continue. Both are unknown after damage.
#[derive(Clone, Copy)]
struct Expected {
    chain: u32,
    next: Sequence,
}

/// Reads one segment, part by part.
pub struct Inspector {
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    file_bytes: u64,
    /// Size of the file in bytes, without the zeros at its end.
    used_bytes: u64,
    /// Finds intact headers by the segment's nonce. `None` if the nonce cannot be found.
    searcher: Option<SegmentReader>,
    log: LogId,
    schemas: Schemas,
    offset: u64,
    expected: Option<Expected>,
    batches: u64,
    records: u64,
}

impl Inspector {
    /// Opens a segment file. The file may have any name.
    ///
    /// # Errors
    /// An error of the disk.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Self, LogError> {
        let file = storage.open_read(path).map_err(LogError::io("open", path))?;
        let file_bytes = file.size().map_err(LogError::io("read the size of", path))?;
        let used_bytes = used_bytes(&*file, path, 0, file_bytes)?;
        let searcher = match SegmentReader::open(storage, path, Schemas::new()) {
            Err(LogError::Damaged { .. }) => None,
            reader => Some(reader?),
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            file_bytes,
            used_bytes,
            searcher,
            log: LogId::from_bytes([0; 16]),
            schemas: Schemas::new(),
            offset: 0,
            expected: None,
            batches: 0,
            records: 0,
        })
    }

    /// Returns the size of the file in bytes.
    pub const fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the next part. Returns `None` after the last byte, or after a header of an unknown version.
    ///
    /// # Errors
    /// An error of the disk.
    pub fn next_part(&mut self) -> Result<Option<SegmentPart>, LogError> {
        if self.offset >= self.file_bytes && self.offset > 0 {
            return Ok(None);
        }
        let bytes = self.read(self.offset, SEGMENT_HEADER_BYTES)?;
        if self.offset == 0 {
            return Ok(Some(self.header(&bytes)));
        }
        if bytes.starts_with(FOOTER_MAGIC) {
            return self.footer().map(Some);
        }
        if self.offset >= self.used_bytes {
            return Ok(Some(self.runway()));
        }
        match self.batch_header(&bytes) {
            Ok((header, checksum)) => self.batch(header, checksum).map(Some),
            Err(problem) => self.damage(problem).map(Some),
        }
    }

    fn read(&self, offset: u64, count: usize) -> Result<Vec<u8>, LogError> {
        let left = self.file_bytes.saturating_sub(offset).min(count as u64) as usize;
        let mut bytes = vec![0; left];
        let read = self.file.read_at(offset, &mut bytes).map_err(LogError::io("read", &self.path))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn header(&mut self, bytes: &[u8]) -> SegmentPart {
        self.offset = self.file_bytes.min(SEGMENT_HEADER_BYTES as u64);
        let Some(bytes) = bytes.first_chunk() else {
            let (found, needed) = (bytes.len() as u64, SEGMENT_HEADER_BYTES as u64);
            let problem = FormatError::CutOff { what: "segment header", found, needed };
            return SegmentPart::Header {
                version: None,
                header: None,
                checksum: None,
                problem: Some(problem),
            };
        };
        let header = SegmentHeader::as_it_stands(bytes);
        self.log = header.log;
        let (version, checksum) = (u16::from_le_bytes([bytes[8], bytes[9]]), u32_at(bytes, 124));
        let (header, problem) = match SegmentHeader::decode(bytes) {
            Ok((_, chain)) => {
                self.expected = Some(Expected { chain, next: header.first });
                (Some(header), None)
            }
            Err(problem @ FormatError::Version { .. }) => {
                self.offset = self.file_bytes;
                (None, Some(problem))
            }
            Err(problem) => (Some(header), Some(problem)),
        };
        SegmentPart::Header { version: Some(version), header, checksum: Some(checksum), problem }
    }

    fn batch_header(&self, bytes: &[u8]) -> Result<(BatchHeader, u32), FormatError> {
        let nonce = self.searcher.as_ref().map(|searcher| searcher.header.nonce).ok_or(FormatError::Nonce)?;
        let (found, needed) = (bytes.len() as u64, BATCH_HEADER_BYTES as u64);
        let bytes = bytes.first_chunk().ok_or(FormatError::CutOff { what: "batch header", found, needed })?;
        BatchHeader::decode(bytes, nonce)
    }

    fn batch(&mut self, header: BatchHeader, checksum: u32) -> Result<SegmentPart, LogError> {
        let offset = self.offset;
        let start = offset + BATCH_HEADER_BYTES as u64;
        let bytes = self.read(start, (header.batch_bytes() - BATCH_HEADER_BYTES as u64) as usize)?;
        let payload = &bytes[..bytes.len().min(header.payload_bytes as usize)];
        let mut problems = self.place_problems(&header);
        problems.extend(payload_problems(&header, &bytes));
        let records = self.records_of(&header, payload, start, &mut problems);
        self.offset = (offset + header.batch_bytes()).min(self.file_bytes);
        self.expected = Some(Expected { chain: checksum, next: header.last().after(1) });
        self.batches += 1;
        self.records += if header.kind == BatchKind::Records { header.count.into() } else { 0 };
        Ok(SegmentPart::Batch(BatchPart { offset, header, checksum, problems, records }))
    }

    /// Returns the errors of a batch that does not continue the previous batch.
    fn place_problems(&self, header: &BatchHeader) -> Vec<FormatError> {
        let Some(Expected { chain, next }) = self.expected else { return Vec::new() };
        let chain = (header.previous != chain)
            .then_some(FormatError::Chain { found: header.previous, expected: chain });
        let order =
            (header.first != next).then_some(FormatError::Order { found: header.first.0, expected: next.0 });
        chain.into_iter().chain(order).collect()
    }

    fn records_of(
        &mut self,
        header: &BatchHeader,
        payload: &[u8],
        start: u64,
        problems: &mut Vec<FormatError>,
    ) -> Vec<RecordPart> {
        let mut records = Vec::new();
        let mut rest = payload;
        let mut sequence = header.first;
        for _ in 0..header.count {
            let (raw, behind) = match split_record(rest) {
                Ok(split) => split,
                Err(problem) => {
                    problems.push(problem);
                    return records;
                }
            };
            let (offset, bytes) = (start + (payload.len() - rest.len()) as u64, rest.len() - behind.len());
            let number = (header.kind == BatchKind::Records).then_some(sequence);
            let content = self.content(&raw, sequence).unwrap_or_else(RecordContent::Unreadable);
            let (bytes, schema) = (bytes as u64, raw.schema);
            records.push(RecordPart { offset, bytes, sequence: number, schema, content });
            rest = behind;
            sequence = sequence.after(1);
        }
        if !rest.is_empty() {
            let found = rest.len() as u64;
            problems.push(FormatError::Value { what: "bytes after the records", found, allowed: "0" });
        }
        records
    }

    fn content(&mut self, raw: &RawRecord<'_>, sequence: Sequence) -> Result<RecordContent, FormatError> {
        if raw.kind == RecordKind::Schema {
            let schema = Arc::new(Schema::decode(raw.body)?);
            self.schemas.insert(raw.schema, schema.clone());
            return Ok(RecordContent::Schema(schema));
        }
        let schema = self.schemas.get(&raw.schema).ok_or(FormatError::UnknownSchema(raw.schema.0))?;
        let stream = schema.stream().to_owned();
        if raw.kind == RecordKind::Reject {
            decode_reject(raw.body)?;
            return Ok(RecordContent::Reject(stream));
        }
        decode_row(schema, raw.body, *self.log.as_bytes(), sequence)?;
        Ok(RecordContent::Row(stream))
    }

    fn runway(&mut self) -> SegmentPart {
        let offset = std::mem::replace(&mut self.offset, self.file_bytes);
        SegmentPart::Runway { offset, bytes: self.file_bytes - offset }
    }

    /// Counts bytes up to the next intact header, a whole footer, or the end of the file.
    fn damage(&mut self, problem: FormatError) -> Result<SegmentPart, LogError> {
        let offset = self.offset;
        let header = match &mut self.searcher {
            Some(searcher) => searcher.find_header(offset + 1)?.map(|(found, _)| found),
            None => None,
        };
        let footer = footer_at_end(&*self.file, &self.path)?
            .map(|footer| self.file_bytes - footer.encode().len() as u64)
            .filter(|footer| *footer > offset);
        self.offset = header.into_iter().chain(footer).min().unwrap_or(self.file_bytes);
        self.expected = None;
        Ok(SegmentPart::Damage { offset, bytes: self.offset - offset, problem })
    }

    fn footer(&mut self) -> Result<SegmentPart, LogError> {
        let offset = self.offset;
        let head = self.read(offset, FOOTER_HEAD_BYTES)?;
        let left = self.file_bytes - offset;
        let bytes = SegmentFooter::bytes_from_head(&head).map_or(left, |bytes| left.min(bytes as u64));
        let footer = SegmentFooter::decode(&self.read(offset, bytes as usize)?);
        let mut part = FooterPart { offset, bytes, digest: None, problems: Vec::new(), footer };
        if let Ok(footer) = &part.footer {
            let found = digest_of(&*self.file, &self.path, offset, footer.digest.algorithm())?;
            part.digest = Some(found);
            part.problems = self.footer_problems(footer, offset, found);
        }
        self.offset += bytes;
        Ok(SegmentPart::Footer(part))
    }

    fn footer_problems(&self, footer: &SegmentFooter, offset: u64, digest: Digest) -> Vec<FormatError> {
        let mut fields = vec![("content bytes", footer.content_bytes, offset)];
        fields.extend(self.searcher.as_ref().map(|one| ("nonce", footer.nonce, one.header.nonce)));
        if let Some(Expected { chain, next }) = self.expected {
            fields.extend([
                ("batch count", footer.batches, self.batches),
                ("record count", footer.records, self.records),
                ("last sequence number", footer.last.0, next.before().0),
                ("chain", footer.chain.into(), chain.into()),
            ]);
        }
        let wrong = fields.into_iter().filter(|(_, found, expected)| found != expected);
        let allowed = "the value of the batches";
        let values = wrong.map(|(what, found, _)| FormatError::Value { what, found, allowed });
        values.chain((digest != footer.digest).then_some(FormatError::Digest)).collect()
    }
}

/// Returns the first error of a payload and its padding, if any.
fn payload_problems(header: &BatchHeader, bytes: &[u8]) -> Option<FormatError> {
    let (found, needed) = (bytes.len() as u64, header.batch_bytes() - BATCH_HEADER_BYTES as u64);
    if found < needed {
        return Some(FormatError::CutOff { what: "payload", found, needed });
    }
    let (payload, padding) = bytes.split_at(header.payload_bytes as usize);
    let (found, stored) = (crc32c::crc32c(payload), header.payload_checksum);
    if found != stored {
        return Some(FormatError::Checksum { what: "payload", found, stored });
    }
    let byte = padding.iter().find(|byte| **byte != 0)?;
    Some(FormatError::Value { what: "padding", found: (*byte).into(), allowed: "0" })
}
