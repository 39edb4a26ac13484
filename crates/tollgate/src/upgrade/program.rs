//! The path of the running program, from which an upgrade starts the new one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The running program itself, also after its file was replaced or deleted.
pub(super) const RUNNING: &str = "/proc/self/exe";

static AT_START: OnceLock<PathBuf> = OnceLock::new();

/// What the system adds to the path of a program whose file was replaced or deleted.
const DELETED: &str = " (deleted)";

/// Notes the path of the program, because its file may be replaced later.
pub(crate) fn note_path() {
    if let Ok(path) = std::env::current_exe() {
        let _ = AT_START.set(without_mark(&path));
    }
}

/// Returns the path without the mark of a deleted file. A process that was started from [`RUNNING`] has it.
fn without_mark(path: &Path) -> PathBuf {
    let text = path.to_str().and_then(|text| text.strip_suffix(DELETED));
    text.map_or_else(|| path.to_owned(), PathBuf::from)
}

/// Returns the path that the program was started from.
pub(super) fn path() -> io::Result<PathBuf> {
    AT_START.get().cloned().map_or_else(std::env::current_exe, Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_replaced_program_has_no_mark() {
        let check = |path: &str, expected: &str| {
            assert_eq!(without_mark(Path::new(path)), Path::new(expected));
        };
        check("/usr/bin/tollgate", "/usr/bin/tollgate");
        check("/usr/bin/tollgate (deleted)", "/usr/bin/tollgate");
        check("/opt/a (deleted)/tollgate", "/opt/a (deleted)/tollgate");
    }
}
