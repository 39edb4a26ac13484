//! The lazily built automaton of a schema.
//!
//! A state is a choice of [`Pattern::After`]: one for each content that the open element may have. The rests
//! of the parents are in lists on the stack of the document and not in the state. So the states inside of an
//! element do not depend on the elements around it, and a recursive schema has a bounded number of states.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::derivative::{Budget, Derivative, Leaf, Pairs};
use super::documents::{Document, Renumbering, RestLists};
use super::tables::{Opened, Rests, Tables, Valued, by_rests, by_symbol};
use crate::ValidationLimits;
use crate::pattern::{Arena, Grammar, Id, Pattern, Symbol};

/// A limit ended a derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// The document used its work.
    Work,
    /// The patterns of the open documents need more patterns than the automaton may have.
    Room,
}

#[derive(Debug)]
pub(crate) struct Automaton {
    pub(crate) grammar: Arc<Grammar>,
    pub(crate) arena: Arena,
    pub(super) tables: Tables,
    rests: RestLists,
    documents: Vec<Option<Document>>,
    free: Vec<usize>,
    patterns_max: usize,
    transitions_max: usize,
}

/// The work of a document so far, and its bound.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) used: u64,
    pub(crate) max: u64,
}

impl Automaton {
    pub(crate) fn new(grammar: Arc<Grammar>, limits: &ValidationLimits) -> Self {
        Self {
            arena: grammar.arena.clone(),
            grammar,
            tables: Tables::default(),
            rests: RestLists::default(),
            documents: Vec::new(),
            free: Vec::new(),
            patterns_max: limits.patterns_max,
            transitions_max: limits.transitions_max,
        }
    }

    /// Adds a document in the start state, and returns its number.
    pub(crate) fn add_document(&mut self) -> usize {
        let state = self.grammar.start;
        let document = Some(Document { state, open: Vec::new() });
        match self.free.pop() {
            Some(number) => {
                self.documents[number] = document;
                number
            }
            None => {
                self.documents.push(document);
                self.documents.len() - 1
            }
        }
    }

    pub(crate) fn remove_document(&mut self, number: usize) {
        self.documents[number] = None;
        self.free.push(number);
    }

    pub(crate) fn state(&self, number: usize) -> Id {
        self.documents[number].as_ref().map_or(Id::NOT_ALLOWED, |document| document.state)
    }

    pub(crate) fn set_state(&mut self, number: usize, state: Id) {
        if let Some(document) = &mut self.documents[number] {
            document.state = state;
        }
    }

    /// Enters an element.
    pub(crate) fn push(&mut self, number: usize, rests: Rests) {
        if let Some(document) = &mut self.documents[number] {
            document.open.push(rests);
        }
    }

    /// Leaves an element.
    pub(crate) fn pop(&mut self, number: usize) {
        if let Some(document) = &mut self.documents[number] {
            document.open.pop();
        }
    }

    /// Empties a full automaton at the start of an event: the tables, and the arena too if patterns fill it.
    ///
    /// Only the ids in documents stay valid.
    ///
    /// # Errors
    /// The open documents alone fill half of the arena.
    pub(crate) fn make_room(&mut self) -> Result<(), Spent> {
        let schema_size = self.grammar.arena.size();
        let is_full = |own: &Self| {
            own.arena.is_too_deep() || own.arena.size() + own.rests.size() > schema_size + own.patterns_max
        };
        if is_full(self) {
            self.renumber();
            if self.arena.size() + self.rests.size() > schema_size + self.patterns_max / 2 {
                return Err(Spent::Room);
            }
        } else if self.tables.count > self.transitions_max {
            self.tables = Tables::default();
        }
        Ok(())
    }

    /// Copies the states of the open documents into a new arena.
    fn renumber(&mut self) {
        let mut arena = self.grammar.arena.clone();
        let mut rests = RestLists::default();
        let mut renumbering = Renumbering {
            from: &self.arena,
            to: &mut arena,
            known: HashMap::new(),
            schema_size: self.grammar.arena.count(),
        };
        let mut lists: HashMap<Rests, Rests> = HashMap::new();
        for document in self.documents.iter_mut().flatten() {
            document.state = renumbering.copy(document.state);
            for open in &mut document.open {
                *open = *lists.entry(*open).or_insert_with(|| {
                    let list = self.rests.list(*open).iter().map(|id| renumbering.copy(*id)).collect();
                    rests.intern(list)
                });
            }
        }
        self.arena = arena;
        self.rests = rests;
        self.tables = Tables::default();
    }

