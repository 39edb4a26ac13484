//! Forms as parts: multipart/form-data (RFC 7578), split at its boundary (RFC 2046 section 5.1), from a
//! complete body.
//!
//! The parser is strict where two parsers could differ. Errors are bytes after a delimiter, a repeated
//! parameter or field, and a part without a name. An end before the last boundary and a transfer encoding are
//! errors, too. Preamble and epilogue are skipped. The cost is linear in the bytes. A part borrows its
//! content.

mod extended_value;
mod stream;

use std::borrow::Cow;

use memchr::memmem::{self, Finder};

use crate::field::{is_field_name, is_field_value};
pub use stream::{FormEvent, FormPartHead, FormStream};

/// One part of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart<'a> {
    /// Name of the form field.
    pub name: Cow<'a, [u8]>,
    /// Name of the file on the client, if the part is a file. Never use it as the name of a file on this
    /// server.
    pub filename: Option<Cow<'a, [u8]>>,
    /// Content type that the client states.
    pub content_type: Option<&'a [u8]>,
    /// Content of the part.
    pub content: &'a [u8],
}

/// Reason why a form cannot be parsed. The client is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The content type has no boundary, or an invalid boundary.
    #[error("content-type has no boundary of 1 to 70 bytes")]
    Boundary,
    /// The body does not contain the boundary.
    #[error("form does not begin with its boundary")]
    Start,
    /// The line of a boundary has further bytes.
    #[error("form has bytes after a boundary on the same line, at byte {at}")]
    Delimiter {
        /// Position of the line in the body, counted from 1.
        at: usize,
    },
    /// The last boundary is missing.
    #[error("form ends before its last boundary")]
    End,
    /// The head of a part is too long.
    #[error("header of a part of the form exceeds limit: {PART_HEAD_BYTES_MAX} bytes, at byte {at}")]
    PartHead {
        /// Position of the head in the body, counted from 1.
        at: usize,
    },
    /// The head of a part is malformed.
    #[error("header of a part of the form {problem}, at byte {at}")]
    Part {
        /// Position of the head in the body, counted from 1.
        at: usize,
        /// Fault of the head of the part.
        problem: &'static str,
    },
}

/// Maximum size of the head of a part, in bytes.
const PART_HEAD_BYTES_MAX: usize = 8 << 10;
/// Maximum length of a boundary, in bytes (RFC 2046 section 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;
/// Encodings that leave the content unchanged. Such encodings are allowed, but superfluous (RFC 7578 section
/// 4.7).
const IDENTITY_ENCODINGS: [&[u8]; 3] = [b"7bit", b"8bit", b"binary"];

/// Parser that returns a form part by part.
#[derive(Debug)]
pub struct FormParts<'a> {
    body: &'a [u8],
    /// Offset in the body after the delimiter of the next part, in bytes. `None` after the end of the form.
    at: Option<usize>,
    delimiter: Finder<'static>,
}

impl<'a> FormParts<'a> {
    /// Creates a parser for `body`. The parameter `boundary` of `content_type` is used.
    ///
    /// # Errors
    /// `Boundary` or `Start`.
    pub fn new(content_type: &[u8], body: &'a [u8]) -> Result<Self, FormError> {
        let boundary = boundary(content_type).ok_or(FormError::Boundary)?;
        let delimiter = [b"\r\n--", &boundary[..]].concat();
        let opens = body.starts_with(&delimiter[2..]);
        let delimiter = Finder::new(&delimiter).into_owned();
        let length = delimiter.needle().len();
        let at = if opens { length - 2 } else { delimiter.find(body).ok_or(FormError::Start)? + length };
        Ok(Self { body, at: Some(at), delimiter })
    }

    fn part(&mut self, at: usize) -> Result<Option<FormPart<'a>>, FormError> {
        let line = &self.body[at..];
        if let [b'-', b'-', behind @ ..] = line {
            let is_end = matches!(behind, [] | [b' ' | b'\t' | b'\r' | b'\n', ..]);
            return if is_end { Ok(None) } else { Err(FormError::Delimiter { at: at + 1 }) };
        }
        let blanks = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if !line[blanks..].starts_with(b"\r\n") {
            let is_cut = matches!(line[blanks..], [] | [b'-' | b'\r']);
            return Err(if is_cut { FormError::End } else { FormError::Delimiter { at: at + 1 } });
        }
        let start = at + blanks;
        let (head, found) = self.head(start)?;
        // The line end before a delimiter belongs to the delimiter. A part without content may therefore have
        // only one line end between its head and the delimiter.
        let content = found + 2;
        let end = content + self.delimiter.find(&self.body[content..]).ok_or(FormError::End)?;
        self.at = Some(end + self.delimiter.needle().len());
        let content = self.body.get(content + 2..end).unwrap_or_default();
        let part = part(head, content).map_err(|problem| FormError::Part { at: start + 3, problem })?;
        Ok(Some(part))
    }

    /// Returns the field lines of a part, and the offset of the empty line after them.
    ///
    /// The head begins after the line end at `start`.
    fn head(&self, start: usize) -> Result<(&'a [u8], usize), FormError> {
        let rest = &self.body[start..];
        let within = &rest[..rest.len().min(PART_HEAD_BYTES_MAX + 6)];
        match memmem::find(within, b"\r\n\r\n") {
            Some(end) => Ok((within.get(2..end).unwrap_or_default(), start + end)),
            None if within.len() == rest.len() => Err(FormError::End),
            None => Err(FormError::PartHead { at: start + 3 }),
        }
    }
}

