//! The validator of one document.

use std::cell::RefCell;
use std::rc::Rc;

use super::expected::Wanted;
use super::path::Path;
use crate::automaton::{Automaton, Spent, Work};
use crate::datatype::Namespaces;
use crate::name::is_blank;
use crate::pattern::{Id, Symbol};
use crate::{Invalid, Schema, ValidationLimits};

/// A start tag with all its attributes. Declarations of namespaces are not attributes.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// The namespace of the element, or an empty text.
    pub namespace: &'a str,
    /// The name without a prefix.
    pub local: &'a str,
    /// The attributes. Their names differ.
    pub attributes: &'a [Attribute<'a>],
    /// The prefixes in scope of the element.
    pub namespaces: &'a dyn Namespaces,
    /// The offset of the tag in the document, which a fault repeats.
    pub byte: u64,
}

/// An attribute with its value, in which references are resolved.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    /// The namespace of the attribute, or an empty text.
    pub namespace: &'a str,
    /// The name without a prefix.
    pub local: &'a str,
    /// The value.
    pub value: &'a str,
}

/// Validates one document. The caller feeds its events in order, and checks well-formedness.
#[derive(Debug)]
pub struct Validator {
    automaton: Rc<RefCell<Automaton>>,
    pub(super) limits: ValidationLimits,
    /// The number of the document in the automaton.
    pub(super) number: usize,
    pub(super) path: Path,
    /// Text of an element with a datatype, up to the next tag.
    text: String,
    pub(super) work: Work,
    fault: Option<Invalid>,
}

