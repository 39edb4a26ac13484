//! Finds the ends of JSON values by their brackets and quotes alone, so that a value that is not JSON spoils
//! only itself.
//!
//! The server uses this module only for a body that is not one JSON value. A value that is found here is
//! parsed later.

/// Byte before each text of a JSON text sequence (RFC 7464 section 2.2).
const RECORD_SEPARATOR: u8 = 0x1e;

/// UTF-8 form of the byte order mark, which a reader may ignore (RFC 8259 section 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns text without blanks at its ends, and without a byte order mark.
pub(super) fn trimmed(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.strip_prefix(BYTE_ORDER_MARK).map_or(text, <[u8]>::trim_ascii)
}

/// Returns the texts of a JSON text sequence, or `None` if the body is none. An empty text is left out (RFC
/// 7464 section 2.1).
pub(super) fn sequence(body: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let texts = body.strip_prefix(&[RECORD_SEPARATOR])?.split(|&byte| byte == RECORD_SEPARATOR);
    Some(texts.map(trimmed).filter(|text| !text.is_empty()))
}

/// Returns the lines of a body that are not empty.
pub(super) fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|&byte| byte == b'\n').map(trimmed).filter(|line| !line.is_empty())
}

/// Returns the elements of an array whose end is the end of the body. Returns `None` if the body is no such
/// array.
pub(super) fn elements(body: &[u8]) -> Option<Elements<'_>> {
    let is_array = body.first() == Some(&b'[') && value_bytes(body) == Some(body.len());
    is_array.then(|| Elements { rest: Some(&body[1..body.len() - 1]) })
}

/// Returns the values of a body that follow each other without a separator. The values are objects or arrays.
/// The last value may be incomplete. Returns `None` if the body begins otherwise.
pub(super) fn values(body: &[u8]) -> Option<Values<'_>> {
    value_bytes(body).is_some().then_some(Values { rest: body })
}

/// Returns whether a text begins like an object or an array, and ends with it.
pub(super) fn is_one_value(text: &[u8]) -> bool {
    value_bytes(text) == Some(text.len())
}

/// Returns the value of a field of an object, or of an element of an array. Returns `None` if there is none.
pub(super) fn part<'a>(text: &'a [u8], token: &str) -> Option<&'a [u8]> {
    match text.first() {
        Some(b'{') if is_one_value(text) => {
            let mut members = Elements { rest: Some(&text[1..text.len() - 1]) };
            members.find_map(|member| {
                let (name, value) = member_of(member)?;
                (name == token).then_some(value)
            })
        }
        _ => elements(text)?.enumerate().find(|(index, _)| index.to_string() == token).map(|(_, part)| part),
    }
}

/// Splits a member of an object into its name and its value.
fn member_of(member: &[u8]) -> Option<(String, &[u8])> {
    let colon = Scan::default().end(member, |_, byte| byte == b':')?;
    let name = serde_json::from_slice(&member[..colon]).ok()?;
    Some((name, member[colon + 1..].trim_ascii()))
}

/// The elements of an array.
pub(super) struct Elements<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let end = Scan::default().end(rest, |scan, byte| byte == b',' && scan.open == 0);
        let (element, rest) = match end {
            Some(comma) => (&rest[..comma], Some(&rest[comma + 1..])),
            None => (rest, None),
        };
        self.rest = rest;
        Some(element.trim_ascii())
    }
}

/// The values of a body without separators.
pub(super) struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = trimmed(self.rest);
        if rest.is_empty() {
            return None;
        }
        // Without an end, the rest is one item that is not JSON.
        let (value, rest) = rest.split_at(value_bytes(rest).unwrap_or(rest.len()));
        self.rest = rest;
        Some(value)
    }
}

/// Returns the length of the object or array at the front of a text. Returns `None` if there is none, or if
/// it does not end.
fn value_bytes(text: &[u8]) -> Option<usize> {
    if !matches!(text.first(), Some(b'{' | b'[')) {
        return None;
    }
    Scan::default().end(text, |scan, byte| matches!(byte, b'}' | b']') && scan.open == 0).map(|at| at + 1)
}

/// The place of a byte among brackets and quotes.
#[derive(Debug, Default)]
struct Scan {
    /// Number of brackets that are open.
    open: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Scan {
    /// Returns the index of the first byte outside of strings for which `is_end` is true.
    fn end(mut self, text: &[u8], is_end: impl Fn(&Self, u8) -> bool) -> Option<usize> {
        for (index, &byte) in text.iter().enumerate() {
            if self.is_in_string {
                self.step_in_string(byte);
                continue;
            }
            match byte {
                b'"' => self.is_in_string = true,
                b'{' | b'[' => self.open += 1,
                // A bracket that closes nothing belongs to no value.
                b'}' | b']' => self.open = self.open.checked_sub(1)?,
                _ => {}
            }
            if is_end(&self, byte) {
                return Some(index);
            }
        }
        None
    }

    fn step_in_string(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.is_in_string = false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts<'a>(found: Option<impl Iterator<Item = &'a [u8]>>) -> Option<Vec<&'a str>> {
        Some(found?.map(|text| std::str::from_utf8(text).unwrap()).collect())
    }

