//! Queries and urlencoded forms as pairs of name and value (WHATWG URL, application/x-www-form-urlencoded).

use crate::grammar::percent_escape;
use std::borrow::Cow;

/// Lists the pairs of a raw query: `+` is a space, escapes are decoded, what is no UTF-8 becomes U+FFFD.
///
/// A piece without `=` is a name with an empty value; empty pieces are skipped; a malformed escape stays as it is.
pub fn query_pairs(raw: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    // One look at the whole: most have nothing to decode.
    let is_plain = memchr::memchr2(b'+', b'%', raw.as_bytes()).is_none();
    let decode = move |text| if is_plain { Cow::Borrowed(text) } else { decoded(text) };
    raw.split('&').filter(|piece| !piece.is_empty()).map(move |piece| {
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        (decode(name), decode(value))
    })
}

fn decoded(text: &str) -> Cow<'_, str> {
    let decoded = decode_bytes(text.as_bytes());
    Cow::Owned(
        String::from_utf8(decoded)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
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
            let pairs: Vec<_> = query_pairs(raw).collect();
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
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
