//! Deletes the listed files of a volume that came back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::disk;
use super::error::VolumeError;
use super::loaded::LOADED_FILE;
use super::opened::OpenVolume;
use super::state::{Transition, VolumeFile};

/// Length of the random part in the name of an incomplete file.
const RANDOM_DIGITS: usize = 16;

/// Deletes the listed files, incomplete copies of them, and folders that are empty then. Makes the volume
/// `empty`.
///
/// Nothing else on the volume is deleted. The list stays until the end, so a crash is repaired by a
/// repetition.
pub(super) fn clean(volume: &mut OpenVolume) -> Result<(), VolumeError> {
    let root = volume.mounted.path();
    for (folder, names) in listed_by_folder(&volume.file) {
        let failed = VolumeError::file("delete files in", &volume.mounted.folder().join(folder));
        clean_folder(&root.join(folder), &names).map_err(failed)?;
        remove_empty_folders(root, &root.join(folder));
    }
    let failed = VolumeError::file("delete", &volume.mounted.folder().join(LOADED_FILE));
    disk::remove(&root.join(LOADED_FILE)).map_err(failed)?;
    // The files are gone before the list is.
    volume.sync()?;
    volume.apply(Transition::Clean, "empty")
}

/// Returns the names of the listed files in each folder.
fn listed_by_folder(file: &VolumeFile) -> BTreeMap<&Path, BTreeSet<OsString>> {
    let mut folders = BTreeMap::<_, BTreeSet<_>>::new();
    for path in file.listed.keys().map(Path::new) {
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
            folders.entry(folder).or_default().insert(name.to_owned());
        }
    }
    folders
}

fn clean_folder(folder: &Path, listed: &BTreeSet<OsString>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        // An earlier run removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let name = entry?.file_name();
        if listed.contains(&name)
            || name.to_str().and_then(whole_of).is_some_and(|whole| listed.contains(&whole))
        {
            fs::remove_file(folder.join(name))?;
            disk::step()?;
        }
    }
    Ok(())
}

/// Returns the name of the file whose incomplete copy this is: `NAME.RANDOM.part`.
fn whole_of(name: &str) -> Option<OsString> {
    let (whole, random) = name.strip_suffix(".part")?.rsplit_once('.')?;
    let is_random = random.len() == RANDOM_DIGITS && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_random.then(|| whole.into())
}

/// Removes a folder and the folders above it, up to the root, if they are empty. The system refuses to remove
/// any other folder.
fn remove_empty_folders(root: &Path, folder: &Path) {
    for folder in folder.ancestors().take_while(|folder| *folder != root) {
        // A missing folder was removed by an earlier run.
        if fs::remove_dir(folder).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            return;
        }
    }
}
