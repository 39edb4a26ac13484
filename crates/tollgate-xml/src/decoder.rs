//! The encodings of a document: UTF-8, UTF-16 with a byte order mark, and ISO-8859-1.
//!
//! A character may be cut by the end of a piece. The decoder keeps its first bytes.

use crate::error::XmlErrorKind::Encoding;
use crate::error::{AtFault, Fault, Result};
use crate::markup::{LATIN1, begins_declaration, declaration};
use crate::position::Width;

/// First bytes that decide the encoding.
const MARKS: [&[u8]; 6] =
    [&[0xef, 0xbb, 0xbf], &[0xff, 0xfe, 0, 0], &[0, 0, 0xfe, 0xff], &[0xfe, 0xff], b"<\0", b"\0<"];

/// What the first bytes say about the encoding.
pub(crate) enum Detected {
    /// More bytes are needed.
    Undecided,
    Known {
        decoder: Decoder,
        /// Length of the byte order mark.
        mark_bytes: usize,
    },
}

/// Decides the encoding by the first bytes of a document. `is_whole` says that no more bytes come.
///
/// # Errors
/// The encoding is not supported.
pub(crate) fn detect(bytes: &[u8], is_whole: bool) -> Result<Detected> {
    let known = |decoder: Decoder, mark_bytes: usize| Ok(Detected::Known { decoder, mark_bytes });
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => return known(Decoder::new(Width::Utf8), 3),
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => return Err(unsupported("UTF-32")),
        _ if !is_whole && MARKS.iter().any(|mark| mark.len() > bytes.len() && mark.starts_with(bytes)) => {
            return Ok(Detected::Undecided);
        }
        [0xff, 0xfe, ..] => return known(Decoder::utf16(u16::from_le_bytes), 2),
        [0xfe, 0xff, ..] => return known(Decoder::utf16(u16::from_be_bytes), 2),
        [b'<', 0, ..] | [0, b'<', ..] => return Err(unsupported("UTF-16 without a byte order mark")),
        _ => {}
    }
    match begins_declaration(bytes) {
        Some(true) => {
            let end = bytes.windows(2).position(|pair| pair == b"?>");
            if end.is_none() && bytes.len() < DECLARATION_BYTES_MAX && !is_whole {
                return Ok(Detected::Undecided);
            }
            let is_latin1 = end.is_some_and(|end| names_latin1(&bytes[..end + 2]));
            known(Decoder::new(if is_latin1 { Width::Latin1 } else { Width::Utf8 }), 0)
        }
        None if !is_whole => Ok(Detected::Undecided),
        _ => known(Decoder::new(Width::Utf8), 0),
    }
}

/// Returns whether an XML declaration names ISO-8859-1. A fault in it is found again by the reader.
fn names_latin1(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).ok();
    let encoding = text.and_then(|text| declaration(text).ok().flatten()).and_then(|found| found.encoding);
    encoding.is_some_and(|name| name.eq_ignore_ascii_case(LATIN1))
}

fn unsupported(name: &str) -> Box<Fault> {
    let reason = format!("a text in {name}");
    Fault::new(Encoding, 0, reason, AtFault::InReason, ALLOWED)
}

/// Decodes the pieces of a document.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    width: Width,
    unit: fn([u8; 2]) -> u16,
    /// The first bytes of a character that the last piece cut.
    pending: Vec<u8>,
}

impl Decoder {
    fn new(width: Width) -> Self {
        Self { width, unit: u16::from_be_bytes, pending: Vec::new() }
    }

    fn utf16(unit: fn([u8; 2]) -> u16) -> Self {
        Self { width: Width::Utf16, unit, pending: Vec::new() }
    }

    pub(crate) fn width(&self) -> Width {
        self.width
    }

