//! The items of a collected body: a JSON object, an array of items, or one item per line (NDJSON).

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Items of one body. The records of as many have never room in one transaction.
const ITEMS_MAX: usize = 1 << 19;

/// Why a body has no items.
#[derive(Debug)]
pub(super) enum SplitError {
    /// Told to the client.
    Malformed(String),
    TooMany,
}

/// One item: its text, and what is wrong with it already.
#[derive(Debug)]
pub(super) enum Item<'a> {
    Json(&'a RawValue),
    /// A line that is no JSON.
    Unparsable {
        text: &'a [u8],
        reason: String,
    },
}

impl<'a> Item<'a> {
    pub(super) fn text(&self) -> &'a [u8] {
        match self {
            Self::Json(value) => value.get().as_bytes(),
            Self::Unparsable { text, .. } => text,
        }
    }
}

/// Splits a body. What is one JSON value is an object or an array; else its lines are items, if the first is JSON.
///
/// # Errors
/// The body is neither, or has more than [`ITEMS_MAX`].
pub(super) fn split(body: &[u8]) -> Result<Vec<Item<'_>>, SplitError> {
    let error = match serde_json::from_slice::<&RawValue>(body) {
        Ok(value) => return of_value(value),
        Err(error) => error,
    };
    let items: Vec<_> = lines(body).take(ITEMS_MAX + 1).map(of_line).collect();
    match items.first() {
        Some(Item::Json(_)) if items.len() > ITEMS_MAX => Err(SplitError::TooMany),
        Some(Item::Json(_)) if items.len() > 1 => Ok(items),
        _ => Err(SplitError::Malformed(format!("the content is no JSON: {error}"))),
    }
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
            let text = "the content is neither a JSON object, nor an array of them, nor one per line";
            Err(SplitError::Malformed(text.to_owned()))
        }
    }
}

/// Reads an array, if it has no more than [`ITEMS_MAX`].
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

fn of_line(line: &[u8]) -> Item<'_> {
    match serde_json::from_slice(line) {
        Ok(value) => Item::Json(value),
        Err(error) => Item::Unparsable { text: line, reason: format!("item is no JSON: {error}") },
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
    fn what_is_neither_is_refused_as_a_whole() {
        check("", Err("EOF"));
        check("5", Err("neither"));
        check("\"text\"", Err("neither"));
        check("{\"a\":1", Err("EOF"));
        check("{\n\"a\": 1,\n}", Err("key must be a string"));
        check("[{},", Err("EOF"));
        check("not json\n{}\n", Err("expected"));
    }

    #[test]
    fn bytes_that_are_no_text_spoil_their_line_only() {
        let items = split(b"{\"a\":1}\n{\"a\":\"\xff\"}\n").unwrap();
        assert!(matches!(items.as_slice(), [Item::Json(_), Item::Unparsable { .. }]), "{items:?}");
    }
}
