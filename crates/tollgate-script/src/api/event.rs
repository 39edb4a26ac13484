//! Encodes one server-sent event (HTML standard, section 9.2.5).

use mlua::{Table, Value};

use crate::arguments::kind;
use crate::error::shown;
use crate::nearest::hint;

const FIELDS: [&str; 4] = ["event", "data", "id", "retry"];

/// Encodes an event, which is sent as a whole. The encoded event is limited, too, because encoding makes each
/// line of the data longer.
pub(super) fn in_bytes(event: &Value, bytes_max: usize) -> mlua::Result<Vec<u8>> {
    let Value::Table(table) = event else {
        return Err(refused(&format!("an event is a {}: allowed is a table", kind(event))));
    };
    check_names(table)?;
    let mut bytes = Vec::new();
    for name in ["event", "id"] {
        if let Some(text) = text(table, name)? {
            if text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                return Err(refused(&format!("{name} has a line break or NUL")));
            }
            push_line(&mut bytes, name, &text);
        }
    }
    if let Some(milliseconds) = retry(table)? {
        push_line(&mut bytes, "retry", milliseconds.to_string().as_bytes());
    }
    if let Some(data) = text(table, "data")? {
        for line in lines(&data) {
            push_line(&mut bytes, "data", line);
            if bytes.len() > bytes_max {
                break;
            }
        }
    }
    if bytes.len() > bytes_max {
        return Err(refused(&format!(
            "event exceeds limit: limit {bytes_max} bytes, which is reply_bytes_max"
        )));
    }
    if bytes.is_empty() {
        return Err(refused("an event has no field: add one, such as data"));
    }
    bytes.push(b'\n');
    Ok(bytes)
}

fn check_names(table: &Table) -> mlua::Result<()> {
    table.for_each(|key: Value, _: Value| match &key {
        Value::String(name) if FIELDS.iter().any(|known| *name == **known) => Ok(()),
        Value::String(name) => {
            let name = shown(&name.as_bytes());
            let hint = hint(&name, FIELDS);
            Err(refused(&format!("unknown field \"{name}\"{hint}: allowed are {}", FIELDS.join(", "))))
        }
        other => Err(refused(&format!("a key of type {}: allowed are {}", kind(other), FIELDS.join(", ")))),
    })
}

fn text(table: &Table, name: &str) -> mlua::Result<Option<Vec<u8>>> {
    match table.raw_get(name)? {
        Value::Nil => Ok(None),
        Value::String(text) => Ok(Some(text.as_bytes().to_vec())),
        other => Err(refused(&format!("{name} is a {}: allowed is a string", kind(&other)))),
    }
}

fn retry(table: &Table) -> mlua::Result<Option<u64>> {
    let number: f64 = match table.raw_get("retry")? {
        Value::Nil => return Ok(None),
        Value::Integer(number) => number as f64,
        Value::Number(number) => number,
        other => return Err(refused(&format!("retry is a {}: allowed is a number", kind(&other)))),
    };
    if (0.0..=RETRY_MS_MAX).contains(&number) && number.fract() == 0.0 {
        return Ok(Some(number as u64));
    }
    Err(refused(&format!("retry is {number}: allowed are whole milliseconds from 0 to {RETRY_MS_MAX}")))
}

/// Splits a text at CR, LF and CRLF. A text that ends with a line end has an empty last line.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
            return rest.take();
        };
        let width = if text[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = Some(&text[end + width..]);
        Some(&text[..end])
    })
}

fn push_line(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value);
    bytes.push(b'\n');
}

fn refused(text: &str) -> mlua::Error {
    mlua::Error::runtime(format!("out:send: {text}"))
}

const RETRY_MS_MAX: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_split_at_each_kind_of_line_end() {
        let check = |text: &str, expect: &[&str]| {
            let found: Vec<_> = lines(text.as_bytes()).map(|line| str::from_utf8(line).unwrap()).collect();
            assert_eq!(found, expect, "{text:?}");
        };
        check("", &[""]);
        check("a", &["a"]);
        check("a\nb\r\nc\rd", &["a", "b", "c", "d"]);
        check("a\n\rb\r\n", &["a", "", "b", ""]);
    }
}
