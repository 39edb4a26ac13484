//! A plain reading of James Clark's algorithm: derivatives by recursion, without any table.

use std::cell::Cell;
use std::rc::Rc;

use super::document::{Element, Node};
use super::schema::{Class, Grammar, Name, Part, Pattern, Type};

/// A pattern with the states of open elements.
#[derive(Clone, Debug)]
enum State {
    NotAllowed,
    Empty,
    Text,
    Choice(Rc<State>, Rc<State>),
    Group(Rc<State>, Rc<State>),
    Interleave(Rc<State>, Rc<State>),
    OneOrMore(Rc<State>),
    List(Rc<State>),
    Data(Type, Option<Rc<State>>),
    Value(&'static str),
    Attribute(Class, Rc<State>),
    Element(usize),
    After(Rc<State>, Rc<State>),
}

type S = Rc<State>;

/// Judges documents of one schema.
#[derive(Debug)]
pub struct Reference<'g> {
    grammar: &'g Grammar,
    contents: Vec<S>,
    steps: Cell<usize>,
}

/// Steps for one document. Some schemas need exponential work.
const STEPS_MAX: usize = 100_000;

impl<'g> Reference<'g> {
    /// Makes the reference of a schema.
    pub fn new(grammar: &'g Grammar) -> Self {
        let contents = grammar.elements.iter().map(|(_, content)| state(content)).collect();
        Self { grammar, contents, steps: Cell::new(0) }
    }

    /// Returns whether a document is valid, or nothing if that needs too many steps.
    pub fn is_valid(&self, root: &Element) -> Option<bool> {
        self.steps.set(0);
        let end = self.element(&state(&self.grammar.start), root);
        (self.steps.get() < STEPS_MAX).then(|| nullable(&end))
    }

    fn step(&self) -> bool {
        self.steps.set(self.steps.get() + 1);
        self.steps.get() < STEPS_MAX
    }

    fn element(&self, before: &S, element: &Element) -> S {
        let mut now = self.open(before, element.name);
        for (name, value) in &element.attributes {
            now = self.attribute(&now, *name, value);
        }
        now = self.close(&now);
        now = self.children(&now, &element.children);
        self.end(&now)
    }

    fn children(&self, before: &S, children: &[Node]) -> S {
        let only_text = match children {
            [] => Some(""),
            [Node::Text(text)] => Some(text.as_str()),
            _ => None,
        };
        if let Some(text) = only_text {
            let after = self.text(before, text);
            return if is_blank(text) { choice(before.clone(), after) } else { after };
        }
        let mut now = before.clone();
        for child in children {
            now = match child {
                Node::Text(text) if is_blank(text) => now,
                Node::Text(text) => self.text(&now, text),
                Node::Element(child) => self.element(&now, child),
            };
        }
        now
    }

    fn text(&self, before: &S, text: &str) -> S {
        if !self.step() {
            return not_allowed();
        }
        match &**before {
            State::Choice(one, other) => choice(self.text(one, text), self.text(other, text)),
            State::Interleave(one, other) => choice(
                interleave(self.text(one, text), other.clone()),
                interleave(one.clone(), self.text(other, text)),
            ),
            State::Group(first, rest) => {
                let taken = group(self.text(first, text), rest.clone());
                if nullable(first) { choice(taken, self.text(rest, text)) } else { taken }
            }
            State::After(content, rest) => after(self.text(content, text), rest.clone()),
            State::OneOrMore(part) => {
                group(self.text(part, text), choice(before.clone(), Rc::new(State::Empty)))
            }
            State::Text => before.clone(),
            State::Value(value) if words(value).eq(words(text)) => Rc::new(State::Empty),
            State::Data(datatype, except) => {
                let is_excepted = except.as_ref().is_some_and(|except| nullable(&self.text(except, text)));
                if allows(*datatype, text) && !is_excepted { Rc::new(State::Empty) } else { not_allowed() }
            }
            State::List(part) => {
                let end = words(text).fold(part.clone(), |now, word| self.text(&now, word));
                if nullable(&end) { Rc::new(State::Empty) } else { not_allowed() }
            }
            _ => not_allowed(),
        }
    }

    fn open(&self, before: &S, name: Name) -> S {
        if !self.step() {
            return not_allowed();
        }
        match &**before {
            State::Choice(one, other) => choice(self.open(one, name), self.open(other, name)),
            State::Element(index) if self.grammar.elements[*index].0.contains(name) => {
                after(self.contents[*index].clone(), Rc::new(State::Empty))
            }
            State::Interleave(one, other) => choice(
                apply(&self.open(one, name), &|rest| interleave(rest, other.clone())),
                apply(&self.open(other, name), &|rest| interleave(one.clone(), rest)),
            ),
            State::OneOrMore(part) => apply(&self.open(part, name), &|rest| {
                group(rest, choice(before.clone(), Rc::new(State::Empty)))
            }),
            State::Group(first, rest) => {
                let taken = apply(&self.open(first, name), &|inner| group(inner, rest.clone()));
                if nullable(first) { choice(taken, self.open(rest, name)) } else { taken }
            }
            State::After(content, rest) => {
                apply(&self.open(content, name), &|inner| after(inner, rest.clone()))
            }
            _ => not_allowed(),
        }
    }

