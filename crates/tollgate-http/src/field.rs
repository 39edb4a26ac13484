//! Field lines: name, colon, value (RFC 9112 section 5). This file also decides which fields a script may
//! set.

use crate::RequestError;
use crate::error::excerpt;
use crate::grammar::{
    BLANK, FIELD_NAME, TOKEN, first_outside, is, is_all_field_content, is_field_content, is_token,
    run_of_field_content, trim_blanks,
};
use crate::span::Span;

/// One field line of a head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldSpan {
    pub(crate) name: Span,
    pub(crate) value: Span,
}

/// Field that the engine itself evaluates, for framing, routing, or the end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownField {
    Host,
    ContentLength,
    TransferEncoding,
    Connection,
    Expect,
    Upgrade,
}

impl KnownField {
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let (known, text): (Self, &[u8]) = match name.len() {
            4 => (Self::Host, b"host"),
            6 => (Self::Expect, b"expect"),
            7 => (Self::Upgrade, b"upgrade"),
            10 => (Self::Connection, b"connection"),
            14 => (Self::ContentLength, b"content-length"),
            17 => (Self::TransferEncoding, b"transfer-encoding"),
            _ => return None,
        };
        name.eq_ignore_ascii_case(text).then_some(known)
    }
}

/// Parses the field line that begins at `start` in `head`, and finds its end, in one pass.
///
/// `None` means that the line is incomplete or unusual. In that case [`parse_field_line`] must decide.
#[inline]
pub(crate) fn whole_field_line(head: &[u8], start: usize) -> Option<(FieldSpan, usize)> {
    let line = head.get(start..)?;
    let colon = first_outside(FIELD_NAME, line)?;
    if colon == 0 || line[colon] != b':' {
        return None;
    }
    // Most senders write one blank after the colon.
    let value_start = if line.get(colon + 1) == Some(&b' ') { colon + 2 } else { colon + 1 };
    let value = line.get(value_start..)?;
    let value_bytes = run_of_field_content(value);
    let is_trimmed = match &value[..value_bytes] {
        [first, .., last] => !is(BLANK, *first) && !is(BLANK, *last),
        [byte] => !is(BLANK, *byte),
        [] => false,
    };
    if !is_trimmed || !value[value_bytes..].starts_with(b"\r\n") {
        return None;
    }
    let value_start = start + value_start;
    let field = FieldSpan {
        name: Span::new(start, start + colon),
        value: Span::new(value_start, value_start + value_bytes),
    };
    Some((field, value_start + value_bytes + 2))
}

/// Parses `line`, which begins at offset `start` of its head and has no CRLF.
pub(crate) fn parse_field_line(line: &[u8], start: usize) -> Result<FieldSpan, RequestError> {
    let colon = first_outside(FIELD_NAME, line).unwrap_or(line.len());
    if colon == 0 || line.get(colon) != Some(&b':') {
        return Err(name_error(line.get(..=colon).unwrap_or(line)));
    }
    parse_value(line, start, colon)
}

/// Parses a field line of a reply like [`parse_field_line`], but allows `_` in the name, and blanks before
/// the colon.
///
/// `_` is harmless in a reply, because no script reads reply fields by names in which `_` and `-` are equal.
/// A proxy removes the blanks (RFC 9112 section 5.1).
pub(crate) fn parse_reply_field_line(line: &[u8], start: usize) -> Result<FieldSpan, RequestError> {
    let name_bytes = first_outside(TOKEN, line).unwrap_or(line.len());
    let blanks = line[name_bytes..].iter().take_while(|&&byte| is(BLANK, byte)).count();
    let colon = name_bytes + blanks;
    if name_bytes == 0 || line.get(colon) != Some(&b':') {
        return Err(RequestError::FieldNameInvalid { found: excerpt(line.get(..=colon).unwrap_or(line)) });
    }
    let field = parse_value(line, start, colon)?;
    Ok(FieldSpan { name: Span::new(start, start + name_bytes), ..field })
}

/// Checks a line that is dropped because of the `_` in its name.
#[cold]
pub(crate) fn check_underscore_line(line: &[u8]) -> Result<(), RequestError> {
    let colon = first_outside(TOKEN, line).unwrap_or(line.len());
    if line.get(colon) != Some(&b':') {
        return Err(RequestError::FieldNameInvalid { found: excerpt(line.get(..=colon).unwrap_or(line)) });
    }
    parse_value(line, 0, colon).map(drop)
}

#[inline]
fn parse_value(line: &[u8], start: usize, colon: usize) -> Result<FieldSpan, RequestError> {
    let after_colon = &line[colon + 1..];
    let blanks = after_colon.iter().position(|&byte| !is(BLANK, byte)).unwrap_or(after_colon.len());
    let value = trim_blanks(&after_colon[blanks..]);
    if !is_all_field_content(value) {
        return Err(value_error(&line[..colon], value));
    }
    let value_start = start + colon + 1 + blanks;
    Ok(FieldSpan {
        name: Span::new(start, start + colon),
        value: Span::new(value_start, value_start + value.len()),
    })
}

/// Returns the error for a name. `line` ends at the bad byte, so that no part of a value reaches a log.
fn name_error(line: &[u8]) -> RequestError {
    match line {
        [.., b'_'] => RequestError::FieldNameUnderscore { found: excerpt(line) },
        _ => RequestError::FieldNameInvalid { found: excerpt(line) },
    }
}

fn value_error(name: &[u8], value: &[u8]) -> RequestError {
    let byte = value.iter().copied().find(|&byte| !is_field_content(byte)).unwrap_or_default();
    RequestError::FieldValueInvalid { name: excerpt(name), byte }
}