    /// Decodes the longest part of `bytes` that one call can decode, and returns it with its length. The
    /// buffer holds text that had to be converted.
    ///
    /// # Errors
    /// The bytes are not in the encoding.
    pub(crate) fn decode<'a>(&mut self, bytes: &'a [u8], buffer: &'a mut String) -> Result<(&'a str, usize)> {
        match self.width {
            Width::Utf8 if !self.pending.is_empty() => self.decode_cut_character(bytes, buffer),
            Width::Utf8 => self.decode_utf8(bytes),
            Width::Utf16 => self.decode_utf16(bytes, buffer),
            Width::Latin1 => {
                buffer.clear();
                buffer.extend(bytes.iter().map(|&byte| char::from(byte)));
                Ok((buffer, bytes.len()))
            }
        }
    }

    fn decode_utf8<'a>(&mut self, bytes: &'a [u8]) -> Result<(&'a str, usize)> {
        let error = match std::str::from_utf8(bytes) {
            Ok(text) => return Ok((text, bytes.len())),
            Err(error) => error,
        };
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        match std::str::from_utf8(valid) {
            Ok(text) if !text.is_empty() => Ok((text, valid.len())),
            _ if error.error_len().is_some() => Err(not_encoded("UTF-8")),
            _ => {
                self.pending.extend_from_slice(rest);
                Ok(("", bytes.len()))
            }
        }
    }

    fn decode_cut_character<'a>(&mut self, bytes: &[u8], buffer: &'a mut String) -> Result<(&'a str, usize)> {
        for (index, &byte) in bytes.iter().enumerate() {
            self.pending.push(byte);
            match std::str::from_utf8(&self.pending) {
                Ok(text) => {
                    text.clone_into(buffer);
                    self.pending.clear();
                    return Ok((buffer, index + 1));
                }
                Err(error) if error.error_len().is_some() => return Err(not_encoded("UTF-8")),
                Err(_) => {}
            }
        }
        Ok(("", bytes.len()))
    }

    fn decode_utf16<'a>(&mut self, bytes: &[u8], buffer: &'a mut String) -> Result<(&'a str, usize)> {
        buffer.clear();
        let mut taken = 0;
        for &byte in bytes {
            taken += 1;
            self.pending.push(byte);
            match *self.pending.as_slice() {
                [first, second] => match char::from_u32(u32::from((self.unit)([first, second]))) {
                    Some(character) => buffer.push(character),
                    None if is_high_surrogate((self.unit)([first, second])) => continue,
                    None => return self.before_bad_unit(buffer, taken, 2),
                },
                [a, b, c, d] => {
                    let units = [(self.unit)([a, b]), (self.unit)([c, d])];
                    match char::decode_utf16(units).next() {
                        Some(Ok(character)) => buffer.push(character),
                        _ => return self.before_bad_unit(buffer, taken, 4),
                    }
                }
                _ => continue,
            }
            self.pending.clear();
        }
        Ok((buffer, taken))
    }

    /// Returns the text before a unit that is no character. The next call meets that unit first, and fails.
    fn before_bad_unit<'a>(
        &mut self,
        buffer: &'a str,
        taken: usize,
        unit_bytes: usize,
    ) -> Result<(&'a str, usize)> {
        if buffer.is_empty() {
            return Err(not_encoded("UTF-16"));
        }
        self.pending.clear();
        Ok((buffer, taken - unit_bytes))
    }

    /// Checks that no character is cut by the end of the document.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.width {
            _ if self.pending.is_empty() => Ok(()),
            Width::Utf16 => Err(not_encoded("UTF-16")),
            _ => Err(not_encoded("UTF-8")),
        }
    }
}

fn is_high_surrogate(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn not_encoded(name: &str) -> Box<Fault> {
    Fault::new(Encoding, 0, format!("text is not {name}"), AtFault::InReason, "")
}

/// Greatest length of an XML declaration that names ISO-8859-1.
const DECLARATION_BYTES_MAX: usize = 1024;
const ALLOWED: &str = "UTF-8, UTF-16 with a byte order mark, and ISO-8859-1";
