//! The items of a collected body: one JSON object, an array of items, or one item per line (NDJSON).

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Maximum number of items of one body. A transaction never has space for more records.
const ITEMS_MAX: usize = 1 << 19;

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
    /// A line of the body. The line is parsed only when the item is recorded, because the transaction may be
    /// full before this line.
    Line(&'a [u8]),
}

impl<'a> Item<'a> {
    pub(super) fn text(self) -> &'a [u8] {
        match self {
            Self::Json(value) => value.get().as_bytes(),
            Self::Line(line) => line,
        }
    }

    /// Returns the JSON of the item, or the reason why it is invalid.
    pub(super) fn value(self) -> Result<&'a RawValue, String> {
        match self {
            Self::Json(value) => Ok(value),
            Self::Line(line) => json_of(line).map_err(|error| format!("item is not JSON: {error}")),
        }
    }
}

/// Splits a body into items.
///
/// A body that is one JSON value has to be an object or an array. In any other body, the lines are the items
/// if the first line is JSON.
///
/// # Errors
/// The body has neither form, or has more than [`ITEMS_MAX`] items.
pub(super) fn split(body: &[u8]) -> Result<Vec<Item<'_>>, SplitError> {
    let error = match json_of(body) {
        Ok(value) => return of_value(value),
        Err(error) => error,
    };
    let mut lines = lines(body);
    let [Some(first), Some(second)] = [lines.next(), lines.next()] else { return Err(malformed(&error)) };
    if json_of(first).is_err() {
        return Err(malformed(&error));
    }
    let items = [first, second].into_iter().chain(lines).take(ITEMS_MAX + 1).map(Item::Line);
    let items: Vec<_> = items.collect();
    if items.len() > ITEMS_MAX { Err(SplitError::TooMany) } else { Ok(items) }
}

fn json_of(text: &[u8]) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_slice(text)
}

fn malformed(error: &serde_json::Error) -> SplitError {
    SplitError::Malformed(format!("the content is not JSON: {error}"))
}

fn of_value(value: &RawValue) -> Result<Vec<Item<'_>>, SplitError> {
    match value.get().as_bytes().first() {
        Some(b'{') => Ok(vec![Item::Json(value)]),
        Some(b'[') => {
            let mut json = serde_json::Deserializer::from_str(value.get());
            let items = json.deserialize_seq(ArrayReader);
            items.map_err(|error| SplitError::Malformed(error.to_string()))?.ok_or(SplitError::TooMany)
        }
        _ => {
            let text = "the content is not a JSON object, an array of objects, or one object per line";
            Err(SplitError::Malformed(text.to_owned()))
        }
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

fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
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
    fn bytes_that_are_no_text_spoil_their_line_only() {
        let items = split(b"{\"a\":1}\n{\"a\":\"\xff\"}\n").unwrap();
        let are_json: Vec<_> = items.iter().map(|item| item.value().is_ok()).collect();
        assert_eq!(are_json, [true, false], "{items:?}");
    }
}
