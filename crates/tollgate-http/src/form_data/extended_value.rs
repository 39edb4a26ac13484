//! Values of parameters such as `filename*`, with a charset and escapes (RFC 8187 section 3.2).

use std::borrow::Cow;

use crate::grammar::percent_escape;

/// Decodes `charset'language'escaped` to UTF-8.
///
/// The charsets UTF-8 and ISO-8859-1 are known. Decoded bytes that are not UTF-8 become U+FFFD. A value in
/// any other form stays as it was sent, so that its part is still a file.
pub(super) fn decoded(value: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let mut parts = value.splitn(3, |&byte| byte == b'\'');
    let (Some(charset), Some(_language), Some(escaped)) = (parts.next(), parts.next(), parts.next()) else {
        return value;
    };
    let Some(bytes) = unescaped(escaped) else { return value };
    if charset.eq_ignore_ascii_case(b"utf-8") {
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned().into_bytes())
    } else if charset.eq_ignore_ascii_case(b"iso-8859-1") {
        // Each byte of ISO-8859-1 is the code point of its character.
        Cow::Owned(bytes.into_iter().map(char::from).collect::<String>().into_bytes())
    } else {
        value
    }
}

/// Decodes all escapes. Returns `None` if one of them is malformed.
fn unescaped(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(rest.len());
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            bytes.push(percent_escape(rest)?);
            rest = &rest[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_charset_and_escapes_becomes_utf_8() {
        let check = |value: &str, expect: &str| {
            let found = decoded(value.as_bytes().into());
            assert_eq!(String::from_utf8(found.into_owned()).unwrap(), expect, "{value}");
        };
        check("UTF-8''f.txt", "f.txt");
        check("utf-8'en'%e2%82%ac%20rates", "\u{20ac} rates");
        check("utf-8''it's", "it's");
        check("iso-8859-1'de'%FCber", "\u{fc}ber");
        check("utf-8''%ff", "\u{fffd}");
        check("utf-8''", "");
        check("f.txt", "f.txt");
        check("utf-8'f.txt", "utf-8'f.txt");
        check("utf-8''100%", "utf-8''100%");
        check("koi8-r''%c1", "koi8-r''%c1");
    }
}