impl Validator {
    /// Begins a document.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        let number = schema.automaton.borrow_mut().add_document();
        Self {
            automaton: Rc::clone(&schema.automaton),
            limits: schema.limits,
            number,
            path: Path::default(),
            text: String::new(),
            work: Work { used: 0, max: schema.limits.work_max },
            fault: None,
        }
    }

    /// Returns the units of work so far. See [`crate::ValidationLimits::work_max`].
    #[must_use]
    pub const fn work(&self) -> u64 {
        self.work.used
    }

    /// Returns the bytes of text that wait for the end of their element.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.text.capacity()
    }

    /// Changes the bound on the work of this document. It replaces
    /// [`crate::ValidationLimits::work_max`], for a caller that allows work as bytes come.
    pub const fn set_work_max(&mut self, units: u64) {
        self.work.max = units;
    }

    /// Takes a start tag.
    ///
    /// # Errors
    /// The fault of the document, also for each event after it.
    pub fn start(&mut self, start: &Start<'_>) -> Result<(), Invalid> {
        let judged = self.judge_start(start);
        self.kept(judged)
    }

    /// Takes text. The text between two tags may come in several pieces.
    ///
    /// # Errors
    /// The fault of the document, also for each event after it.
    pub fn text(&mut self, text: &str, byte: u64) -> Result<(), Invalid> {
        let judged = self.judge_text(text, byte);
        self.kept(judged)
    }

    /// Takes an end tag. `namespaces` are the prefixes in scope of the element that ends.
    ///
    /// # Errors
    /// The fault of the document, also for each event after it.
    pub fn end(&mut self, namespaces: &dyn Namespaces, byte: u64) -> Result<(), Invalid> {
        let judged = self.judge_end(namespaces, byte);
        self.kept(judged)
    }

    fn kept(&mut self, judged: Result<(), Box<Invalid>>) -> Result<(), Invalid> {
        judged.map_err(|fault| {
            self.fault = Some((*fault).clone());
            *fault
        })
    }

    /// Counts an event.
    fn begin(&mut self, byte: u64) -> Result<(), Box<Invalid>> {
        if let Some(fault) = &self.fault {
            return Err(Box::new(fault.clone()));
        }
        self.work.used += 1;
        if self.work.used > self.work.max {
            return Err(self.spent(Spent::Work, byte));
        }
        Ok(())
    }

    fn judge_start(&mut self, start: &Start<'_>) -> Result<(), Box<Invalid>> {
        self.begin(start.byte)?;
        let depth_max = self.limits.depth_max;
        if self.path.depth() >= depth_max {
            return Err(
                self.limit(format!("elements are nested too deeply: limit {depth_max} levels"), start.byte)
            );
        }
        let shared = Rc::clone(&self.automaton);
        let mut automaton = shared.borrow_mut();
        let automaton = &mut *automaton;
        automaton.make_room().map_err(|spent| self.spent(spent, start.byte))?;
        if !self.text.is_empty() {
            self.judge_text_before(automaton, start)?;
        }
        let name = automaton.grammar.names.symbol(start.namespace, start.local);
        let opened = automaton.open(self.number, name, &mut self.work);
        let opened = opened.map_err(|spent| self.spent(spent, start.byte))?;
        if opened.state == Id::NOT_ALLOWED {
            return Err(self.element_fault(automaton, start));
        }
        automaton.push(self.number, opened.rests);
        self.path.push(start.namespace, start.local, name);
        let mut state = opened.state;
        for attribute in start.attributes {
            state = self.judge_attribute(automaton, state, attribute, start)?;
        }
        let closed = automaton.close(state, &mut self.work).map_err(|spent| self.spent(spent, start.byte))?;
        if closed == Id::NOT_ALLOWED {
            return Err(self.missing_fault(automaton, state, start.byte));
        }
        automaton.set_state(self.number, closed);
        Ok(())
    }

    fn judge_attribute(
        &mut self,
        automaton: &mut Automaton,
        state: Id,
        attribute: &Attribute<'_>,
        start: &Start<'_>,
    ) -> Result<Id, Box<Invalid>> {
        self.work.used += 1;
        let name: Symbol = automaton.grammar.names.symbol(attribute.namespace, attribute.local);
        let valued = automaton.attribute(state, name, &mut self.work);
        let valued = valued.map_err(|spent| self.spent(spent, start.byte))?;
        let mut matching = None;
        for (value, rest) in valued.iter() {
            let matches = automaton.matches(*value, attribute.value, start.namespaces, &mut self.work);
            if matches.map_err(|spent| self.spent(spent, start.byte))? {
                matching = Some(match matching {
                    None => *rest,
                    Some(other) => automaton.arena.choice([other, *rest]),
                });
            }
        }
        matching.ok_or_else(|| self.attribute_fault(automaton, state, &valued, attribute, start.byte))
    }

    fn judge_text(&mut self, text: &str, byte: u64) -> Result<(), Box<Invalid>> {
        self.begin(byte)?;
        let shared = Rc::clone(&self.automaton);
        let mut automaton = shared.borrow_mut();
        let state = automaton.state(self.number);
        if automaton.arena.facts(state).has_data {
            return self.hold(text, byte);
        }
        if is_blank(text) {
            return Ok(());
        }
        let rest = automaton.after_text(state, text, &(), &mut self.work);
        let rest = rest.map_err(|spent| self.spent(spent, byte))?;
        if rest == Id::NOT_ALLOWED {
            return Err(self.text_fault(&automaton, state, Wanted::Content, byte));
        }
        automaton.set_state(self.number, rest);
        Ok(())
    }

    /// Holds text until its element ends, because a datatype needs the whole text.
    fn hold(&mut self, text: &str, byte: u64) -> Result<(), Box<Invalid>> {
        let limit = self.limits.data_bytes_max;
        if self.text.len() + text.len() > limit {
            let shown = self.path.shown();
            return Err(self.limit(format!("text of \"{shown}\" is too long: limit {limit} bytes"), byte));
        }
        self.work.used += (text.len() / 64) as u64;
        self.text.push_str(text);
        Ok(())
    }

    /// Takes the held text before a child element.
    fn judge_text_before(
        &mut self,
        automaton: &mut Automaton,
        start: &Start<'_>,
    ) -> Result<(), Box<Invalid>> {
        let text = std::mem::take(&mut self.text);
        if !is_blank(&text) {
            let state = automaton.state(self.number);
            let rest = automaton.after_text(state, &text, start.namespaces, &mut self.work);
            let rest = rest.map_err(|spent| self.spent(spent, start.byte))?;
            if rest == Id::NOT_ALLOWED {
                return Err(self.text_fault(automaton, state, Wanted::Content, start.byte));
            }
            automaton.set_state(self.number, rest);
        }
        self.text = text;
        self.text.clear();
        Ok(())
    }

    fn judge_end(&mut self, namespaces: &dyn Namespaces, byte: u64) -> Result<(), Box<Invalid>> {
        self.begin(byte)?;
        let shared = Rc::clone(&self.automaton);
        let mut automaton = shared.borrow_mut();
        let automaton = &mut *automaton;
        let state = automaton.state(self.number);
        let complete = self.with_held_text(automaton, state, namespaces, byte)?;
        let parent = automaton.end(self.number, complete);
        if parent == Id::NOT_ALLOWED {
            return Err(self.incomplete_fault(automaton, state, byte));
        }
        automaton.set_state(self.number, parent);
        automaton.pop(self.number);
        self.path.pop();
        Ok(())
    }

    /// Returns the state after the held text. Text that is blank may also be no text at all.
    fn with_held_text(
        &mut self,
        automaton: &mut Automaton,
        state: Id,
        namespaces: &dyn Namespaces,
        byte: u64,
    ) -> Result<Id, Box<Invalid>> {
        if !automaton.arena.facts(state).has_data {
            return Ok(state);
        }
        let text = std::mem::take(&mut self.text);
        let rest = automaton.after_text(state, &text, namespaces, &mut self.work);
        let rest = rest.map_err(|spent| self.spent(spent, byte))?;
        let is_text = !is_blank(&text);
        self.text = text;
        self.text.clear();
        match rest {
            Id::NOT_ALLOWED if is_text => Err(self.text_fault(automaton, state, Wanted::Values, byte)),
            rest if is_text => Ok(rest),
            rest => Ok(automaton.arena.choice([state, rest])),
        }
    }
}

impl Drop for Validator {
    fn drop(&mut self) {
        // The automaton is only borrowed within a call, so that the borrow cannot fail.
        if let Ok(mut automaton) = self.automaton.try_borrow_mut() {
            automaton.remove_document(self.number);
        }
    }
}
