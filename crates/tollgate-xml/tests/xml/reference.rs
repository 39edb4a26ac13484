//! Compares the reader with `quick-xml`. The fuzz target `xml` runs the same function.
//!
//! `quick-xml` makes fewer checks. So it has to read each document that the reader accepts, with the same
//! names, namespaces, values and texts.

use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{PrefixDeclaration, QName, ResolveResult};
use quick_xml::{NsReader, XmlVersion};
use tollgate_xml::{Limits, XmlErrorKind};

use crate::document::{check_skipping, read};

/// Checks one input. Its first byte chooses the length of the pieces, and the rest is the document.
pub(crate) fn check(input: &[u8]) {
    let Some((&choice, document)) = input.split_first() else { return };
    let limits = Limits { tag_bytes_max: 200, name_bytes_max: 40, depth_max: 20, ..Limits::default() };
    let (events, result) = read([document], limits);
    let shown = document.escape_ascii();
    for piece_bytes in [1, usize::from(choice) + 1] {
        let outcome = read(document.chunks(piece_bytes), limits);
        assert_eq!((&events, &result), (&outcome.0, &outcome.1), "{shown} in pieces of {piece_bytes}");
    }
    for piece_bytes in [usize::from(choice) + 1, usize::MAX] {
        check_skipping(document, limits, usize::from(choice % 4) + 1, piece_bytes);
    }
    assert!(!matches!(&result, Err(error) if error.kind() == XmlErrorKind::Stopped), "{shown}");
    let Ok(text) = std::str::from_utf8(document) else { return };
    // A document may be valid UTF-8 and name ISO-8859-1. quick-xml does not convert it.
    if result.is_ok() && (text.is_ascii() || !text.to_ascii_lowercase().contains("iso-8859-1")) {
        assert_eq!(reference(text).as_deref(), Ok(events.as_str()), "{shown}");
    }
}

/// Reads a document by `quick-xml`, and writes down its events as `document::Record` does.
fn reference(text: &str) -> Result<String, String> {
    let mut reader = NsReader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    let (mut lines, mut joined) = (Vec::new(), String::new());
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        if matches!(event, Event::Start(_) | Event::Empty(_) | Event::End(_)) && !joined.is_empty() {
            lines.push(format!("{joined:?}"));
            joined.clear();
        }
        let is_within = lines.iter().any(|line: &String| line.starts_with('<'));
        match event {
            Event::Start(start) => lines.push(tag(&reader, &start)?),
            Event::Empty(start) => {
                lines.push(tag(&reader, &start)?);
                lines.push(format!("/{}", element_name(&reader, start.name())));
            }
            Event::End(end) => lines.push(format!("/{}", element_name(&reader, end.name()))),
            Event::Text(text) if is_within => joined.push_str(&lines_of(&text)),
            Event::CData(text) => joined.push_str(&lines_of(&text)),
            Event::GeneralRef(name) => {
                let reference = format!("&{};", &*name);
                joined.push_str(&quick_xml::escape::unescape(&reference).map_err(|error| error.to_string())?);
            }
            Event::Eof => return Ok(lines.join(" ")),
            _ => {}
        }
    }
}

fn lines_of(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

fn tag(reader: &NsReader<&[u8]>, start: &BytesStart<'_>) -> Result<String, String> {
    let mut line = format!("<{}", element_name(reader, start.name()));
    let (mut declared, mut others) = (String::new(), String::new());
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| error.to_string())?;
        match attribute.key.as_namespace_binding() {
            Some(PrefixDeclaration::Default) => declared.push_str(&format!(" xmlns:={value:?}")),
            Some(PrefixDeclaration::Named(prefix)) => {
                declared.push_str(&format!(" xmlns:{prefix}={value:?}"));
            }
            None => {
                let (found, _) = reader.resolver().resolve_attribute(attribute.key);
                others.push_str(&format!(" {}={value:?}", shown(&found, attribute.key)));
            }
        }
    }
    line.push_str(&declared);
    line.push_str(&others);
    Ok(line)
}

fn element_name(reader: &NsReader<&[u8]>, name: QName<'_>) -> String {
    shown(&reader.resolver().resolve_element(name).0, name)
}

fn shown(namespace: &ResolveResult<'_>, name: QName<'_>) -> String {
    match namespace {
        ResolveResult::Bound(uri) if !uri.as_ref().is_empty() => {
            // `quick-xml` keeps the value of a declaration as it was written.
            let written = Attribute { key: QName("xmlns"), value: uri.as_ref().into() };
            let uri = written.normalized_value(XmlVersion::Implicit1_0).unwrap();
            format!("{{{uri}}}{}", name.as_ref())
        }
        _ => name.as_ref().to_owned(),
    }
}
