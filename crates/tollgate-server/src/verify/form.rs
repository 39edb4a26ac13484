//! The message of a form: name and value of each field, sorted.

use std::collections::BTreeSet;

use tollgate_http::{RequestHead, query_pairs};
use tollgate_signature::decode_hex;

/// Returns whether the content of a request is an urlencoded form.
pub(super) fn is_form(head: &RequestHead) -> bool {
    let kind = head.field("content-type").and_then(|value| value.split(|byte| *byte == b';').next());
    kind.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"application/x-www-form-urlencoded"))
}

/// Returns name and value of each field, one after the other. Fields are sorted by name, then by value, and a
/// pair counts once.
///
/// Source: `RequestValidator` of the libraries of Twilio.
pub(super) fn sorted_fields(content: &[u8]) -> Vec<u8> {
    let pairs: BTreeSet<_> = query_pairs(content).collect();
    pairs.iter().flat_map(|(name, value)| [name.as_ref(), value.as_ref()]).collect::<Vec<_>>().concat()
}

/// Returns the digest of the content that the query has as `bodySHA256`.
pub(super) fn body_digest(head: &RequestHead) -> Option<Vec<u8>> {
    let pairs = head.query_bytes().map(query_pairs).into_iter().flatten();
    let value = pairs.filter(|(name, _)| name.as_ref() == b"bodySHA256").map(|(_, value)| value).next()?;
    decode_hex(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_sorted_decoded_and_counted_once() {
        let check = |form: &str, expected: &str| {
            assert_eq!(String::from_utf8(sorted_fields(form.as_bytes())).unwrap(), expected, "{form}");
        };
        check("", "");
        check("To=%2B1800&From=%2B1410&CallSid=CA1", "CallSidCA1From+1410To+1800");
        check("b=2&a=1&B=3", "B3a1b2");
        check("a=2&a=1&a=2", "a1a2");
        check("Empty=&Name=a+b", "EmptyNamea b");
    }
}
