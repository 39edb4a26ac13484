//! Notices changes of files without reading them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The state of a file. A write, a rename over the path, or another target of a symbolic link changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(Option<Found>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the state of the file at the end of all symbolic links.
    pub(super) fn of(path: &Path) -> Self {
        Self(path.metadata().ok().as_ref().map(Found::of))
    }
}

impl Found {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}
