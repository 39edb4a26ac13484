//! The `unsafe` code: a call of a SQLite function that rusqlite does not offer.

#![expect(unsafe_code, reason = "rusqlite has no call for the status of a connection")]

use rusqlite::{Connection, ffi};

/// Returns whether the open transaction breaks a deferred foreign key at present.
pub(crate) fn has_unresolved_foreign_keys(connection: &Connection) -> bool {
    let (mut unresolved, mut unused) = (0, 0);
    // SAFETY: the handle belongs to an open connection. No other thread uses the connection while it is
    // borrowed here, because it is not `Sync`. SQLite writes only to the two numbers, and does so before it
    // returns.
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
