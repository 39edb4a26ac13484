//! A folder of this machine as the place of a lake.
//!
//! A file is complete and synced before it gets its name, by renameat2(2) with `RENAME_NOREPLACE`. Then its
//! folder is synced. So a reader sees a whole file or none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tollgate_log::{DiskStorage, FILE_MODE, make_folder, rename_new};

use crate::error::LakeError;
use crate::place::{Created, FileStamp, Place};

/// Extension of a file that is not complete.
const PART: &str = ".part";

/// A folder as the place of a lake.
#[derive(Debug, Clone)]
pub struct FolderPlace {
    folder: PathBuf,
}

impl FolderPlace {
    /// Creates a place in a folder. The folder is created with the first file.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Makes the folder of an object, and returns the path of the object.
    fn target(&self, name: &str) -> Result<PathBuf, LakeError> {
        let target = self.folder.join(name);
        let folder = target.parent().unwrap_or(&self.folder);
        make_folder(&DiskStorage, folder)
            .map_err(|error| LakeError::file("create", folder)(io::Error::other(error)))?;
        Ok(target)
    }

    /// Stores bytes under a new name.
    pub(crate) fn create_bytes(&self, name: &str, bytes: &[u8]) -> Result<Created, LakeError> {
        let target = self.target(name)?;
        if target.symlink_metadata().is_ok() {
            return sync_folder_of(&target).map(|()| Created::Exists);
        }
        let part = part_of(&target);
        let mut options = OpenOptions::new();
        let written =
            options.write(true).create_new(true).mode(FILE_MODE).open(&part).and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            });
        let renamed = written.and_then(|()| rename_new(&part, &target));
        if renamed.is_err() {
            // The part only occupies space.
            drop(fs::remove_file(&part));
        }
        match renamed {
            Ok(()) => sync_folder_of(&target).map(|()| Created::Stored),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                sync_folder_of(&target).map(|()| Created::Exists)
            }
            Err(error) => Err(LakeError::file("write", &target)(error)),
        }
    }

    fn entries(&self, prefix: &str) -> Result<Vec<(String, bool)>, LakeError> {
        let folder = self.folder.join(prefix);
        let failed = || LakeError::file("list", &folder);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed()(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed())?;
            let is_folder = entry.file_type().map_err(failed())?.is_dir();
            names.push((entry.file_name().to_string_lossy().into_owned(), is_folder));
        }
        names.sort_unstable();
        Ok(names)
    }
}

impl Place for FolderPlace {
    fn create_file(&self, name: &str, file: &Path, _: &FileStamp) -> Result<Created, LakeError> {
        let target = self.target(name)?;
        match rename_new(file, &target) {
            Ok(()) => sync_folder_of(&target).map(|()| Created::Stored),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // The other loader may have ended before its sync of the folder.
                sync_folder_of(&target).map(|()| Created::Exists)
            }
            Err(error) => Err(LakeError::file("rename", file)(error)),
        }
    }

    fn create_text(&self, name: &str, text: &str) -> Result<Created, LakeError> {
        self.create_bytes(name, text.as_bytes())
    }

    fn replace_text(&self, name: &str, text: &str) -> Result<(), LakeError> {
        let target = self.target(name)?;
        let part = part_of(&target);
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &target));
        written.map_err(|error| {
            // The part only occupies space.
            drop(fs::remove_file(&part));
            LakeError::file("write", &target)(error)
        })
    }

    fn remove_text(&self, name: &str) -> Result<(), LakeError> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(LakeError::file("remove", &path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn text(&self, name: &str) -> Result<Option<String>, LakeError> {
        let path = self.folder.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LakeError::file("read", &path)(error)),
        }
    }

    fn stamp(&self, name: &str) -> Result<Option<FileStamp>, LakeError> {
        stamp_of(&self.folder.join(name))
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, LakeError> {
        let files = self.entries(prefix)?.into_iter();
        let files = files.filter(|(name, is_folder)| !is_folder && !name.ends_with(PART));
        let names = files.map(|(name, _)| format!("{prefix}{name}"));
        Ok(names.filter(|name| after.is_none_or(|after| **name > *after)).collect())
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, LakeError> {
        let entries = self.entries(prefix)?.into_iter();
        Ok(entries.filter(|(_, is_folder)| *is_folder).map(|(name, _)| name).collect())
    }

    fn fetch(&self, name: &str, file: &Path) -> Result<bool, LakeError> {
        match fs::copy(self.folder.join(name), file) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(LakeError::file("copy to", file)(error)),
        }
    }
}

