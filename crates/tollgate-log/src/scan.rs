//! Scans a whole segment, for recovery, sealing and verification.

mod reader;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::batch::{BATCH_HEADER_BYTES, BatchHeader, u64_at};
use crate::error::{FormatError, LogError};
use crate::id::Sequence;
use crate::record::{RecordKind, split_record};
use crate::schema::{Schema, SchemaId};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentFooter, SegmentHeader, SegmentName, StreamCount};
use crate::storage::{Storage, StorageFile};
use reader::WINDOW_BYTES;
pub(crate) use reader::{Found, Schemas, SegmentReader, StepError, read_header, used_bytes};

/// The first place where a segment is damaged or torn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Offset where the failure begins.
    pub offset: u64,
    /// Number of the first record that cannot be read because of the failure.
    pub first: Sequence,
    /// Kind of the failure.
    pub error: FormatError,
}

/// Result of the scan of a whole segment.
#[derive(Debug, Clone)]
pub struct SegmentScan {
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Size of the file in bytes, without the zeros at its end. Zeros inside a batch or footer count as used.
    pub used_bytes: u64,
    /// The header, if it is intact.
    pub header: Option<SegmentHeader>,
    /// Offset where the intact batches end.
    pub end: u64,
    /// Number of intact batches before `end`.
    pub batches: u64,
    /// Number of the last intact record. If there is no record, the number before the first record of the
    /// segment.
    pub last: Sequence,
    /// Header checksum of the last intact batch.
    pub chain: u32,
    /// Counts of rows and rejects by schema.
    pub counts: Vec<StreamCount>,
    /// The schemas that the segment contains.
    pub schemas: Vec<(SchemaId, Arc<Schema>)>,
    /// The highest record number that a batch header reports as synced. Intact headers after a failure count
    /// too.
    pub durable: Sequence,
    /// Number of intact batch headers after the failure.
    pub headers_behind: u64,
    /// The footer, if the segment has an intact one.
    pub footer: Option<SegmentFooter>,
    /// The first failure, if any.
    pub failure: Option<Failure>,
}

impl SegmentScan {
    /// Returns the number of intact records.
    pub fn records(&self) -> u64 {
        self.header.as_ref().map_or(0, |header| header.first.count_to(self.last))
    }
}

/// Reads the header of a segment. Returns `None` if it is damaged, or of a later version.
///
/// # Errors
/// An error of the disk, also if the segment is missing.
pub fn segment_header(storage: &dyn Storage, path: &Path) -> Result<Option<SegmentHeader>, LogError> {
    let file = storage.open_read(path).map_err(LogError::io("open", path))?;
    Ok(read_header(&*file, path)?.ok().map(|(header, _)| header))
}

/// Scans a segment from its first byte to its last.
///
/// # Errors
/// Only errors of the disk. The result reports damage of the bytes.
pub fn scan_segment(storage: &dyn Storage, path: &Path) -> Result<SegmentScan, LogError> {
    scan_watched(storage, path, &mut |_| {})
}

/// Scans a segment. After each batch, reports the offset where the intact batches end so far.
pub(crate) fn scan_watched(
    storage: &dyn Storage,
    path: &Path,
    on_batch: &mut dyn FnMut(u64),
) -> Result<SegmentScan, LogError> {
    let file = storage.open_read(path).map_err(LogError::io("open", path))?;
    let file_bytes = file.size().map_err(LogError::io("read the size of", path))?;
    let mut scan = SegmentScan {
        file_bytes,
        used_bytes: 0,
        header: None,
        end: 0,
        batches: 0,
        last: Sequence(0),
        chain: 0,
        counts: Vec::new(),
        schemas: Vec::new(),
        durable: Sequence(0),
        headers_behind: 0,
        footer: None,
        failure: None,
    };
    match read_header(&*file, path)? {
        Ok((header, checksum)) => {
            let mut reader = SegmentReader::at_start(path, file.clone(), header, checksum, Schemas::new());
            walk(&mut reader, &mut scan, on_batch)?;
        }
        Err(error) => {
            scan.failure = Some(Failure { offset: 0, first: Sequence(0), error });
            look_behind_damaged_header(path, &file, &mut scan)?;
        }
    }
    let end = scan.footer.as_ref().map_or(scan.end, SegmentFooter::file_bytes);
    scan.used_bytes = used_bytes(&*file, path, end, file_bytes)?;
    Ok(scan)
}

