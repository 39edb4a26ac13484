//! Writes a log, without threads: stamps batches, opens and closes segments, and collects the files and
//! folders to sync.
//!
//! Writes and syncs may run at the same time. [`SegmentWriter::write`] syncs no file. [`SyncWork::run`] syncs
//! all writes that preceded the call that returned the work. Tests call both step by step.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch::{BATCH_BYTES_MAX, BATCH_HEADER_BYTES, BatchHeader, BatchKind};
use crate::error::LogError;
use crate::id::{LogId, Sequence};
use crate::record::encode_schema;
use crate::schema::{Schema, SchemaId};
use crate::segment::{SegmentHeader, SegmentName, SegmentState, is_nonce};
use crate::storage::{Storage, StorageFile, StorageLock, make_folder};

/// Maximum payload bytes of a batch of schemas to which a further schema is added.
const SCHEMAS_BYTES: usize = 1 << 20;

/// A batch that a worker hands over. The batch has a payload, but no header yet.
#[derive(Debug, Clone)]
pub struct Handover {
    /// Encoded records.
    pub payload: Vec<u8>,
    /// Number of the records.
    pub count: u32,
    /// Mask of the schemas that the records use.
    pub schema_mask: u64,
    /// CRC32C of the payload.
    pub payload_checksum: u32,
}

/// A segment that gets no further writes, and has no footer yet.
#[derive(Clone)]
pub struct ClosedSegment {
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) folder: PathBuf,
    pub(crate) name: SegmentName,
    /// Number of the last record of the segment.
    pub(crate) last: Sequence,
}

impl ClosedSegment {
    /// Number of the first record of the segment.
    pub const fn first(&self) -> Sequence {
        self.name.first
    }

    /// Number of the last record of the segment.
    pub const fn last(&self) -> Sequence {
        self.last
    }
}

/// Files and folders to sync before the records up to `last` may be acknowledged.
#[derive(Default)]
pub struct SyncWork {
    files: Vec<(Arc<Path>, Arc<dyn StorageFile>)>,
    folders: Vec<PathBuf>,
    last: Sequence,
}

impl SyncWork {
    /// Returns whether there is nothing to sync.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Adds later work.
    pub fn merge(&mut self, mut later: Self) {
        self.take_over(&mut later);
    }

    /// Moves the pending work of `later` to `self`. `later` keeps its buffers, so that the next write need
    /// not allocate.
    fn take_over(&mut self, later: &mut Self) {
        for (path, file) in later.files.drain(..) {
            self.add_file(&path, &file);
        }
        self.folders.append(&mut later.folders);
        self.last = self.last.max(later.last);
    }

    fn add_file(&mut self, path: &Arc<Path>, file: &Arc<dyn StorageFile>) {
        if self.files.last().is_none_or(|(last, _)| !Arc::ptr_eq(last, path)) {
            self.files.push((path.clone(), file.clone()));
        }
    }

    /// Syncs the files, oldest first, then the folders. Returns the number of the last record that is now on
    /// disk.
    ///
    /// # Errors
    /// The error of the first sync that fails. A failed sync is never tried again, because the kernel may
    /// have dropped the pages that it could not write.
    pub fn run(self, storage: &dyn Storage) -> Result<Sequence, LogError> {
        for (path, file) in &self.files {
            file.sync().map_err(LogError::io("sync", path))?;
        }
        for folder in &self.folders {
            storage.sync_folder(folder).map_err(LogError::io("sync", folder))?;
        }
        Ok(self.last)
    }
}

struct Active {
    path: Arc<Path>,
    name: SegmentName,
    file: Arc<dyn StorageFile>,
    nonce: u64,
    bytes: u64,
    /// Size of the file in bytes. All bytes after the first `bytes` bytes are zeros.
    file_bytes: u64,
    /// Number of the log's schemas that the segment contains.
    schemas: usize,
}

/// Writes one log, segment after segment.
pub struct SegmentWriter {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    log: LogId,
    log_before: Option<LogId>,
    node: String,
    schemas: Vec<(SchemaId, Arc<Schema>)>,
    active: Option<Active>,
    /// Number of the first record of the segment before the active one.
    first_before: Option<Sequence>,
    lock: Option<StorageLock>,
    next: Sequence,
    chain: u32,
    unsynced: SyncWork,
    /// Zeros that are written after the batches when the file has to grow.
    runway: Vec<u8>,
    /// Headers of the current write. The next write uses the buffer again.
    headers: Vec<[u8; BATCH_HEADER_BYTES]>,
}

