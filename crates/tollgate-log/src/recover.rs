//! Mending what dead runs left: seal whole segments, cut torn tails, set damage aside.
//!
//! The decisions are the table in `docs/log-format.md`; [`Verdict`] is its right column. Only `.open` files are read
//! batch by batch. What was acknowledged as synced is never cut: `durable` in the headers tells how far that reached.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{FormatError, LogError};
use crate::id::{LogId, Sequence};
use crate::scan::{Failure, SegmentScan, scan_segment};
use crate::seal::read_footer;
use crate::segment::{DigestAlgorithm, SegmentName, SegmentState};
use crate::segment_writer::ClosedSegment;
use crate::storage::{Storage, StorageFile};

/// What a start found and did, log by log.
#[derive(Debug, Default)]
pub struct RecoveryReport {
    /// The logs that needed anything.
    pub logs: Vec<LogRecovery>,
    /// Logs that could not be mended and were left as they are.
    pub failed: Vec<(LogId, LogError)>,
    /// The youngest log that was there.
    pub newest: Option<LogId>,
}

/// What was done to one log.
#[derive(Debug)]
pub struct LogRecovery {
    /// The log.
    pub log: LogId,
    /// Segments that got their footer or their name.
    pub sealed: u64,
    /// Bytes cut off behind the last whole batch, none of them ever acknowledged as synced.
    pub torn_bytes: u64,
    /// Segments set aside, and why.
    pub set_aside: Vec<(PathBuf, String)>,
    /// Segments of a later format version, left untouched.
    pub unknown: Vec<PathBuf>,
}

/// What becomes of one `.open` file.
enum Verdict {
    /// Whole: footer and name.
    Seal,
    /// Cut at the end of the last whole batch, then footer and name.
    Cut,
    /// Never acknowledged: unlink.
    Remove,
    /// Acknowledged records are damaged: rename and read around.
    SetAside(String),
    /// A later version: leave it.
    Leave,
}

/// Mends every log in `dir` whose lock is free.
///
/// # Errors
/// `dir` cannot be listed or synced. What goes wrong with one log is in the report, and the others go on.
pub fn recover(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    digest: DigestAlgorithm,
) -> Result<RecoveryReport, LogError> {
    let mut report = RecoveryReport::default();
    let names = storage.list(dir).map_err(LogError::io("list", dir))?;
    let mut ids: Vec<LogId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    report.newest = ids.last().copied();
    // A dead run may have ended before it synced the name of its log.
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
    digest: DigestAlgorithm,
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
    let mut recovery =
        LogRecovery { log, sealed: 0, torn_bytes: 0, set_aside: Vec::new(), unknown: Vec::new() };
    let files =
        open.iter().map(|name| Unsealed::read(storage, folder, *name)).collect::<Result<Vec<_>, _>>()?;
    // The dead run may not have synced the names; a later recovery looks at none that is sealed.
    storage.sync_folder(folder).map_err(LogError::io("sync", folder))?;
    let durable = files.iter().map(|file| file.scan.durable).max().unwrap_or_default();
    let mut end = SealedEnd::before(storage, folder, &names, open[0].first)?;
    let mut is_torn = false;
    let mut to_remove = Vec::new();
    let mut files = files.into_iter().peekable();
    while let Some(file) = files.next() {
        let is_complete = files.peek().is_some_and(|next| next.continues(&file.scan));
        let verdict = judge(&file, &end, durable, is_torn, is_complete);
        is_torn |= matches!(verdict, Verdict::Cut | Verdict::Remove) && !is_complete;
        match verdict {
            Verdict::Remove => to_remove.push(file),
            verdict => end = carry_out(storage, folder, file, verdict, end, digest, &mut recovery)?,
        }
    }
    // From the last to the first: one that a crash leaves alone would look like the rest of a longer log.
    for file in to_remove.iter().rev() {
        storage.remove(&file.path).map_err(LogError::io("remove", &file.path))?;
        storage.sync_folder(folder).map_err(LogError::io("sync", folder))?;
        recovery.torn_bytes += file.scan.file_bytes;
    }
    Ok(Some(recovery))
}

/// The names of the segments of a log, in the order of their records. A folder that is gone holds none.
pub(crate) fn segment_names(storage: &dyn Storage, folder: &Path) -> Result<Vec<SegmentName>, LogError> {
    let names = match storage.list(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(LogError::io("list", folder))?,
    };
    let mut names: Vec<_> = names.iter().filter_map(|name| SegmentName::parse(name)).collect();
    names.sort_unstable();
    Ok(names)
}

