//! Repairs logs by command. A repair does the same as the recovery of a start, but keeps every byte.
//!
//! There are two differences to recovery. Bytes that were never acknowledged as synced are moved to `N.torn`
//! instead of being deleted. Sealed segments are checked too, and a damaged one is set aside as `N.damaged`.
//! A second repair makes no further changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{FormatError, LogError};
use crate::id::LogId;
use crate::recover::{Plan, RecoveryAction, Unacknowledged, Unsealed, segment_names, set_aside, torn_path};
use crate::segment::{SegmentDigestAlgorithm, SegmentName, SegmentState};
use crate::storage::{Storage, StorageLock};
use crate::verify::{SegmentProblem, log_ids, verify_segment};

/// Whether a repair changes files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairMode {
    /// The repair only reports what it would do.
    DryRun,
    /// The repair changes the files.
    Mend,
}

/// Findings and actions of a repair, for each log.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Every segment, in order.
    pub segments: Vec<SegmentRepair>,
    /// Logs that another process writes. The repair does not change them.
    pub held: Vec<LogId>,
    /// Logs whose repair failed.
    pub failed: Vec<(LogId, LogError)>,
}

/// State of one segment, and the action of the repair.
#[derive(Debug)]
pub struct SegmentRepair {
    /// Path of the segment before the repair.
    pub path: PathBuf,
    /// Action of the repair on the segment.
    pub treatment: Treatment,
}

/// The action of a repair on one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Treatment {
    /// The segment is sealed and intact. Nothing is done.
    Whole,
    /// The segment was set aside before. Nothing is done.
    AsideAlready,
    /// The segment has a later or unknown format version. Nothing is done.
    Left,
    /// The segment is intact, but not sealed. The repair writes its footer, and gives it its sealed name.
    Seal,
    /// The end of the segment is torn. The repair cuts the segment there and seals it.
    Cut {
        /// Offset of the cut.
        at: u64,
        /// Number of bytes that are cut off.
        bytes: u64,
        /// Path of the file that keeps these bytes.
        kept: PathBuf,
    },
    /// No record of the segment was acknowledged as synced. The segment is renamed.
    Torn {
        /// New path of the segment.
        kept: PathBuf,
    },
    /// The segment is damaged. The repair renames the segment, and loaders then read around the damage.
    SetAside {
        /// New path of the segment.
        aside: PathBuf,
        /// Kind of the damage.
        reason: String,
    },
}

impl Treatment {
    /// Returns whether a repair leaves the segment unchanged.
    pub const fn is_nothing(&self) -> bool {
        matches!(self, Self::Whole | Self::AsideAlready | Self::Left)
    }
}

/// Why no log was repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// A server holds the lock of the folder.
    #[error("{} is locked: a server uses it, stop that server first", .0.display())]
    Locked(PathBuf),
    /// The folder cannot be locked or listed.
    #[error("cannot read the logs for a repair")]
    Log(#[from] LogError),
}

/// Repairs every log in `dir`, or reports what a repair would do.
///
/// # Errors
/// A server holds the lock of the folder, or the folder cannot be listed. The error of one log is in the
/// report.
pub fn repair(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    digest: SegmentDigestAlgorithm,
    mode: RepairMode,
) -> Result<RepairReport, RepairError> {
    let Ok(_lock) = lock(&**storage, dir, mode)? else { return Err(RepairError::Locked(dir.to_owned())) };
    let mut report = RepairReport::default();
    for log in log_ids(&**storage, dir)? {
        let repair = LogRepair { storage: &**storage, folder: dir.join(log.to_string()), log, digest, mode };
        match repair.run(&mut report.segments) {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Locked) => report.held.push(log),
            Err(error) => report.failed.push((log, error)),
        }
    }
    Ok(report)
}

/// Error of a lock that another process holds.
struct Taken;

/// Locks a folder. A dry run creates no lock file, because without a file no process holds the lock.
fn lock(
    storage: &dyn Storage,
    folder: &Path,
    mode: RepairMode,
) -> Result<Result<Option<StorageLock>, Taken>, LogError> {
    const NAME: &str = "lock";
    let names = storage.list(folder).map_err(LogError::io("list", folder))?;
    if mode == RepairMode::DryRun && !names.iter().any(|name| name == NAME) {
        return Ok(Ok(None));
    }
    let path = folder.join(NAME);
    let lock = storage.try_lock(&path).map_err(LogError::io("lock", &path))?;
    Ok(lock.map(Some).ok_or(Taken))
}

