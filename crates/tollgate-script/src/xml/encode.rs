//! Encodes Luau values as XML text.

use tollgate_xml::{Place, escape, is_name};

use crate::budget::Budget;
use crate::conversion::{DEPTH_MAX, EncodeError};
use crate::error::shown;
use crate::sys::raw::{RawTable, RawValue};

/// Returns an element as a document, with an XML declaration before it.
pub(crate) fn document(value: RawValue<'_>, bytes_max: usize, budget: &Budget) -> Result<Vec<u8>> {
    written(value, DECLARATION.to_vec(), bytes_max, budget)
}

/// Returns an element.
pub(crate) fn element(value: RawValue<'_>, bytes_max: usize, budget: &Budget) -> Result<Vec<u8>> {
    written(value, Vec::new(), bytes_max, budget)
}

/// Returns the name and the start tag of an element without children, with an XML declaration before it if
/// `has_declaration`.
pub(crate) fn begun(
    value: RawValue<'_>,
    has_declaration: bool,
    bytes_max: usize,
    budget: &Budget,
) -> Result<(String, Vec<u8>)> {
    let out = if has_declaration { DECLARATION.to_vec() } else { Vec::new() };
    let (table, mut encoder) = begin(value, out, bytes_max, budget)?;
    let head = Head::read(table, bytes_max)?;
    let Some(tag) = head.tag.clone() else { return Err(no_tag()) };
    encoder.start_tag(&tag, &head.attributes);
    encoder.out.push(b'>');
    check_size(encoder.out.len(), bytes_max)?;
    Ok((tag, encoder.out))
}

/// Returns a text escaped for content and for attribute values in quotes.
pub(crate) fn escaped(text: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    escape_within(&mut out, text, Place::Value, bytes_max)?;
    Ok(out)
}

type Result<T> = std::result::Result<T, EncodeError>;

fn written(value: RawValue<'_>, out: Vec<u8>, bytes_max: usize, budget: &Budget) -> Result<Vec<u8>> {
    let (table, mut encoder) = begin(value, out, bytes_max, budget)?;
    match Head::read(table, encoder.bytes_max)? {
        Head { tag: None, .. } => Err(no_tag()),
        head => encoder.node(table, &head).map(|()| encoder.out),
    }
}

/// Returns the table of an element, and the encoder for it.
fn begin<'v, 'b>(
    value: RawValue<'v>,
    out: Vec<u8>,
    bytes_max: usize,
    budget: &'b Budget,
) -> Result<(RawTable<'v>, Encoder<'b>)> {
    let RawValue::Table(table) = value else {
        return Err(EncodeError::new(format!(
            "a {} is not an element: allowed is a table with a tag",
            value.kind()
        )));
    };
    Ok((table, Encoder { out, bytes_max, budget, depth: 0 }))
}

fn no_tag() -> EncodeError {
    EncodeError::new("has no tag: allowed is an element, a table with a tag")
}

struct Encoder<'a> {
    out: Vec<u8>,
    bytes_max: usize,
    budget: &'a Budget,
    depth: usize,
}

/// The tag and the attributes of a table.
#[derive(Default)]
struct Head {
    /// `None` for a list.
    tag: Option<String>,
    /// Attributes in the order of their names, with escaped values.
    attributes: Vec<(String, Vec<u8>)>,
}

impl Encoder<'_> {
    /// Writes an element, or the items of a list.
    fn node(&mut self, table: RawTable<'_>, head: &Head) -> Result<()> {
        if self.depth == DEPTH_MAX {
            let text = format!("elements are nested deeper than {DEPTH_MAX}, or contain themselves");
            return Err(EncodeError::new(text));
        }
        if self.budget.is_exhausted() {
            return Err(EncodeError::new("cpu budget of the call is used up"));
        }
        self.depth += 1;
        let count = table.len();
        if let Some(tag) = &head.tag {
            self.start_tag(tag, &head.attributes);
            self.out.extend_from_slice(if count == 0 { b"/>" } else { b">" });
        }
        for index in 1..=count {
            let written = table.with_index(index, |child| self.child(child));
            written.map_err(|fault| fault.below(&format!("[{index}]")))?;
        }
        if let Some(tag) = head.tag.as_ref().filter(|_| count > 0) {
            write_all(&mut self.out, &["</", tag, ">"]);
        }
        self.depth -= 1;
        check_size(self.out.len(), self.bytes_max)
    }

    /// Writes a start tag without its end.
    fn start_tag(&mut self, tag: &str, attributes: &[(String, Vec<u8>)]) {
        write_all(&mut self.out, &["<", tag]);
        for (name, value) in attributes {
            write_all(&mut self.out, &[" ", name, "=\""]);
            self.out.extend_from_slice(value);
            self.out.push(b'"');
        }
    }

    fn child(&mut self, child: RawValue<'_>) -> Result<()> {
        match child {
            RawValue::Table(table) => self.node(table, &Head::read(table, self.bytes_max)?),
            other => text(&mut self.out, &other, Place::Content, self.bytes_max),
        }
    }
}

