//! Rows without a parent, by foreign keys that SQLite checks at the commit only (`DEFERRABLE INITIALLY DEFERRED`).
//!
//! A commit tells that there is one, not which. So the load is done once more, and each row is asked for its parent when it
//! is written: who has none by then is refused, also where the parent comes later in the same load.

use rusqlite::{Connection, ffi};

/// As SQLite says it of foreign keys that it checks at once.
pub(super) const MISSING: &str = "FOREIGN KEY constraint failed";

/// When rows have to have parents that may come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parents {
    AtCommit,
    AtRow,
}

/// Whether a row of the open transaction still lacks its parent.
#[expect(unsafe_code, reason = "rusqlite has no call for the status of a connection")]
pub(super) fn are_missing(connection: &Connection) -> bool {
    let (mut missing, mut unused) = (0, 0);
    // SAFETY: the handle is that of an open connection, which nobody else uses while it is borrowed here (it is not
    // `Sync`), and SQLite writes to the two numbers only, before it returns.
    let code = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_DEFERRED_FKS,
            &raw mut missing,
            &raw mut unused,
            0,
        )
    };
    code == ffi::SQLITE_OK && missing != 0
}
