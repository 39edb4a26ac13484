//! Recovers the logs of dead runs: seals whole segments, cuts torn tails, and sets damage aside.
//!
//! The decisions are the table in `docs/reference/log-format.md`. [`RecoveryAction`] is the right column of
//! that table. Only `.open` files are read batch by batch. Records that were acknowledged as synced are never
//! cut. The field `durable` in the headers shows the last such record.

use std::io::{ErrorKind, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest::scan_digested;
use crate::error::{FormatError, LogError};
use crate::id::{LogId, Sequence};
use crate::scan::{Failure, SegmentScan};
use crate::segment::{Digest, SegmentDigestAlgorithm, SegmentName, SegmentState, read_footer};
use crate::segment_writer::ClosedSegment;
use crate::storage::{Storage, StorageFile};

/// The result of the recovery at a start, for each log.
#[derive(Debug, Default)]
pub struct RecoveryReport {
    /// Logs that needed a recovery.
    pub logs: Vec<LogRecovery>,
    /// Logs whose recovery failed. A later recovery continues where this recovery stopped.
    pub failed: Vec<(LogId, LogError)>,
    /// The newest log in the directory.
    pub newest: Option<LogId>,
}

/// Actions of the recovery on one log.
#[derive(Debug)]
pub struct LogRecovery {
    /// The recovered log.
    pub log: LogId,
    /// Number of segments that got their footer or their sealed name.
    pub sealed: u64,
    /// Number of bytes that were cut off after the last whole batch. These bytes were never acknowledged as
    /// synced.
    pub torn_bytes: u64,
    /// Segments set aside, with the reason.
    pub set_aside: Vec<(PathBuf, String)>,
    /// Segments of a later format version. Recovery does not change them.
    pub unknown: Vec<PathBuf>,
}

/// What recovery does with one `.open` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecoveryAction {
    /// The segment is whole. Write its footer and give it its sealed name.
    Seal,
    /// Cut the segment at the end of the last whole batch, then seal it.
    Cut,
    /// No record of the segment was acknowledged as synced. Unlink the segment.
    Remove,
    /// Acknowledged records are damaged. Rename the segment, so that loaders read around the damage.
    SetAside(String),
    /// The segment has a later format version. Leave it unchanged.
    Leave,
}

/// Treatment of bytes that were never acknowledged as synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unacknowledged {
    /// Count these bytes and delete them.
    Remove,
    /// Keep these bytes in a file of the same folder. The name of that file is no name of a segment, so no
    /// reader opens it.
    Keep,
}

/// Recovers every log in `dir` whose lock is free.
///
/// # Errors
/// `dir` cannot be listed or synced. The error of one log is in the report, and the other logs are recovered
/// nevertheless.
pub fn recover(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    digest: SegmentDigestAlgorithm,
) -> Result<RecoveryReport, LogError> {
    let mut report = RecoveryReport::default();
    let names = storage.list(dir).map_err(LogError::io("list", dir))?;
    let mut ids: Vec<LogId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    report.newest = ids.last().copied();
    // A dead run may have ended before it synced the folder with the name of its log.
    storage.sync_folder(dir).map_err(LogError::io("sync", dir))?;
    for log in ids {
        match recover_log(&**storage, &dir.join(log.to_string()), log, digest) {
            Ok(Some(recovery)) => report.logs.push(recovery),
            Ok(None) => {}
            Err(error) => report.failed.push((log, error)),
        }
    }
    Ok(report)
}

fn recover_log(
    storage: &dyn Storage,
    folder: &Path,
    log: LogId,
    digest: SegmentDigestAlgorithm,
) -> Result<Option<LogRecovery>, LogError> {
    let names = segment_names(storage, folder)?;
    let open: Vec<_> = names.iter().copied().filter(|name| name.state == SegmentState::Open).collect();
    if open.is_empty() {
        return Ok(None);
    }
    let lock = folder.join("lock");
    let Some(_lock) = storage.try_lock(&lock).map_err(LogError::io("lock", &lock))? else {
        return Ok(None);
    };
    let files = open
        .iter()
        .map(|name| Unsealed::read(storage, folder, *name, digest))
        .collect::<Result<Vec<_>, _>>()?;
    // The dead run may not have synced the names of its segments. A later recovery does not check sealed
    // segments, so their names are synced now.
    storage.sync_folder(folder).map_err(LogError::io("sync", folder))?;
    Plan::new(storage, folder, &names, files)?
        .carry_out(storage, folder, log, Unacknowledged::Remove)
        .map(Some)
}