/// Returns whether `name` is a valid field name: a token (RFC 9110 section 5.1).
///
/// `_` is allowed here, but not in the fields of requests.
pub fn is_field_name(name: &[u8]) -> bool {
    is_token(name)
}

/// Returns whether `value` is a valid field value (RFC 9110 section 5.5).
///
/// CR, LF, NUL, DEL and other controls except HTAB are refused, and so is a blank at either end.
pub fn is_field_value(value: &[u8]) -> bool {
    is_all_field_content(value) && trim_blanks(value).len() == value.len()
}

/// Returns whether only the engine may write this field. The engine writes the fields for framing, the
/// connection and the date.
pub fn is_framing_field(name: impl AsRef<[u8]>) -> bool {
    let name = name.as_ref();
    let as_long: &[&str] = match name.len() {
        2 => &["te"],
        4 => &["date"],
        7 => &["trailer", "upgrade"],
        10 => &["connection", "keep-alive"],
        14 => &["content-length"],
        16 => &["proxy-connection"],
        17 => &["transfer-encoding"],
        _ => &[],
    };
    as_long.iter().any(|framing| name.eq_ignore_ascii_case(framing.as_bytes()))
}

/// Returns whether a reply may have this field only once, because its value is not a list (RFC 9110 section
/// 5.3).
pub fn is_single_field(name: impl AsRef<[u8]>) -> bool {
    let name = name.as_ref();
    SINGLE_FIELDS.iter().any(|single| name.eq_ignore_ascii_case(single.as_bytes()))
}

/// Single fields of RFC 9110, 9111 and 6266 and of CORS, and the request id.
const SINGLE_FIELDS: [&str; 13] = [
    "access-control-allow-origin",
    "age",
    "content-disposition",
    "content-location",
    "content-range",
    "content-type",
    "etag",
    "expires",
    "last-modified",
    "location",
    "retry-after",
    "server",
    "x-request-id",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value)] // Rows read better without references.
    fn check(line: &[u8], expect: Result<(&[u8], &[u8]), RequestError>) {
        let mut head = b"##".to_vec();
        head.extend_from_slice(line);
        let field = parse_field_line(line, 2);
        let found = field.as_ref().map(|field| (field.name.bytes(&head), field.value.bytes(&head)));
        assert_eq!(found.map_err(Clone::clone), expect, "{}", line.escape_ascii());
    }

    #[test]
    fn names_with_underscores_may_be_left_out_but_are_checked() {
        let check = |line: &str, expect: Result<(), u16>| {
            let found = check_underscore_line(line.as_bytes()).map_err(|error| error.status().as_u16());
            assert_eq!(found, expect, "{line:?}");
        };
        check("a_b: c", Ok(()));
        check("_:", Ok(()));
        for bad in ["_", "a_b", "a_b : c", "a_ b: c", "a_b: \0", "a_(: c"] {
            check(bad, Err(400));
        }
    }

    #[test]
    fn a_line_is_name_colon_value_between_blanks() {
        check(b"a:b", Ok((b"a", b"b")));
        check(b"A-b: \t c d \t", Ok((b"A-b", b"c d")));
        check(b"a:", Ok((b"a", b"")));
        check(b"a: \t ", Ok((b"a", b"")));
        check(b"a: b:c", Ok((b"a", b"b:c")));
        check(b"a:\xa0\xff", Ok((b"a", b"\xa0\xff")));
        check(b"a: \x85b\xa0 ", Ok((b"a", b"\x85b\xa0")));
    }

    #[test]
    fn a_name_is_a_token_directly_before_its_colon() {
        let refused = |line: &[u8], found: &str| {
            check(line, Err(RequestError::FieldNameInvalid { found: found.into() }));
        };
        refused(b"", "");
        refused(b":", ":");
        refused(b": a", ":");
        refused(b"a", "a");
        refused(b"a b", "a ");
        refused(b"a :b", "a ");
        refused(b"a\t:b", "a\\t");
        refused(b"a(b:c", "a(");
        refused(b"a\xe9:b", "a\\xe9");
        refused(b"\0:b", "\\x00");
        refused(b"\x0ba:b", "\\x0b");
        refused(b"\"a\":b", "\\\"");
        check(b"a_b: c", Err(RequestError::FieldNameUnderscore { found: "a_".into() }));
        check(b"_: c", Err(RequestError::FieldNameUnderscore { found: "_".into() }));
    }

    #[test]
    fn controls_in_a_value_are_refused() {
        for byte in (0..0x20u8).filter(|&byte| byte != b'\t').chain([0x7f]) {
            let line = [b'a', b':', b'x', byte, b'y'];
            check(&line, Err(RequestError::FieldValueInvalid { name: "a".into(), byte }));
        }
    }

    #[test]
    fn scripts_cannot_break_out_of_a_value_or_touch_framing() {
        let check =
            |value: &[u8], expect| assert_eq!(is_field_value(value), expect, "{}", value.escape_ascii());
        check(b"", true);
        check(b"a\tb c\xff", true);
        check(b"a\r\nset-cookie: b", false);
        check(b"a\nb", false);
        check(b"a\0", false);
        check(b"a\x7f", false);
        check(b" a", false);
        assert!(
            is_field_name(b"x_y") && !is_field_name(b"") && !is_field_name(b"a b") && !is_field_name(b"a:")
        );
        let framing =
            ["connection", "content-length", "DATE", "Keep-Alive", "proxy-connection", "te", "trailer"];
        assert!(framing.into_iter().chain(["transfer-encoding", "upgrade"]).all(is_framing_field));
        assert!(!is_framing_field("etag") && !is_framing_field("from") && !is_framing_field(""));
    }
}