    #[test]
    fn elements_end_at_commas_outside_of_brackets_and_strings() {
        let check = |body: &str, expect: Option<&[&str]>| {
            assert_eq!(texts(elements(body.as_bytes())).as_deref(), expect, "{body}");
        };
        check(
            r#"[{"a":NaN}, {"b":[1,2]} ,"x,]\"," ]"#,
            Some(&[r#"{"a":NaN}"#, r#"{"b":[1,2]}"#, r#""x,]\",""#]),
        );
        check("[]", Some(&[""]));
        check("[1,,2,]", Some(&["1", "", "2", ""]));
        check("[1,2", None);
        check("[1]]", None);
        check("[1][2]", None);
        check("[\"1]", None);
        check("{}", None);
    }

    #[test]
    fn a_part_is_found_although_another_part_is_no_json() {
        let check = |text: &str, token: &str, expect: Option<&str>| {
            let found = part(text.as_bytes(), token).map(|found| std::str::from_utf8(found).unwrap());
            assert_eq!(found, expect, "{text}");
        };
        check(r#"{"a":NaN, "b" : [NaN,{"c":","}] }"#, "b", Some(r#"[NaN,{"c":","}]"#));
        check(r#"{"\u0061:,":1}"#, "a:,", Some("1"));
        check(r#"{"a":{"b":1}}"#, "b", None);
        check("[NaN,[1]]", "1", Some("[1]"));
        check("[1]", "01", None);
        check(r#"{"a":"#, "a", None);
        check("5", "a", None);
    }

    #[test]
    fn values_follow_each_other_with_or_without_blanks() {
        let check = |body: &str, expect: Option<&[&str]>| {
            assert_eq!(texts(values(body.as_bytes())).as_deref(), expect, "{body}");
        };
        check(r#"{"a":"}"}{"b":2}"#, Some(&[r#"{"a":"}"}"#, r#"{"b":2}"#]));
        check("{\n \"a\": 1\n}\n\u{feff}{\n}\n", Some(&["{\n \"a\": 1\n}", "{\n}"]));
        check("[1] {}", Some(&["[1]", "{}"]));
        check("{}{\"a\":", Some(&["{}", "{\"a\":"]));
        check("{} x {}", Some(&["{}", "x {}"]));
        check("{\"a\":", None);
        check("x{}", None);
    }

    #[test]
    fn a_sequence_begins_with_its_separator_and_has_no_empty_texts() {
        let check = |body: &str, expect: Option<&[&str]>| {
            assert_eq!(texts(sequence(body.as_bytes())).as_deref(), expect, "{body}");
        };
        check("\u{1e}{}\n\u{1e}\u{1e} 5\n", Some(&["{}", "5"]));
        check("\u{1e}", Some(&[]));
        check("{}\u{1e}{}", None);
    }

    #[test]
    fn a_byte_order_mark_is_not_a_part_of_a_line() {
        let found: Vec<_> = lines(b"\xef\xbb\xbf{}\r\n \n\xef\xbb\xbf[]\n").collect();
        assert_eq!(found, [b"{}", b"[]"]);
    }

    /// Generates JSON with all kinds of brackets and quotes in its texts.
    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<i64>().prop_map(serde_json::Value::from),
            r#"[\[\]{}",:\\ \na]{0,6}"#.prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::btree_map(r#"[\]{}",:\\a]{0,4}"#, inner, 0..4)
                    .prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn structure_and_parser_agree(items in prop::collection::vec(json(), 1..5), at in 0_usize..5) {
            let texts: Vec<_> = items.iter().map(ToString::to_string).collect();
            let array = format!("[{}]", texts.join(" , "));
            let found: Vec<_> = elements(array.as_bytes()).unwrap().map(<[u8]>::to_vec).collect();
            let expected: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
            prop_assert_eq!(&found, &expected);
            let expected = texts.get(at).map(String::as_bytes);
            prop_assert_eq!(part(array.as_bytes(), &at.to_string()), expected);
            let objects: Vec<_> = texts.iter().map(|text| format!("{{\"a\":{text}}}")).collect();
            let joined = objects.concat();
            let found: Vec<_> = values(joined.as_bytes()).unwrap().map(<[u8]>::to_vec).collect();
            prop_assert_eq!(found, objects.into_iter().map(String::into_bytes).collect::<Vec<_>>());
        }
    }
}
