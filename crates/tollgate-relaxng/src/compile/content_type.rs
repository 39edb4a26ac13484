//! Content types (section 7.2): a value cannot stand beside elements or other text.

use std::collections::HashMap;

use crate::pattern::{Grammar, Id, Pattern};
use crate::syntax::{At, SchemaFault};

/// The content types, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ContentType {
    Empty,
    Complex,
    Simple,
}

pub(super) struct ContentTypes<'a> {
    grammar: &'a Grammar,
    known: HashMap<Id, ContentType>,
}

impl<'a> ContentTypes<'a> {
    pub(super) fn new(grammar: &'a Grammar) -> Self {
        Self { grammar, known: HashMap::new() }
    }

    /// Checks the content of the element at the place `at`.
    pub(super) fn check(&mut self, content: Id, at: At) -> Result<(), SchemaFault> {
        let checked = self.content_type(content, at);
        checked.map(|_| ())
    }

    fn content_type(&mut self, id: Id, at: At) -> Result<ContentType, SchemaFault> {
        if let Some(known) = self.known.get(&id) {
            return Ok(*known);
        }
        let grammar = self.grammar;
        let found = match grammar.arena.pattern(id) {
            Pattern::Choice(parts) => {
                let mut strongest = ContentType::Empty;
                for part in parts.iter() {
                    strongest = strongest.max(self.content_type(*part, at)?);
                }
                strongest
            }
            Pattern::Interleave(parts) => {
                let mut joined = ContentType::Empty;
                for part in parts.iter() {
                    joined = join(joined, self.content_type(*part, at)?, at)?;
                }
                joined
            }
            Pattern::Group(..) => self.of_group(id, at)?,
            Pattern::OneOrMore(part) => {
                let part = self.content_type(*part, at)?;
                join(part, part, at)?
            }
            Pattern::Data(_, Some(except)) => {
                self.content_type(*except, at)?;
                ContentType::Simple
            }
            Pattern::Data(_, None) | Pattern::Value(_) | Pattern::List(_) => ContentType::Simple,
            Pattern::Attribute(attribute, content) => {
                self.content_type(*content, grammar.attributes[*attribute as usize].at)?;
                ContentType::Empty
            }
            Pattern::Text | Pattern::Element(_) => ContentType::Complex,
            Pattern::Empty | Pattern::NotAllowed | Pattern::After(..) | Pattern::Slot(_) => {
                ContentType::Empty
            }
        };
        self.known.insert(id, found);
        Ok(found)
    }

    /// Joins the members of a group without recursion along its rest.
    fn of_group(&mut self, group: Id, at: At) -> Result<ContentType, SchemaFault> {
        let (mut joined, mut last) = (ContentType::Empty, group);
        while let Pattern::Group(first, rest) = *self.grammar.arena.pattern(last) {
            joined = join(joined, self.content_type(first, at)?, at)?;
            last = rest;
        }
        join(joined, self.content_type(last, at)?, at)
    }
}

/// Joins the types of two parts of a group.
fn join(own: ContentType, other: ContentType, at: At) -> Result<ContentType, SchemaFault> {
    let is_groupable = own == ContentType::Empty
        || other == ContentType::Empty
        || (own == ContentType::Complex && other == ContentType::Complex);
    if is_groupable {
        return Ok(own.max(other));
    }
    let text = "a value stands beside elements, text or a value; put an element or a list around it";
    Err(SchemaFault::new(at, text))
}
