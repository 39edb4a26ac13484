//! Start tags and end tags.
//!
//! A function returns `None` if the text ends before the tag does. The caller calls it again with more text.
//! Each check is made at the first byte that decides it, so that the result does not depend on the length of
//! the text after it.

use crate::attributes::{AttributeList, ValueSpan};
use crate::characters::{
    NameSpan, allowed_character, end_of_plain_value, end_of_space, scan_name, scan_plain_name,
};
use crate::error::{Fault, Result};
use crate::limits::Limits;
use crate::reference::reference;

/// A start tag.
pub(crate) struct StartTag {
    pub(crate) name: NameSpan,
    /// Whether the element is empty, as in `<a/>`.
    pub(crate) is_empty: bool,
    /// First place after the tag.
    pub(crate) end: usize,
}

/// An end tag.
pub(crate) struct EndTag {
    pub(crate) name: NameSpan,
    /// First place after the tag.
    pub(crate) end: usize,
}

/// Reads the start tag at `at` (productions 40 and 44).
#[inline]
pub(crate) fn start_tag(
    text: &str,
    at: usize,
    list: &mut AttributeList,
    limits: &Limits,
) -> Result<Option<StartTag>> {
    list.clear();
    let bytes = text.as_bytes();
    let name = name(text, at + 1, limits, "a tag without a valid XML name")?;
    let mut at = name.end;
    loop {
        let spaceless = at;
        at = end_of_space(bytes, at);
        match bytes.get(at) {
            None => return Ok(None),
            Some(b'>') => return Ok(Some(StartTag { name, is_empty: false, end: at + 1 })),
            Some(b'/') => {
                return match bytes.get(at + 1) {
                    None => Ok(None),
                    Some(b'>') => Ok(Some(StartTag { name, is_empty: true, end: at + 2 })),
                    Some(_) => Err(Fault::malformed(text, at + 1, "a tag with a / in it", ">")),
                };
            }
            Some(_) if at == spaceless => return Err(unseparated(text, at, list)),
            Some(_) => {}
        }
        match attribute(text, at, list, limits)? {
            None => return Ok(None),
            Some(end) => at = end,
        }
    }
}

#[cold]
fn unseparated(text: &str, at: usize, list: &AttributeList) -> Box<Fault> {
    if list.len() == 0 {
        return Fault::malformed(text, at, "a tag without a valid XML name", "white space, / and >");
    }
    Fault::malformed(text, at, "attributes without white space between them", "white space, / and >")
}

/// Reads an attribute (production 41), and returns the first place after it.
#[inline]
fn attribute(text: &str, at: usize, list: &mut AttributeList, limits: &Limits) -> Result<Option<usize>> {
    let bytes = text.as_bytes();
    let name = name(text, at, limits, "an attribute without a valid XML name")?;
    let at = end_of_space(bytes, name.end);
    match bytes.get(at) {
        None => return Ok(None),
        Some(b'=') => {}
        Some(_) => return Err(Fault::malformed(text, at, "an attribute without a value", "=")),
    }
    let at = end_of_space(bytes, at + 1);
    let quote = match bytes.get(at) {
        None => return Ok(None),
        Some(&quote @ (b'"' | b'\'')) => quote,
        Some(_) => return Err(Fault::malformed(text, at, "an attribute without quotes", "\" and '")),
    };
    let Some(value) = value(text, at + 1, quote, &mut list.values, limits)? else { return Ok(None) };
    if list.len() >= limits.attributes_max {
        let reason = format!("more than {} attributes of an element", limits.attributes_max);
        return Err(Fault::limit(name.start, reason));
    }
    list.push(text, name, value.span);
    Ok(Some(value.after))
}

struct Value {
    span: ValueSpan,
    /// First place after the quote.
    after: usize,
}

/// Reads an attribute value after its opening quote (production 10).
#[inline]
fn value(text: &str, start: usize, quote: u8, values: &mut String, limits: &Limits) -> Result<Option<Value>> {
    let bytes = text.as_bytes();
    let end = end_of_plain_value(bytes, start, quote);
    if bytes.get(end) == Some(&quote) {
        let span = ValueSpan { start, end, is_normalised: false };
        return Ok(Some(Value { span, after: end + 1 }));
    }
    normalised_value(text, start, quote, values, limits)
}

/// Reads an attribute value, with its references replaced and its white space as spaces (section 3.3.3).
fn normalised_value(
    text: &str,
    start: usize,
    quote: u8,
    values: &mut String,
    limits: &Limits,
) -> Result<Option<Value>> {
    let bytes = text.as_bytes();
    let first = values.len();
    let (mut plain, mut at) = (start, start);
    loop {
        at = end_of_plain_value(bytes, at, quote);
        let Some(&byte) = bytes.get(at) else { return Ok(None) };
        let length = match byte {
            b'<' => return Err(Fault::malformed(text, at, "an attribute with a < in it", "&lt;")),
            b'&' => {
                let Some(found) = reference(text, at, limits.name_bytes_max)? else { return Ok(None) };
                values.push_str(&text[plain..at]);
                values.push(found.character);
                found.length
            }
            b'\t' | b'\n' | b'\r' => {
                values.push_str(&text[plain..at]);
                values.push(' ');
                if bytes[at..].starts_with(b"\r\n") { 2 } else { 1 }
            }
            _ if byte == quote => {
                values.push_str(&text[plain..at]);
                let span = ValueSpan { start: first, end: values.len(), is_normalised: true };
                return Ok(Some(Value { span, after: at + 1 }));
            }
            _ => {
                // The character stays in the plain part.
                at += allowed_character(text, at).ok_or_else(|| Fault::character(text, at))?;
                continue;
            }
        };
        at += length;
        plain = at;
    }
}

/// Reads the end tag at `at` (production 42).
#[inline]
pub(crate) fn end_tag(text: &str, at: usize, limits: &Limits) -> Result<Option<EndTag>> {
    let bytes = text.as_bytes();
    let name = name(text, at + 2, limits, "an end tag without a valid XML name")?;
    let at = end_of_space(bytes, name.end);
    match bytes.get(at) {
        None => Ok(None),
        Some(b'>') => Ok(Some(EndTag { name, end: at + 1 })),
        Some(_) => Err(Fault::malformed(text, at, "an end tag with more than a name", "white space and >")),
    }
}

#[inline(always)]
fn name(text: &str, at: usize, limits: &Limits, reason: &'static str) -> Result<NameSpan> {
    match scan_plain_name(text.as_bytes(), at) {
        Some(name) if name.end - name.start <= limits.name_bytes_max => Ok(name),
        _ => other_name(text, at, limits, reason),
    }
}

#[cold]
fn other_name(text: &str, at: usize, limits: &Limits, reason: &'static str) -> Result<NameSpan> {
    let too_long = || Fault::limit(at, format!("a name longer than {} bytes", limits.name_bytes_max));
    let name = scan_name(text, at).map_err(|found| {
        if found - at > limits.name_bytes_max {
            return too_long();
        }
        Fault::malformed(text, found, reason, "a name with at most one colon")
    })?;
    if name.end - name.start > limits.name_bytes_max {
        return Err(too_long());
    }
    Ok(name)
}
