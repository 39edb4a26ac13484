//! The faults of a configuration, and their places. Faults are collected, so that all of them are reported at
//! once.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tollgate_server::StreamSpec;

/// One fault, shown as `FILE:LINE:COLUMN: TEXT`. A fault of the whole file is shown without the numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// Path of the file with the fault.
    pub(crate) file: PathBuf,
    /// The line of the fault, from 1; 0 for the whole file.
    pub(crate) line: usize,
    /// The character in the line, from 1; 0 for the whole file.
    pub(crate) column: usize,
    /// The value found, and the allowed values.
    pub(crate) text: String,
}

impl Fault {
    /// Makes a fault of a whole file.
    pub(crate) fn of_file(file: &Path, text: String) -> Self {
        Self { file: file.to_owned(), line: 0, column: 0, text }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        write!(f, " {}", self.text)
    }
}

/// The place of a key or table, for a fault that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    /// Path of the file with the key or table.
    pub(crate) file: PathBuf,
    /// The line of the place, from 1.
    pub(crate) line: usize,
    /// The character in the line, from 1.
    pub(crate) column: usize,
}

impl Location {
    /// Returns the text that names this place in a fault of `file`. The text has the file name only if the
    /// place is in another file.
    pub(super) fn beside(&self, file: &Path) -> String {
        if self.file == file { format!("line {}", self.line) } else { self.to_string() }
    }

    /// Returns whether two places are the same, even if they name the file differently.
    pub(super) fn is_that_of(&self, other: &Self) -> bool {
        let resolved = |place: &Self| fs::canonicalize(&place.file).unwrap_or_else(|_| place.file.clone());
        (self.line, self.column) == (other.line, other.column) && resolved(self) == resolved(other)
    }

    /// Makes a fault at this place.
    pub(super) fn fault(&self, text: String) -> Fault {
        Fault { file: self.file.clone(), line: self.line, column: self.column, text }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A configuration that cannot be used, with its faults in the order of the file. `Display` writes one fault
/// per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// The faults, at least one.
    pub(crate) faults: Vec<Fault>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl From<Fault> for ConfigError {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault] }
    }
}

/// A range of bytes in the text of a configuration.
pub(super) type Span = Range<usize>;

/// Keys that have one fault together, because one section replaces all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// The certificate and its private key.
    Certificate,
    /// The host and the port to listen on.
    Address,
}

/// Collects the faults of one text while it is read.
pub(super) struct Faults<'a> {
    file: &'a Path,
    text: &'a str,
    found: RefCell<Vec<Fault>>,
    groups: RefCell<Vec<Group>>,
}

impl<'a> Faults<'a> {
    /// Makes an empty list of faults.
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        Self { file, text, found: RefCell::default(), groups: RefCell::default() }
    }

    /// Adds a fault at a place.
    pub(super) fn add(&self, span: &Span, text: impl Into<String>) {
        let (line, column) = self.place(span);
        let fault = Fault { file: self.file.to_owned(), line, column, text: text.into() };
        self.found.borrow_mut().push(fault);
    }

    /// Adds a fault of a key in a group, unless the group has a fault already.
    pub(super) fn add_of(&self, group: Group, span: &Span, text: String) {
        if !self.has_of(group) {
            self.groups.borrow_mut().push(group);
            self.add(span, text);
        }
    }

    /// Returns whether a group has a fault.
    pub(super) fn has_of(&self, group: Group) -> bool {
        self.groups.borrow().contains(&group)
    }

    /// Returns whether the text at a place begins with `start`.
    pub(super) fn is_at(&self, span: &Span, start: &str) -> bool {
        self.text.get(span.start..).is_some_and(|text| text.starts_with(start))
    }

    /// Returns the place of a span, for a fault that names two places.
    pub(super) fn spot(&self, span: &Span) -> Location {
        let (line, column) = self.place(span);
        Location { file: self.file.to_owned(), line, column }
    }

    /// Adds faults that were found elsewhere.
    pub(super) fn extend(&self, faults: Vec<Fault>) {
        self.found.borrow_mut().extend(faults);
    }

    /// Returns whether there are no faults.
    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Returns the faults in the order of the file.
    pub(super) fn into_error(self) -> ConfigError {
        let mut faults = self.found.into_inner();
        faults.sort();
        faults.dedup();
        ConfigError { faults }
    }

    /// Returns line and character of a place.
    pub(super) fn place(&self, span: &Span) -> (usize, usize) {
        let before = &self.text[..self.text.floor_char_boundary(span.start.min(self.text.len()))];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// Returns the end of a fault about an unknown name: the nearest known name, or all known names.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<_> = known.into_iter().collect();
    let near = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance);
    match near {
        Some((_, candidate)) => format!(", did you mean \"{candidate}\"?"),
        None if known.is_empty() => ": none is declared".to_owned(),
        None => format!(", allowed: {}", known.join(", ")),
    }
}

/// Returns the fault of a name in `place` that no stream has. `None`: a stream has it.
pub(super) fn unknown_stream(name: &str, place: &str, streams: &[StreamSpec]) -> Option<String> {
    let is_known = streams.iter().any(|stream| stream.name == name);
    (!is_known).then(|| format!("unknown stream {name:?} in {place}{}", stream_hint(name, streams)))
}

/// Returns the end of a fault about an unknown stream: the nearest known name, or all known names.
pub(super) fn stream_hint(name: &str, streams: &[StreamSpec]) -> String {
    match streams {
        [] => ": the file has no [stream.NAME]".to_owned(),
        _ => did_you_mean(name, streams.iter().map(|stream| stream.name.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let faults = Faults::new(Path::new("t.toml"), "a = 1\nü = x\n");
        for (at, expected) in
            [(0, (1, 1)), (4, (1, 5)), (6, (2, 1)), (8, (2, 2)), (11, (2, 5)), (999, (3, 1))]
        {
            assert_eq!(faults.place(&(at..at)), expected, "byte {at}");
        }
    }

    #[test]
    fn the_nearest_name_is_offered_or_all_of_them() {
        let known = ["stream", "path", "body_bytes_max"];
        let check = |name, expected| assert_eq!(did_you_mean(name, known), expected);
        check("strem", ", did you mean \"stream\"?");
        check("body_byte_max", ", did you mean \"body_bytes_max\"?");
        check("zzz", ", allowed: stream, path, body_bytes_max");
        assert_eq!(did_you_mean("zzz", []), ": none is declared");
    }

    #[test]
    fn faults_are_told_in_the_order_of_the_file() {
        let faults = Faults::new(Path::new("t.toml"), "a\nb\n");
        faults.add(&(2..3), "second");
        faults.add(&(0..1), "first");
        assert_eq!(faults.into_error().to_string(), "t.toml:1:1: first\nt.toml:2:1: second");
    }
}
