//! Derivatives of patterns, as in James Clark's "An algorithm for RELAX NG validation". A derivative is the
//! pattern of what may follow.
//!
//! Each function remembers the parts that it has seen, so that shared parts cost their work once. The work is
//! counted, and ends with the budget of the document or when the arena is full.

use std::collections::HashMap;
use std::rc::Rc;

use crate::pattern::{Arena, Grammar, Id, Pattern, Symbol};

/// What can begin, and the pattern that remains after it ends.
pub(super) type Pairs = Rc<[(Id, Id)]>;

pub(super) struct Derivative<'a> {
    pub(super) grammar: &'a Grammar,
    pub(super) arena: &'a mut Arena,
    pub(super) budget: &'a mut Budget,
    pairs: HashMap<Id, Pairs>,
    ids: HashMap<Id, Id>,
}

/// The work that is left, and the size that patterns may reach.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) work: u64,
    pub(super) work_max: u64,
    /// The size that the arena may reach.
    pub(super) size_max: usize,
}

impl Budget {
    pub(super) const fn is_spent(&self) -> bool {
        self.work > self.work_max
    }
}

impl<'a> Derivative<'a> {
    pub(super) fn new(grammar: &'a Grammar, arena: &'a mut Arena, budget: &'a mut Budget) -> Self {
        Self { grammar, arena, budget, pairs: HashMap::new(), ids: HashMap::new() }
    }

    /// Counts a visit of a pattern. Returns false when the work has to end. The result is useless then.
    fn goes_on(&mut self, parts: usize) -> bool {
        self.budget.work = self.budget.work.saturating_add(1 + parts as u64);
        !self.is_spent()
    }

    /// Whether the work ended before its end.
    pub(super) fn is_spent(&self) -> bool {
        self.budget.is_spent() || self.arena.size() > self.budget.size_max || self.arena.is_too_deep()
    }

    /// Returns what can begin with `leaf`, and the pattern that remains after it.
    pub(super) fn begin(&mut self, id: Id, leaf: Leaf) -> Pairs {
        let facts = self.arena.facts(id);
        if matches!(leaf, Leaf::Attribute(_)) && !facts.has_attribute {
            return Pairs::default();
        }
        if let Some(known) = self.pairs.get(&id) {
            return Rc::clone(known);
        }
        let pairs = merged(self.begin_anew(id, leaf), self.arena);
        self.pairs.insert(id, Rc::clone(&pairs));
        pairs
    }

    fn begin_anew(&mut self, id: Id, leaf: Leaf) -> Vec<(Id, Id)> {
        let pattern = self.arena.pattern(id).clone();
        if !self.goes_on(parts_of(&pattern)) {
            return Vec::new();
        }
        match pattern {
            Pattern::Element(element) => match leaf {
                Leaf::Element(name) => {
                    let element = &self.grammar.elements[element as usize];
                    let is_named = element.declaration.names.contains(name);
                    is_named.then_some((element.content, Id::EMPTY)).into_iter().collect()
                }
                Leaf::Attribute(_) => Vec::new(),
            },
            Pattern::Attribute(attribute, value) => match leaf {
                Leaf::Attribute(name) => {
                    let is_named = self.grammar.attributes[attribute as usize].names.contains(name);
                    is_named.then_some((value, Id::EMPTY)).into_iter().collect()
                }
                Leaf::Element(_) => Vec::new(),
            },
            Pattern::Choice(parts) => {
                parts.iter().flat_map(|part| self.begin(*part, leaf).to_vec()).collect()
            }
            Pattern::Group(..) => self.begin_group(id, leaf),
            Pattern::Interleave(parts) => self.begin_interleave(&parts, leaf),
            Pattern::OneOrMore(part) => {
                let again = self.arena.optional(id);
                self.begin_then(part, leaf, |arena, rest| arena.group(rest, again))
            }
            Pattern::After(content, rest) => {
                self.begin_then(content, leaf, |arena, inner| arena.after(inner, rest))
            }
            Pattern::NotAllowed
            | Pattern::Empty
            | Pattern::Text
            | Pattern::Data(..)
            | Pattern::Value(_)
            | Pattern::List(_)
            | Pattern::Slot(_) => Vec::new(),
        }
    }

