//! The items of a collected body: one JSON object, an array of items, items that follow each other with or
//! without line ends, or a JSON text sequence.

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::structure;

/// Maximum number of items of one body. A transaction never has space for more records.
pub(super) const ITEMS_MAX: usize = 1 << 19;

/// First bytes of compressed content, which no JSON begins with, and the name of its content coding. Sources:
/// RFC 1952 section 2.3.1, RFC 8878 section 3.1.1.
const MAGIC_NUMBERS: [(&[u8], &str); 2] = [(b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd")];

/// Reason why a body cannot be split into items.
#[derive(Debug)]
pub(super) enum SplitError {
    /// The body is malformed. The client gets the text.
    Malformed(String),
    TooMany,
}

/// One item.
#[derive(Debug, Clone, Copy)]
pub(super) enum Item<'a> {
    Json(&'a RawValue),
    /// A part of the body. The part is parsed only when the item is recorded, because the transaction may be
    /// full before this part.
    Part(&'a [u8]),
    /// A document without the items that it should have.
    Document(&'a [u8], DocumentFault),
}

/// Reason why a document has no items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentFault {
    /// The path of items leads to no array and no object.
    NoItems,
    /// The document is not JSON, and has no items that can be found.
    NotJson,
    RepeatedField,
}

impl DocumentFault {
    fn text(self) -> &'static str {
        match self {
            Self::NoItems => "document has no array or object at the path of items",
            Self::NotJson => "document is not JSON",
            Self::RepeatedField => "document has a repeated field",
        }
    }
}

impl<'a> Item<'a> {
    pub(super) fn text(self) -> &'a [u8] {
        match self {
            Self::Json(value) => value.get().as_bytes(),
            Self::Part(text) | Self::Document(text, _) => text,
        }
    }

    /// Returns the JSON of the item, or the reason why it is invalid.
    pub(super) fn value(self) -> Result<&'a RawValue, String> {
        match self {
            Self::Json(value) => Ok(value),
            Self::Part(part) => json_of(part).map_err(|error| format!("item is not JSON: {error}")),
            Self::Document(_, fault) => Err(fault.text().to_owned()),
        }
    }

    pub(super) fn is_json(self) -> bool {
        match self {
            Self::Json(_) => true,
            Self::Part(part) => json_of(part).is_ok(),
            Self::Document(..) => false,
        }
    }
}

/// Splits a body into items.
///
/// A body that is one JSON value has to be an object or an array. Any other body is split by its structure.
/// An item in it may be no JSON, if another item is.
///
/// # Errors
/// The body has no such form, has no item that is JSON, or has more than [`ITEMS_MAX`] items.
pub(super) fn split(body: &[u8]) -> Result<Vec<Item<'_>>, SplitError> {
    let body = structure::trimmed(body);
    match json_of(body) {
        Ok(value) => of_value(value),
        Err(error) => of_structure(body).unwrap_or_else(|| Err(malformed(body, &error))),
    }
}

pub(super) fn json_of(text: &[u8]) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_slice(text)
}

fn malformed(body: &[u8], error: &serde_json::Error) -> SplitError {
    let coding = MAGIC_NUMBERS.iter().find(|(magic_number, _)| body.starts_with(magic_number));
    SplitError::Malformed(match coding {
        Some((_, coding)) => format!("the content is {coding}: send it with Content-Encoding: {coding}"),
        None => format!("the content is not JSON: {error}"),
    })
}

fn of_value(value: &RawValue) -> Result<Vec<Item<'_>>, SplitError> {
    match value.get().as_bytes().first() {
        Some(b'{') => Ok(vec![Item::Json(value)]),
        Some(b'[') => array(value),
        _ => {
            let text = "the content is not a JSON object, an array of objects, or one object per line";
            Err(SplitError::Malformed(text.to_owned()))
        }
    }
}

/// Returns the elements of an array.
///
/// # Errors
/// The array has more than [`ITEMS_MAX`] elements.
pub(super) fn array(value: &RawValue) -> Result<Vec<Item<'_>>, SplitError> {
    let mut json = serde_json::Deserializer::from_str(value.get());
    let items = json.deserialize_seq(ArrayReader);
    items.map_err(|error| SplitError::Malformed(error.to_string()))?.ok_or(SplitError::TooMany)
}

/// Splits a body that is not one JSON value. Returns `None` if the body has no structure of several items, or
/// if no item is JSON.
fn of_structure(body: &[u8]) -> Option<Result<Vec<Item<'_>>, SplitError>> {
    if let Some(texts) = structure::sequence(body) {
        return parts_with_json(texts);
    }
    if let Some(elements) = structure::elements(body) {
        return parts_with_json(elements);
    }
    let first_line = structure::lines(body).next()?;
    if json_of(first_line).is_ok() {
        return Some(parts(structure::lines(body)));
    }
    if structure::is_one_value(first_line) {
        return parts_with_json(structure::lines(body));
    }
    parts_with_json(structure::values(body)?)
}

/// Returns parts of a body as items.
///
/// # Errors
/// There are more than [`ITEMS_MAX`] parts.
pub(super) fn parts<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Item<'a>>, SplitError> {
    let items: Vec<_> = parts.take(ITEMS_MAX + 1).map(Item::Part).collect();
    if items.len() > ITEMS_MAX { Err(SplitError::TooMany) } else { Ok(items) }
}

