//! Writes values as TOML that reads back to them.

use std::fmt;
use std::path::Path;

use super::defaults::OFF;
use super::env::escape;

/// Returns a value as a TOML string that reads back to it, also if it looks like a variable.
pub(super) fn quoted(value: &str) -> String {
    toml::Value::String(escape(value)).to_string()
}

pub(super) fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Returns a bound, or `"off"` if there is none.
pub(super) fn show_or_off<T: fmt::Display>(bound: Option<T>) -> String {
    bound.map_or_else(|| format!("\"{OFF}\""), |bound| bound.to_string())
}