/// The actions for one log. All actions are decided before the first action is carried out.
pub(crate) struct Plan {
    pub(crate) files: Vec<(Unsealed, RecoveryAction)>,
    /// Digest of the last sealed segment before these files.
    digest_before: [u8; 64],
}

impl Plan {
    /// Decides the actions for the `.open` files of a log. `files` has all `.open` files, in the order of
    /// their records.
    ///
    /// # Errors
    /// The sealed segment before these files cannot be read.
    pub(crate) fn new(
        storage: &dyn Storage,
        folder: &Path,
        names: &[SegmentName],
        files: Vec<Unsealed>,
    ) -> Result<Self, LogError> {
        let first = files.first().map_or(Sequence::FIRST, |file| file.name.first);
        let SealedEnd { mut continues, digest } = SealedEnd::before(storage, folder, names, first)?;
        let durable = files.iter().map(|file| file.scan.durable).max().unwrap_or_default();
        let mut is_torn = false;
        let mut judged = Vec::with_capacity(files.len());
        let mut files = files.into_iter().peekable();
        while let Some(file) = files.next() {
            let is_complete = files.peek().is_some_and(|next| next.continues(&file.scan));
            let action = judge(&file, continues, durable, is_torn, is_complete);
            is_torn |= matches!(action, RecoveryAction::Cut | RecoveryAction::Remove) && !is_complete;
            continues = match action {
                RecoveryAction::Remove => continues,
                RecoveryAction::Leave | RecoveryAction::SetAside(_) => None,
                RecoveryAction::Cut | RecoveryAction::Seal => {
                    Some((file.scan.last.after(1), file.scan.chain))
                }
            };
            judged.push((file, action));
        }
        Ok(Self { files: judged, digest_before: digest })
    }

    /// Carries out the actions.
    ///
    /// # Errors
    /// The first error of the disk. A later recovery carries out the other actions.
    pub(crate) fn carry_out(
        self,
        storage: &dyn Storage,
        folder: &Path,
        log: LogId,
        unacknowledged: Unacknowledged,
    ) -> Result<LogRecovery, LogError> {
        let recovery =
            LogRecovery { log, sealed: 0, torn_bytes: 0, set_aside: Vec::new(), unknown: Vec::new() };
        let digest_before = self.digest_before;
        let mut mender = Mender { storage, folder, unacknowledged, digest_before, recovery };
        let (to_remove, to_keep): (Vec<_>, Vec<_>) =
            self.files.into_iter().partition(|(_, action)| *action == RecoveryAction::Remove);
        to_keep.into_iter().try_for_each(|(file, action)| mender.mend(file, action))?;
        // Segments are removed from the last to the first. Without this order, a crash could keep only the
        // last segment, which would look like the end of a longer log.
        to_remove.iter().rev().try_for_each(|(file, _)| mender.remove(file))?;
        Ok(mender.recovery)
    }
}

/// Returns the names of the segments of a log, in the order of their records. A missing folder has none.
pub(crate) fn segment_names(storage: &dyn Storage, folder: &Path) -> Result<Vec<SegmentName>, LogError> {
    let names = match storage.list(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(LogError::io("list", folder))?,
    };
    let mut names: Vec<_> = names.iter().filter_map(|name| SegmentName::parse(name)).collect();
    names.sort_unstable();
    Ok(names)
}

/// An unsealed segment to which no process writes any more.
pub(crate) struct Unsealed {
    pub(crate) name: SegmentName,
    pub(crate) path: PathBuf,
    file: Arc<dyn StorageFile>,
    pub(crate) scan: SegmentScan,
    /// Digest of the intact bytes. Empty if [`Self::look`] opened the file.
    digest: Digest,
}

impl Unsealed {
    /// Opens a segment and scans the bytes on disk, not the bytes in the page cache. Syncs the file first,
    /// then drops its cached pages.
    pub(crate) fn read(
        storage: &dyn Storage,
        folder: &Path,
        name: SegmentName,
        algorithm: SegmentDigestAlgorithm,
    ) -> Result<Self, LogError> {
        let path = name.path(folder);
        let file = storage.open(&path).map_err(LogError::io("open", &path))?;
        file.sync().map_err(LogError::io("sync", &path))?;
        file.drop_cache().map_err(LogError::io("drop the cached pages of", &path))?;
        let (scan, digest) = scan_digested(storage, &path, algorithm)?;
        Ok(Self { name, path, file, scan, digest })
    }

    /// Scans the segment without a sync, and does not change the segment.
    pub(crate) fn look(storage: &dyn Storage, folder: &Path, name: SegmentName) -> Result<Self, LogError> {
        let path = name.path(folder);
        let file = storage.open_read(&path).map_err(LogError::io("open", &path))?;
        let (scan, digest) = scan_digested(storage, &path, SegmentDigestAlgorithm::None)?;
        Ok(Self { name, path, file, scan, digest })
    }