/// Returns parts of a body as items, or `None` if no part is JSON.
fn parts_with_json<'a>(found: impl Iterator<Item = &'a [u8]>) -> Option<Result<Vec<Item<'a>>, SplitError>> {
    match parts(found) {
        Ok(items) => items.iter().any(|item| item.is_json()).then_some(Ok(items)),
        error => Some(error),
    }
}

/// Reads an array of at most [`ITEMS_MAX`] items.
struct ArrayReader;

impl<'de> Visitor<'de> for ArrayReader {
    type Value = Option<Vec<Item<'de>>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = array.next_element()? {
            items.push(Item::Json(item));
            if items.len() > ITEMS_MAX {
                while array.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
        }
        Ok(Some(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expect: Result<&[&str], &str>) {
        match (split(body.as_bytes()), expect) {
            (Ok(items), Ok(expect)) => {
                let texts: Vec<_> =
                    items.iter().map(|item| std::str::from_utf8(item.text()).unwrap()).collect();
                assert_eq!(texts, expect, "{body}");
            }
            (Err(SplitError::Malformed(error)), Err(expect)) => {
                assert!(error.contains(expect), "{body}: {error}");
            }
            (found, _) => panic!("{body}: {found:?}"),
        }
    }

    #[test]
    fn an_object_an_array_and_lines_are_items() {
        check("{}", Ok(&["{}"]));
        check(" {\n \"a\": 1 } \n", Ok(&["{\n \"a\": 1 }"]));
        check("[]", Ok(&[]));
        check("[{}, 5 ,{\"a\":[1]}]", Ok(&["{}", "5", "{\"a\":[1]}"]));
        check("{\"a\":1}\n\r\n{\"a\":2}\r\n", Ok(&["{\"a\":1}", "{\"a\":2}"]));
        check("{\"a\":1}\nnot json\n5\n", Ok(&["{\"a\":1}", "not json", "5"]));
    }

    #[test]
    fn a_content_that_is_neither_is_refused_as_a_whole() {
        check("", Err("EOF"));
        check("5", Err("not a JSON object"));
        check("\"text\"", Err("not a JSON object"));
        check("{\"a\":1", Err("EOF"));
        check("{\n\"a\": 1,\n}", Err("key must be a string"));
        check("[{},", Err("EOF"));
        check("not json\n{}\n", Err("expected"));
    }

    #[test]
    fn a_compressed_content_without_its_coding_is_refused_with_the_name_of_the_coding() {
        for (body, coding) in [(&b"\x1f\x8b\x08\x00"[..], "gzip"), (b"\x28\xb5\x2f\xfd\x04", "zstd")] {
            let Err(SplitError::Malformed(reason)) = split(body) else { panic!("{coding}") };
            let expect = format!("the content is {coding}: send it with Content-Encoding: {coding}");
            assert_eq!(reason, expect);
        }
    }

    #[test]
    fn bytes_that_are_no_text_spoil_their_line_only() {
        let items = split(b"{\"a\":1}\n{\"a\":\"\xff\"}\n").unwrap();
        let are_json: Vec<_> = items.iter().map(|item| item.value().is_ok()).collect();
        assert_eq!(are_json, [true, false], "{items:?}");
    }

    #[test]
    fn values_without_line_ends_and_sequences_are_items() {
        check("{\"a\":1}{\"a\":2}", Ok(&["{\"a\":1}", "{\"a\":2}"]));
        check("{\n\"a\":1\n}\n{\n\"a\":2\n}\n", Ok(&["{\n\"a\":1\n}", "{\n\"a\":2\n}"]));
        check("{\"a\":1}{\"a\":", Ok(&["{\"a\":1}", "{\"a\":"]));
        check("\u{1e}{\"a\":1}\n\u{1e}{\"a\":2}\n", Ok(&["{\"a\":1}", "{\"a\":2}"]));
        check("\u{1e}{\"a\":\n\u{1e}{\"a\":2}\n", Ok(&["{\"a\":", "{\"a\":2}"]));
    }

    #[test]
    fn a_byte_order_mark_is_left_out() {
        check("\u{feff}{\"a\":1}", Ok(&["{\"a\":1}"]));
        check("\u{feff} [{}]", Ok(&["{}"]));
        check("\u{feff}{\"a\":1}\n\u{feff}{\"a\":2}\n", Ok(&["{\"a\":1}", "{\"a\":2}"]));
    }

    #[test]
    fn a_value_that_is_no_json_spoils_only_itself() {
        check("[{\"a\":NaN},{\"a\":1}]", Ok(&["{\"a\":NaN}", "{\"a\":1}"]));
        check("{\"a\":NaN}\n{\"a\":1}\n", Ok(&["{\"a\":NaN}", "{\"a\":1}"]));
        check("{\"a\":NaN}{\"a\":1}", Ok(&["{\"a\":NaN}", "{\"a\":1}"]));
        check("[{\"a\":1},]", Ok(&["{\"a\":1}", ""]));
        for spoilt in ["{\"a\":NaN}", "[{\"a\":NaN}]", "[NaN,NaN]", "{\"a\":NaN}\n{\"a\":NaN}\n"] {
            check(spoilt, Err("expected"));
        }
        check("[{\"a\":1},{\"a\":", Err("EOF"));
    }
}
