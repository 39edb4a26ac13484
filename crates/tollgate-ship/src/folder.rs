//! A folder as a store: on another disk, or shared over the network.
//!
//! Each object is a file. The file is written under a name with `.part`, synced, and renamed only if the
//! final name is free (renameat2(2) with `RENAME_NOREPLACE`). Then the folder is synced. So a reader never
//! sees an incomplete file, and a file that was reported as stored survives a power cut.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tollgate_log::{DiskStorage, FILE_MODE, make_folder, read_footer, rename_new};

use crate::identity::SegmentIdentity;
use crate::name::ObjectName;
use crate::pace::Pacer;
use crate::store::{Created, LISTED_MAX, ObjectHead, Store, StoreError};

/// Extension of a file that is not complete yet.
const PART: &str = "part";
/// Bytes that a copy reads and writes at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Age from which an incomplete file is deleted. The process that wrote such an old file is assumed to have
/// ended.
const PART_AGE_MAX: Duration = Duration::from_hours(1);

/// A folder as a store.
pub struct FolderStore {
    folder: PathBuf,
    pacer: Arc<Pacer>,
}

impl FolderStore {
    /// Creates a store in a folder, which must exist.
    pub fn new(folder: impl Into<PathBuf>, pacer: Arc<Pacer>) -> Self {
        Self { folder: folder.into(), pacer }
    }

    /// Returns the path of an object.
    ///
    /// Only valid names of objects become paths, so no name leads out of the folder.
    fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        if ObjectName::parse(name).is_none() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not the name of an object");
            return Err(StoreError::call("name", name)(source));
        }
        if !self.folder.is_dir() {
            return Err(StoreError::NotMounted { folder: self.folder.clone(), reason: "it does not exist" });
        }
        Ok(self.folder.join(name))
    }

    /// Copies a file to an incomplete file for an object, and syncs the copy. Returns its path.
    fn write_part(&self, target: &Path, mut from: impl Read) -> Result<PathBuf, StoreError> {
        let folder = target.parent().unwrap_or(&self.folder);
        make_folder(&DiskStorage, folder)
            .map_err(|error| StoreError::file("create", folder)(io::Error::other(error)))?;
        remove_old_parts(folder);
        let part = part_of(target);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(&part)
            .map_err(StoreError::file("create", &part))?;
        let written = self.copy(&mut from, &mut file).and_then(|()| file.sync_all());
        if let Err(error) = written {
            drop(fs::remove_file(&part));
            return Err(StoreError::file("write", &part)(error));
        }
        Ok(part)
    }

    fn copy(&self, from: &mut impl Read, to: &mut File) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.pacer.wait(count as u64);
            to.write_all(&piece[..count])?;
        }
    }

    fn write_over(&self, name: &str, from: impl Read) -> Result<(), StoreError> {
        let target = self.path(name)?;
        let part = self.write_part(&target, from)?;
        fs::rename(&part, &target).map_err(StoreError::file("rename", &part))?;
        sync_folder_of(&target)
    }
}