#[cfg(feature = "parquet")]
fn stamp_of(path: &Path) -> Result<Option<FileStamp>, LakeError> {
    crate::read::read_stamp(path)
}

/// Without the library for Parquet, nothing writes files, so no file is compared.
#[cfg(not(feature = "parquet"))]
fn stamp_of(path: &Path) -> Result<Option<FileStamp>, LakeError> {
    let source = io::Error::from(ErrorKind::Unsupported);
    Err(LakeError::file("read the footer of", path)(source))
}

/// Returns a path for an incomplete file that no other thread or process uses.
fn part_of(target: &Path) -> PathBuf {
    // Without random bytes, two processes may use the same path. One of them then fails and tries again.
    let random = getrandom::u64().unwrap_or_default();
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!("{name}.{random:016x}{PART}"))
}

fn sync_folder_of(path: &Path) -> Result<(), LakeError> {
    let folder = path.parent().unwrap_or(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(LakeError::file("sync", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_created_once_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = FolderPlace::new(folder.path().join("lake"));
        assert_eq!(place.text("a/b/c").unwrap(), None);
        assert_eq!(place.create_text("a/b/c", "one").unwrap(), Created::Stored);
        assert_eq!(place.create_text("a/b/c", "two").unwrap(), Created::Exists);
        assert_eq!(place.text("a/b/c").unwrap().unwrap(), "one");
        assert_eq!(place.list("a/b/", None).unwrap(), ["a/b/c"]);
        assert_eq!(place.list("a/b/", Some("a/b/c")).unwrap(), [""; 0]);
        assert_eq!(
            (place.folders("a/").unwrap(), place.folders("x/").unwrap()),
            (vec!["b".to_owned()], vec![])
        );
    }

    #[test]
    fn a_removed_text_is_gone_and_a_missing_one_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let place = FolderPlace::new(folder.path().join("lake"));
        place.remove_text("a/b").unwrap();
        place.replace_text("a/b", "one").unwrap();
        place.remove_text("a/b").unwrap();
        assert_eq!((place.text("a/b").unwrap(), place.list("a/", None).unwrap()), (None, vec![]));
        place.remove_text("a/b").unwrap();
        assert!(place.remove_text("a").is_err(), "a folder is no text");
    }

    #[test]
    fn of_many_threads_one_creates_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let place = FolderPlace::new(folder.path());
        let stored = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number: u32| {
                    let place = place.clone();
                    scope.spawn(move || place.create_text("p/plan", &number.to_string()).unwrap())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(stored.iter().filter(|created| **created == Created::Stored).count(), 1);
        assert_eq!(place.list("p/", None).unwrap(), ["p/plan"]);
        assert_eq!(fs::read_dir(folder.path().join("p")).unwrap().count(), 1, "a part is left");
    }

    #[test]
    fn a_file_gets_its_name_only_if_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let place = FolderPlace::new(folder.path().join("lake"));
        let file = folder.path().join("x");
        let stamp = FileStamp { rows: 1, digest: String::new() };
        for (text, created) in [("one", Created::Stored), ("two", Created::Exists)] {
            fs::write(&file, text).unwrap();
            assert_eq!(place.create_file("s/day=1970-01-01/f.parquet", &file, &stamp).unwrap(), created);
        }
        assert_eq!(place.text("s/day=1970-01-01/f.parquet").unwrap().unwrap(), "one");
    }
}
