//! Attributes of a group with the same name (section 7.3), and elements and text of an interleave that look
//! alike (section 7.4).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::pattern::{Grammar, Id, NameSet, Pattern};
use crate::syntax::{At, SchemaFault};

pub(super) struct Overlaps<'a> {
    grammar: &'a Grammar,
    checked: HashSet<Id>,
    leaves: HashMap<Id, Rc<Leaves>>,
    comparisons: u64,
    comparisons_max: u64,
}

/// The attributes and elements of a pattern, each of them once, and whether it has text.
#[derive(Clone, Debug, Default)]
struct Leaves {
    attributes: Vec<u32>,
    elements: Vec<u32>,
    has_text: bool,
}

impl Leaves {
    fn add(&mut self, other: &Self) {
        self.attributes.extend_from_slice(&other.attributes);
        self.elements.extend_from_slice(&other.elements);
        self.has_text |= other.has_text;
    }

    fn sort(&mut self) {
        for list in [&mut self.attributes, &mut self.elements] {
            list.sort_unstable();
            list.dedup();
        }
    }
}

impl<'a> Overlaps<'a> {
    pub(super) fn new(grammar: &'a Grammar, comparisons_max: u64) -> Self {
        Self { grammar, checked: HashSet::new(), leaves: HashMap::new(), comparisons: 0, comparisons_max }
    }

    /// Checks `id` and its parts. `at` is the place of the element around it.
    pub(super) fn check(&mut self, id: Id, at: At) -> Result<(), SchemaFault> {
        if !self.checked.insert(id) {
            return Ok(());
        }
        match self.grammar.arena.pattern(id) {
            Pattern::Choice(parts) => parts.iter().try_for_each(|part| self.check(*part, at)),
            Pattern::Interleave(parts) => {
                self.check_parts(parts, true, at)?;
                parts.iter().try_for_each(|part| self.check(*part, at))
            }
            Pattern::Group(..) => {
                let members = self.members(id);
                self.check_parts(&members, false, at)?;
                members.iter().try_for_each(|member| self.check(*member, at))
            }
            Pattern::OneOrMore(part) => self.check(*part, at),
            _ => Ok(()),
        }
    }

    fn members(&self, group: Id) -> Vec<Id> {
        let (mut members, mut last) = (Vec::new(), group);
        while let Pattern::Group(first, rest) = *self.grammar.arena.pattern(last) {
            members.push(first);
            last = rest;
        }
        members.push(last);
        members
    }

    /// Compares each part with the parts before it.
    fn check_parts(&mut self, parts: &[Id], is_interleave: bool, at: At) -> Result<(), SchemaFault> {
        let mut before = Leaves::default();
        let mut names = Names::default();
        for part in parts {
            let own = self.leaves(*part);
            if is_interleave && own.has_text && before.has_text {
                return Err(SchemaFault::new(at, "text occurs in two parts of an interleave"));
            }
            for attribute in &own.attributes {
                let declaration = &self.grammar.attributes[*attribute as usize];
                if self.overlaps(&declaration.names, &names.attributes, at)? {
                    let text = "the attribute has the name of another attribute of the same element";
                    return Err(SchemaFault::new(declaration.at, text));
                }
            }
            if is_interleave {
                for element in &own.elements {
                    let declaration = &self.grammar.elements[*element as usize].declaration;
                    if self.overlaps(&declaration.names, &names.elements, at)? {
                        let text = "the element has the name of an element in another part of an interleave";
                        return Err(SchemaFault::new(declaration.at, text));
                    }
                }
                names
                    .elements
                    .add(own.elements.iter().map(|e| &self.grammar.elements[*e as usize].declaration.names));
            }
            names.attributes.add(own.attributes.iter().map(|a| &self.grammar.attributes[*a as usize].names));
            before.has_text |= own.has_text;
        }
        Ok(())
    }

    /// Whether `set` has a name of the sets before. Single names are compared at once.
    fn overlaps(&mut self, set: &NameSet, before: &Sets<'_>, at: At) -> Result<bool, SchemaFault> {
        if let NameSet::One(symbol) = set
            && before.single.contains(symbol)
        {
            return Ok(true);
        }
        let others = match set {
            NameSet::One(_) => before.many.len(),
            NameSet::Many(_) => before.many.len() + before.single.len(),
        };
        self.comparisons += others as u64;
        if self.comparisons > self.comparisons_max {
            let text =
                format!("the schema needs too many comparisons of names: limit {}", self.comparisons_max);
            return Err(SchemaFault::new(at, text));
        }
        let has_many = before.many.iter().any(|other| set.overlaps(other));
        let has_single =
            matches!(set, NameSet::Many(_)) && before.single.iter().any(|symbol| set.contains(*symbol));
        Ok(has_many || has_single)
    }

    fn leaves(&mut self, id: Id) -> Rc<Leaves> {
        if let Some(known) = self.leaves.get(&id) {
            return Rc::clone(known);
        }
        let mut leaves = Leaves::default();
        match self.grammar.arena.pattern(id) {
            Pattern::Text => leaves.has_text = true,
            Pattern::Attribute(attribute, _) => leaves.attributes.push(*attribute),
            Pattern::Element(element) => leaves.elements.push(*element),
            Pattern::Choice(parts) | Pattern::Interleave(parts) => {
                parts.iter().for_each(|part| leaves.add(&self.leaves(*part)));
            }
            Pattern::Group(..) => {
                self.members(id).into_iter().for_each(|member| leaves.add(&self.leaves(member)));
            }
            Pattern::OneOrMore(part) => leaves.add(&self.leaves(*part)),
            _ => {}
        }
        leaves.sort();
        let leaves = Rc::new(leaves);
        self.leaves.insert(id, Rc::clone(&leaves));
        leaves
    }
}

#[derive(Default)]
struct Names<'a> {
    attributes: Sets<'a>,
    elements: Sets<'a>,
}

/// The names of the parts before.
#[derive(Default)]
struct Sets<'a> {
    single: HashSet<crate::pattern::Symbol>,
    many: Vec<&'a NameSet>,
}

impl<'a> Sets<'a> {
    fn add(&mut self, sets: impl Iterator<Item = &'a NameSet>) {
        for set in sets {
            match set {
                NameSet::One(symbol) => {
                    self.single.insert(*symbol);
                }
                NameSet::Many(_) => self.many.push(set),
            }
        }
    }
}
