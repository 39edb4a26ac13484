//! The items of a collected body: a JSON object, an array of items, or one item per line (NDJSON).

use serde_json::value::RawValue;

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
/// The body is neither; the text is for the client.
pub(super) fn split(body: &[u8]) -> Result<Vec<Item<'_>>, String> {
    let error = match serde_json::from_slice::<&RawValue>(body) {
        Ok(value) => return of_value(value),
        Err(error) => error,
    };
    let items: Vec<_> = lines(body).map(of_line).collect();
    match items.first() {
        Some(Item::Json(_)) if items.len() > 1 => Ok(items),
        _ => Err(format!("the content is no JSON: {error}")),
    }
}

fn of_value(value: &RawValue) -> Result<Vec<Item<'_>>, String> {
    match value.get().as_bytes().first() {
        Some(b'{') => Ok(vec![Item::Json(value)]),
        Some(b'[') => {
            let items: Vec<&RawValue> =
                serde_json::from_str(value.get()).map_err(|error| error.to_string())?;
            Ok(items.into_iter().map(Item::Json).collect())
        }
        _ => Err("the content is neither a JSON object, nor an array of them, nor one per line".to_owned()),
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
            (Err(error), Err(expect)) => assert!(error.contains(expect), "{body}: {error}"),
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
