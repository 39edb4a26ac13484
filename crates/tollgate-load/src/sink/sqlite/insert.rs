//! Inserts one row completely or not at all, and finds the cause if that fails.
//!
//! An error of a function in an index, a generated column or a trigger has only the general code
//! [`SQLITE_ERROR`]. A statement that no longer fits the tables fails with the same code. The two differ in
//! one point: the second statement cannot be prepared again.
//!
//! SQLite undoes the changes of a failed statement only if a constraint or `RAISE(ABORT)` can make it fail.
//! SQLite does not expect a failure of a function in a trigger. So rows of tables with triggers get a
//! savepoint.

use rusqlite::ffi::SQLITE_ERROR;
use rusqlite::{Connection, Error, ErrorCode};

use super::parents::{self, Parents};

/// Why a row is not in its table.
pub(super) enum RowError {
    /// The content of the row does not fit, for this reason.
    Refused(String),
    Database(Error),
}

impl RowError {
    /// Finds the cause of a failed insert. An error of a constraint, a type, the size of a value, or a
    /// function is about the row. All other errors are about the database.
    pub(super) fn of(error: Error, connection: &Connection, insert: &str) -> Self {
        let is_of_row = error.sqlite_error().is_some_and(|found| match found.code {
            ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig => true,
            _ => found.extended_code == SQLITE_ERROR && connection.prepare(insert).is_ok(),
        });
        if is_of_row { Self::Refused(error.to_string()) } else { Self::Database(error) }
    }
}

/// Returns the tables that have triggers.
pub(super) fn tables_with_triggers(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT tbl_name FROM sqlite_schema WHERE type = 'trigger' \
         UNION SELECT tbl_name FROM sqlite_temp_schema WHERE type = 'trigger'",
    )?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Inserts a row with the statement `insert`. A refused row leaves no change, unless a trigger ended the
/// transaction.
pub(super) fn or_nothing(
    connection: &Connection,
    parents: Parents,
    insert: impl FnOnce() -> Result<(), RowError>,
) -> Result<(), RowError> {
    let run = |statement| {
        let done = connection.prepare_cached(statement).and_then(|mut statement| statement.execute([]));
        done.map(drop).map_err(RowError::Database)
    };
    run("SAVEPOINT tollgate_row")?;
    let inserted = insert().and_then(|()| match parents {
        Parents::AtRow if parents::are_missing(connection) => {
            Err(RowError::Refused(parents::MISSING.to_owned()))
        }
        _ => Ok(()),
    });
    match &inserted {
        Err(RowError::Database(_)) => return inserted,
        Err(RowError::Refused(_)) if connection.is_autocommit() => return inserted,
        Err(RowError::Refused(_)) => run("ROLLBACK TO tollgate_row")?,
        Ok(()) => {}
    }
    run("RELEASE tollgate_row")?;
    inserted
}