impl Head {
    fn read(table: RawTable<'_>, bytes_max: usize) -> Result<Self> {
        let (mut head, length, mut count) = (Self::default(), table.len(), 0);
        table.each(|key, value| {
            match key {
                RawValue::Text(b"tag") => {
                    let name = name_of(&value).map_err(|fault| fault.below(".tag"))?;
                    head.tag = Some(name);
                }
                RawValue::Text(b"attr") => {
                    let read = attributes(&value, bytes_max);
                    head.attributes = read.map_err(|fault| fault.below(".attr"))?;
                }
                RawValue::Integer(index)
                    if usize::try_from(index).is_ok_and(|at| (1..=length).contains(&at)) =>
                {
                    count += 1;
                }
                RawValue::Integer(index) => {
                    return Err(EncodeError::new(format!("{length} children with a hole before {index}")));
                }
                RawValue::Text(name) => {
                    let name = shown(name);
                    return Err(EncodeError::new(format!(
                        "an element has an unknown field \"{name}\": allowed are tag, attr, and children from 1 on"
                    )));
                }
                other => {
                    let kind = other.kind();
                    return Err(EncodeError::new(format!("an element has a key of type {kind}")));
                }
            }
            Ok(())
        })?;
        if count != length {
            return Err(EncodeError::new(format!(
                "{length} children with {} holes",
                length.saturating_sub(count)
            )));
        }
        if head.tag.is_none() && !head.attributes.is_empty() {
            return Err(EncodeError::new("attributes without a tag"));
        }
        Ok(head)
    }
}

fn attributes(value: &RawValue<'_>, bytes_max: usize) -> Result<Vec<(String, Vec<u8>)>> {
    let RawValue::Table(table) = value else {
        return Err(EncodeError::new(format!("a {}: allowed is a table of values by names", value.kind())));
    };
    let (mut attributes, mut bytes) = (Vec::new(), 0);
    table.each(|key, value| {
        let name = name_of(&key)?;
        let mut written = Vec::new();
        text(&mut written, &value, Place::Value, bytes_max)
            .map_err(|fault| fault.below(&format!(".{name}")))?;
        bytes += name.len() + written.len();
        check_size(bytes, bytes_max)?;
        attributes.push((name, written));
        Ok(())
    })?;
    attributes.sort_unstable();
    Ok(attributes)
}

fn name_of(value: &RawValue<'_>) -> Result<String> {
    let RawValue::Text(bytes) = value else {
        return Err(EncodeError::new(format!("a {} is not an XML name", value.kind())));
    };
    match std::str::from_utf8(bytes) {
        Ok(name) if is_name(name) => Ok(name.to_owned()),
        _ => Err(EncodeError::new(format!("\"{}\" is not an XML name", shown(bytes)))),
    }
}

/// Writes a value that is not an element.
pub(super) fn text(out: &mut Vec<u8>, value: &RawValue<'_>, place: Place, bytes_max: usize) -> Result<()> {
    match *value {
        RawValue::Text(bytes) | RawValue::Buffer(bytes) => {
            escape_within(out, bytes, place, bytes_max)?;
        }
        RawValue::Integer(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        RawValue::Number(0.0) => out.push(b'0'),
        RawValue::Number(number) if number.is_finite() => {
            serde_json::to_writer(out, &number).map_err(|error| EncodeError::new(error.to_string()))?;
        }
        RawValue::Number(number) => {
            return Err(EncodeError::new(format!("{number} cannot be encoded as XML")));
        }
        RawValue::Boolean(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
        other => return Err(EncodeError::new(format!("a {} cannot be encoded as XML", other.kind()))),
    }
    Ok(())
}

/// Writes a text so that decoding returns the same text. U+FFFD replaces bytes that are not UTF-8.
fn escape_within(out: &mut Vec<u8>, bytes: &[u8], place: Place, bytes_max: usize) -> Result<()> {
    check_size(out.len() + bytes.len(), bytes_max)?;
    let text = String::from_utf8_lossy(bytes);
    match escape(&text, place, out) {
        Ok(()) => check_size(out.len(), bytes_max),
        Err(at) => {
            let code = text[at..].chars().next().map_or(0, u32::from);
            let place = format!("text has U+{code:04X} at byte {}", at + 1);
            Err(EncodeError::new(format!("{place}, a character that XML does not allow")))
        }
    }
}

pub(super) fn check_size(bytes: usize, bytes_max: usize) -> Result<()> {
    if bytes > bytes_max {
        return Err(EncodeError::new(format!("XML exceeds limit: {bytes_max} bytes")));
    }
    Ok(())
}

fn write_all(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

const DECLARATION: &[u8] = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
