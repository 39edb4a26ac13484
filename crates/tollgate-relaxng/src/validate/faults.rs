//! The faults of a document as texts.

use super::expected::{Wanted, expected, quoted, required};
use super::validator::{Attribute, Start, Validator};
use crate::Invalid;
use crate::automaton::{Automaton, Spent};
use crate::error::Fault;
use crate::pattern::Id;

impl Validator {
    fn invalid(&self, fault: Fault, found: String, expected: Vec<String>, byte: u64) -> Box<Invalid> {
        Box::new(Invalid { fault, path: self.path.shown(), byte, found, expected })
    }

    pub(super) fn limit(&self, found: String, byte: u64) -> Box<Invalid> {
        self.invalid(Fault::Limit, found, Vec::new(), byte)
    }

    pub(super) fn spent(&self, spent: Spent, byte: u64) -> Box<Invalid> {
        let found = match spent {
            Spent::Work => format!("the document needs too much work: limit {} units", self.work.max),
            Spent::Room => {
                format!("the document has too many states: limit {} patterns", self.limits.patterns_max)
            }
        };
        self.limit(found, byte)
    }

    pub(super) fn element_fault(&self, automaton: &Automaton, start: &Start<'_>) -> Box<Invalid> {
        let state = automaton.state(self.number);
        let name = quoted(start.namespace, start.local, self.path.namespace());
        let found = match self.path.depth() {
            0 => format!("element {name} is not allowed as the root"),
            _ => format!("element {name} is not allowed in \"{}\"", self.path.shown()),
        };
        let expected = self.content(automaton, state, start.namespace);
        self.invalid(Fault::Element, found, expected, start.byte)
    }

    /// Returns the elements and texts that `state` allows, and the end of the element if it allows that.
    fn content(&self, automaton: &Automaton, state: Id, namespace: &str) -> Vec<String> {
        let mut entries = expected(&automaton.grammar, &automaton.arena, state, Wanted::Content, namespace);
        if automaton.allows_end(state) {
            entries.truncate(Invalid::EXPECTED_MAX - 1);
            entries.push(format!("the end of \"{}\"", self.path.local()));
        }
        entries
    }

    pub(super) fn attribute_fault(
        &self,
        automaton: &Automaton,
        state: Id,
        values: &[(Id, Id)],
        attribute: &Attribute<'_>,
        byte: u64,
    ) -> Box<Invalid> {
        let name = quoted(attribute.namespace, attribute.local, "");
        let shown = self.path.shown();
        let (grammar, arena) = (&automaton.grammar, &automaton.arena);
        if values.is_empty() {
            let found = format!("attribute {name} is not allowed in \"{shown}\"");
            let expected = expected(grammar, arena, state, Wanted::Attributes, "");
            return self.invalid(Fault::Attribute, found, expected, byte);
        }
        let found = format!("the value of attribute {name} in \"{shown}\" is not allowed");
        let mut allowed: Vec<String> = Vec::new();
        for (value, _) in values {
            allowed.extend(expected(grammar, arena, *value, Wanted::Values, ""));
        }
        allowed.truncate(Invalid::EXPECTED_MAX);
        self.invalid(Fault::Attribute, found, allowed, byte)
    }

    pub(super) fn missing_fault(&self, automaton: &Automaton, state: Id, byte: u64) -> Box<Invalid> {
        let (grammar, arena) = (&automaton.grammar, &automaton.arena);
        let mut missing = required(grammar, arena, state);
        if missing.is_empty() {
            missing = expected(grammar, arena, state, Wanted::Attributes, "");
        }
        let found = format!("element \"{}\" lacks an attribute", self.path.shown());
        self.invalid(Fault::MissingAttribute, found, missing, byte)
    }

    pub(super) fn text_fault(
        &self,
        automaton: &Automaton,
        state: Id,
        wanted: Wanted,
        byte: u64,
    ) -> Box<Invalid> {
        let shown = self.path.shown();
        let (found, expected) = match wanted {
            Wanted::Values => {
                let values = expected(&automaton.grammar, &automaton.arena, state, wanted, "");
                (format!("the text of \"{shown}\" is not allowed"), values)
            }
            Wanted::Content | Wanted::Attributes => {
                let content = self.content(automaton, state, self.path.namespace());
                (format!("text is not allowed in \"{shown}\""), content)
            }
        };
        self.invalid(Fault::Text, found, expected, byte)
    }

    pub(super) fn incomplete_fault(&self, automaton: &Automaton, state: Id, byte: u64) -> Box<Invalid> {
        let found = format!("element \"{}\" is not complete", self.path.shown());
        let expected = self.content(automaton, state, self.path.namespace());
        self.invalid(Fault::Incomplete, found, expected, byte)
    }
}
