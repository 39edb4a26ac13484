//! Texts with datatypes: which datatypes, values and lists match, and what remains.

use std::collections::HashSet;
use std::rc::Rc;

use super::machine::{Automaton, Spent, Work};
use super::tables::{Leaves, Tables, by_pattern};
use crate::datatype::{Namespaces, Value};
use crate::name::{collapsed, is_blank, words};
use crate::pattern::{Id, Pattern};

/// The leaves that a text matches. Most texts match one, which needs no memory.
#[derive(Debug, Default)]
struct Matching {
    first: Option<Id>,
    others: Vec<Id>,
}

impl Matching {
    fn push(&mut self, leaf: Id) {
        match self.first {
            None => self.first = Some(leaf),
            Some(_) => self.others.push(leaf),
        }
    }
}

impl Automaton {
    /// Whether `value`, the pattern of an attribute's value, matches a text.
    pub(crate) fn matches(
        &mut self,
        value: Id,
        text: &str,
        namespaces: &dyn Namespaces,
        work: &mut Work,
    ) -> Result<bool, Spent> {
        match self.arena.pattern(value) {
            Pattern::Text => return Ok(true),
            Pattern::Data(..) | Pattern::Value(_) => return self.leaf_matches(value, text, namespaces, work),
            _ => {}
        }
        if self.arena.facts(value).is_nullable && is_blank(text) {
            return Ok(true);
        }
        let rest = self.after_text(value, text, namespaces, work)?;
        Ok(self.arena.facts(rest).is_nullable)
    }

    /// Returns the pattern that remains of `state` after `text`.
    pub(crate) fn after_text(
        &mut self,
        state: Id,
        text: &str,
        namespaces: &dyn Namespaces,
        work: &mut Work,
    ) -> Result<Id, Spent> {
        if !self.arena.facts(state).has_data {
            return self.after_plain_text(state, work);
        }
        let matching = self.matching(state, text, namespaces, work)?;
        let matched = match (matching.first, matching.others.as_slice()) {
            (first, []) => first.unwrap_or(Id::NOT_ALLOWED),
            (first, others) => self.arena.choice(first.into_iter().chain(others.iter().copied())),
        };
        let key = by_pattern(state, matched);
        if let Some(known) = self.tables.data.get(&key) {
            return Ok(*known);
        }
        let matching: HashSet<Id> = matching.first.into_iter().chain(matching.others).collect();
        let rest =
            self.derive(work, |derivative| derivative.text(state, &|leaf| matching.contains(&leaf)))?;
        self.tables.data.insert(key, rest);
        self.tables.count += 1;
        Ok(rest)
    }

    fn after_plain_text(&mut self, state: Id, work: &mut Work) -> Result<Id, Spent> {
        if let Some(Some(known)) = self.tables.text.get(state.0 as usize) {
            return Ok(*known);
        }
        let rest = self.derive(work, |derivative| derivative.text(state, &|_| false))?;
        Tables::set(&mut self.tables.text, state, rest);
        self.tables.count += 1;
        Ok(rest)
    }

    /// Returns the leaves of `state` that match.
    fn matching(
        &mut self,
        state: Id,
        text: &str,
        namespaces: &dyn Namespaces,
        work: &mut Work,
    ) -> Result<Matching, Spent> {
        let leaves = self.leaves(state);
        let mut matching = Matching::default();
        for leaf in &leaves.tests {
            work.used += 1;
            if self.leaf_matches(*leaf, text, namespaces, work)? {
                matching.push(*leaf);
            }
        }
        if !leaves.by_words.is_empty() {
            let found = leaves.by_words.get(text).or_else(|| leaves.by_words.get(collapsed(text).as_str()));
            found.into_iter().flatten().for_each(|leaf| matching.push(*leaf));
        }
        Ok(matching)
    }

    fn leaves(&mut self, state: Id) -> Rc<Leaves> {
        if let Some(Some(known)) = self.tables.leaves.get(state.0 as usize) {
            return Rc::clone(known);
        }
        let mut leaves = Leaves::default();
        let (mut seen, mut waiting) = (HashSet::new(), vec![state]);
        while let Some(id) = waiting.pop() {
            if !seen.insert(id) || !self.arena.facts(id).has_data {
                continue;
            }
            self.tables.count += 1;
            match self.arena.pattern(id) {
                Pattern::Choice(parts) | Pattern::Interleave(parts) => waiting.extend(parts.iter()),
                Pattern::Group(first, rest) => waiting.extend([*first, *rest]),
                Pattern::OneOrMore(part) | Pattern::After(part, _) => waiting.push(*part),
                Pattern::Value(value) => match &self.grammar.values[*value as usize] {
                    (datatype, Value::Text(text)) if datatype.compares_words() => {
                        leaves.by_words.entry(collapsed(text).into()).or_default().push(id);
                    }
                    _ => leaves.tests.push(id),
                },
                _ => leaves.tests.push(id),
            }
        }
        let leaves = Rc::new(leaves);
        Tables::set(&mut self.tables.leaves, state, Rc::clone(&leaves));
        leaves
    }

    fn leaf_matches(
        &mut self,
        leaf: Id,
        text: &str,
        namespaces: &dyn Namespaces,
        work: &mut Work,
    ) -> Result<bool, Spent> {
        match *self.arena.pattern(leaf) {
            Pattern::Data(data, except) => {
                if !self.grammar.data[data as usize].allows(text, namespaces) {
                    return Ok(false);
                }
                match except {
                    Some(except) => Ok(!self.matches(except, text, namespaces, work)?),
                    None => Ok(true),
                }
            }
            Pattern::Value(value) => {
                let (datatype, value) = &self.grammar.values[value as usize];
                Ok(datatype.equals(value, text, namespaces))
            }
            Pattern::List(part) => {
                let mut state = part;
                for word in words(text) {
                    work.used += 1;
                    state = self.after_text(state, word, namespaces, work)?;
                    if state == Id::NOT_ALLOWED {
                        return Ok(false);
                    }
                }
                Ok(self.arena.facts(state).is_nullable)
            }
            _ => Ok(false),
        }
    }
}
