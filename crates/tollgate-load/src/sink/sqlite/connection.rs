//! Code that all connections to a sink's database share: the wait for a lock, errors with the path, and the
//! time for bookkeeping rows.

use std::path::Path;
use std::time::Duration;

use rusqlite::ErrorCode;
use tollgate_value::timestamp_text;

use crate::clock::now_us;
use crate::error::SinkError;

/// Longest wait of SQLite for a lock. If it ends without the lock, the loader waits for its backoff, and
/// tries again.
pub(super) const LOCK_WAIT: Duration = Duration::from_millis(250);

/// Makes the error of a database, with its path.
pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(rusqlite::Error) -> SinkError {
    let path = path.to_owned();
    move |source| match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SinkError::Locked { path },
        _ => SinkError::Database { action, path, source },
    }
}

/// Returns the current time as text for a column of the bookkeeping.
pub(super) fn now_text() -> String {
    let text = timestamp_text(now_us()).unwrap_or(*b"9999-12-31T23:59:59.999999Z");
    String::from_utf8_lossy(&text).into_owned()
}
