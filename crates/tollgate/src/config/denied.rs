//! Distinguishes a path that the system refuses to look up from a path that does not exist.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The fault of a file that the system refuses this user.
pub(super) const DENIED: &str = "permission denied: run the command as the user of the server, or as root";

/// Returns the reason and the remedy if the system refuses to look up a path for this user. `None`: the path
/// exists, or nothing is there.
pub(crate) fn denial(path: &Path) -> Option<String> {
    is_denied(path).then(|| denial_of(path))
}

/// Returns whether the system refuses to look up a path for this user.
pub(super) fn is_denied(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Returns the reason and the remedy for a path that the system refused.
pub(crate) fn denial_of(path: &Path) -> String {
    format!("{}: {DENIED}", path.display())
}

/// Returns whether something is at a path, or the system refuses to look there.
pub(crate) fn may_exist(path: &Path) -> bool {
    let absent = [ErrorKind::NotFound, ErrorKind::NotADirectory];
    !fs::metadata(path).is_err_and(|error| absent.contains(&error.kind()))
}