impl Store for FolderStore {
    fn create(&self, name: &str, file: &Path, _: &SegmentIdentity) -> Result<Created, StoreError> {
        let target = self.path(name)?;
        if target.symlink_metadata().is_ok() {
            return Ok(Created::Exists);
        }
        let source = File::open(file).map_err(StoreError::file("open", file))?;
        let part = self.write_part(&target, source)?;
        match rename_new(&part, &target) {
            Ok(()) => sync_folder_of(&target).map(|()| Created::Stored),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                drop(fs::remove_file(&part));
                Ok(Created::Exists)
            }
            Err(error) => {
                drop(fs::remove_file(&part));
                Err(StoreError::file("rename", &part)(error))
            }
        }
    }

    fn replace(&self, name: &str, file: &Path, _: &SegmentIdentity) -> Result<(), StoreError> {
        self.write_over(name, File::open(file).map_err(StoreError::file("open", file))?)
    }

    fn put_text(&self, name: &str, text: &str) -> Result<(), StoreError> {
        self.write_over(name, text.as_bytes())
    }

    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError> {
        let path = self.path(name)?;
        let found = match path.symlink_metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::file("look at", &path)(error)),
        };
        let (bytes, modified_ms) = (found.len(), modified_ms(&found));
        if !found.is_file() {
            return Ok(Some(ObjectHead { bytes, modified_ms, identity: None }));
        }
        let footer = read_footer(&DiskStorage, &path).map_err(StoreError::call("read", name))?;
        let identity = footer.filter(|footer| footer.file_bytes() == bytes);
        let identity = identity.as_ref().map(SegmentIdentity::of);
        Ok(Some(ObjectHead { bytes, modified_ms, identity }))
    }

    fn text(&self, name: &str, bytes_max: u64) -> Result<Option<String>, StoreError> {
        let path = self.path(name)?;
        let Some((file, bytes)) = open(&path)? else { return Ok(None) };
        if bytes > bytes_max {
            return Err(StoreError::TooLarge { name: name.to_owned(), found: bytes, limit: bytes_max });
        }
        let mut text = Vec::new();
        file.take(bytes_max).read_to_end(&mut text).map_err(StoreError::file("read", &path))?;
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    fn fetch(&self, name: &str, file: &Path, bytes_max: u64) -> Result<Option<u64>, StoreError> {
        let path = self.path(name)?;
        let Some((source, bytes)) = open(&path)? else { return Ok(None) };
        if bytes > bytes_max {
            return Err(StoreError::TooLarge { name: name.to_owned(), found: bytes, limit: bytes_max });
        }
        let mut options = OpenOptions::new();
        let target = options.write(true).create_new(true).mode(FILE_MODE).open(file);
        let mut target = target.map_err(StoreError::file("create", file))?;
        self.copy(&mut source.take(bytes_max), &mut target).map_err(StoreError::file("write", file))?;
        Ok(Some(bytes))
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Ok(()) => {
                sync_folder_of(&path)?;
                // Only an empty folder is removed. Another write may have just created this folder. That
                // write then fails, and its caller repeats it.
                drop(path.parent().map(fs::remove_dir));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::file("delete", &path)(error)),
        }
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        for name in self.entries(prefix)? {
            let name = format!("{prefix}{name}");
            if ObjectName::parse(&name).is_some() && after.is_none_or(|after| *name > *after) {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.truncate(LISTED_MAX);
        Ok(names)
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut names = self.entries(prefix)?;
        names.retain(|name| self.folder.join(prefix).join(name).is_dir());
        names.sort_unstable();
        Ok(names)
    }

    fn foreign(&self, prefix: &str, max: usize) -> Result<Vec<String>, StoreError> {
        let (mut names, mut prefixes) = (Vec::new(), vec![prefix.to_owned()]);
        while let Some(prefix) = prefixes.pop() {
            for entry in self.entries(&prefix)? {
                let name = format!("{prefix}{entry}");
                let is_part = Path::new(&entry).extension().is_some_and(|extension| extension == PART);
                // A symbolic link to a folder is not followed, because it may lead in a circle.
                if self.folder.join(&name).symlink_metadata().is_ok_and(|found| found.is_dir()) {
                    prefixes.push(format!("{name}/"));
                } else if !is_part && ObjectName::parse(&name).is_none() {
                    names.push(name);
                }
                if names.len() >= max {
                    return Ok(names);
                }
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

impl FolderStore {
    /// Returns the names in the folder of a prefix. Returns no names if the folder is missing.
    fn entries(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        if !self.folder.is_dir() {
            return Err(StoreError::NotMounted { folder: self.folder.clone(), reason: "it does not exist" });
        }
        let folder = self.folder.join(prefix);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::file("list", &folder)(error)),
        };
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<_>>().map_err(StoreError::file("list", &folder))
    }
}

/// Opens a regular file. Returns the file with its size, or `None` if the file is missing.
fn open(path: &Path) -> Result<Option<(File, u64)>, StoreError> {
    let failed = || StoreError::file("open", path);
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(failed()(io::Error::other("it is no regular file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed()(error)),
    }
    let file = File::open(path).map_err(failed())?;
    let bytes = file.metadata().map_err(failed())?.len();
    Ok(Some((file, bytes)))
}

/// Returns the time of the last write of a file, in milliseconds since 1970.
fn modified_ms(found: &fs::Metadata) -> u64 {
    let since = found.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Returns a path for an incomplete file that no other process uses.
fn part_of(target: &Path) -> PathBuf {
    // Without random bytes, two processes may use the same path. One of them then fails and tries again.
    let random = getrandom::u64().unwrap_or_default();
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!("{name}.{random:016x}.{PART}"))
}

/// Removes the incomplete files of ended processes. Errors are ignored, because such a file only occupies
/// space.
fn remove_old_parts(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_part = path.extension().is_some_and(|extension| extension == PART);
        let age = || path.symlink_metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_part && age().is_some_and(|age| age > PART_AGE_MAX) {
            drop(fs::remove_file(&path));
        }
    }
}

fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(StoreError::file("sync", folder))
}

#[cfg(test)]
mod tests;
