//! Commands on volumes. Each works while a server fills the volume, and without one.

use std::path::Path;

use super::disk;
use super::error::VolumeError;
use super::home::Home;
use super::loaded::Loaded;
use super::mounted::Mounted;
use super::opened::OpenVolume;
use super::state::{STATE_BYTES_MAX, STATE_FILE, Transition, VolumeFile, VolumeId, VolumeSide, VolumeState};
use super::status::VolumeFacts;
use crate::answer::now_ms;
use crate::name::NodeName;

/// Makes a mounted folder a volume, once.
///
/// `same_device`: the folder may be on the device of its parent.
///
/// # Errors
/// The folder is not mounted, has a state file already, or cannot be written.
pub fn init_volume(folder: &Path, same_device: bool) -> Result<VolumeFacts, VolumeError> {
    let mounted = Mounted::open(folder, same_device)?;
    if is_volume(mounted.path()) {
        return Err(VolumeError::Exists { folder: folder.to_owned() });
    }
    let failed = |error| VolumeError::file("write", &folder.join(STATE_FILE))(error);
    let id = VolumeId::random().ok_or_else(|| failed(std::io::Error::other("no random bytes")))?;
    let file = VolumeFile::new(id, now_ms());
    disk::write_text(mounted.path(), STATE_FILE, &file.to_text()).map_err(failed)?;
    Ok(VolumeFacts::of(&file))
}

/// Reads the state of a volume.
///
/// # Errors
/// The folder is no mounted volume.
pub fn read_volume(folder: &Path, same_device: bool) -> Result<VolumeFacts, VolumeError> {
    Ok(VolumeFacts::of(&OpenVolume::open(folder, same_device, VolumeSide::Web)?.file))
}

/// Closes a volume that is being filled. A server that fills it goes on with the next one. A full volume
/// stays as it is.
///
/// # Errors
/// The folder is no mounted volume, it is in another state, or it cannot be synced or written.
pub fn close_volume(folder: &Path, same_device: bool) -> Result<VolumeFacts, VolumeError> {
    let mut volume = OpenVolume::open(folder, same_device, VolumeSide::Web)?;
    if volume.file.state != VolumeState::Full {
        volume.after(Transition::Close, "close")?;
        volume.sync()?;
        volume.apply(Transition::Close, "close")?;
    }
    Ok(VolumeFacts::of(&volume.file))
}

/// An accepted report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedReport {
    /// The volume that was loaded.
    pub id: VolumeId,
    /// Its generation.
    pub generation: u64,
    /// The host that loaded it.
    pub host: NodeName,
    /// Number of positions.
    pub positions: usize,
    /// Number of segments that are asked for again.
    pub wanted: usize,
}

/// Accepts the report of a volume that was read without being written. The server takes it at its next look.
///
/// `home`: the memory of this machine, as in [`super::options::VolumeOptions`].
///
/// # Errors
/// The report is damaged, is for another machine, or cannot be stored.
pub fn accept_report(report: &Path, home: &Path, node: &NodeName) -> Result<AcceptedReport, VolumeError> {
    let damaged = |reason| VolumeError::Damaged { file: report.to_owned(), reason };
    let text = disk::read_text(report, STATE_BYTES_MAX).map_err(VolumeError::file("read", report))?;
    let text = text.ok_or_else(|| damaged("it is missing".to_owned()))?;
    let loaded = Loaded::parse(&text).map_err(damaged)?;
    if loaded.node != *node {
        return Err(VolumeError::OtherNode { folder: report.to_owned(), node: loaded.node });
    }
    Home::write_report(home, &loaded)?;
    Ok(AcceptedReport {
        id: loaded.id,
        generation: loaded.generation,
        host: loaded.host,
        positions: loaded.positions.len(),
        wanted: loaded.wanted.len(),
    })
}

/// Forgets a closed volume that is lost. The server sends its segments again, at its next look or start.
/// Returns whether the volume was known.
///
/// # Errors
/// The memory of this machine cannot be written.
pub fn forget_volume(home: &Path, id: VolumeId) -> Result<bool, VolumeError> {
    let is_known = Home::has_list(home, id);
    Home::forget(home, id)?;
    Ok(is_known)
}

/// Returns whether a folder has the state file of a volume.
pub fn is_volume(folder: &Path) -> bool {
    folder.join(STATE_FILE).symlink_metadata().is_ok()
}
