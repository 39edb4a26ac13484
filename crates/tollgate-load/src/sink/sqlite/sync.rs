//! Putting on disk what SQLite found in the write-ahead log when it opened a database.
//!
//! A run that was killed between the write of a commit and its sync leaves a commit that everybody sees and
//! that a power cut still takes. Segments are deleted by positions that are read, so these have to be as
//! durable as those that this run commits.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::SinkError;
use crate::sqlite_files::wal_of;

/// The write-ahead log that an earlier run left beside a database; none after a clean end.
///
/// Ask before the database is opened: opening it makes one.
pub(super) fn left_wal(database: &Path) -> Option<PathBuf> {
    // It lies beside the database itself, not beside a link to it.
    let wal = wal_of(&fs::canonicalize(database).ok()?);
    wal.exists().then_some(wal)
}

/// Syncs a write-ahead log and the folder that has its name.
///
/// SQLite takes its locks on the database and the shared memory, never on this file: closing it here drops
/// none of them.
///
/// # Errors
/// The file or the folder cannot be synced.
pub(super) fn sync_wal(wal: &Path) -> Result<(), SinkError> {
    File::open(wal).and_then(|file| file.sync_all()).map_err(failed(wal))?;
    let folder = wal.parent().unwrap_or(Path::new("/"));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed(folder))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SinkError {
    let path = path.to_owned();
    move |source| SinkError::Sync { path, source }
}
