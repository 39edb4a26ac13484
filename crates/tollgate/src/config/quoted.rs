//! Values as TOML that reads back to them.

use std::fmt;
use std::path::Path;

use super::defaults::OFF;
use super::env::escape;

/// A value as a TOML string that reads back to it, also where it looks like a variable.
pub(super) fn quoted(value: &str) -> String {
    toml::Value::String(escape(value)).to_string()
}

pub(super) fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Writes a bound, or that there is none.
pub(super) fn show_or_off<T: fmt::Display>(bound: Option<T>) -> String {
    bound.map_or_else(|| format!("\"{OFF}\""), |bound| bound.to_string())
}
