//! The lock of a folder of fetched segments, and the id of the loader that has the lock.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tollgate_log::{FILE_MODE, LogError, Storage, make_folder};

/// Name of the file that is locked.
const LOCK: &str = "lock";
/// The system gives each start of the machine another id.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Number of characters of that id that a loader's id has.
const BOOT_ID_CHARS: usize = 8;

/// A folder of fetched segments that no other process uses. A drop releases it.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    file: File,
}

/// Why a folder of fetched segments cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The folder cannot be created.
    #[error("cannot create the folder of fetched segments")]
    Create(#[from] LogError),
    /// The folder cannot be locked.
    #[error("cannot lock {}, the folder of fetched segments", folder.display())]
    Lock {
        /// The folder of fetched segments.
        folder: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// Another process uses the folder.
    #[error(
        "another loader uses {}, the folder of fetched segments: give each loader its own by --spool",
        folder.display()
    )]
    Taken {
        /// The folder of fetched segments.
        folder: PathBuf,
    },
}

impl Spool {
    /// Creates the folder if it is missing, and locks it.
    ///
    /// # Errors
    /// The folder cannot be created or locked, or another process uses it.
    pub fn take(storage: &dyn Storage, folder: &Path) -> Result<Self, SpoolError> {
        make_folder(storage, folder)?;
        let failed = |source| SpoolError::Lock { folder: folder.to_owned(), source };
        let options = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).clone();
        let file = options.open(folder.join(LOCK)).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { folder: folder.to_owned(), file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(SpoolError::Taken { folder: folder.to_owned() }),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the id of the loader that uses the folder. It is the same after a restart of the loader. No
    /// two folders of one machine, and no two starts of a machine, have the same id.
    ///
    /// # Errors
    /// The system does not report the id of its start, or the identity of the file.
    pub fn loader_id(&self, machine: &str) -> Result<String, SpoolError> {
        let failed = |source| SpoolError::Lock { folder: self.folder.clone(), source };
        let boot = fs::read_to_string(BOOT_ID).map_err(failed)?;
        let boot: String = boot.chars().take(BOOT_ID_CHARS).collect();
        let file = self.file.metadata().map_err(failed)?;
        Ok(format!("{machine}/{boot}-{:x}-{:x}", file.dev(), file.ino()))
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tollgate_log::DiskStorage;

    use super::*;

    #[test]
    fn a_folder_has_one_loader_whose_id_stays_after_a_restart() {
        let folder = TempDir::new().unwrap();
        let take = |name: &str| Spool::take(&DiskStorage, &folder.path().join(name));
        let (one, other) = (take("one").unwrap(), take("other").unwrap());
        assert!(matches!(take("one"), Err(SpoolError::Taken { .. })));
        let id = one.loader_id("db-1").unwrap();
        assert!(id.starts_with("db-1/"), "{id}");
        assert_ne!(id, other.loader_id("db-1").unwrap());
        drop(one);
        assert_eq!(take("one").unwrap().loader_id("db-1").unwrap(), id);
    }
}
