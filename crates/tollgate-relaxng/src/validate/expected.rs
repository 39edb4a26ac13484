//! What a state allows next, for messages.

use std::collections::HashSet;

use super::path::clipped;
use crate::Invalid;
use crate::datatype::Value;
use crate::pattern::{Arena, Grammar, Id, Label, Pattern};

/// Patterns that are visited for one message.
const VISITED_MAX: usize = 10_000;

/// What is listed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Elements and text that can come next.
    Content,
    /// Attributes.
    Attributes,
    /// The datatypes and values that a text can have.
    Values,
}

/// Returns what `state` allows. A name of `namespace` is written without its namespace.
pub(super) fn expected(
    grammar: &Grammar,
    arena: &Arena,
    state: Id,
    wanted: Wanted,
    namespace: &str,
) -> Vec<String> {
    let mut list = List { entries: Vec::new(), seen: HashSet::new(), left_out: 0 };
    let (mut visited, mut waiting) = (HashSet::new(), vec![state]);
    while let Some(id) = waiting.pop() {
        if !visited.insert(id) {
            continue;
        }
        if visited.len() > VISITED_MAX {
            list.left_out += 1;
            break;
        }
        match arena.pattern(id) {
            Pattern::Choice(parts) | Pattern::Interleave(parts) => waiting.extend(parts.iter().rev()),
            Pattern::Group(first, rest) => {
                if wanted != Wanted::Content || arena.facts(*first).is_nullable {
                    waiting.push(*rest);
                }
                waiting.push(*first);
            }
            Pattern::OneOrMore(part) | Pattern::After(part, _) => waiting.push(*part),
            Pattern::Element(element) if wanted == Wanted::Content => {
                let labels = &grammar.elements[*element as usize].declaration.labels;
                labels.iter().for_each(|label| list.add(named(label, namespace)));
            }
            Pattern::Attribute(attribute, _) if wanted == Wanted::Attributes => {
                let labels = &grammar.attributes[*attribute as usize].labels;
                labels.iter().for_each(|label| list.add(format!("attribute {}", named(label, ""))));
            }
            Pattern::Text if wanted != Wanted::Attributes => list.add("text".to_owned()),
            Pattern::List(_) if wanted != Wanted::Attributes => list.add("a list of values".to_owned()),
            Pattern::Data(data, _) if wanted != Wanted::Attributes => {
                list.add(format!("a value of \"{}\"", grammar.data[*data as usize].name()));
            }
            Pattern::Value(value) if wanted != Wanted::Attributes => {
                let (datatype, value) = &grammar.values[*value as usize];
                list.add(match value {
                    Value::Text(text) => format!("the value \"{}\"", clipped(text)),
                    _ => format!("a value of \"{}\"", datatype.name()),
                });
            }
            _ => {}
        }
    }
    list.done()
}

/// Returns the attributes that each choice of `state` needs.
pub(super) fn required(grammar: &Grammar, arena: &Arena, state: Id) -> Vec<String> {
    let mut visits = 0;
    let required = required_in(arena, state, &mut visits);
    let mut list = List { entries: Vec::new(), seen: HashSet::new(), left_out: 0 };
    for attribute in required {
        for label in &grammar.attributes[attribute as usize].labels {
            list.add(format!("attribute {}", named(label, "")));
        }
    }
    list.done()
}

fn required_in(arena: &Arena, id: Id, visits: &mut usize) -> Vec<u32> {
    *visits += 1;
    if !arena.facts(id).has_attribute || *visits > VISITED_MAX {
        return Vec::new();
    }
    match arena.pattern(id) {
        Pattern::Attribute(attribute, _) => vec![*attribute],
        Pattern::OneOrMore(part) | Pattern::After(part, _) => required_in(arena, *part, visits),
        Pattern::Interleave(parts) => {
            parts.iter().flat_map(|part| required_in(arena, *part, visits)).collect()
        }
        Pattern::Choice(parts) => {
            let mut common: Option<Vec<u32>> = None;
            for part in parts.iter() {
                let own = required_in(arena, *part, visits);
                common = Some(match common {
                    None => own,
                    Some(common) => common.into_iter().filter(|attribute| own.contains(attribute)).collect(),
                });
            }
            common.unwrap_or_default()
        }
        Pattern::Group(..) => {
            let (mut required, mut last) = (Vec::new(), id);
            while let Pattern::Group(first, rest) = *arena.pattern(last) {
                required.append(&mut required_in(arena, first, visits));
                last = rest;
            }
            required.append(&mut required_in(arena, last, visits));
            required
        }
        _ => Vec::new(),
    }
}

/// Returns a name in quotes, with its namespace if that is another one than `namespace`.
pub(super) fn quoted(own: &str, local: &str, namespace: &str) -> String {
    let name = clipped(local);
    if own == namespace {
        return format!("\"{name}\"");
    }
    match own {
        "" => format!("\"{name}\" without a namespace"),
        _ => format!("\"{name}\" of namespace \"{}\"", clipped(own)),
    }
}

fn named(label: &Label, namespace: &str) -> String {
    match label {
        Label::Name { local, namespace: own } => quoted(own, local, namespace),
        Label::NamespaceName(own) => format!("any name of namespace \"{}\"", clipped(own)),
        Label::AnyName => "any name".to_owned(),
    }
}

struct List {
    entries: Vec<String>,
    seen: HashSet<String>,
    left_out: usize,
}

impl List {
    fn add(&mut self, entry: String) {
        if !self.seen.insert(entry.clone()) {
            return;
        }
        if self.entries.len() + 1 < Invalid::EXPECTED_MAX {
            self.entries.push(entry);
        } else {
            self.left_out += 1;
        }
    }

    fn done(mut self) -> Vec<String> {
        if self.left_out > 0 {
            self.entries.push("others".to_owned());
        }
        self.entries
    }
}