fn walk(
    reader: &mut SegmentReader,
    scan: &mut SegmentScan,
    on_batch: &mut dyn FnMut(u64),
) -> Result<(), LogError> {
    let mut counts = BTreeMap::new();
    loop {
        match reader.step() {
            Ok(Found::Batch(header)) => {
                scan.durable = scan.durable.max(header.durable);
                scan.batches += 1;
                count_records(reader.payload(), &mut counts);
                on_batch(reader.offset);
            }
            Ok(Found::Footer(footer)) => {
                scan.footer = Some(footer);
                break;
            }
            Ok(Found::End) => break,
            Err(StepError::Format(error)) => {
                scan.failure = Some(Failure { offset: reader.offset, first: reader.next, error });
                break;
            }
            Err(StepError::Io(error)) => return Err(error),
        }
    }
    scan.end = reader.offset;
    scan.chain = reader.chain;
    scan.last = reader.next.before();
    scan.counts = counts.into_values().collect();
    scan.schemas = reader.schemas.iter().map(|(id, schema)| (*id, schema.clone())).collect();
    scan.schemas.sort_by_key(|(id, _)| *id);
    // Only the counts are compared here, because the reader has already compared all other fields of the
    // footer.
    if scan.footer.take_if(|footer| footer.counts != scan.counts).is_some() {
        let error = FormatError::OtherCounts;
        scan.failure = Some(Failure { offset: scan.end, first: reader.next, error });
    }
    if scan.failure.is_some() {
        look_behind(reader, scan.end, scan)?;
    }
    scan.header = Some(reader.header.clone());
    Ok(())
}

fn count_records(payload: &[u8], counts: &mut BTreeMap<SchemaId, StreamCount>) {
    let mut rest = payload;
    while let Ok((record, behind)) = split_record(rest) {
        rest = behind;
        let schema = record.schema;
        let count = counts.entry(schema).or_insert(StreamCount { schema, rows: 0, rejects: 0 });
        match record.kind {
            RecordKind::Row => count.rows += 1,
            RecordKind::Reject => count.rejects += 1,
            RecordKind::Schema => {}
        }
    }
    counts.retain(|_, count| count.rows + count.rejects > 0);
}

fn look_behind(reader: &mut SegmentReader, from: u64, scan: &mut SegmentScan) -> Result<(), LogError> {
    let mut from = from;
    while let Some((offset, header)) = reader.find_header(from)? {
        scan.headers_behind += 1;
        scan.durable = scan.durable.max(header.durable);
        from = offset + 8;
    }
    Ok(())
}

/// Searches a segment with a damaged header for batches.
fn look_behind_damaged_header(
    path: &Path,
    file: &Arc<dyn StorageFile>,
    scan: &mut SegmentScan,
) -> Result<(), LogError> {
    if let Some(mut reader) = SegmentReader::behind_damaged_header(path, file, &Schemas::new())? {
        return look_behind(&mut reader, SEGMENT_HEADER_BYTES as u64, scan);
    }
    // The nonce of the segment is unknown, so batches are not read. A batch header that is found shows only
    // that the segment is not empty.
    if let Some(nonce) = any_nonce(&**file, path)? {
        let first = SegmentName::of(path).map_or(Sequence::FIRST, |name| name.first);
        let header = SegmentHeader::stand_in(nonce, first);
        let mut reader = SegmentReader::at_start(path, file.clone(), header, 0, Schemas::new());
        look_behind(&mut reader, 0, scan)?;
    }
    Ok(())
}

/// Returns the nonce of the first bytes that form a valid batch header. The header may have any nonce.
fn any_nonce(file: &dyn StorageFile, path: &Path) -> Result<Option<u64>, LogError> {
    let mut window = vec![0; WINDOW_BYTES];
    let mut at = 0;
    loop {
        let data = file.next_data(at).map_err(LogError::io("look for data in", path))?;
        let Some(data) = data else { return Ok(None) };
        at = at.max(data / 8 * 8);
        let read = file.read_at(at, &mut window).map_err(LogError::io("read", path))?;
        if read < BATCH_HEADER_BYTES {
            return Ok(None);
        }
        for place in (0..=read - BATCH_HEADER_BYTES).step_by(8) {
            let nonce = u64_at(&window, place);
            if nonce != 0
                && let Some(bytes) = window[place..].first_chunk()
                && BatchHeader::decode(bytes, nonce).is_ok()
            {
                return Ok(Some(nonce));
            }
        }
        at += (read - BATCH_HEADER_BYTES + 8) as u64 / 8 * 8;
    }
}
