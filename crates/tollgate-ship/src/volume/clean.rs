//! Deletes the listed files of a volume that came back.

use std::fs;
use std::path::Path;

use super::disk;
use super::error::VolumeError;
use super::loaded::LOADED_FILE;
use super::opened::OpenVolume;
use super::state::Transition;
use crate::name::ObjectName;

/// Length of the random part in the name of an incomplete file.
const RANDOM_DIGITS: usize = 16;

/// Deletes the listed files, their incomplete copies, and folders that are empty then. Makes the volume
/// `empty`.
///
/// Nothing else on the volume is deleted. The list stays until the end, so a crash is repaired by a
/// repetition.
pub(super) fn clean(volume: &mut OpenVolume) -> Result<(), VolumeError> {
    let root = volume.mounted.path().to_owned();
    for name in volume.file.listed.keys().filter(|name| ObjectName::parse(name).is_some()) {
        let path = root.join(name);
        let failed = VolumeError::file("delete", &volume.mounted.folder().join(name));
        disk::remove(&path).and_then(|()| remove_parts(&path)).map_err(failed)?;
        remove_empty_folders(&root, &path);
    }
    let loaded = root.join(LOADED_FILE);
    disk::remove(&loaded).map_err(VolumeError::file("delete", &volume.mounted.folder().join(LOADED_FILE)))?;
    volume.apply(Transition::Clean, "empty")
}

/// Removes the incomplete copies of one listed file: `NAME.RANDOM.part`.
fn remove_parts(path: &Path) -> std::io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let random = found
            .to_str()
            .and_then(|found| found.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".part"));
        let is_part = random.is_some_and(|random| {
            random.len() == RANDOM_DIGITS && random.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        if is_part {
            disk::remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes the folders of a deleted file that are empty. The system refuses to remove any other folder.
fn remove_empty_folders(root: &Path, path: &Path) {
    for folder in path.ancestors().skip(1).take_while(|folder| *folder != root) {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}
