//! Whether the files of an open SQLite database are still those at their paths.
//!
//! A database that is removed, or has another moved into its place, while it is open goes on taking rows and
//! answering questions: those of a file that has no name any more. The same holds for its write-ahead log and
//! its shared memory. SQLite can tell of the database (`SQLITE_FCNTL_HAS_MOVED`: it compares its descriptor
//! with the path), not of a link to it that leads elsewhere by now, nor of the two beside it: these are
//! compared with what was found behind the open.
//!
//! A look is four calls of stat and opens nothing: closing a second descriptor of a database would drop the
//! locks of the first.
//!
//! Source: <https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>, <https://sqlite.org/howtocorrupt.html> section 2.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, FileControl, MAIN_DB};

/// The files that a connection has open.
#[derive(Debug)]
pub(crate) struct SqliteFiles {
    /// The database as it was named, its write-ahead log and its shared memory as SQLite names them.
    paths: [PathBuf; 3],
    found: [Option<FileId>; 3],
}

/// Device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self(file.dev(), file.ino()))
    }
}

impl SqliteFiles {
    /// Notes the files of a connection that has read from its database: only then it has opened all of them.
    pub(crate) fn of(path: &Path) -> Self {
        // Both lie beside the database itself, not beside a link to it.
        let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let paths = [path.to_owned(), beside(&resolved, "-wal"), beside(&resolved, "-shm")];
        let found = paths.each_ref().map(|path| FileId::of(path));
        Self { paths, found }
    }

    /// Whether they are at their paths. One that cannot be looked at is not.
    pub(crate) fn are_in_place(&self, connection: &Connection) -> bool {
        !has_moved(connection) && self.paths.each_ref().map(|path| FileId::of(path)) == self.found
    }

    /// Puts aside the write-ahead log that a database left at the path that another one has by now: whoever
    /// opens that one would take the pages of the log for its own. Returns where it is; none if there is
    /// nothing to be put aside.
    pub(crate) fn put_left_wal_aside(&self, connection: &Connection) -> Option<io::Result<PathBuf>> {
        let [_, wal, shm] = &self.paths;
        let is_left = |at: usize| self.found[at].is_some() && FileId::of(&self.paths[at]) == self.found[at];
        if !has_moved(connection) || !is_left(1) {
            return None;
        }
        if is_left(2) {
            // An index of the log alone: whoever misses it makes another.
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

/// The write-ahead log of a database.
pub(crate) fn wal_of(database: &Path) -> PathBuf {
    beside(database, "-wal")
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(OsStr::new(suffix));
    name.into()
}
