//! The XML declaration, the document type declaration, and the beginnings of comments, CDATA sections and
//! processing instructions.
//!
//! As in [`crate::tag`], `None` means that the text ends too early.

use crate::characters::{end_of_ncname, end_of_space, is_space, refused_character};
use crate::error::XmlErrorKind::{self, Malformed};
use crate::error::{AtFault, Fault, Result};
use crate::limits::{Doctype, Limits};
use crate::position::Width;

/// The markup that a `<!` begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Comment,
    CData,
    Doctype,
}

/// Decides what the `<!` at `at` begins.
pub(crate) fn section(text: &str, at: usize) -> Result<Option<Section>> {
    let rest = &text[at..];
    for (section, begin) in SECTIONS {
        if rest.starts_with(begin) {
            return Ok(Some(section));
        }
        if begin.starts_with(rest) {
            return Ok(None);
        }
    }
    let common = SECTIONS.iter().map(|(_, begin)| common_bytes(begin, rest)).max().unwrap_or(0);
    Err(Fault::malformed(text, at + common, "markup that XML does not know", "<!-- and <![CDATA["))
}

fn common_bytes(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

impl Section {
    /// Number of bytes of the beginning.
    pub(crate) fn begin_bytes(self) -> usize {
        SECTIONS.iter().find(|(section, _)| *section == self).map_or(0, |(_, begin)| begin.len())
    }
}

const SECTIONS: [(Section, &str); 3] =
    [(Section::Comment, "<!--"), (Section::CData, "<![CDATA["), (Section::Doctype, "<!DOCTYPE")];

/// Checks the beginning of the processing instruction at `at` (production 16), and returns the first place
/// after its target.
pub(crate) fn instruction(text: &str, at: usize, limits: &Limits) -> Result<Option<usize>> {
    let bytes = text.as_bytes();
    let reason = "a processing instruction without a valid name";
    let start = at + 2;
    let end = end_of_ncname(text, start)
        .map_err(|found| Fault::malformed(text, found, reason, "a name without a colon"))?;
    if end - start > limits.name_bytes_max {
        return Err(Fault::limit(start, format!("a name longer than {} bytes", limits.name_bytes_max)));
    }
    let Some(&next) = bytes.get(end) else { return Ok(None) };
    let ends = match (next, bytes.get(end + 1)) {
        (b'?', None) => return Ok(None),
        (b'?', Some(b'>')) => true,
        (b'?', Some(_)) => return Err(Fault::malformed(text, end + 1, reason, ">")),
        _ => false,
    };
    if !ends && !is_space(next) {
        return Err(Fault::malformed(text, end, reason, "white space and ?>"));
    }
    if text[start..end].eq_ignore_ascii_case("xml") {
        let reason = "an XML declaration after the start of the document";
        return Err(Fault::new(Malformed, at, reason, AtFault::InReason, ""));
    }
    Ok(Some(end))
}

/// An XML declaration.
#[derive(Debug, Default)]
pub(crate) struct XmlDeclaration {
    pub(crate) encoding: Option<String>,
    /// First place after the declaration.
    pub(crate) end: usize,
    /// Place of the name of the encoding.
    encoding_at: usize,
}

impl XmlDeclaration {
    /// Checks that the document is in the encoding that it names.
    pub(crate) fn check_encoding(&self, width: Width) -> Result<()> {
        let allowed = match width {
            Width::Utf8 => "utf-8",
            Width::Utf16 => "utf-16",
            Width::Latin1 => LATIN1,
        };
        match &self.encoding {
            Some(name) if !name.eq_ignore_ascii_case(allowed) => {
                let reason = format!("an XML declaration with encoding \"{name}\"");
                let allowed = format!("\"{allowed}\"");
                Err(Fault::new(XmlErrorKind::Encoding, self.encoding_at, reason, AtFault::InReason, allowed))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) const LATIN1: &str = "iso-8859-1";

/// Returns whether the text at the start of the document is an XML declaration. `None` if too little is
/// there.
pub(crate) fn begins_declaration(text: &[u8]) -> Option<bool> {
    let begin = b"<?xml";
    match text.get(begin.len()) {
        Some(&next) => Some(text.starts_with(begin) && (is_space(next) || next == b'?')),
        None if begin.starts_with(text) => None,
        None => Some(false),
    }
}

/// Reads the XML declaration at the start of the text (production 23).
pub(crate) fn declaration(text: &str) -> Result<Option<XmlDeclaration>> {
    let bytes = text.as_bytes();
    let mut declaration = XmlDeclaration::default();
    let mut at = "<?xml".len();
    let mut names = ["version", "encoding", "standalone"].iter().peekable();
    loop {
        let spaceless = at;
        at = end_of_space(bytes, at);
        match bytes.get(at) {
            None => return Ok(None),
            Some(b'?') if names.peek() != Some(&&"version") => break,
            Some(_) if at == spaceless => {
                return Err(Fault::malformed(text, at, DECLARATION, "white space and ?>"));
            }
            Some(_) => {}
        }
        let Some(name) = names.find(|name| text[at..].starts_with(**name) || name.starts_with(&text[at..]))
        else {
            return Err(Fault::malformed(text, at, DECLARATION, "version, then encoding, then standalone"));
        };
        if text.len() - at < name.len() {
            return Ok(None);
        }
        if *name != "version" && declaration.end == 0 {
            return Err(Fault::malformed(text, at, "an XML declaration without version", "version"));
        }
        let Some(value) = pseudo_value(text, at + name.len())? else { return Ok(None) };
        let (start, end) = value;
        check_pseudo_value(name, &text[start..end], start)?;
        if *name == "encoding" {
            declaration.encoding = Some(text[start..end].to_owned());
            declaration.encoding_at = start;
        }
        at = end + 1;
        declaration.end = at;
    }
    match bytes.get(at + 1) {
        None => Ok(None),
        Some(b'>') => Ok(Some(XmlDeclaration { end: at + 2, ..declaration })),
        Some(_) => Err(Fault::malformed(text, at + 1, DECLARATION, ">")),
    }
}

const DECLARATION: &str = "an invalid XML declaration";

/// Reads `="value"` of an XML declaration, and returns start and end of the value.
fn pseudo_value(text: &str, at: usize) -> Result<Option<(usize, usize)>> {
    let bytes = text.as_bytes();
    let at = end_of_space(bytes, at);
    match bytes.get(at) {
        None => return Ok(None),
        Some(b'=') => {}
        Some(_) => return Err(Fault::malformed(text, at, DECLARATION, "=")),
    }
    let at = end_of_space(bytes, at + 1);
    let quote = match bytes.get(at) {
        None => return Ok(None),
        Some(&quote @ (b'"' | b'\'')) => quote,
        Some(_) => return Err(Fault::malformed(text, at, DECLARATION, "\" and '")),
    };
    let start = at + 1;
    let is_value = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let end = start + bytes[start..].iter().position(|&byte| !is_value(byte)).unwrap_or(bytes.len() - start);
    match bytes.get(end) {
        None => Ok(None),
        Some(&found) if found == quote => Ok(Some((start, end))),
        Some(_) => Err(Fault::malformed(text, end, DECLARATION, "the quote of the value")),
    }
}

fn check_pseudo_value(name: &str, value: &str, at: usize) -> Result<()> {
    let (is_allowed, allowed) = match name {
        "version" => (value == "1.0", "\"1.0\""),
        "standalone" => (matches!(value, "yes" | "no"), "\"yes\" and \"no\""),
        _ => (value.starts_with(|first: char| first.is_ascii_alphabetic()), "a name"),
    };
    if is_allowed {
        return Ok(());
    }
    let reason = format!("an XML declaration with {name} \"{value}\"");
    Err(Fault::new(Malformed, at, reason, AtFault::InReason, allowed))
}

/// Checks the document type declaration at `at` (production 28), and returns the first place after it.
pub(crate) fn doctype(text: &str, at: usize, limits: &Limits) -> Result<Option<usize>> {
    let refused = |reason: &'static str| Fault::new(XmlErrorKind::Doctype, at, reason, AtFault::InReason, "");
    if limits.doctype == Doctype::Refuse {
        return Err(refused("a DOCTYPE, which is not supported,"));
    }
    let bytes = text.as_bytes();
    let Some(at) = spaces(text, at + Section::Doctype.begin_bytes())? else { return Ok(None) };
    let name = crate::characters::scan_name(text, at)
        .map_err(|found| Fault::malformed(text, found, DOCTYPE, "the name of the root element"))?;
    if name.end - name.start > limits.name_bytes_max {
        return Err(Fault::limit(at, format!("a name longer than {} bytes", limits.name_bytes_max)));
    }
    let mut at = end_of_space(bytes, name.end);
    let Some(&next) = bytes.get(at) else { return Ok(None) };
    if !matches!(next, b'>' | b'[') {
        if at == name.end {
            return Err(Fault::malformed(text, at, DOCTYPE, "white space, [ and >"));
        }
        match external_id(text, at)? {
            None => return Ok(None),
            Some(end) => at = end_of_space(bytes, end),
        }
    }
    match bytes.get(at) {
        None => Ok(None),
        Some(b'>') => Ok(Some(at + 1)),
        Some(b'[') => Err(refused("a DOCTYPE with an internal subset, which is not supported,")),
        Some(_) => Err(Fault::malformed(text, at, DOCTYPE, ">")),
    }
}

const DOCTYPE: &str = "an invalid DOCTYPE";

/// Checks `SYSTEM "..."` or `PUBLIC "..." "..."` (production 75), and returns the first place after it.
fn external_id(text: &str, at: usize) -> Result<Option<usize>> {
    let rest = &text[at..];
    if "SYSTEM".starts_with(rest) || "PUBLIC".starts_with(rest) {
        return Ok(None);
    }
    let mut after = at + "SYSTEM".len();
    if rest.starts_with("PUBLIC") {
        let Some(start) = spaces(text, after)? else { return Ok(None) };
        let Some(end) = literal(text, start, is_public_id)? else { return Ok(None) };
        after = end;
    } else if !rest.starts_with("SYSTEM") {
        return Err(Fault::malformed(text, at, DOCTYPE, "SYSTEM, PUBLIC, [ and >"));
    }
    let Some(start) = spaces(text, after)? else { return Ok(None) };
    literal(text, start, |_| true)
}

/// Returns the first place after white space, of which one must be there.
fn spaces(text: &str, at: usize) -> Result<Option<usize>> {
    let end = end_of_space(text.as_bytes(), at);
    if end == text.len() {
        return Ok(None);
    }
    if end == at { Err(Fault::malformed(text, at, DOCTYPE, "white space")) } else { Ok(Some(end)) }
}

/// Checks a text in quotes, and returns the first place after it.
fn literal(text: &str, at: usize, is_allowed: fn(u8) -> bool) -> Result<Option<usize>> {
    let bytes = text.as_bytes();
    let quote = match bytes.get(at) {
        None => return Ok(None),
        Some(&quote @ (b'"' | b'\'')) => quote,
        Some(_) => return Err(Fault::malformed(text, at, DOCTYPE, "\" and '")),
    };
    let start = at + 1;
    let found = memchr::memchr(quote, &bytes[start..]).map(|found| start + found);
    let end = found.unwrap_or(bytes.len());
    if let Some(at) = refused_character(text, start, end) {
        return Err(Fault::character(text, at));
    }
    if let Some(bad) = bytes[start..end].iter().position(|&byte| !is_allowed(byte)) {
        return Err(Fault::malformed(text, start + bad, DOCTYPE, "the characters of a public identifier"));
    }
    Ok(found.map(|end| end + 1))
}

/// Returns whether a public identifier may contain the byte (production 13).
fn is_public_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b' ' | b'\r' | b'\n')
        || b"-'()+,./:=?;!*#@$_%".contains(&byte)
}
