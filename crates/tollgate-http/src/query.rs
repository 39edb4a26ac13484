//! Queries and urlencoded forms as pairs of name and value (WHATWG URL, application/x-www-form-urlencoded).

use crate::grammar::percent_escape;
use std::borrow::Cow;

/// Lists the decoded pairs of a raw query. `+` is a space, and decoded bytes that are not UTF-8 become
/// U+FFFD.
///
/// A piece without `=` is a name with an empty value. Empty pieces are skipped. A malformed escape stays
/// unchanged. If the query is UTF-8, the pairs are UTF-8, too.
pub fn query_pairs(raw: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    // One scan of the whole query comes first, because most queries have nothing to decode.
    let is_plain = memchr::memchr2(b'+', b'%', raw).is_none();
    let decode = move |text| if is_plain { Cow::Borrowed(text) } else { decoded(text) };
    raw.split(|&byte| byte == b'&').filter(|piece| !piece.is_empty()).map(move |piece| {
        let name_bytes = piece.iter().position(|&byte| byte == b'=').unwrap_or(piece.len());
        let (name, value) = piece.split_at(name_bytes);
        (decode(name), decode(value.get(1..).unwrap_or_default()))
    })
}

fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    let decoded = decode_bytes(text);
    Cow::Owned(match str::from_utf8(&decoded) {
        Ok(_) => decoded,
        Err(_) => String::from_utf8_lossy(&decoded).into_owned().into_bytes(),
    })
}

fn decode_bytes(mut rest: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(rest.len());
    while let [first, tail @ ..] = rest {
        let (byte, used) = match percent_escape(rest) {
            Some(byte) => (byte, 3),
            None if *first == b'+' => (b' ', 1),
            None => (*first, 1),
        };
        decoded.push(byte);
        rest = tail.get(used - 1..).unwrap_or_default();
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_decode_to_pairs() {
        let check = |raw: &str, expect: &[(&str, &str)]| {
            let text = |bytes: Cow<'_, [u8]>| String::from_utf8(bytes.into_owned()).unwrap();
            let pairs: Vec<_> =
                query_pairs(raw.as_bytes()).map(|(name, value)| (text(name), text(value))).collect();
            let expect: Vec<_> =
                expect.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            assert_eq!(pairs, expect, "{raw}");
        };
        check("", &[]);
        check("&&", &[]);
        check("a", &[("a", "")]);
        check("a=", &[("a", "")]);
        check("=a", &[("", "a")]);
        check("a=b=c&d", &[("a", "b=c"), ("d", "")]);
        check("a+b=%2B+%26", &[("a b", "+ &")]);
        check("a=%c3%A9&b=%ff", &[("a", "\u{e9}"), ("b", "\u{fffd}")]);
        check("a=%&b=%4&c=%zz%41", &[("a", "%"), ("b", "%4"), ("c", "%zzA")]);
        check("a=1&a=2", &[("a", "1"), ("a", "2")]);
    }
}
