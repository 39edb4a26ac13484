//! The text of collected items.

use std::borrow::Cow;

/// Returns bytes as UTF-8. U+FFFD replaces each sequence that is not UTF-8, so that such bytes spoil neither
/// their own text nor another item.
pub(in crate::handler) fn utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Cow::Borrowed(bytes),
        Err(_) => Cow::Owned(String::from_utf8_lossy(bytes).into_owned().into_bytes()),
    }
}
