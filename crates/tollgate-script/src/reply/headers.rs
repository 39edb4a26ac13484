//! Reads `status` and `headers` of a reply, and checks that they are valid HTTP.
//!
//! A script cannot set fields of the framing. It also cannot set fields about the acknowledgement of its
//! record, because only the server knows its state.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate_http::{is_field_name, is_field_value, is_framing_field, is_single_field};

use super::reader::{Result, key_text, reply};
use crate::budget::Budget;
use crate::error::shown;
use crate::sys::raw::RawValue;

/// The name and the value of a header field.
pub type HeaderLine = (Cow<'static, str>, Bytes);

pub(super) fn status(value: RawValue<'_>) -> Result<u16> {
    let found = match value {
        RawValue::Integer(number) => match u16::try_from(number) {
            Ok(status @ 200..=599) => return Ok(status),
            _ => number.to_string(),
        },
        RawValue::Number(number) => number.to_string(),
        other => format!("a {}", other.kind()),
    };
    Err(reply(format!("reply.status is {found}: allowed is a whole number from 200 to 599")))
}

/// Reads header lines. `left` is the number of bytes that the reply may still have, and is reduced by the
/// bytes of the lines.
pub(super) fn headers(value: RawValue<'_>, budget: &Budget, left: &mut usize) -> Result<Vec<HeaderLine>> {
    let table = match value {
        RawValue::Nil => return Ok(Vec::new()),
        RawValue::Table(table) => table,
        other => return Err(reply(format!("reply.headers is a {}: allowed is a table", other.kind()))),
    };
    let mut lines = Vec::with_capacity(HEADERS_EXPECTED);
    table.each(|name, value| header(&mut lines, left, name, value, budget))?;
    // A table has no order, so the lines are sorted by name. Lines of one list keep their order.
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(lines)
}

/// Returns whether valid `headers` give one text for Set-Cookie, and not a list.
pub(super) fn set_one_cookie(value: RawValue<'_>) -> Result<bool> {
    let RawValue::Table(table) = value else { return Ok(false) };
    let mut found = false;
    table.each(|name, value| {
        found |= matches!((name, value), (RawValue::Text(name), RawValue::Text(_))
            if name.eq_ignore_ascii_case(b"set-cookie"));
        Ok(())
    })?;
    Ok(found)
}

fn header(
    lines: &mut Vec<HeaderLine>,
    left: &mut usize,
    name: RawValue<'_>,
    value: RawValue<'_>,
    budget: &Budget,
) -> Result<()> {
    let RawValue::Text(name) = name else {
        return Err(reply(format!("reply.headers has a key {}: allowed are field names", key_text(&name))));
    };
    let name = header_name(name)?;
    let RawValue::Table(list) = value else { return push_line(lines, left, &name, value) };
    // A list in which all values are nil adds no line, but reading it costs time.
    if budget.is_exhausted() {
        return Err(reply("cpu budget of the call is used up"));
    }
    let mut count = 0;
    list.each(|_, _| {
        count += 1;
        Ok(())
    })?;
    if count != list.len() {
        return Err(reply(format!(
            "reply.headers[\"{name}\"] is a table: allowed are a string, a number, a list of them"
        )));
    }
    (1..=count).try_for_each(|index| list.with_index(index, |value| push_line(lines, left, &name, value)))
}

fn header_name(bytes: &[u8]) -> Result<String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if is_field_name(bytes) => text,
        _ => return Err(reply(format!("reply.headers has \"{}\", which is not a field name", shown(bytes)))),
    };
    if is_framing_field(text) || is_verdict(bytes) {
        return Err(reply(format!("reply.headers has \"{text}\", which only the server sets")));
    }
    Ok(text.to_owned())
}

/// Returns whether a field states the acknowledgement of a record. Only the server knows this state.
fn is_verdict(name: &[u8]) -> bool {
    name.get(..VERDICT_PREFIX.len()).is_some_and(|front| front.eq_ignore_ascii_case(VERDICT_PREFIX))
}

pub(super) fn push_line(
    lines: &mut Vec<HeaderLine>,
    left: &mut usize,
    name: &str,
    value: RawValue<'_>,
) -> Result<()> {
    if lines.len() == HEADERS_MAX {
        return Err(reply(format!("reply.headers exceeds limit: {HEADERS_MAX} lines")));
    }
    if is_single_field(name) && lines.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Err(reply(format!(
            "reply.headers has \"{name}\" twice: allowed is once (RFC 9110 section 5.3)"
        )));
    }
    if let RawValue::Text(text) = value {
        // The check runs before the copy, because a script may use one long text for many lines.
        check_room(name, text.len(), *left)?;
    }
    let line = match value {
        RawValue::Text(text) => text.to_vec(),
        RawValue::Integer(number) => number.to_string().into_bytes(),
        RawValue::Number(number) => number.to_string().into_bytes(),
        other => {
            let found = other.kind();
            return Err(reply(format!(
                "reply.headers[\"{name}\"] is a {found}: allowed are a string, a number, a list of them"
            )));
        }
    };
    if !is_field_value(&line) {
        let found = shown(&line);
        return Err(reply(format!(
            "reply.headers[\"{name}\"] is \"{found}\", which is not a field value (RFC 9110 section 5.5)"
        )));
    }
    *left -= check_room(name, line.len(), *left)?;
    lines.push((Cow::Owned(name.to_owned()), Bytes::from(line)));
    Ok(())
}

/// Returns the number of bytes of a header line as sent.
fn check_room(name: &str, value_bytes: usize, left: usize) -> Result<usize> {
    let bytes = name.len() + SEPARATORS_BYTES + value_bytes;
    if bytes > left {
        return Err(reply(format!(
            "reply.headers exceeds limit: \"{name}\" has {bytes} bytes, {left} bytes are left of reply_bytes_max"
        )));
    }
    Ok(bytes)
}

/// Expected number of header lines that a script and the server set together.
const HEADERS_EXPECTED: usize = 4;
const HEADERS_MAX: usize = 256;
/// Bytes of the colon and space after the name, and of the line end after the value.
const SEPARATORS_BYTES: usize = 4;
const VERDICT_PREFIX: &[u8] = b"tollgate-";