enum Outcome {
    Done,
    Locked,
}

/// The repair of one log.
struct LogRepair<'a> {
    storage: &'a dyn Storage,
    folder: PathBuf,
    log: LogId,
    digest: SegmentDigestAlgorithm,
    mode: RepairMode,
}

impl LogRepair<'_> {
    fn run(&self, segments: &mut Vec<SegmentRepair>) -> Result<Outcome, LogError> {
        let Ok(_lock) = lock(self.storage, &self.folder, self.mode)? else { return Ok(Outcome::Locked) };
        let names = segment_names(self.storage, &self.folder)?;
        let open: Vec<_> = names.iter().copied().filter(|name| name.state == SegmentState::Open).collect();
        let plan = self.plan(&names, &open)?;
        let mut treatments: Vec<_> =
            plan.files.iter().map(|(file, action)| (file.name, self.treatment(file, action))).collect();
        if self.mode == RepairMode::Mend && !open.is_empty() {
            plan.carry_out(self.storage, &self.folder, self.log, Unacknowledged::Keep)?;
        }
        for name in names.into_iter().filter(|name| name.state != SegmentState::Open) {
            treatments.push((name, self.treat_settled(name)?));
        }
        treatments.sort_by_key(|(name, _)| *name);
        let repairs = treatments
            .into_iter()
            .map(|(name, treatment)| SegmentRepair { path: name.path(&self.folder), treatment });
        segments.extend(repairs);
        Ok(Outcome::Done)
    }

    fn plan(&self, names: &[SegmentName], open: &[SegmentName]) -> Result<Plan, LogError> {
        let read = |name: &SegmentName| match self.mode {
            RepairMode::DryRun => Unsealed::look(self.storage, &self.folder, *name),
            RepairMode::Mend => Unsealed::read(self.storage, &self.folder, *name, self.digest),
        };
        let files = open.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if self.mode == RepairMode::Mend && !open.is_empty() {
            // The dead run may not have synced the names of its segments.
            self.storage.sync_folder(&self.folder).map_err(LogError::io("sync", &self.folder))?;
        }
        Plan::new(self.storage, &self.folder, names, files)
    }

    fn treatment(&self, file: &Unsealed, action: &RecoveryAction) -> Treatment {
        let kept = torn_path(&self.folder, file.name);
        match action {
            RecoveryAction::Seal => Treatment::Seal,
            RecoveryAction::Cut => {
                Treatment::Cut { at: file.scan.end, bytes: file.scan.used_bytes - file.scan.end, kept }
            }
            RecoveryAction::Remove => Treatment::Torn { kept },
            RecoveryAction::SetAside(reason) => self.aside(file.name, reason.clone()),
            RecoveryAction::Leave => Treatment::Left,
        }
    }

    fn aside(&self, name: SegmentName, reason: String) -> Treatment {
        let aside = name.with_state(SegmentState::Damaged).path(&self.folder);
        Treatment::SetAside { aside, reason }
    }

    /// Reads all of a sealed segment, and sets it aside if it is damaged. A segment that was set aside before
    /// is not changed.
    fn treat_settled(&self, name: SegmentName) -> Result<Treatment, LogError> {
        if name.state == SegmentState::Damaged {
            return Ok(Treatment::AsideAlready);
        }
        let path = name.path(&self.folder);
        // The segment is checked without the previous segment. A broken chain between the two is no damage of
        // this segment.
        let check = verify_segment(self.storage, name, &path, None)?;
        if let Some(FormatError::Version { .. }) = check.scan.failure.map(|failure| failure.error) {
            return Ok(Treatment::Left);
        }
        let Some(SegmentProblem { reason, .. }) = check.problem else { return Ok(Treatment::Whole) };
        if self.mode == RepairMode::Mend {
            set_aside(self.storage, &self.folder, name)?;
        }
        Ok(self.aside(name, reason))
    }
}
