//! The `unsafe` code: a call of SQLite that rusqlite has no function for.

#![expect(unsafe_code, reason = "rusqlite has no call for the status of a connection")]

use rusqlite::{Connection, ffi};

/// Returns whether the open transaction breaks a deferred foreign key at present.
pub(crate) fn has_unresolved_foreign_keys(connection: &Connection) -> bool {
    let (mut unresolved, mut unused) = (0, 0);
    // SAFETY: the handle is that of an open connection. No other thread uses it while it is borrowed here,
    // because it is not `Sync`. SQLite writes to the two numbers only, before it returns.
    let code = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_DEFERRED_FKS,
            &raw mut unresolved,
            &raw mut unused,
            0,
        )
    };
    code == ffi::SQLITE_OK && unresolved != 0
}
