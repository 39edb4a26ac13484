//! Rows without a parent, by foreign keys that SQLite checks at the commit only (`DEFERRABLE INITIALLY
//! DEFERRED`).
//!
//! A commit reports that a row lacks its parent, but not which row. The load is therefore repeated, and each
//! row is checked when it is written. A row whose parent is not there at that time is rejected, even if the
//! parent comes later in the same load.

use rusqlite::Connection;

use crate::sys;

/// SQLite's message for foreign keys that it checks at once.
pub(super) const MISSING: &str = "FOREIGN KEY constraint failed";

/// The time at which a row must have its parent, if a foreign key is checked at the commit only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parents {
    AtCommit,
    AtRow,
}

/// Returns whether a row of the open transaction still lacks its parent.
pub(super) fn are_missing(connection: &Connection) -> bool {
    sys::has_unresolved_foreign_keys(connection)
}
