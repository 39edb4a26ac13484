//! JSON strings with half surrogates, such as `"\ud83d"`. A client that cuts a text in the middle of an emoji
//! sends them. Each half becomes U+FFFD, as every other part of a text that is not Unicode.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Returns the text of a JSON string. U+FFFD replaces each half surrogate. `json` is a valid string of JSON.
#[cold]
pub(crate) fn text_with_halves(json: &str) -> String {
    let bytes = serde_json::Deserializer::from_str(json).deserialize_bytes(BytesReader);
    text_of(&bytes.unwrap_or_default()).into_owned()
}

/// Returns bytes of a string as text. serde_json returns a half surrogate as three bytes, in the form that
/// UTF-8 would have if it allowed surrogates.
pub(crate) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => without_halves(bytes).into(),
    }
}

#[cold]
fn without_halves(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        // The first byte of a half is 0xED, and its second byte is 0xA0 or more.
        let end = rest.windows(2).position(|pair| pair[0] == 0xed && pair[1] >= 0xa0).unwrap_or(rest.len());
        text.push_str(&String::from_utf8_lossy(&rest[..end]));
        rest = rest.get(end..).unwrap_or_default();
        if !rest.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            rest = rest.get(3..).unwrap_or_default();
        }
    }
    text
}

/// The name of a field. U+FFFD replaces each half surrogate.
pub(crate) struct Name(pub(crate) String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_bytes(BytesReader)?;
        Ok(Self(text_of(&bytes).into_owned()))
    }
}

struct BytesReader;

impl Visitor<'_> for BytesReader {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_surrogate_becomes_one_replacement_character() {
        let check = |json: &str, expect: &str| assert_eq!(text_with_halves(json), expect, "{json}");
        check(r#""a\ud83d""#, "a\u{fffd}");
        check(r#""\ud83db""#, "\u{fffd}b");
        check(r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}");
        check(r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}");
        check(r#""\ud83d\u00e9\n\ud7ff""#, "\u{fffd}\u{e9}\n\u{d7ff}");
        check(r#""plain""#, "plain");
    }
}
