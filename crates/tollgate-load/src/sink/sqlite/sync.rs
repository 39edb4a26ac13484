//! Syncs the write-ahead log that SQLite finds when it opens a database.
//!
//! A run may be killed between the write of a commit and its sync. The commit is then visible, but a power
//! cut can still lose it. Segments are deleted because of the positions that this run reads. So these
//! positions have to be as durable as the positions that this run commits.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::SinkError;
use crate::sqlite_files::wal_of;

/// Returns the path of the write-ahead log that an earlier run left for a database. Returns `None` if that
/// run closed the database.
///
/// Call this before the database is opened, because SQLite then creates a write-ahead log.
pub(super) fn left_wal(database: &Path) -> Option<PathBuf> {
    // The WAL is in the folder of the database itself, not in the folder of a link to it.
    let wal = wal_of(&fs::canonicalize(database).ok()?);
    wal.exists().then_some(wal)
}

/// Syncs a write-ahead log and the folder with its name.
///
/// SQLite takes its locks on the database and the shared memory, never on the write-ahead log. So no lock is
/// lost when this function closes that file.
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