    fn begin_then(
        &mut self,
        part: Id,
        leaf: Leaf,
        mut then: impl FnMut(&mut Arena, Id) -> Id,
    ) -> Vec<(Id, Id)> {
        let pairs = self.begin(part, leaf);
        pairs.iter().map(|(inner, rest)| (*inner, then(self.arena, *rest))).collect()
    }

    /// Begins a member of a group. An attribute may begin before the members in front of it, and an element
    /// only after them, so that they have to be nullable.
    fn begin_group(&mut self, group: Id, leaf: Leaf) -> Vec<(Id, Id)> {
        let (mut pairs, mut before, mut last) = (Vec::new(), Vec::new(), group);
        loop {
            let (member, rest) = match *self.arena.pattern(last) {
                Pattern::Group(first, rest) => (first, Some(rest)),
                _ => (last, None),
            };
            let skipped: &[Id] = if matches!(leaf, Leaf::Attribute(_)) { &before } else { &[] };
            pairs.append(&mut self.begin_then(member, leaf, |arena, inner| {
                let rest = arena.group(inner, rest.unwrap_or(Id::EMPTY));
                skipped.iter().rev().fold(rest, |rest, skipped| arena.group(*skipped, rest))
            }));
            let goes_on = match leaf {
                Leaf::Element(_) => self.arena.facts(member).is_nullable,
                Leaf::Attribute(_) => rest.is_some_and(|rest| self.arena.facts(rest).has_attribute),
            };
            match rest {
                Some(rest) if goes_on && self.goes_on(before.len()) => {
                    before.push(member);
                    last = rest;
                }
                _ => return pairs,
            }
        }
    }