impl SegmentWriter {
    /// Prepares a new log. Nothing is created on disk before the first write.
    pub fn new(
        storage: Arc<dyn Storage>,
        dir: &Path,
        log_before: Option<LogId>,
        node: &str,
        schemas: Vec<(SchemaId, Arc<Schema>)>,
    ) -> Self {
        Self {
            storage,
            dir: dir.to_owned(),
            log: LogId::random(),
            log_before,
            node: node.to_owned(),
            schemas,
            active: None,
            first_before: None,
            lock: None,
            next: Sequence::FIRST,
            chain: 0,
            unsynced: SyncWork::default(),
            runway: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// Makes each segment grow by `bytes` zeros at a time. At the sync of most writes, the size and the
    /// blocks of the file are then on disk already.
    pub fn with_runway(self, bytes: usize) -> Self {
        Self { runway: vec![0; bytes], ..self }
    }

    /// Returns the id of the log.
    pub const fn log(&self) -> LogId {
        self.log
    }

    /// Returns the bytes of the active segment, or 0 if none is open.
    pub fn active_bytes(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.bytes)
    }

    /// Returns whether the next write goes to a segment that is open and contains all schemas.
    pub fn is_open_for_records(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.schemas == self.schemas.len())
    }

    /// Appends batches to the active segment and returns the number of the last record. Opens a segment if
    /// none is active.
    ///
    /// `Ok` means written, not durable. `durable` and `stamp_us` are written to the batch headers. `stamp_us`
    /// is only for people.
    ///
    /// # Errors
    /// Any error of the disk. After an error, the log must not be written any more.
    pub fn write(
        &mut self,
        batches: &[Handover],
        durable: Sequence,
        stamp_us: i64,
    ) -> Result<Sequence, LogError> {
        if self.active.is_none() {
            self.open_segment(durable)?;
        }
        self.show_schemas(durable, stamp_us)?;
        self.append(batches, BatchKind::Records, durable, stamp_us)?;
        Ok(self.next.before())
    }

    /// Adds schemas that later batches may use.
    ///
    /// The schemas are written before the next records, not now. If they were written now, a segment could
    /// end with a batch of schemas. The header of the next segment would then continue that batch, but a
    /// reader's position is never after a batch of schemas.
    pub fn declare(&mut self, schemas: Vec<(SchemaId, Arc<Schema>)>) {
        self.schemas.extend(schemas);
    }

    /// Returns the sync work of all writes since the last call.
    pub fn take_sync_work(&mut self) -> SyncWork {
        std::mem::take(&mut self.unsynced)
    }

    /// Moves the sync work of all writes since the last call to `work`.
    pub(crate) fn move_sync_work_to(&mut self, work: &mut SyncWork) {
        work.take_over(&mut self.unsynced);
    }

    /// Closes the active segment. The next write opens another. Returns `None` if no segment is open.
    pub fn close_segment(&mut self) -> Option<ClosedSegment> {
        let active = self.active.take()?;
        self.first_before = Some(active.name.first);
        let folder = self.folder();
        Some(ClosedSegment { file: active.file, folder, name: active.name, last: self.next.before() })
    }

    fn folder(&self) -> PathBuf {
        self.dir.join(self.log.to_string())
    }

    fn open_segment(&mut self, durable: Sequence) -> Result<(), LogError> {
        let folder = self.folder();
        if self.lock.is_none() {
            self.create_folder(&folder)?;
        }
        if self.first_before.is_some_and(|first| durable < first) {
            // No record of the previous segment is synced. The name of that segment has to be on disk before
            // the new segment exists. Without this sync, a power cut could keep only the new segment.
            self.storage.sync_folder(&folder).map_err(LogError::io("sync", &folder))?;
        }
        let name = SegmentName { first: self.next, state: SegmentState::Open };
        let path = name.path(&folder);
        let file = self.storage.create(&path).map_err(LogError::io("create", &path))?;
        let header = SegmentHeader {
            log: self.log,
            log_before: self.log_before,
            nonce: random_nonce(&path)?,
            first: self.next,
            chain: self.chain,
            node: self.node.clone(),
        };
        let (bytes, checksum) = header.encode();
        file.write_at(0, &mut [IoSlice::new(&bytes)]).map_err(LogError::io("write", &path))?;
        self.unsynced.folders.push(folder);
        self.chain = checksum;
        let bytes = bytes.len() as u64;
        let path = path.into();
        self.active =
            Some(Active { path, name, file, nonce: header.nonce, bytes, file_bytes: bytes, schemas: 0 });
        Ok(())
    }

    /// Writes the schemas that the active segment does not contain yet.
    fn show_schemas(&mut self, durable: Sequence, stamp_us: i64) -> Result<(), LogError> {
        let Some(active) = &mut self.active else { return Ok(()) };
        let shown = std::mem::replace(&mut active.schemas, self.schemas.len());
        let batches = schemas_batches(&self.schemas[shown..]);
        match batches.is_empty() {
            true => Ok(()),
            false => self.append(&batches, BatchKind::Schemas, durable, stamp_us),
        }
    }

