//! Measures how fast this crate and `quick-xml` read a document: `xml_speed FILE PARSER ROUNDS`.
//!
//! Prints the best MB/s of the rounds, and the counts of the events. `make xml-bench` runs it in turns with
//! libxml2.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use quick_xml::NsReader;
use quick_xml::events::Event;
use quick_xml::name::ResolveResult;
use tollgate_xml::{Attributes, Events, Limits, Name, Reader, Stop};

/// Counts of what a parser reported. All parsers have the same ones.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    elements: usize,
    attributes: usize,
    value_bytes: usize,
    text_bytes: usize,
    namespace_bytes: usize,
}

impl Events for Counts {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        self.elements += 1;
        self.namespace_bytes += name.uri.len();
        for attribute in attributes.iter() {
            self.attributes += 1;
            self.value_bytes += attribute.value.len();
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.text_bytes += text.len();
        Ok(())
    }

    fn end(&mut self, name: Name<'_>) -> Result<(), Stop> {
        black_box(name.local);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, file, parser, rounds] = arguments.as_slice() else {
        return Err("usage: xml_speed FILE tollgate|tollgate-pieces|quick-xml|quick-xml-raw ROUNDS".into());
    };
    let document = std::fs::read(file)?;
    let mut best = Duration::MAX;
    let mut counts = Counts::default();
    for _ in 0..rounds.parse::<usize>()? {
        let begin = Instant::now();
        counts = match parser.as_str() {
            "tollgate" => tollgate(&document, document.len())?,
            "tollgate-pieces" => tollgate(&document, 16 << 10)?,
            "quick-xml" => quick_xml(&document)?,
            "quick-xml-raw" => quick_xml_raw(&document)?,
            other => return Err(format!("no such parser: {other}").into()),
        };
        best = best.min(begin.elapsed());
    }
    println!("{:.1} {counts:?}", document.len() as f64 / 1e6 / best.as_secs_f64());
    Ok(())
}

fn tollgate(document: &[u8], piece_bytes: usize) -> Result<Counts, Box<dyn Error>> {
    let (mut reader, mut counts) = (Reader::new(Limits::default()), Counts::default());
    for piece in document.chunks(piece_bytes) {
        reader.feed(piece, &mut counts)?;
    }
    reader.finish(&mut counts)?;
    Ok(counts)
}

/// Reads with namespaces, unescaped values, and the checks that `quick-xml` has.
fn quick_xml(document: &[u8]) -> Result<Counts, Box<dyn Error>> {
    let mut reader = NsReader::from_str(std::str::from_utf8(document)?);
    reader.config_mut().check_comments = true;
    let mut counts = Counts::default();
    loop {
        let event = reader.read_event()?;
        match event {
            Event::Eof => return Ok(counts),
            Event::Start(start) | Event::Empty(start) => {
                counts.elements += 1;
                if let (ResolveResult::Bound(namespace), _) = reader.resolver().resolve_element(start.name())
                {
                    counts.namespace_bytes += namespace.as_ref().len();
                }
                for attribute in start.attributes() {
                    let attribute = attribute?;
                    if attribute.key.as_namespace_binding().is_none() {
                        black_box(reader.resolver().resolve_attribute(attribute.key));
                        counts.attributes += 1;
                        counts.value_bytes +=
                            attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0)?.len();
                    }
                }
            }
            Event::Text(text) => counts.text_bytes += text.len(),
            _ => {}
        }
    }
}

/// Reads the events without a look at attributes.
fn quick_xml_raw(document: &[u8]) -> Result<Counts, Box<dyn Error>> {
    let mut reader = quick_xml::Reader::from_str(std::str::from_utf8(document)?);
    let mut counts = Counts::default();
    loop {
        match reader.read_event()? {
            Event::Eof => return Ok(counts),
            Event::Start(_) | Event::Empty(_) => counts.elements += 1,
            Event::Text(text) => counts.text_bytes += text.len(),
            _ => {}
        }
    }
}