    /// Returns whether this segment begins where the intact batches of `before` end. If so, `before` has lost
    /// no batch.
    fn continues(&self, before: &SegmentScan) -> bool {
        let expected = (before.last.after(1), before.chain);
        self.scan.header.as_ref().is_some_and(|header| (header.first, header.chain) == expected)
    }
}

/// The end of the sealed part of the log, which the next segment has to continue.
#[derive(Clone, Copy)]
struct SealedEnd {
    /// First record number and chain that the next segment must have. `None` if the segment before it is
    /// damaged or missing, because there is then nothing to compare.
    continues: Option<(Sequence, u32)>,
    digest: [u8; 64],
}

impl SealedEnd {
    fn before(
        storage: &dyn Storage,
        folder: &Path,
        names: &[SegmentName],
        first: Sequence,
    ) -> Result<Self, LogError> {
        let nothing = Self { continues: None, digest: [0; 64] };
        let Some(name) = names.iter().rev().find(|name| name.first < first) else {
            let is_first = first == Sequence::FIRST;
            return Ok(Self { continues: is_first.then_some((Sequence::FIRST, 0)), ..nothing });
        };
        if name.state != SegmentState::Sealed {
            return Ok(nothing);
        }
        let path = name.path(folder);
        Ok(match read_footer(storage, &path)? {
            Some(footer) => {
                Self { continues: Some((footer.last.after(1), footer.chain)), digest: footer.digest_bytes() }
            }
            None => nothing,
        })
    }
}

/// Decides one row of the table.
///
/// `is_torn`: the log was already cut before this file. `is_complete`: the next file shows that this file has
/// all its batches, so that only its footer can be torn.
fn judge(
    file: &Unsealed,
    continues: Option<(Sequence, u32)>,
    durable: Sequence,
    is_torn: bool,
    is_complete: bool,
) -> RecoveryAction {
    let scan = &file.scan;
    if let Some(Failure { error: FormatError::Version { .. }, .. }) = scan.failure {
        return RecoveryAction::Leave;
    }
    if is_torn && durable < file.name.first {
        return RecoveryAction::Remove;
    }
    let Some(header) = &scan.header else {
        return match &scan.failure {
            Some(failure) if scan.headers_behind > 0 || durable >= file.name.first => {
                RecoveryAction::SetAside(failure.error.to_string())
            }
            _ => RecoveryAction::Remove,
        };
    };
    if let Some(expected) = LogId::of_segment(&file.path)
        && header.log != expected
    {
        return RecoveryAction::SetAside(FormatError::Stranger { found: header.log, expected }.to_string());
    }
    if header.first != file.name.first {
        return RecoveryAction::SetAside(FormatError::misnamed(header.first, file.name.first).to_string());
    }
    let broken = match continues {
        Some((first, _)) if header.first != first => {
            let error = FormatError::Order { found: header.first.0, expected: first.0 };
            Some((first.min(header.first), error))
        }
        Some((_, chain)) if header.chain != chain => {
            Some((header.first, FormatError::Chain { found: header.chain, expected: chain }))
        }
        _ => scan.failure.as_ref().map(|failure| (failure.first, failure.error.clone())),
    };
    match broken {
        Some((first, _)) if is_complete && first > header.first => RecoveryAction::Cut,
        Some((first, error)) if first <= durable => RecoveryAction::SetAside(error.to_string()),
        Some((first, _)) if first <= header.first => RecoveryAction::Remove,
        _ if scan.records() == 0 && durable >= header.first => {
            RecoveryAction::SetAside("the segment has no record, but its first record was synced".to_owned())
        }
        _ if scan.records() == 0 => RecoveryAction::Remove,
        Some(_) => RecoveryAction::Cut,
        None => RecoveryAction::Seal,
    }
}

/// Carries out the actions on the files of one log.
struct Mender<'a> {
    storage: &'a dyn Storage,
    folder: &'a Path,
    unacknowledged: Unacknowledged,
    /// Digest of the previous segment, which the next footer repeats. Zero if the previous segment has no
    /// digest.
    digest_before: [u8; 64],
    recovery: LogRecovery,
}

