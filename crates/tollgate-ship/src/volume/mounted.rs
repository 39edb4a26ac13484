//! Is a volume mounted? Only a mounted volume is read or written.
//!
//! The folder is opened once, and all paths of the call begin at that handle. So an unmount in the middle of
//! a call cannot lead a write to the disk below the mount point.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};

use super::error::VolumeError;

/// A mounted folder, locked against other processes of this machine until it is dropped.
pub(super) struct Mounted {
    folder: PathBuf,
    handle: File,
    path: PathBuf,
}

impl Mounted {
    /// Opens a folder. Checks that the folder is the root of a file system other than the one of its parent.
    ///
    /// `same_device`: the folder may be on the device of its parent.
    pub(super) fn open(folder: &Path, same_device: bool) -> Result<Self, VolumeError> {
        let not_mounted = |reason| VolumeError::NotMounted { folder: folder.to_owned(), reason };
        let flags = OFlags::DIRECTORY.bits().cast_signed();
        let handle = match OpenOptions::new().read(true).custom_flags(flags).open(folder) {
            Ok(handle) => handle,
            Err(error) => {
                return Err(match error.kind() {
                    io::ErrorKind::NotFound => not_mounted("it does not exist"),
                    io::ErrorKind::NotADirectory => not_mounted("it is no folder"),
                    _ => VolumeError::file("open", folder)(error),
                });
            }
        };
        let found = handle.metadata().map_err(VolumeError::file("look at", folder))?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        // Without /proc, an unmount in the middle of a call is found by the next call only.
        let path = if path.is_dir() { path } else { folder.to_owned() };
        // The parent of an unmounted root is the root itself, so it has the same device too.
        let parent =
            path.join("..").metadata().map_err(VolumeError::file("look at the parent of", folder))?;
        if !same_device && parent.dev() == found.dev() {
            return Err(not_mounted("it is on the device of its parent folder"));
        }
        // Some shared file systems refuse the lock. Then two processes on one volume are not kept apart.
        let _ = rustix::fs::flock(handle.as_fd(), FlockOperation::LockExclusive);
        Ok(Self { folder: folder.to_owned(), handle, path })
    }

    /// Returns the folder, for messages.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path for calls on files.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file for messages.
    pub(super) fn named(&self, file: &Path) -> PathBuf {
        match file.strip_prefix(&self.path) {
            Ok(rest) if !rest.as_os_str().is_empty() => self.folder.join(rest),
            Ok(_) => self.folder.clone(),
            Err(_) => file.to_owned(),
        }
    }

    /// Syncs the whole file system.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(self.handle.as_fd())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_on_the_device_of_its_parent_is_not_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        std::fs::create_dir(&plain).unwrap();
        let error = Mounted::open(&plain, false).err().unwrap();
        assert!(error.to_string().ends_with("is not mounted: it is on the device of its parent folder"));
        assert!(Mounted::open(&plain, true).is_ok());
    }

    #[test]
    fn a_missing_folder_and_a_file_are_not_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, file) = (folder.path().join("missing"), folder.path().join("file"));
        std::fs::write(&file, "").unwrap();
        for path in [missing, file] {
            assert!(matches!(Mounted::open(&path, true), Err(VolumeError::NotMounted { .. })), "{path:?}");
        }
    }

    #[test]
    fn the_folder_of_processes_is_mounted() {
        assert!(Mounted::open(Path::new("/proc"), false).is_ok());
    }
}
