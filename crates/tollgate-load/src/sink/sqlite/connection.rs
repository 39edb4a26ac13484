//! Code that all connections to a sink's database share: the wait for a lock, errors with the path, and the
//! time for bookkeeping rows.

use std::path::Path;
use std::time::Duration;

use rusqlite::ErrorCode;
use rustix::fs::{Access, access};
use rustix::io::Errno;
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
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) if is_denied(&path) => SinkError::Denied { path },
        _ => SinkError::Database { action, path, source },
    }
}

/// Returns whether the system refuses this user the file of a database, or the folder of a file that is to be
/// made. SQLite reports all of this as a file that cannot be opened.
///
/// The file is not opened here, because closing it would drop the locks of this process on it.
pub(super) fn is_denied(path: &Path) -> bool {
    match access(path, Access::READ_OK | Access::WRITE_OK) {
        Err(Errno::NOENT) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let mode = Access::WRITE_OK | Access::EXEC_OK;
            access(folder.unwrap_or(Path::new(".")), mode) == Err(Errno::ACCESS)
        }
        result => result == Err(Errno::ACCESS),
    }
}

/// Returns the current time as text for a column of the bookkeeping.
pub(super) fn now_text() -> String {
    let text = timestamp_text(now_us()).unwrap_or(*b"9999-12-31T23:59:59.999999Z");
    String::from_utf8_lossy(&text).into_owned()
}
