//! A folder of this machine as a warehouse.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::warehouse::{FoundObject, Objects};
use crate::error::LakeError;
use crate::folder::FolderPlace;
use crate::place::{Created, Place};

/// A folder as a warehouse.
#[derive(Debug)]
pub struct FolderObjects {
    folder: PathBuf,
    address: String,
    place: FolderPlace,
}

impl FolderObjects {
    /// Creates a warehouse in a folder. The folder is created with the first file.
    pub fn new(folder: &Path) -> Self {
        // The path of a folder that is missing has no other form.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let address = format!("file://{}", folder.display());
        Self { place: FolderPlace::new(&folder), folder, address }
    }

    fn walk_into(&self, folder: &Path, found: &mut Vec<FoundObject>) -> Result<(), LakeError> {
        let failed = || LakeError::file("list", folder);
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed()(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed())?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed())?);
            if kind.is_dir() {
                self.walk_into(&path, found)?;
                continue;
            }
            // A link may lead to a folder on another disk, with files that a table needs.
            if !kind.is_file() {
                continue;
            }
            let Ok(name) = path.strip_prefix(&self.folder) else { continue };
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            // A file that another program removes in between has no age.
            let age = written.ok().and_then(|written| written.elapsed().ok()).unwrap_or_default();
            found.push(FoundObject { name: name.display().to_string(), age });
        }
        Ok(())
    }
}

impl Objects for FolderObjects {
    fn address(&self) -> &str {
        &self.address
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, LakeError> {
        self.place.create_bytes(name, bytes)
    }

    fn replace(&self, name: &str, text: &str) -> Result<(), LakeError> {
        self.place.replace_text(name, text)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, LakeError> {
        let path = self.folder.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LakeError::file("read", &path)(error)),
        }
    }

    fn size(&self, name: &str) -> Result<Option<u64>, LakeError> {
        let path = self.folder.join(name);
        match fs::metadata(&path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LakeError::file("look at", &path)(error)),
        }
    }

    fn walk(&self, prefix: &str) -> Result<Vec<FoundObject>, LakeError> {
        let mut found = Vec::new();
        self.walk_into(&self.folder.join(prefix), &mut found)?;
        Ok(found)
    }

    fn remove(&self, name: &str) -> Result<(), LakeError> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(LakeError::file("remove", &path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_walk_finds_regular_files_and_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let (warehouse, other) = (folder.path().join("lake"), folder.path().join("other"));
        fs::create_dir_all(warehouse.join("t/data/day=1")).unwrap();
        fs::create_dir_all(other.join("day=2")).unwrap();
        fs::write(warehouse.join("t/data/day=1/a"), "a").unwrap();
        fs::write(other.join("day=2/b"), "b").unwrap();
        symlink(other.join("day=2"), warehouse.join("t/data/day=2")).unwrap();
        symlink(other.join("day=2/b"), warehouse.join("t/data/b")).unwrap();
        symlink("nothing", warehouse.join("t/data/c")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(warehouse.join("t/data/d")).unwrap();
        let found = FolderObjects::new(&warehouse).walk("t/").unwrap();
        let names: Vec<_> = found.into_iter().map(|object| object.name).collect();
        assert_eq!(names, ["t/data/day=1/a"]);
    }
}
