//! Secrets of the configuration: a variable of the environment, or a file. The configuration itself never
//! holds a secret.

use std::fs;
use std::path::{Path, PathBuf};

use super::section::{Section, Written};

/// The beginning of the name of a file.
pub(super) const FILE: &str = "file:";
/// Maximum bytes of a file with a secret. A service account key of Google has about 2.4 KiB.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// A secret, and the place that it came from.
pub(super) struct FoundSecret {
    /// The value.
    pub(super) value: String,
    /// The file, if the secret came from a file.
    pub(super) file: Option<PathBuf>,
}

/// Returns the secret that a text names: `${NAME}` or `file:PATH`. `as_written` is the text before its
/// variables were replaced. `place` names the key in faults. No fault has the value, because the value may be
/// the secret.
///
/// A file that cannot be read is a fault, and its path is returned in `Err`, because it is never served
/// either.
pub(super) fn find_secret(
    section: &Section<'_>,
    place: &str,
    as_written: &str,
    text: &Written<String>,
    folder: &Path,
) -> Result<FoundSecret, Option<PathBuf>> {
    if is_variable(as_written) {
        return Ok(FoundSecret { value: text.value.clone(), file: None });
    }
    let Some(path) = text.value.strip_prefix(FILE) else {
        section.fault_at(&text.span, format!("{place} is a plain text, allowed is ${{NAME}} or file:PATH"));
        return Err(None);
    };
    let path = folder.join(path);
    match read_secret(&path) {
        Ok(value) => Ok(FoundSecret { value, file: Some(path) }),
        Err(reason) => {
            section.fault_at(&text.span, format!("{place}: {}: {reason}", path.display()));
            Err(Some(path))
        }
    }
}

/// Whether a text is one variable of the environment and nothing else.
fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.is_empty() && !name.contains(['$', '{', '}']))
}

fn read_secret(path: &Path) -> Result<String, String> {
    let bytes = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if bytes > SECRET_BYTES_MAX {
        return Err(format!("it has {bytes} bytes, limit {SECRET_BYTES_MAX}"));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}
