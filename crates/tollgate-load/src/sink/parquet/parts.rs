//! Folders for the incomplete files of loads.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_log::{DiskStorage, LogId, make_folder};

use crate::error::SinkError;

/// Age from which the incomplete files of a load are deleted. The process that made them is assumed to have
/// ended.
const AGE_MAX: Duration = Duration::from_hours(24);

/// Name of a file of rejects that a retry reads.
pub(super) const REJECTS: &str = "rejects";

/// Makes a folder for the incomplete files of one load of a sink.
pub(super) fn new_folder(parts_dir: &Path, sink: &str) -> Result<PathBuf, SinkError> {
    let folder = parts_dir.join(format!("{sink}-{}", LogId::random()));
    make_folder(&DiskStorage, &folder)
        .map_err(|source| SinkError::Folder { path: folder.clone(), source })?;
    Ok(folder)
}

/// Removes the incomplete files of ended processes. Other files and folders stay, because an operator may
/// have chosen a folder with other contents. Errors are ignored, because the files only occupy space.
pub(super) fn remove_old(parts_dir: &Path, sink: &str) {
    let Ok(entries) = fs::read_dir(parts_dir) else { return };
    for folder in entries.flatten().map(|entry| entry.path()) {
        if is_of_load(&folder, sink) && is_old(&folder) {
            remove(&folder);
        }
    }
}

/// Returns whether a folder has the name that [`new_folder`] gives.
fn is_of_load(folder: &Path, sink: &str) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    let id = name.and_then(|name| name.strip_prefix(sink)?.strip_prefix('-')?.parse::<LogId>().ok());
    id.is_some()
}

fn is_old(folder: &Path) -> bool {
    let age = || folder.symlink_metadata().ok()?.modified().ok()?.elapsed().ok();
    age().is_some_and(|age| age > AGE_MAX)
}

/// Removes the files of a load, then their folder. A folder with another file stays.
fn remove(folder: &Path) {
    // A link is no folder of a load.
    if !folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    for file in entries.flatten().map(|entry| entry.path()) {
        let is_part = file.extension().is_some_and(|end| end == "part");
        if is_part || file.file_name().is_some_and(|name| name == REJECTS) {
            drop(fs::remove_file(&file));
        }
    }
    drop(fs::remove_dir(folder));
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn only_old_files_of_loads_of_the_sink_are_removed() {
        let dir = TempDir::new().unwrap();
        let at = |name: &str| dir.path().join(name);
        let file = |name: String| {
            fs::create_dir_all(at(&name).parent().unwrap()).unwrap();
            fs::write(at(&name), "text").unwrap();
        };
        let [old, new, mixed, linked, other] = [(); 5].map(|()| LogId::random());
        file(format!("lake-{old}/1.part"));
        file(format!("lake-{old}/rejects"));
        file(format!("lake-{new}/1.part"));
        file(format!("lake-{mixed}/1.part"));
        file(format!("lake-{mixed}/segment.log"));
        file(format!("two-{other}/1.part"));
        file("data/log/segment.log".to_owned());
        file("lake-notes/1.part".to_owned());
        symlink(at("data"), at(&format!("lake-{linked}"))).unwrap();
        let long_ago = SystemTime::UNIX_EPOCH;
        for entry in fs::read_dir(dir.path()).unwrap().flatten() {
            if entry.file_name() != *format!("lake-{new}") {
                File::open(entry.path()).unwrap().set_modified(long_ago).unwrap();
            }
        }
        remove_old(dir.path(), "lake");
        let is_there = |name: String| at(&name).symlink_metadata().is_ok();
        assert!(!is_there(format!("lake-{old}")));
        assert!(is_there(format!("lake-{new}/1.part")));
        assert!(is_there(format!("lake-{mixed}/segment.log")));
        assert!(is_there(format!("two-{other}/1.part")));
        assert!(is_there("data/log/segment.log".to_owned()) && is_there("lake-notes/1.part".to_owned()));
        assert!(is_there(format!("lake-{linked}")));
    }
}