    /// Calls `derive`, and counts its work.
    pub(super) fn derive<T>(
        &mut self,
        work: &mut Work,
        derive: impl FnOnce(&mut Derivative<'_>) -> T,
    ) -> Result<T, Spent> {
        let size_max = self.grammar.arena.size() + 2 * self.patterns_max;
        let mut budget = Budget { work: work.used, work_max: work.max, size_max };
        let mut derivative = Derivative::new(&self.grammar, &mut self.arena, &mut budget);
        let result = derive(&mut derivative);
        let is_spent = derivative.is_spent();
        work.used = budget.work;
        match is_spent {
            false => Ok(result),
            true if budget.is_spent() => Err(Spent::Work),
            true => Err(Spent::Room),
        }
    }

    /// Returns the transition of a start tag. Its state is `NOT_ALLOWED` if there is none.
    pub(crate) fn open(&mut self, number: usize, name: Symbol, work: &mut Work) -> Result<Opened, Spent> {
        if let Some(known) = self.tables.open.get(&by_symbol(self.state(number), name)) {
            return Ok(*known);
        }
        let state = self.state(number);
        let pairs = self.derive(work, |derivative| derivative.begin(state, Leaf::Element(name)))?;
        let opened = self.opened(&pairs);
        self.tables.open.insert(by_symbol(state, name), opened);
        self.tables.count += 1;
        Ok(opened)
    }

    /// Numbers the contents by slots, and keeps the rest of the parent for each slot.
    fn opened(&mut self, pairs: &Pairs) -> Opened {
        let rests = self.rests.intern(pairs.iter().map(|(_, rest)| *rest).collect());
        let arena = &mut self.arena;
        let contents = (0..).zip(pairs.iter()).map(|(slot, (content, _))| {
            let slot = arena.intern(Pattern::Slot(slot));
            arena.after(*content, slot)
        });
        let contents: Vec<Id> = contents.collect();
        Opened { state: self.arena.choice(contents), rests }
    }

    /// Returns the transition of an attribute in `state`, which is empty if the attribute is not allowed.
    pub(crate) fn attribute(&mut self, state: Id, name: Symbol, work: &mut Work) -> Result<Valued, Spent> {
        let key = by_symbol(state, name);
        if let Some(known) = self.tables.attribute.get(&key) {
            return Ok(Rc::clone(known));
        }
        let pairs = self.derive(work, |derivative| derivative.begin(state, Leaf::Attribute(name)))?;
        self.tables.count += 1 + pairs.len();
        self.tables.attribute.insert(key, Rc::clone(&pairs));
        Ok(pairs)
    }

    /// Returns the state after the attributes, or `NOT_ALLOWED` if one is missing.
    pub(crate) fn close(&mut self, state: Id, work: &mut Work) -> Result<Id, Spent> {
        if let Some(Some(known)) = self.tables.close.get(state.0 as usize) {
            return Ok(*known);
        }
        let closed = self.derive(work, |derivative| derivative.close(state))?;
        Tables::set(&mut self.tables.close, state, closed);
        self.tables.count += 1;
        Ok(closed)
    }

    /// Whether the open element may end in `state`.
    pub(crate) fn allows_end(&self, state: Id) -> bool {
        let may_end = |id: Id| match self.arena.pattern(id) {
            Pattern::After(content, _) => self.arena.facts(*content).is_nullable,
            _ => false,
        };
        match self.arena.pattern(state) {
            Pattern::Choice(parts) => parts.iter().any(|part| may_end(*part)),
            _ => may_end(state),
        }
    }

    /// Returns the state of the parent after the end of its child, or `NOT_ALLOWED` if the content of the
    /// child is not complete.
    pub(crate) fn end(&mut self, number: usize, state: Id) -> Id {
        let last = self.documents[number].as_ref().and_then(|document| document.open.last().copied());
        let Some(rests) = last else { return Id::NOT_ALLOWED };
        let key = by_rests(state, rests);
        if let Some(known) = self.tables.end.get(&key) {
            return *known;
        }
        let contents: Vec<Id> = match self.arena.pattern(state) {
            Pattern::Choice(parts) => parts.to_vec(),
            _ => vec![state],
        };
        let list = self.rests.list(rests);
        let mut choices = Vec::new();
        for content in contents {
            if let Pattern::After(content, slot) = *self.arena.pattern(content)
                && self.arena.facts(content).is_nullable
                && let Pattern::Slot(slot) = *self.arena.pattern(slot)
            {
                choices.push(list[slot as usize]);
            }
        }
        let parent = self.arena.choice(choices);
        self.tables.end.insert(key, parent);
        self.tables.count += 1;
        parent
    }
}
