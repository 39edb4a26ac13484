//! Forms as parts: multipart/form-data (RFC 7578), cut at its boundary (RFC 2046 section 5.1), from bytes
//! that are all there.
//!
//! Read strictly where two readers could differ: a delimiter with something behind it, a parameter or field
//! that is there twice, a part without a name, or an end before the last boundary is an error, and so is a
//! transfer encoding. Preamble and epilogue are left out. Work is linear in the bytes; a part borrows its
//! content.

mod stream;

use std::borrow::Cow;

use memchr::memmem::{self, Finder};

use crate::field::{is_field_name, is_field_value};
pub use stream::{FormEvent, FormPartHead, FormStream};

/// One part of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart<'a> {
    /// The name of its field.
    pub name: Cow<'a, [u8]>,
    /// What the client calls its file, if it is one: never the name of a file here.
    pub filename: Option<Cow<'a, [u8]>>,
    /// What the client says that the content is.
    pub content_type: Option<&'a [u8]>,
    /// Its bytes.
    pub content: &'a [u8],
}

/// Why a form cannot be read. The client's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The content type names no boundary, or one that cannot be.
    #[error("content-type has no boundary of 1 to 70 bytes")]
    Boundary,
    /// The boundary is nowhere.
    #[error("form does not begin with its boundary")]
    Start,
    /// A boundary is followed by something.
    #[error("form has a boundary with something behind it at byte {at}")]
    Delimiter {
        /// Where the line begins, from 1.
        at: usize,
    },
    /// The last boundary is missing.
    #[error("form ends before its last boundary")]
    End,
    /// The head of a part is too long.
    #[error("header of a part of the form exceeds limit: {PART_HEAD_BYTES_MAX} bytes, at byte {at}")]
    PartHead {
        /// Where it begins, from 1.
        at: usize,
    },
    /// The head of a part is malformed.
    #[error("header of a part of the form {problem}, at byte {at}")]
    Part {
        /// Where it begins, from 1.
        at: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Bytes of the head of a part.
const PART_HEAD_BYTES_MAX: usize = 8 << 10;
/// RFC 2046 section 5.1.1.
const BOUNDARY_BYTES_MAX: usize = 70;
/// What a part without a word of it has (RFC 7578 section 4.7).
const IDENTITY_ENCODINGS: [&[u8]; 3] = [b"7bit", b"8bit", b"binary"];

/// A form that is read part by part.
#[derive(Debug)]
pub struct FormParts<'a> {
    body: &'a [u8],
    /// Where the next delimiter's line end begins; none once the form is over.
    at: Option<usize>,
    delimiter: Finder<'static>,
}

impl<'a> FormParts<'a> {
    /// Begins to read `body`, whose parts the content type sets apart.
    ///
    /// # Errors
    /// `Boundary`, `Start`.
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
        // The line end before a delimiter is the delimiter's, so a part without content may have but one.
        let content = found + 2;
        let end = content + self.delimiter.find(&self.body[content..]).ok_or(FormError::End)?;
        self.at = Some(end + self.delimiter.needle().len());
        let content = self.body.get(content + 2..end).unwrap_or_default();
        let part = part(head, content).map_err(|problem| FormError::Part { at: start + 3, problem })?;
        Ok(Some(part))
    }

    /// The field lines of the part whose head begins behind the line end at `start`, and where the empty line
    /// begins.
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

    /// After an error there is no next part.
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
            return Err("has a transfer encoding");
        }
    }
    let (kind, rest) = first_word(disposition.ok_or("has no content-disposition")?);
    if !kind.eq_ignore_ascii_case(b"form-data") {
        return Err("has a content-disposition other than form-data");
    }
    let (mut name, mut filename) = (None, None);
    for parameter in (Parameters { rest }) {
        let (key, value) = parameter?;
        if key.eq_ignore_ascii_case(b"name") {
            put(&mut name, value)?;
        } else if key.eq_ignore_ascii_case(b"filename") {
            put(&mut filename, value)?;
        }
    }
    Ok(FormPart { name: name.ok_or("has no name")?, filename, content_type, content })
}

fn put<T>(slot: &mut Option<T>, value: T) -> Result<(), &'static str> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err("says something twice"),
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

/// A folded line begins with a blank, which is no name.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let colon = line.iter().position(|&byte| byte == b':').ok_or("has a line without a colon")?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if is_field_name(name) && is_field_value(value) { Ok((name, value)) } else { Err("has a malformed line") }
}

/// The boundary of a multipart content type.
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

/// What stands before the parameters of a value, and these.
fn first_word(value: &[u8]) -> (&[u8], &[u8]) {
    let end = value.iter().position(|&byte| byte == b';').unwrap_or(value.len());
    (value[..end].trim_ascii(), &value[end..])
}

/// Parameters behind a value, each with its semicolon in front (RFC 9110 section 5.6.6).
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

/// The first parameter of `text`, and what stands behind it.
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

/// A backslash escapes a quote or another one. Before anything else it is itself: old browsers send paths of
/// Windows.
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
