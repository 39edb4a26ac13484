//! Reads documents in pieces, and writes down what the reader reports.

use tollgate_xml::{Attributes, Events, Limits, Name, Reader, Stop, XmlError};

/// The events of a document as lines. The parts of one text are joined.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    lines: Vec<String>,
    text: String,
    /// Number of elements that began.
    begun: usize,
    /// The element whose content is not reported, counted from 1.
    skipped: usize,
}

impl Record {
    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.lines.push(format!("{:?}", self.text));
            self.text.clear();
        }
    }
}

fn shown(name: Name<'_>) -> String {
    let colon = if name.prefix.is_empty() { "" } else { ":" };
    let uri = if name.uri.is_empty() { String::new() } else { format!("{{{}}}", name.uri) };
    format!("{uri}{}{colon}{}", name.prefix, name.local)
}

impl Events for Record {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        self.end_text();
        let mut line = format!("<{}", shown(name));
        for declared in attributes.declarations() {
            line.push_str(&format!(" xmlns:{}={:?}", declared.prefix, declared.uri));
        }
        for attribute in attributes.iter() {
            line.push_str(&format!(" {}={:?}", shown(attribute.name), attribute.value));
        }
        self.lines.push(line);
        self.begun += 1;
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        assert!(!text.is_empty());
        self.text.push_str(text);
        Ok(())
    }

    fn end(&mut self, name: Name<'_>) -> Result<(), Stop> {
        self.end_text();
        self.lines.push(format!("/{}", shown(name)));
        Ok(())
    }

    fn skips_content(&self) -> bool {
        self.begun == self.skipped
    }
}

/// The events before the end or the fault, and the fault.
pub(crate) type Outcome = (String, Result<(), XmlError>);

/// Reads a document in the given pieces.
pub(crate) fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Outcome {
    let (lines, result) = lines_of(pieces, limits, 0);
    (lines.join(" "), result)
}

fn lines_of<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limits: Limits,
    skipped: usize,
) -> (Vec<String>, Result<(), XmlError>) {
    let (mut reader, mut record) = (Reader::new(limits), Record { skipped, ..Record::default() });
    let mut result = Ok(());
    for piece in pieces {
        result = result.and_then(|()| reader.feed(piece, &mut record));
    }
    let result = result.and_then(|()| reader.finish(&mut record));
    record.end_text();
    (record.lines, result)
}

/// Checks that a reader which skips the content of an element finds the same fault, and reports the same
/// events outside of this element. The elements are counted from 1.
pub(crate) fn check_skipping(document: &[u8], limits: Limits, element: usize, piece_bytes: usize) {
    let (mut lines, result) = lines_of([document], limits, 0);
    let starts = |line: &String| line.starts_with('<');
    if let Some((start, _)) = lines.iter().enumerate().filter(|(_, line)| starts(line)).nth(element - 1) {
        let mut depth = 0;
        let end = lines.iter().skip(start).position(|line| {
            depth += i32::from(starts(line)) - i32::from(line.starts_with('/'));
            depth == 0
        });
        lines.drain(start + 1..end.map_or(lines.len(), |end| start + end));
    }
    let found = lines_of(document.chunks(piece_bytes), limits, element);
    let shown = document.escape_ascii();
    assert_eq!(found, (lines, result), "{shown} in pieces of {piece_bytes} without the content of {element}");
}

/// Reads a document whole, byte by byte, and cut at each place. All ways have the same outcome.
pub(crate) fn read_every_way(document: &[u8], limits: Limits) -> Outcome {
    let whole = read([document], limits);
    let shown = document.escape_ascii();
    for piece_bytes in [1, 2, 7, usize::MAX] {
        (1..=3).for_each(|element| check_skipping(document, limits, element, piece_bytes));
    }
    assert_eq!(whole, read(document.chunks(1), limits), "{shown} byte by byte");
    for cut in 0..document.len() {
        let (first, second) = document.split_at(cut);
        assert_eq!(whole, read([first, second], limits), "{shown} cut at {cut}");
        let middle = &second[..second.len().min(1)];
        let pieces = [first, middle, &second[middle.len()..]];
        assert_eq!(whole, read(pieces, limits), "{shown} cut at {cut} and after it");
    }
    whole
}

/// Checks the events of a well-formed document.
pub(crate) fn check(document: &str, expected: &str) {
    let (events, result) = read_every_way(document.as_bytes(), Limits::default());
    assert_eq!((events.as_str(), result), (expected, Ok(())), "{document}");
}

/// Checks that the text of the fault of a document begins with `expected`.
pub(crate) fn check_fault(document: impl AsRef<[u8]>, expected: &str) {
    check_fault_within(document, Limits::default(), expected);
}

/// Checks a fault of a document that is read within limits.
pub(crate) fn check_fault_within(document: impl AsRef<[u8]>, limits: Limits, expected: &str) {
    let document = document.as_ref();
    let (_, result) = read_every_way(document, limits);
    let shown = document.escape_ascii();
    let error = result.map_or_else(|error| error.to_string(), |()| "no fault".to_owned());
    assert!(error.starts_with(expected), "{shown}: {error}");
}
