//! Validates a document again and again, and prints the times of each round: the tokenizer alone, and the
//! tokenizer with the validator. `make relaxng-bench` runs it.
//!
//! Arguments: the schema, the document, the number of rounds.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program for a bench")]

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quick_xml::NsReader;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;
use tollgate_relaxng::{Attribute, Schema, Source, Start, Validator};

/// Receives the events of a document.
trait Sink {
    fn start(&mut self, start: &Start<'_>);
    fn text(&mut self, text: &str, byte: u64);
    fn end(&mut self, byte: u64);
}

/// Counts events, so that the compiler keeps the work of the tokenizer.
#[derive(Default)]
struct Counter(usize);

impl Sink for Counter {
    fn start(&mut self, start: &Start<'_>) {
        self.0 += 1 + start.attributes.len() + start.namespace.len() + start.local.len();
    }

    fn text(&mut self, text: &str, _: u64) {
        self.0 += text.len();
    }

    fn end(&mut self, _: u64) {
        self.0 += 1;
    }
}

impl Sink for Validator {
    fn start(&mut self, start: &Start<'_>) {
        Self::start(self, start).expect("the document is valid");
    }

    fn text(&mut self, text: &str, byte: u64) {
        Self::text(self, text, byte).expect("the document is valid");
    }

    fn end(&mut self, byte: u64) {
        Self::end(self, &(), byte).expect("the document is valid");
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("arguments: schema, document, rounds");
    let (schema, document, rounds) = (PathBuf::from(next()), next(), next());
    let rounds: usize = rounds.parse().expect("a number of rounds");
    let document = fs::read_to_string(document).expect("the document is readable");
    let schema = compiled(&schema);
    let bytes = document.len();
    for round in 0..rounds {
        let alone = timed(|| {
            let mut counter = Counter::default();
            feed(&document, &mut counter);
            assert!(counter.0 > 0);
        });
        let both = timed(|| feed(&document, &mut Validator::new(&schema)));
        println!("{round} {bytes} {} {}", alone.as_nanos(), both.as_nanos());
    }
}

fn compiled(path: &Path) -> Schema {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let name = path.file_name().and_then(|name| name.to_str()).expect("a file name");
    let text = fs::read_to_string(path).expect("the schema is readable");
    let load = |path: &str| fs::read_to_string(folder.join(path)).map_err(|error| error.to_string());
    Schema::compile(Source { path: name, text: &text }, &load).expect("the schema is valid")
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn feed(document: &str, sink: &mut impl Sink) {
    let mut reader = NsReader::from_str(document);
    let mut depth = 0_usize;
    loop {
        let byte = reader.buffer_position();
        match reader.read_event().expect("the document is well-formed") {
            Event::Start(start) => {
                begin(&reader, &start, byte, sink);
                depth += 1;
            }
            Event::Empty(start) => {
                begin(&reader, &start, byte, sink);
                sink.end(byte);
            }
            Event::End(_) => {
                depth -= 1;
                sink.end(byte);
            }
            Event::Text(text) if depth > 0 => sink.text(&text, byte),
            Event::Eof => return,
            _ => {}
        }
    }
}

fn begin(reader: &NsReader<&[u8]>, start: &BytesStart<'_>, byte: u64, sink: &mut impl Sink) {
    let resolver = reader.resolver();
    let (namespace, local) = resolver.resolve_element(start.name());
    let mut values: [Cow<'_, str>; 16] = Default::default();
    let mut names = [("", ""); 16];
    let mut count = 0;
    for attribute in start.attributes() {
        let attribute = attribute.expect("the attribute is well-formed");
        if attribute.key.as_namespace_binding().is_some() {
            continue;
        }
        let (namespace, local) = resolver.resolve_attribute(attribute.key);
        names[count] = (uri(&namespace), local.into_inner());
        values[count] = attribute.value;
        count += 1;
    }
    let mut attributes = [Attribute { namespace: "", local: "", value: "" }; 16];
    for (attribute, ((namespace, local), value)) in
        attributes.iter_mut().zip(names.iter().zip(&values)).take(count)
    {
        *attribute = Attribute { namespace, local, value };
    }
    let (namespace, local) = (uri(&namespace), local.into_inner());
    sink.start(&Start { namespace, local, attributes: &attributes[..count], namespaces: &(), byte });
}

fn uri<'n>(namespace: &ResolveResult<'n>) -> &'n str {
    match namespace {
        ResolveResult::Bound(namespace) => namespace.into_inner(),
        ResolveResult::Unbound | ResolveResult::Unknown(_) => "",
    }
}