    fn begin_interleave(&mut self, parts: &[Id], leaf: Leaf) -> Vec<(Id, Id)> {
        let mut pairs = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            // Equal parts are sorted side by side, and begin alike.
            if index > 0 && parts[index - 1] == *part {
                continue;
            }
            let begun = self.begin(*part, leaf);
            if !self.goes_on(parts.len() * begun.len()) {
                return pairs;
            }
            pairs.extend(begun.iter().map(|(inner, rest)| {
                let others = parts.iter().enumerate().filter(|(other, _)| *other != index);
                (*inner, self.arena.interleave(others.map(|(_, part)| *part).chain([*rest])))
            }));
        }
        pairs
    }

    /// Returns the pattern without attributes: the start tag ends.
    pub(super) fn close(&mut self, id: Id) -> Id {
        if !self.arena.facts(id).has_attribute {
            return id;
        }
        if let Some(known) = self.ids.get(&id) {
            return *known;
        }
        let pattern = self.arena.pattern(id).clone();
        if !self.goes_on(parts_of(&pattern)) {
            return Id::NOT_ALLOWED;
        }
        let closed = match pattern {
            Pattern::Choice(parts) => {
                let parts: Vec<Id> = parts.iter().map(|part| self.close(*part)).collect();
                self.arena.choice(parts)
            }
            Pattern::Interleave(parts) => {
                let parts: Vec<Id> = parts.iter().map(|part| self.close(*part)).collect();
                self.arena.interleave(parts)
            }
            Pattern::Group(..) => {
                let closed: Vec<Id> = self.members(id).into_iter().map(|member| self.close(member)).collect();
                closed.into_iter().rev().fold(Id::EMPTY, |rest, member| self.arena.group(member, rest))
            }
            Pattern::OneOrMore(part) => {
                let part = self.close(part);
                self.arena.one_or_more(part)
            }
            Pattern::After(content, rest) => {
                let content = self.close(content);
                self.arena.after(content, rest)
            }
            // An attribute that is still there is missing.
            _ => Id::NOT_ALLOWED,
        };
        self.ids.insert(id, closed);
        closed
    }

    fn members(&self, group: Id) -> Vec<Id> {
        let (mut members, mut last) = (Vec::new(), group);
        while let Pattern::Group(first, rest) = *self.arena.pattern(last) {
            members.push(first);
            last = rest;
        }
        members.push(last);
        members
    }

    /// Returns what remains after a text. `matches` says which datatypes, values and lists the text matches.
    pub(super) fn text(&mut self, id: Id, matches: &dyn Fn(Id) -> bool) -> Id {
        if let Some(known) = self.ids.get(&id) {
            return *known;
        }
        let pattern = self.arena.pattern(id).clone();
        if !self.goes_on(parts_of(&pattern)) {
            return Id::NOT_ALLOWED;
        }
        let rest = match pattern {
            Pattern::Text => Id::TEXT,
            Pattern::Data(..) | Pattern::Value(_) | Pattern::List(_) if matches(id) => Id::EMPTY,
            Pattern::Choice(parts) => {
                let parts: Vec<Id> = parts.iter().map(|part| self.text(*part, matches)).collect();
                self.arena.choice(parts)
            }
            Pattern::Interleave(parts) => {
                let mut choices = Vec::new();
                for (index, part) in parts.iter().enumerate() {
                    let rest = self.text(*part, matches);
                    if rest == Id::NOT_ALLOWED {
                        continue;
                    }
                    let others = parts.iter().enumerate().filter(|(other, _)| *other != index);
                    choices.push(self.arena.interleave(others.map(|(_, part)| *part).chain([rest])));
                    if !self.goes_on(parts.len()) {
                        return Id::NOT_ALLOWED;
                    }
                }
                self.arena.choice(choices)
            }
            Pattern::Group(..) => self.text_of_group(id, matches),
            Pattern::OneOrMore(part) => {
                let rest = self.text(part, matches);
                let again = self.arena.optional(id);
                self.arena.group(rest, again)
            }
            Pattern::After(content, rest) => {
                let content = self.text(content, matches);
                self.arena.after(content, rest)
            }
            _ => Id::NOT_ALLOWED,
        };
        self.ids.insert(id, rest);
        rest
    }

    fn text_of_group(&mut self, group: Id, matches: &dyn Fn(Id) -> bool) -> Id {
        let (mut choices, mut last) = (Vec::new(), group);
        while let Pattern::Group(first, rest) = *self.arena.pattern(last) {
            let remaining = self.text(first, matches);
            choices.push(self.arena.group(remaining, rest));
            last = rest;
            if !self.arena.facts(first).is_nullable {
                return self.arena.choice(choices);
            }
        }
        choices.push(self.text(last, matches));
        self.arena.choice(choices)
    }
}

/// What a tag begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaf {
    Element(Symbol),
    Attribute(Symbol),
}

fn parts_of(pattern: &Pattern) -> usize {
    match pattern {
        Pattern::Choice(parts) | Pattern::Interleave(parts) => parts.len(),
        _ => 0,
    }
}

/// Joins the rests of equal contents, and sorts by content.
fn merged(mut pairs: Vec<(Id, Id)>, arena: &mut Arena) -> Pairs {
    pairs.retain(|(content, rest)| *content != Id::NOT_ALLOWED && *rest != Id::NOT_ALLOWED);
    pairs.sort_unstable();
    pairs.dedup();
    let mut result: Vec<(Id, Id)> = Vec::with_capacity(pairs.len());
    for same in pairs.chunk_by(|one, other| one.0 == other.0) {
        let rest =
            if let [(_, rest)] = same { *rest } else { arena.choice(same.iter().map(|(_, rest)| *rest)) };
        result.push((same[0].0, rest));
    }
    result.into()
}
