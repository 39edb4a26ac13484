//! Which patterns may be inside which (section 7.1).

use std::collections::HashSet;

use crate::pattern::{Grammar, Id, Pattern};
use crate::syntax::{At, SchemaFault};

/// The patterns around a place, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Within(u8);

impl Within {
    pub(super) const NOTHING: Self = Self(0);
    pub(super) const START: Self = Self(1);
    const ATTRIBUTE: Self = Self(2);
    const ONE_OR_MORE: Self = Self(4);
    /// A group or interleave that is in a `oneOrMore`.
    const REPEATED_GROUP: Self = Self(8);
    const LIST: Self = Self(16);
    const EXCEPT: Self = Self(32);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

pub(super) struct Contents<'a> {
    grammar: &'a Grammar,
    seen: HashSet<(Id, Within)>,
}

impl<'a> Contents<'a> {
    pub(super) fn new(grammar: &'a Grammar) -> Self {
        Self { grammar, seen: HashSet::new() }
    }

    /// Checks `id` and its parts. `at` is the place of the element around it.
    pub(super) fn check(&mut self, id: Id, within: Within, at: At) -> Result<(), SchemaFault> {
        if !self.seen.insert((id, within)) {
            return Ok(());
        }
        let grammar = self.grammar;
        let pattern = grammar.arena.pattern(id);
        let at = match pattern {
            Pattern::Attribute(attribute, _) => grammar.attributes[*attribute as usize].at,
            Pattern::Element(element) => grammar.elements[*element as usize].declaration.at,
            _ => at,
        };
        if let Some(outer) = forbidden(pattern, within) {
            return Err(SchemaFault::new(at, format!("{} is not allowed in {outer}", name(pattern))));
        }
        match pattern {
            Pattern::Choice(parts) => parts.iter().try_for_each(|part| self.check(*part, within, at)),
            Pattern::Interleave(parts) => {
                let inner = in_group(within);
                parts.iter().try_for_each(|part| self.check(*part, inner, at))
            }
            Pattern::Group(..) => self.check_group(id, in_group(within), at),
            Pattern::OneOrMore(part) => self.check(*part, within.and(Within::ONE_OR_MORE), at),
            Pattern::List(part) => self.check(*part, within.and(Within::LIST), at),
            Pattern::Attribute(attribute, content) => {
                let is_infinite = grammar.attributes[*attribute as usize].is_infinite;
                if is_infinite && !within.has(Within::ONE_OR_MORE) {
                    let text = "an attribute with any number of names is not repeated; write \"+\" or \"*\"";
                    return Err(SchemaFault::new(at, text));
                }
                self.check(*content, Within::ATTRIBUTE, at)
            }
            Pattern::Data(_, Some(except)) => self.check(*except, within.and(Within::EXCEPT), at),
            _ => Ok(()),
        }
    }

    /// Checks the members of a group without recursion along its rest.
    fn check_group(&mut self, group: Id, within: Within, at: At) -> Result<(), SchemaFault> {
        let mut last = group;
        while let Pattern::Group(first, rest) = *self.grammar.arena.pattern(last) {
            self.check(first, within, at)?;
            last = rest;
        }
        self.check(last, within, at)
    }
}

const fn in_group(within: Within) -> Within {
    if within.has(Within::ONE_OR_MORE) { within.and(Within::REPEATED_GROUP) } else { within }
}

/// Returns what is around `pattern` and must not be.
fn forbidden(pattern: &Pattern, within: Within) -> Option<&'static str> {
    let is_element = matches!(pattern, Pattern::Element(_));
    let is_attribute = matches!(pattern, Pattern::Attribute(..));
    let is_choice_or_value = matches!(pattern, Pattern::Choice(_) | Pattern::Data(..) | Pattern::Value(_));
    if within.has(Within::EXCEPT) && !is_choice_or_value {
        return Some("the exception of a datatype");
    }
    if within.has(Within::ATTRIBUTE) && (is_element || is_attribute) {
        return Some("an attribute");
    }
    if within.has(Within::REPEATED_GROUP) && is_attribute {
        return Some("a repeated group");
    }
    let is_outside_lists = matches!(pattern, Pattern::List(_) | Pattern::Text | Pattern::Interleave(_))
        || is_element
        || is_attribute;
    if within.has(Within::LIST) && is_outside_lists {
        return Some("a list");
    }
    let is_start = is_element || matches!(pattern, Pattern::Choice(_) | Pattern::NotAllowed);
    if within.has(Within::START) && !is_start {
        return Some("the start, which contains elements only");
    }
    None
}

fn name(pattern: &Pattern) -> &'static str {
    match pattern {
        Pattern::NotAllowed => "\"notAllowed\"",
        Pattern::Empty => "\"empty\"",
        Pattern::Text => "\"text\"",
        Pattern::Choice(_) => "a choice",
        Pattern::Group(..) => "a group",
        Pattern::Interleave(_) => "an interleave",
        Pattern::OneOrMore(_) => "a repetition",
        Pattern::List(_) => "a list",
        Pattern::Data(..) => "a datatype",
        Pattern::Value(_) => "a value",
        Pattern::Attribute(..) => "an attribute",
        Pattern::Element(_) => "an element",
        Pattern::After(..) | Pattern::Slot(_) => "an open element",
    }
}