impl<'a> Iterator for FormParts<'a> {
    type Item = Result<FormPart<'a>, FormError>;

    /// Returns the next part. After an error there is no next part.
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.take()?;
        self.part(at).transpose()
    }
}

fn part<'a>(head: &'a [u8], content: &'a [u8]) -> Result<FormPart<'a>, &'static str> {
    let (mut disposition, mut content_type) = (None, None);
    for line in lines(head) {
        let (name, value) = field(line)?;
        if name.eq_ignore_ascii_case(b"content-disposition") {
            put(&mut disposition, value)?;
        } else if name.eq_ignore_ascii_case(b"content-type") {
            put(&mut content_type, value)?;
        } else if name.eq_ignore_ascii_case(b"content-transfer-encoding")
            && !IDENTITY_ENCODINGS.iter().any(|known| value.eq_ignore_ascii_case(known))
        {
            return Err("has a content-transfer-encoding other than 7bit, 8bit, binary");
        }
    }
    let (kind, rest) = first_word(disposition.ok_or("has no content-disposition")?);
    if !kind.eq_ignore_ascii_case(b"form-data") {
        return Err("has a content-disposition other than form-data");
    }
    let (mut name, mut filename, mut extended_filename) = (None, None, None);
    for parameter in (Parameters { rest }) {
        let (key, value) = parameter?;
        if key.eq_ignore_ascii_case(b"name") {
            put(&mut name, value)?;
        } else if key.eq_ignore_ascii_case(b"filename") {
            put(&mut filename, value)?;
        } else if key.eq_ignore_ascii_case(b"filename*") {
            put(&mut extended_filename, value)?;
        }
    }
    // RFC 7578 section 4.2 forbids `filename*`, but some clients send it alone for names that are not ASCII.
    let filename = filename.or_else(|| extended_filename.map(extended_value::decoded));
    Ok(FormPart { name: name.ok_or("has no name parameter")?, filename, content_type, content })
}

fn put<T>(slot: &mut Option<T>, value: T) -> Result<(), &'static str> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err("repeats a field or parameter"),
    }
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(head).filter(|head| !head.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memmem::find(text, b"\r\n");
        rest = end.map(|end| &text[end + 2..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// Parses a field line. A folded line begins with a blank. No field name has a blank, so such a line is
/// refused.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let colon = line.iter().position(|&byte| byte == b':').ok_or("has a line without a colon")?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if is_field_name(name) && is_field_value(value) { Ok((name, value)) } else { Err("has a malformed line") }
}

/// Returns the boundary of a multipart content type.
fn boundary(content_type: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut found = None;
    for parameter in (Parameters { rest: first_word(content_type).1 }) {
        let (name, value) = parameter.ok()?;
        if name.eq_ignore_ascii_case(b"boundary") {
            put(&mut found, value).ok()?;
        }
    }
    let is_possible = |boundary: &Cow<'_, [u8]>| {
        (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
            && boundary.iter().all(|byte| matches!(byte, b' '..=b'~'))
            && !boundary.ends_with(b" ")
    };
    found.filter(is_possible)
}

/// Returns the text before the parameters of a value, and the parameters.
fn first_word(value: &[u8]) -> (&[u8], &[u8]) {
    let end = value.iter().position(|&byte| byte == b';').unwrap_or(value.len());
    (value[..end].trim_ascii(), &value[end..])
}

/// Parameters after a value. A semicolon precedes each parameter (RFC 9110 section 5.6.6).
struct Parameters<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<(&'a [u8], Cow<'a, [u8]>), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.rest.trim_ascii();
        while let [b';', after @ ..] = rest {
            rest = after.trim_ascii_start();
        }
        if rest.is_empty() {
            self.rest = rest;
            return None;
        }
        let parameter = parameter(rest).filter(|(.., behind)| matches!(behind, [] | [b';', ..]));
        self.rest = parameter.as_ref().map_or(&[], |(.., behind)| behind);
        Some(parameter.map(|(name, value, _)| (name, value)).ok_or("has a malformed parameter"))
    }
}

type Parameter<'a> = (&'a [u8], Cow<'a, [u8]>, &'a [u8]);

/// Returns the first parameter of `text`, and the text after it.
fn parameter(text: &[u8]) -> Option<Parameter<'_>> {
    let equals = text.iter().position(|&byte| byte == b'=')?;
    let (name, value) = (&text[..equals], &text[equals + 1..]);
    if !is_field_name(name) {
        return None;
    }
    let (value, behind) = if let [b'"', quoted @ ..] = value { unquoted(quoted)? } else { word(value)? };
    Some((name, value, behind.trim_ascii_start()))
}

fn word(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let end = text.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t')).unwrap_or(text.len());
    is_field_name(&text[..end]).then(|| (text[..end].into(), &text[end..]))
}

/// Parses a quoted string. A backslash escapes only a quote or a backslash.
///
/// Before any other byte the backslash is literal, because old browsers send Windows paths as file names.
fn unquoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let plain = memchr::memchr2(b'"', b'\\', text)?;
    if text[plain] == b'"' {
        return Some((text[..plain].into(), &text[plain + 1..]));
    }
    let (mut value, mut rest) = (Vec::new(), text);
    loop {
        match rest {
            [b'"', behind @ ..] => return Some((value.into(), behind)),
            [b'\\', byte @ (b'"' | b'\\'), behind @ ..] | [byte, behind @ ..] => {
                value.push(*byte);
                rest = behind;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests;
