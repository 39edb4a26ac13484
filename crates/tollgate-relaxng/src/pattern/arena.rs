//! The store of patterns. Two patterns that are built in the same way have the same [`Id`], so that a
//! derivative that was seen before is found by its id.
//!
//! The constructors apply the rules of sections 4.20 and 4.21 of the specification, and rules of algebra that
//! keep the number of different derivatives small.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

/// The index of a pattern in its [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) u32);

impl Id {
    pub(crate) const NOT_ALLOWED: Self = Self(0);
    pub(crate) const EMPTY: Self = Self(1);
    pub(crate) const TEXT: Self = Self(2);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A pattern. Numbers are indices into the tables of [`super::Grammar`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pattern {
    NotAllowed,
    Empty,
    Text,
    /// At least two patterns, sorted, each of them once.
    Choice(Arc<[Id]>),
    /// The first part is not a group.
    Group(Id, Id),
    /// At least two patterns, sorted. The same pattern may occur several times.
    Interleave(Arc<[Id]>),
    OneOrMore(Id),
    List(Id),
    Data(u32, Option<Id>),
    Value(u32),
    Attribute(u32, Id),
    Element(u32),
    /// The content of the open element, and a pattern of its parent that begins with a [`Pattern::Slot`].
    After(Id, Id),
    /// The rest of the parent with this number, in the list that the stack of the document has.
    Slot(u32),
}

/// What is true of a pattern and its parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) is_nullable: bool,
    /// An attribute is part of the pattern, outside of elements.
    pub(crate) has_attribute: bool,
    /// A datatype, a value or a list is part of the pattern, outside of elements and attributes.
    pub(crate) has_data: bool,
    depth: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct Arena {
    patterns: Vec<Pattern>,
    facts: Vec<Facts>,
    ids: HashMap<Pattern, Id, FixedState>,
    /// The number of references from patterns to their parts.
    parts: usize,
    /// Whether a pattern exceeded the largest depth.
    is_too_deep: bool,
}

/// The levels of patterns inside each other. Functions over patterns recurse to this depth.
const DEPTH_MAX: u16 = 1000;

impl Arena {
    pub(crate) fn new() -> Self {
        let mut arena = Self {
            patterns: Vec::new(),
            facts: Vec::new(),
            ids: HashMap::default(),
            parts: 0,
            is_too_deep: false,
        };
        for leaf in [Pattern::NotAllowed, Pattern::Empty, Pattern::Text] {
            arena.intern(leaf);
        }
        arena
    }

    pub(crate) fn pattern(&self, id: Id) -> &Pattern {
        &self.patterns[id.index()]
    }

    pub(crate) fn facts(&self, id: Id) -> Facts {
        self.facts[id.index()]
    }

    /// Returns the number of patterns and of references between them: a measure of the memory.
    pub(crate) fn size(&self) -> usize {
        self.patterns.len() + self.parts
    }

    /// Returns the number of patterns, which is the next id.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.patterns.len()).unwrap_or(u32::MAX)
    }

    /// Whether a pattern exceeded the largest depth. The constructors returned `notAllowed` for it.
    pub(crate) const fn is_too_deep(&self) -> bool {
        self.is_too_deep
    }

    pub(crate) fn intern(&mut self, pattern: Pattern) -> Id {
        if let Some(&id) = self.ids.get(&pattern) {
            return id;
        }
        let facts = self.facts_of(&pattern);
        if facts.depth > DEPTH_MAX {
            self.is_too_deep = true;
            return Id::NOT_ALLOWED;
        }
        // The bound on the size of an arena is far below the range of `u32`.
        let id = Id(self.count());
        if let Pattern::Choice(parts) | Pattern::Interleave(parts) = &pattern {
            self.parts += parts.len();
        }
        self.patterns.push(pattern.clone());
        self.facts.push(facts);
        self.ids.insert(pattern, id);
        id
    }

    fn facts_of(&self, pattern: &Pattern) -> Facts {
        match pattern {
            Pattern::NotAllowed | Pattern::Element(_) | Pattern::Slot(_) => Facts::default(),
            Pattern::Empty | Pattern::Text => Facts { is_nullable: true, ..Facts::default() },
            Pattern::Data(..) | Pattern::Value(_) | Pattern::List(_) => {
                Facts { has_data: true, ..Facts::default() }
            }
            Pattern::Attribute(..) => Facts { has_attribute: true, ..Facts::default() },
            Pattern::Choice(parts) => self.joined(parts, |facts| facts.iter().any(|f| f.is_nullable)),
            Pattern::Interleave(parts) => self.joined(parts, |facts| facts.iter().all(|f| f.is_nullable)),
            Pattern::Group(first, rest) => {
                let (first, rest) = (self.facts(*first), self.facts(*rest));
                Facts {
                    is_nullable: first.is_nullable && rest.is_nullable,
                    has_attribute: first.has_attribute || rest.has_attribute,
                    has_data: first.has_data || rest.has_data,
                    // Functions walk along the rest without recursion.
                    depth: rest.depth.max(first.depth + 1),
                }
            }
            Pattern::OneOrMore(part) => {
                let facts = self.facts(*part);
                Facts { depth: facts.depth + 1, ..facts }
            }
            Pattern::After(content, _) => {
                let facts = self.facts(*content);
                Facts { depth: facts.depth + 1, is_nullable: false, ..facts }
            }
        }
    }

    fn joined(&self, parts: &[Id], is_nullable: impl Fn(&[Facts]) -> bool) -> Facts {
        let facts: Vec<Facts> = parts.iter().map(|part| self.facts(*part)).collect();
        Facts {
            is_nullable: is_nullable(&facts),
            has_attribute: facts.iter().any(|facts| facts.has_attribute),
            has_data: facts.iter().any(|facts| facts.has_data),
            depth: facts.iter().map(|facts| facts.depth).max().unwrap_or(0) + 1,
        }
    }

    /// Joins alternatives. Equal ones count once, and `empty` adds nothing to a part that may be empty.
    pub(crate) fn choice(&mut self, alternatives: impl IntoIterator<Item = Id>) -> Id {
        let mut parts = Vec::new();
        for id in alternatives {
            match self.pattern(id) {
                Pattern::NotAllowed => {}
                Pattern::Choice(inner) => parts.extend_from_slice(inner),
                _ => parts.push(id),
            }
        }
        parts.sort_unstable();
        parts.dedup();
        self.join_contents(&mut parts);
        if parts.first() == Some(&Id::EMPTY) && parts[1..].iter().any(|id| self.facts(*id).is_nullable) {
            parts.remove(0);
        }
        match parts.as_slice() {
            [] => Id::NOT_ALLOWED,
            [one] => *one,
            _ => self.intern(Pattern::Choice(parts.into())),
        }
    }

    /// Joins the contents of alternatives that have the same rest after them, so that a state has one form.
    fn join_contents(&mut self, parts: &mut Vec<Id>) {
        let after = |own: &Self, id: Id| match *own.pattern(id) {
            Pattern::After(content, rest) => Some((rest, content)),
            _ => None,
        };
        let mut pairs: Vec<(Id, Id)> = parts.iter().filter_map(|id| after(self, *id)).collect();
        if pairs.len() < 2 {
            return;
        }
        pairs.sort_unstable();
        parts.retain(|id| after(self, *id).is_none());
        for same in pairs.chunk_by(|one, other| one.0 == other.0) {
            let content = self.choice(same.iter().map(|(_, content)| *content));
            let joined = self.after(content, same[0].0);
            parts.push(joined);
        }
        parts.sort_unstable();
    }

    /// Joins two patterns in order. Groups are nested in their second part only.
    pub(crate) fn group(&mut self, first: Id, rest: Id) -> Id {
        if first == Id::NOT_ALLOWED || rest == Id::NOT_ALLOWED {
            return Id::NOT_ALLOWED;
        }
        if first == Id::EMPTY {
            return rest;
        }
        if rest == Id::EMPTY {
            return first;
        }
        let mut heads = Vec::new();
        let mut last = first;
        while let Pattern::Group(head, rest) = *self.pattern(last) {
            heads.push(head);
            last = rest;
        }
        let mut group = self.intern(Pattern::Group(last, rest));
        for head in heads.into_iter().rev() {
            group = self.intern(Pattern::Group(head, group));
        }
        group
    }

    /// Joins patterns whose parts may come in any order.
    pub(crate) fn interleave(&mut self, parts: impl IntoIterator<Item = Id>) -> Id {
        let mut flat = Vec::new();
        for id in parts {
            match self.pattern(id) {
                Pattern::NotAllowed => return Id::NOT_ALLOWED,
                Pattern::Empty => {}
                Pattern::Interleave(inner) => flat.extend_from_slice(inner),
                _ => flat.push(id),
            }
        }
        flat.sort_unstable();
        match flat.as_slice() {
            [] => Id::EMPTY,
            [one] => *one,
            _ => self.intern(Pattern::Interleave(flat.into())),
        }
    }

    pub(crate) fn one_or_more(&mut self, part: Id) -> Id {
        match self.pattern(part) {
            Pattern::NotAllowed | Pattern::Empty | Pattern::OneOrMore(_) => part,
            _ => self.intern(Pattern::OneOrMore(part)),
        }
    }

    pub(crate) fn optional(&mut self, part: Id) -> Id {
        self.choice([part, Id::EMPTY])
    }

    pub(crate) fn after(&mut self, content: Id, rest: Id) -> Id {
        if content == Id::NOT_ALLOWED || rest == Id::NOT_ALLOWED {
            return Id::NOT_ALLOWED;
        }
        self.intern(Pattern::After(content, rest))
    }
}
