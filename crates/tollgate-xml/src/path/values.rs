//! Reads the first value of each path of a set, without a tree.

use super::matcher::{Found, PathMatcher};
use super::set::PathSet;
use crate::attributes::Attributes;
use crate::events::{Events, Stop};
use crate::name::Name;

/// Collects the first value that each path finds: the value of an attribute, or the text of an element and
/// of the elements in it. The value of a comparison that is true is `true`.
#[derive(Debug)]
pub struct PathValues<'a> {
    set: &'a PathSet,
    matcher: PathMatcher,
    values: Vec<Option<String>>,
    open: Vec<OpenValue>,
    /// The text since the outermost open value began.
    text: String,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct OpenValue {
    rule: usize,
    depth: usize,
    /// Length of the text at its start.
    start: usize,
}

/// The values have more bytes than the caller allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuesError {
    /// The bound.
    pub bytes_max: usize,
}

impl<'a> PathValues<'a> {
    /// Starts a document. The values, and the texts that are still read, have at most `bytes_max` bytes.
    pub fn new(set: &'a PathSet, bytes_max: usize) -> Self {
        Self {
            set,
            matcher: PathMatcher::new(set),
            values: vec![None; set.len()],
            open: Vec::new(),
            text: String::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Returns the values, in the order of the paths.
    ///
    /// # Errors
    /// The reading stopped because the values are too long.
    pub fn finish(self) -> Result<Vec<Option<String>>, ValuesError> {
        if self.bytes > self.bytes_max {
            return Err(ValuesError { bytes_max: self.bytes_max });
        }
        Ok(self.values)
    }

    /// Returns whether the reading stopped because the values are too long.
    pub fn is_too_long(&self) -> bool {
        self.bytes > self.bytes_max
    }

    fn count(&mut self, bytes: usize) -> Result<(), Stop> {
        self.bytes += bytes;
        if self.bytes > self.bytes_max { Err(Stop) } else { Ok(()) }
    }
}

impl Events for PathValues<'_> {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let mut bytes = 0;
        let Self { set, matcher, values, open, text, .. } = self;
        let depth = matcher.depth() + 1;
        matcher.start(set, name, attributes, |rule, found| {
            if values[rule].is_some() {
                return;
            }
            match found {
                Found::Attribute(value) => {
                    bytes += value.len();
                    values[rule] = Some(value.to_owned());
                }
                Found::True => values[rule] = Some(TRUE.to_owned()),
                Found::Element if open.iter().any(|open| open.rule == rule) => {}
                Found::Element => open.push(OpenValue { rule, depth, start: text.len() }),
                Found::End => {}
            }
        });
        self.count(bytes)
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.matcher.text(self.set, text);
        if self.open.is_empty() {
            return Ok(());
        }
        self.text.push_str(text);
        self.count(text.len())
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        let Self { set, matcher, values, open, text, .. } = self;
        let mut bytes = 0;
        let depth = matcher.depth();
        matcher.end(set, |rule, found| match found {
            Found::True if values[rule].is_none() => values[rule] = Some(TRUE.to_owned()),
            Found::End => {
                let place = open.iter().position(|open| open.rule == rule && open.depth == depth);
                if let Some(place) = place {
                    let value = text[open.remove(place).start..].to_owned();
                    bytes += value.len();
                    values[rule] = Some(value);
                }
            }
            _ => {}
        });
        if self.open.is_empty() {
            self.bytes -= self.text.len();
            self.text.clear();
        }
        self.count(bytes)
    }

    fn skips_content(&self) -> bool {
        self.open.is_empty() && self.matcher.is_over(self.set)
    }
}

const TRUE: &str = "true";
