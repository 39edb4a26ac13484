//! The one rule for bytes that are no text: U+FFFD replaces each sequence that is not UTF-8.
//!
//! Every text that enters a script has this form: fields of the head, queries, cookies, forms and JSON. Every
//! text that leaves a script has this form too: JSON, XML and columns of type text. Whole bodies and files
//! keep their bytes, and so do the names of files.

use std::borrow::Cow;

/// Returns bytes as UTF-8. Valid bytes are returned without a copy.
pub(crate) fn utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Cow::Borrowed(bytes),
        Err(_) => replaced(bytes),
    }
}

#[cold]
fn replaced(bytes: &[u8]) -> Cow<'_, [u8]> {
    Cow::Owned(String::from_utf8_lossy(bytes).into_owned().into_bytes())
}
