//! The states of the open documents of a thread. The automaton holds them, so that it can renumber them when
//! it is emptied.

use std::collections::HashMap;
use std::rc::Rc;

use super::tables::Rests;
use crate::pattern::{Arena, Id, Pattern};

/// The state of one document: the current pattern, and the rests of the open elements.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) state: Id,
    pub(super) open: Vec<Rests>,
}

/// The lists of rests, each of them once.
#[derive(Debug, Default)]
pub(super) struct RestLists {
    lists: Vec<Rc<[Id]>>,
    numbers: HashMap<Rc<[Id]>, Rests>,
    /// The number of patterns in all lists.
    size: usize,
}

impl RestLists {
    pub(super) fn intern(&mut self, list: Vec<Id>) -> Rests {
        if let Some(known) = self.numbers.get(list.as_slice()) {
            return *known;
        }
        let number = Rests(u32::try_from(self.lists.len()).unwrap_or(u32::MAX));
        let list: Rc<[Id]> = list.into();
        self.size += list.len() + 1;
        self.lists.push(Rc::clone(&list));
        self.numbers.insert(list, number);
        number
    }

    pub(super) fn list(&self, rests: Rests) -> &[Id] {
        &self.lists[rests.0 as usize]
    }

    pub(super) const fn size(&self) -> usize {
        self.size
    }
}

/// Copies patterns from a full arena into a new one.
pub(super) struct Renumbering<'a> {
    pub(super) from: &'a Arena,
    pub(super) to: &'a mut Arena,
    /// The patterns of the schema have the same ids in both arenas.
    pub(super) known: HashMap<Id, Id>,
    pub(super) schema_size: u32,
}

impl Renumbering<'_> {
    pub(super) fn copy(&mut self, id: Id) -> Id {
        if id.0 < self.schema_size {
            return id;
        }
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let pattern = match self.from.pattern(id).clone() {
            Pattern::Choice(parts) => {
                // New ids have another order.
                let mut parts: Vec<Id> = parts.iter().map(|part| self.copy(*part)).collect();
                parts.sort_unstable();
                Pattern::Choice(parts.into())
            }
            Pattern::Interleave(parts) => {
                let mut parts: Vec<Id> = parts.iter().map(|part| self.copy(*part)).collect();
                parts.sort_unstable();
                Pattern::Interleave(parts.into())
            }
            Pattern::Group(..) => return self.copy_group(id),
            Pattern::OneOrMore(part) => Pattern::OneOrMore(self.copy(part)),
            Pattern::List(part) => Pattern::List(self.copy(part)),
            Pattern::Data(data, except) => Pattern::Data(data, except.map(|except| self.copy(except))),
            Pattern::Attribute(attribute, value) => Pattern::Attribute(attribute, self.copy(value)),
            Pattern::After(content, rest) => Pattern::After(self.copy(content), self.copy(rest)),
            leaf => leaf,
        };
        let copy = self.to.intern(pattern);
        self.known.insert(id, copy);
        copy
    }

    /// Copies a group without recursion along its rest.
    fn copy_group(&mut self, group: Id) -> Id {
        let (mut members, mut last) = (Vec::new(), group);
        while let Pattern::Group(first, rest) = *self.from.pattern(last)
            && last.0 >= self.schema_size
        {
            members.push(self.copy(first));
            last = rest;
        }
        let end = self.copy(last);
        let copy =
            members.into_iter().rev().fold(end, |rest, first| self.to.intern(Pattern::Group(first, rest)));
        self.known.insert(group, copy);
        copy
    }
}