struct Unsealed {
    name: SegmentName,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    scan: SegmentScan,
}

impl Unsealed {
    /// Reads the disk, not the cache: what is only in memory is put on disk first, then the pages are dropped.
    fn read(storage: &dyn Storage, folder: &Path, name: SegmentName) -> Result<Self, LogError> {
        let path = name.path(folder);
        let file = storage.open(&path).map_err(LogError::io("open", &path))?;
        file.sync().map_err(LogError::io("sync", &path))?;
        file.drop_cache().map_err(LogError::io("drop the cached pages of", &path))?;
        let scan = scan_segment(storage, &path)?;
        Ok(Self { name, path, file, scan })
    }

    /// Whether this segment begins where the intact batches of another end: that one has lost none of its own.
    fn continues(&self, before: &SegmentScan) -> bool {
        let expected = (before.last.after(1), before.chain);
        self.scan.header.as_ref().is_some_and(|header| (header.first, header.chain) == expected)
    }
}

/// Where the sealed part of the log ends: what the next segment has to continue.
#[derive(Clone, Copy)]
struct SealedEnd {
    /// None where the segment before is damaged or missing: then nothing can be compared.
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

/// Decides one row of the table. `is_torn`: the log was already cut before this file. `is_complete`: the next file
/// says that this one has all its batches, so that nothing but a footer can be torn.
fn judge(file: &Unsealed, end: &SealedEnd, durable: Sequence, is_torn: bool, is_complete: bool) -> Verdict {
    let scan = &file.scan;
    if let Some(Failure { error: FormatError::Version { .. }, .. }) = scan.failure {
        return Verdict::Leave;
    }
    if is_torn && durable < file.name.first {
        return Verdict::Remove;
    }
    let Some(header) = &scan.header else {
        return match &scan.failure {
            Some(failure) if scan.headers_behind > 0 || durable >= file.name.first => {
                Verdict::SetAside(failure.error.to_string())
            }
            _ => Verdict::Remove,
        };
    };
    let broken = match end.continues {
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
        Some((first, _)) if is_complete && first > header.first => Verdict::Cut,
        Some((first, error)) if first <= durable => Verdict::SetAside(error.to_string()),
        Some((first, _)) if first <= header.first => Verdict::Remove,
        _ if scan.records() == 0 && durable >= header.first => {
            Verdict::SetAside("its records are missing".to_owned())
        }
        _ if scan.records() == 0 => Verdict::Remove,
        Some(_) => Verdict::Cut,
        None => Verdict::Seal,
    }
}

/// Does what was decided. What is to be removed is left to the caller, who removes it last.
fn carry_out(
    storage: &dyn Storage,
    folder: &Path,
    file: Unsealed,
    verdict: Verdict,
    end: SealedEnd,
    digest: DigestAlgorithm,
    recovery: &mut LogRecovery,
) -> Result<SealedEnd, LogError> {
    let nothing = SealedEnd { continues: None, digest: [0; 64] };
    match verdict {
        Verdict::Remove => Ok(end),
        Verdict::Leave => {
            recovery.unknown.push(file.path);
            Ok(nothing)
        }
        Verdict::SetAside(reason) => {
            let aside = file.name.with_state(SegmentState::Damaged).path(folder);
            storage.rename(&file.path, &aside).map_err(LogError::io("rename", &file.path))?;
            storage.sync_folder(folder).map_err(LogError::io("sync", folder))?;
            recovery.set_aside.push((aside, reason));
            Ok(nothing)
        }
        Verdict::Cut => {
            file.file.truncate(file.scan.end).map_err(LogError::io("cut", &file.path))?;
            recovery.torn_bytes += file.scan.file_bytes - file.scan.end;
            seal_recovered(storage, folder, file, end, digest, recovery)
        }
        Verdict::Seal => seal_recovered(storage, folder, file, end, digest, recovery),
    }
}

fn seal_recovered(
    storage: &dyn Storage,
    folder: &Path,
    file: Unsealed,
    end: SealedEnd,
    digest: DigestAlgorithm,
    recovery: &mut LogRecovery,
) -> Result<SealedEnd, LogError> {
    let segment =
        ClosedSegment { file: file.file, folder: folder.to_owned(), name: file.name, last: file.scan.last };
    let footer = segment.seal(storage, digest, end.digest)?;
    recovery.sealed += 1;
    Ok(SealedEnd { continues: Some((footer.last.after(1), footer.chain)), digest: footer.digest_bytes() })
}
