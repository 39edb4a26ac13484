//! Validates a document again and again, and prints the nanoseconds of each round: reading alone, and reading
//! with validation. `make relaxng-bench` runs it.
//!
//! Arguments: the schema, the document, the number of rounds.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use tollgate_validate::{Document, Folder, Schema, compile, limits};
use tollgate_xml::{Attributes, Events, Limits, Name, Reader, Stop};

/// Bytes of one piece of the document, which is about one read of a socket.
const PIECE_BYTES: usize = 16 << 10;

/// Counts bytes of events, so that the compiler keeps the work of the reader.
#[derive(Default)]
struct Counter(usize);

impl Events for Counter {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let values: usize = attributes.iter().map(|attribute| attribute.value.len()).sum();
        self.0 += name.uri.len() + name.local.len() + values;
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.0 += text.len();
        Ok(())
    }

    fn end(&mut self, name: Name<'_>) -> Result<(), Stop> {
        self.0 += name.local.len();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, schema, document, rounds] = arguments.as_slice() else {
        return Err("usage: validate SCHEMA DOCUMENT ROUNDS".into());
    };
    let schema = compiled(Path::new(schema))?;
    let document = std::fs::read(document)?;
    for round in 0..rounds.parse::<usize>()? {
        let alone = timed(|| read(&document))?;
        let both = timed(|| validate(&document, &schema))?;
        println!("{round} {} {} {}", document.len(), alone.as_nanos(), both.as_nanos());
    }
    Ok(())
}

fn compiled(path: &Path) -> Result<Schema, Box<dyn Error>> {
    let folder = Folder::new(path.parent().unwrap_or(Path::new("")));
    let file = path.file_name().and_then(|name| name.to_str()).ok_or("the schema has no name in UTF-8")?;
    Ok(compile(file, &folder)?.for_thread(limits()))
}

fn timed(run: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let begun = Instant::now();
    run()?;
    Ok(begun.elapsed())
}

fn read(document: &[u8]) -> Result<(), Box<dyn Error>> {
    let (mut reader, mut counter) = (Reader::new(Limits::default()), Counter::default());
    for piece in document.chunks(PIECE_BYTES) {
        reader.feed(piece, &mut counter)?;
    }
    reader.finish(&mut counter)?;
    std::hint::black_box(counter.0);
    Ok(())
}

fn validate(document: &[u8], schema: &Schema) -> Result<(), Box<dyn Error>> {
    let mut judged = Document::new(schema);
    for piece in document.chunks(PIECE_BYTES) {
        judged.feed(piece)?;
    }
    judged.finish()?;
    Ok(())
}
