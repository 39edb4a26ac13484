//! Writes values as TOML that reads back to the same values.

use std::path::Path;

use super::env::escape;

/// Returns a value as a TOML string that reads back to the same value, even if the value looks like a
/// variable.
pub(super) fn quoted(value: &str) -> String {
    toml::Value::String(escape(value)).to_string()
}

pub(super) fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Returns a list of TOML strings.
pub(super) fn quoted_list(values: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let values: Vec<_> = values.into_iter().map(|value| quoted(value.as_ref())).collect();
    format!("[{}]", values.join(", "))
}