impl Mender<'_> {
    fn mend(&mut self, file: Unsealed, action: RecoveryAction) -> Result<(), LogError> {
        match action {
            RecoveryAction::Remove => self.remove(&file),
            RecoveryAction::Leave => {
                self.recovery.unknown.push(file.path);
                self.digest_before = [0; 64];
                Ok(())
            }
            RecoveryAction::SetAside(reason) => {
                let aside = set_aside(self.storage, self.folder, file.name)?;
                self.recovery.set_aside.push((aside, reason));
                self.digest_before = [0; 64];
                Ok(())
            }
            RecoveryAction::Cut => {
                self.cut(&file)?;
                let scan = SegmentScan { file_bytes: file.scan.end, failure: None, ..file.scan };
                self.seal(Unsealed { scan, ..file })
            }
            RecoveryAction::Seal => self.seal(file),
        }
    }

    fn cut(&mut self, file: &Unsealed) -> Result<(), LogError> {
        if self.unacknowledged == Unacknowledged::Keep {
            let torn = torn_path(self.folder, file.name);
            keep(self.storage, &*file.file, &file.path, file.scan.end..file.scan.file_bytes, &torn)?;
            self.storage.sync_folder(self.folder).map_err(LogError::io("sync", self.folder))?;
        }
        file.file.truncate(file.scan.end).map_err(LogError::io("cut", &file.path))?;
        self.recovery.torn_bytes += file.scan.used_bytes - file.scan.end;
        Ok(())
    }

    fn remove(&mut self, file: &Unsealed) -> Result<(), LogError> {
        match self.unacknowledged {
            Unacknowledged::Remove => {
                self.storage.remove(&file.path).map_err(LogError::io("remove", &file.path))?;
            }
            Unacknowledged::Keep => {
                let torn = torn_path(self.folder, file.name);
                self.storage.rename(&file.path, &torn).map_err(LogError::io("rename", &file.path))?;
            }
        }
        self.storage.sync_folder(self.folder).map_err(LogError::io("sync", self.folder))?;
        self.recovery.torn_bytes += file.scan.used_bytes;
        Ok(())
    }

    fn seal(&mut self, file: Unsealed) -> Result<(), LogError> {
        let (folder, last) = (self.folder.to_owned(), file.scan.last);
        let segment = ClosedSegment { file: file.file, folder, name: file.name, last };
        let footer = segment.seal_scanned(self.storage, &file.scan, file.digest, self.digest_before)?;
        self.digest_before = footer.digest_bytes();
        self.recovery.sealed += 1;
        Ok(())
    }
}

/// Renames a segment to the name of a damaged segment.
pub(crate) fn set_aside(
    storage: &dyn Storage,
    folder: &Path,
    name: SegmentName,
) -> Result<PathBuf, LogError> {
    let (path, aside) = (name.path(folder), name.with_state(SegmentState::Damaged).path(folder));
    storage.rename(&path, &aside).map_err(LogError::io("rename", &path))?;
    storage.sync_folder(folder).map_err(LogError::io("sync", folder))?;
    Ok(aside)
}

/// Returns the path of a file for bytes of a segment that were never acknowledged as synced. Its name is no
/// name of a segment, so no reader opens the file.
pub(crate) fn torn_path(folder: &Path, name: SegmentName) -> PathBuf {
    folder.join(format!("{:020}.torn", name.first.0))
}

/// Copies a range of a file into another file, and syncs the copy.
fn keep(
    storage: &dyn Storage,
    file: &dyn StorageFile,
    path: &Path,
    range: Range<u64>,
    to: &Path,
) -> Result<(), LogError> {
    const PIECE_BYTES: usize = 256 << 10;
    let copy = match storage.create(to) {
        // An earlier repair did not finish. The tail is still in the segment, and this repair copies it
        // again.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let begun = storage.open(to).map_err(LogError::io("open", to))?;
            begun.truncate(0).map_err(LogError::io("cut", to))?;
            begun
        }
        created => created.map_err(LogError::io("create", to))?,
    };
    let mut piece = vec![0; PIECE_BYTES];
    let extents =
        file.data_extents(range.start, range.end).map_err(LogError::io("look for data in", path))?;
    // Only stored extents are copied, so the holes of a sparse file stay holes. If the holes were filled with
    // zeros, the copy could be larger than the free space of the disk.
    for extent in extents {
        let mut offset = extent.start;
        while offset < extent.end {
            let wanted = piece.len().min((extent.end - offset) as usize);
            let read = file.read_at(offset, &mut piece[..wanted]).map_err(LogError::io("read", path))?;
            if read == 0 {
                break;
            }
            copy.write_at(offset - range.start, &mut [IoSlice::new(&piece[..read])])
                .map_err(LogError::io("write", to))?;
            offset += read as u64;
        }
    }
    copy.sync().map_err(LogError::io("sync", to))
}
