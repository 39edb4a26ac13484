//! Checks whether the files of an open SQLite database are still the files at their paths.
//!
//! The file of an open database may be removed, or replaced by another file. The connection still accepts
//! rows and answers queries, but its file has no name any more. The same is true of the write-ahead log and
//! the shared memory. SQLite detects a moved database (`SQLITE_FCNTL_HAS_MOVED` compares the descriptor with
//! the path). SQLite does not detect a link to the database that now leads elsewhere, nor a change of the two
//! other files. So this code notes the files after the open, and compares them with the files at their paths
//! later.
//!
//! A check makes four calls of stat, and opens no file. If a second descriptor of a database were opened and
//! closed, the locks of the first would be dropped.
//!
//! Source: <https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>, <https://sqlite.org/howtocorrupt.html>
//! section 2.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, FileControl, MAIN_DB};

/// The files that a connection has open.
#[derive(Debug)]
pub(crate) struct SqliteFiles {
    /// The configured path of the database, and the paths of its write-ahead log and its shared memory.
    paths: [PathBuf; 3],
    found: [Option<FileId>; 3],
}

/// Identity of a file: its device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self(file.dev(), file.ino()))
    }
}

impl SqliteFiles {
    /// Notes the files of a connection. The connection must have read from its database before, because
    /// SQLite opens all files only then.
    pub(crate) fn of(path: &Path) -> Self {
        // Write-ahead log and shared memory are in the folder of the database itself, not in the folder of a
        // link to it.
        let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let paths = [path.to_owned(), beside(&resolved, "-wal"), beside(&resolved, "-shm")];
        let found = paths.each_ref().map(|path| FileId::of(path));
        Self { paths, found }
    }

    /// Returns whether the open files are still at their paths. A file that cannot be checked counts as
    /// moved.
    pub(crate) fn are_in_place(&self, connection: &Connection) -> bool {
        !has_moved(connection) && self.paths.each_ref().map(|path| FileId::of(path)) == self.found
    }

    /// Renames the write-ahead log of a replaced database. If the name stayed, a program that opens the new
    /// database would read the pages of the old log. Returns the new path, or `None` if there is no such
    /// file.
    pub(crate) fn put_left_wal_aside(&self, connection: &Connection) -> Option<io::Result<PathBuf>> {
        let [_, wal, shm] = &self.paths;
        let is_left = |at: usize| self.found[at].is_some() && FileId::of(&self.paths[at]) == self.found[at];
        if !has_moved(connection) || !is_left(1) {
            return None;
        }
        if is_left(2) {
            // The shared memory is only an index of the WAL. A program that needs the index creates it again.
            drop(fs::remove_file(shm));
        }
        let aside = beside(wal, ".left");
        Some(fs::rename(wal, &aside).map(|()| aside))
    }
}

fn has_moved(connection: &Connection) -> bool {
    let mut has_moved = 0;
    let asked = connection.file_control(Some(MAIN_DB), FileControl::HasMoved(&mut has_moved));
    asked.is_err() || has_moved != 0
}

/// Returns the path of a database's write-ahead log.
pub(crate) fn wal_of(database: &Path) -> PathBuf {
    beside(database, "-wal")
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(OsStr::new(suffix));
    name.into()
}