    fn attribute(&self, before: &S, name: Name, value: &str) -> S {
        if !self.step() {
            return not_allowed();
        }
        match &**before {
            State::After(content, rest) => after(self.attribute(content, name, value), rest.clone()),
            State::Choice(one, other) => {
                choice(self.attribute(one, name, value), self.attribute(other, name, value))
            }
            State::Group(one, other) => choice(
                group(self.attribute(one, name, value), other.clone()),
                group(one.clone(), self.attribute(other, name, value)),
            ),
            State::Interleave(one, other) => choice(
                interleave(self.attribute(one, name, value), other.clone()),
                interleave(one.clone(), self.attribute(other, name, value)),
            ),
            State::OneOrMore(part) => {
                group(self.attribute(part, name, value), choice(before.clone(), Rc::new(State::Empty)))
            }
            State::Attribute(class, pattern) if class.contains(name) && self.matches(pattern, value) => {
                Rc::new(State::Empty)
            }
            _ => not_allowed(),
        }
    }

    fn matches(&self, pattern: &S, value: &str) -> bool {
        (nullable(pattern) && is_blank(value)) || nullable(&self.text(pattern, value))
    }

    fn close(&self, before: &S) -> S {
        if !self.step() {
            return not_allowed();
        }
        match &**before {
            State::After(content, rest) => after(self.close(content), rest.clone()),
            State::Choice(one, other) => choice(self.close(one), self.close(other)),
            State::Group(one, other) => group(self.close(one), self.close(other)),
            State::Interleave(one, other) => interleave(self.close(one), self.close(other)),
            State::OneOrMore(part) => match self.close(part) {
                closed if matches!(*closed, State::NotAllowed) => closed,
                closed => Rc::new(State::OneOrMore(closed)),
            },
            State::Attribute(..) => not_allowed(),
            _ => before.clone(),
        }
    }

    fn end(&self, before: &S) -> S {
        if !self.step() {
            return not_allowed();
        }
        match &**before {
            State::Choice(one, other) => choice(self.end(one), self.end(other)),
            State::After(content, rest) if nullable(content) => rest.clone(),
            _ => not_allowed(),
        }
    }
}

fn state(pattern: &Part) -> S {
    match &**pattern {
        Pattern::Empty => Rc::new(State::Empty),
        Pattern::NotAllowed => not_allowed(),
        Pattern::Text => Rc::new(State::Text),
        Pattern::Choice(one, other) => choice(state(one), state(other)),
        Pattern::Group(one, other) => group(state(one), state(other)),
        Pattern::Interleave(one, other) => interleave(state(one), state(other)),
        Pattern::OneOrMore(part) => match state(part) {
            part if matches!(*part, State::NotAllowed) => part,
            part => Rc::new(State::OneOrMore(part)),
        },
        Pattern::List(part) => Rc::new(State::List(state(part))),
        Pattern::Data(datatype, except) => Rc::new(State::Data(*datatype, except.as_ref().map(state))),
        Pattern::Value(value) => Rc::new(State::Value(value)),
        Pattern::Attribute(class, value) => Rc::new(State::Attribute(class.clone(), state(value))),
        Pattern::Element(index) => Rc::new(State::Element(*index)),
    }
}

fn nullable(state: &State) -> bool {
    match state {
        State::Empty | State::Text => true,
        State::Choice(one, other) => nullable(one) || nullable(other),
        State::Group(one, other) | State::Interleave(one, other) => nullable(one) && nullable(other),
        State::OneOrMore(part) => nullable(part),
        _ => false,
    }
}

/// Changes the pattern that remains after each open element.
fn apply(state: &S, change: &dyn Fn(S) -> S) -> S {
    match &**state {
        State::After(content, rest) => after(content.clone(), change(rest.clone())),
        State::Choice(one, other) => choice(apply(one, change), apply(other, change)),
        _ => not_allowed(),
    }
}

fn not_allowed() -> S {
    Rc::new(State::NotAllowed)
}

fn choice(one: S, other: S) -> S {
    match (&*one, &*other) {
        (State::NotAllowed, _) => other,
        (_, State::NotAllowed) => one,
        _ => Rc::new(State::Choice(one, other)),
    }
}

fn group(one: S, other: S) -> S {
    match (&*one, &*other) {
        (State::NotAllowed, _) | (_, State::NotAllowed) => not_allowed(),
        (State::Empty, _) => other,
        (_, State::Empty) => one,
        _ => Rc::new(State::Group(one, other)),
    }
}

fn interleave(one: S, other: S) -> S {
    match (&*one, &*other) {
        (State::NotAllowed, _) | (_, State::NotAllowed) => not_allowed(),
        (State::Empty, _) => other,
        (_, State::Empty) => one,
        _ => Rc::new(State::Interleave(one, other)),
    }
}

fn after(one: S, other: S) -> S {
    match (&*one, &*other) {
        (State::NotAllowed, _) | (_, State::NotAllowed) => not_allowed(),
        _ => Rc::new(State::After(one, other)),
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty())
}

fn is_blank(text: &str) -> bool {
    words(text).next().is_none()
}

fn allows(datatype: Type, text: &str) -> bool {
    let mut parts = words(text);
    let word = parts.next().unwrap_or("");
    let is_one_word = parts.next().is_none();
    match datatype {
        Type::Token | Type::Text => true,
        Type::Integer => {
            let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
            is_one_word && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        }
        Type::Boolean => is_one_word && ["true", "false", "1", "0"].contains(&word),
        Type::Pair => words(text).collect::<Vec<_>>().join(" ").chars().count() == 2,
    }
}
