//! The restrictions of section 7, for the elements that the start can reach.

use std::collections::HashSet;

use super::attributes::Overlaps;
use super::content_type::ContentTypes;
use super::contents::{Contents, Within};
use crate::SchemaLimits;
use crate::pattern::{Grammar, Id, Pattern};
use crate::syntax::{At, SchemaFault};

/// Checks a simplified schema. `root` is the place of its root.
pub(super) fn check(grammar: &Grammar, root: At, limits: &SchemaLimits) -> Result<(), SchemaFault> {
    let mut contents = Contents::new(grammar);
    let mut types = ContentTypes::new(grammar);
    let mut overlaps = Overlaps::new(grammar, limits.comparisons_max);
    contents.check(grammar.start, Within::START, root)?;
    let mut reached = HashSet::new();
    let mut waiting = elements(grammar, grammar.start);
    while let Some(element) = waiting.pop() {
        if !reached.insert(element) {
            continue;
        }
        let element = &grammar.elements[element as usize];
        let at = element.declaration.at;
        contents.check(element.content, Within::NOTHING, at)?;
        types.check(element.content, at)?;
        overlaps.check(element.content, at)?;
        waiting.extend(elements(grammar, element.content));
    }
    Ok(())
}

/// Returns the elements in a pattern.
fn elements(grammar: &Grammar, pattern: Id) -> Vec<u32> {
    let (mut found, mut seen, mut waiting) = (Vec::new(), HashSet::new(), vec![pattern]);
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        match grammar.arena.pattern(id) {
            Pattern::Element(element) => found.push(*element),
            Pattern::Choice(parts) | Pattern::Interleave(parts) => waiting.extend(parts.iter()),
            Pattern::Group(first, rest) => waiting.extend([*first, *rest]),
            Pattern::OneOrMore(part) => waiting.push(*part),
            _ => {}
        }
    }
    found
}
