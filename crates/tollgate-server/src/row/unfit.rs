//! Errors for values that do not fit their column. An error names the value and the type, but never a value
//! that the column hides.

use std::borrow::Cow;

use tollgate_log::ValueError;

use super::Target;

/// Maximum number of characters of an unfit value in an error.
const SHOWN_CHARS_MAX: usize = 48;

/// Creates the error for an unfit value.
#[cold]
pub(super) fn unfit(column: &Target, found: &str) -> ValueError {
    unfit_for(column, found, column.kind.name())
}

/// Creates the error for an unfit value. `allowed` describes the values that fit.
#[cold]
pub(super) fn unfit_for(column: &Target, found: &str, allowed: impl Into<Cow<'static, str>>) -> ValueError {
    let allowed = allowed.into();
    if column.is_hidden {
        let found = "a hidden value".to_owned();
        return ValueError::Unfit { column: column.name.clone(), found, allowed };
    }
    let mut shown: String = found.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < found.len() {
        shown.push_str("...");
    }
    ValueError::Unfit { column: column.name.clone(), found: shown, allowed }
}

/// Returns a text as a JSON string.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