    /// Creates and locks the folder of the log.
    fn create_folder(&mut self, folder: &Path) -> Result<(), LogError> {
        make_folder(&*self.storage, folder)?;
        let path = folder.join("lock");
        let lock = self.storage.try_lock(&path).map_err(LogError::io("lock", &path))?;
        self.lock =
            Some(lock.ok_or_else(|| LogError::io("lock", &path)(std::io::ErrorKind::WouldBlock.into()))?);
        Ok(())
    }

    fn append(
        &mut self,
        batches: &[Handover],
        kind: BatchKind,
        durable: Sequence,
        stamp_us: i64,
    ) -> Result<(), LogError> {
        let Some(active) = &mut self.active else { return Ok(()) };
        let offset = active.bytes;
        self.headers.clear();
        for batch in batches {
            assert!(batch.payload.len() <= BATCH_BYTES_MAX, "no reader takes a batch of more than its bound");
            let header = BatchHeader {
                nonce: active.nonce,
                payload_bytes: batch.payload.len() as u32,
                count: batch.count,
                first: self.next,
                durable,
                schema_mask: batch.schema_mask,
                stamp_us,
                payload_checksum: batch.payload_checksum,
                previous: self.chain,
                kind,
            };
            let (bytes, checksum) = header.encode();
            self.headers.push(bytes);
            self.chain = checksum;
            self.next = header.last().after(1);
            active.bytes += header.batch_bytes();
        }
        let mut runway = &[][..];
        if active.bytes > active.file_bytes {
            // A large write gets no runway. The zeros of a runway could double the bytes that the disk has to
            // write.
            let is_large = (active.bytes - offset) as usize >= self.runway.len() / 2;
            if !is_large {
                runway = &self.runway;
            }
            active.file_bytes = active.bytes + runway.len() as u64;
        }
        let (mut few, mut many) = ([IoSlice::new(&[]); SLICES_FEW], Vec::new());
        let slices = match few.get_mut(..slices_of(batches)) {
            Some(slices) => slices,
            None => {
                many.resize(slices_of(batches), IoSlice::new(&[]));
                &mut many[..]
            }
        };
        gather(slices, &self.headers, batches, runway);
        active.file.write_at(offset, slices).map_err(LogError::io("write", &active.path))?;
        self.unsynced.add_file(&active.path, &active.file);
        self.unsynced.last = self.next.before();
        Ok(())
    }
}

/// Encodes schemas into one or more batches. One schema has at most 66 KB, but all schemas together may
/// exceed one batch.
fn schemas_batches(schemas: &[(SchemaId, Arc<Schema>)]) -> Vec<Handover> {
    let empty = || Handover { payload: Vec::new(), count: 0, schema_mask: 0, payload_checksum: 0 };
    let mut batches = Vec::new();
    let mut batch = empty();
    for (id, schema) in schemas {
        encode_schema(&mut batch.payload, *id, schema);
        batch.schema_mask |= id.mask();
        batch.count += 1;
        if batch.payload.len() >= SCHEMAS_BYTES {
            batches.push(std::mem::replace(&mut batch, empty()));
        }
    }
    if batch.count > 0 {
        batches.push(batch);
    }
    for batch in &mut batches {
        batch.payload_checksum = crc32c::crc32c(&batch.payload);
    }
    batches
}

/// Fills `slices` with headers, payloads and padding in file order, and with the runway after them. One
/// gathered write then writes all of them without a copy.
fn gather<'a>(
    slices: &mut [IoSlice<'a>],
    headers: &'a [[u8; BATCH_HEADER_BYTES]],
    batches: &'a [Handover],
    runway: &'a [u8],
) {
    const PADDING: [u8; 8] = [0; 8];
    for (slices, (header, batch)) in slices.chunks_exact_mut(BATCH_SLICES).zip(headers.iter().zip(batches)) {
        let bytes = batch.payload.len();
        let padding = &PADDING[..bytes.next_multiple_of(8) - bytes];
        slices.copy_from_slice(&[header, &batch.payload[..], padding].map(IoSlice::new));
    }
    if let Some(last) = slices.last_mut() {
        *last = IoSlice::new(runway);
    }
}

/// Returns the number of slices that [`gather`] fills.
const fn slices_of(batches: &[Handover]) -> usize {
    BATCH_SLICES * batches.len() + 1
}

/// Number of slices of a batch: header, payload, padding.
const BATCH_SLICES: usize = 3;
/// Number of slices that need no allocation: the slices of two batches and the runway. A worker that writes
/// its own batch mostly writes only one.
const SLICES_FEW: usize = 2 * BATCH_SLICES + 1;

/// Returns a random nonce that differs from the first bytes of a footer and of a runway.
fn random_nonce(path: &Path) -> Result<u64, LogError> {
    loop {
        let nonce = getrandom::u64()
            .map_err(std::io::Error::other)
            .map_err(LogError::io("draw a nonce for", path))?;
        if is_nonce(nonce) {
            return Ok(nonce);
        }
    }
}
