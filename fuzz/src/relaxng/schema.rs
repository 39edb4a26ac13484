//! Random schemas.

use std::rc::Rc;

use super::choices::Choices;

/// A name of an element or attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The namespace: none, `u` or `v`.
    pub namespace: &'static str,
    /// The local name.
    pub local: &'static str,
}

/// A name class.
#[derive(Clone, Debug)]
pub enum Class {
    /// One name.
    Name(Name),
    /// Any name that is not in the class.
    Any(Option<Box<Class>>),
    /// The names of a namespace but one.
    Of(&'static str, Option<Name>),
    /// Two classes.
    Either(Box<Class>, Box<Class>),
}

impl Class {
    /// Whether the class contains a name.
    pub fn contains(&self, name: Name) -> bool {
        match self {
            Self::Name(own) => *own == name,
            Self::Any(except) => except.as_ref().is_none_or(|except| !except.contains(name)),
            Self::Of(namespace, except) => name.namespace == *namespace && *except != Some(name),
            Self::Either(one, other) => one.contains(name) || other.contains(name),
        }
    }
}

/// The datatypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `token` of RELAX NG.
    Token,
    /// `string` of RELAX NG.
    Text,
    /// `xsd:integer`
    Integer,
    /// `xsd:boolean`
    Boolean,
    /// `xsd:token` of two characters.
    Pair,
}

pub type Part = Rc<Pattern>;

/// A pattern. Elements are definitions, so that they may be recursive.
#[derive(Clone, Debug)]
pub enum Pattern {
    Empty,
    NotAllowed,
    Text,
    Choice(Part, Part),
    Group(Part, Part),
    Interleave(Part, Part),
    OneOrMore(Part),
    List(Part),
    Data(Type, Option<Part>),
    Value(&'static str),
    Attribute(Class, Part),
    Element(usize),
}

/// A schema.
#[derive(Clone, Debug)]
pub struct Grammar {
    /// The definitions of elements.
    pub elements: Vec<(Class, Part)>,
    /// The start.
    pub start: Part,
}

/// The names that occur.
pub const NAMES: [Name; 6] = [
    Name { namespace: "", local: "a" },
    Name { namespace: "", local: "b" },
    Name { namespace: "", local: "c" },
    Name { namespace: "u", local: "a" },
    Name { namespace: "u", local: "b" },
    Name { namespace: "v", local: "a" },
];

/// The values that occur.
pub const VALUES: [&str; 4] = ["x", "1", "a b", ""];

/// Levels of patterns in a definition.
const DEPTH_MAX: usize = 5;

/// Returns a schema.
pub fn grammar(choices: &mut Choices<'_>) -> Grammar {
    let count = 1 + choices.below(5);
    let elements = (0..count).map(|_| (class(choices), content(choices, count, DEPTH_MAX))).collect();
    let first = Rc::new(Pattern::Element(choices.below(count)));
    let start = match choices.below(4) {
        0 => Rc::new(Pattern::Choice(first, Rc::new(Pattern::Element(choices.below(count))))),
        _ => first,
    };
    Grammar { elements, start }
}

fn class(choices: &mut Choices<'_>) -> Class {
    let name = choices.one_of(&NAMES);
    match choices.below(12) {
        0 => Class::Any(None),
        1 => Class::Any(Some(Box::new(Class::Name(name)))),
        2 => Class::Any(Some(Box::new(Class::Of(name.namespace, None)))),
        3 => Class::Of(name.namespace, None),
        4 => Class::Of(name.namespace, Some(name)),
        5 => Class::Either(Box::new(Class::Name(name)), Box::new(class(choices))),
        _ => Class::Name(name),
    }
}

/// Returns the content of an element: mostly elements and attributes, sometimes a value.
fn content(choices: &mut Choices<'_>, elements: usize, depth: usize) -> Part {
    let inner = |choices: &mut Choices<'_>| content(choices, elements, depth.saturating_sub(1));
    let pattern = match choices.below(if depth == 0 { 8 } else { 20 }) {
        0 => Pattern::Empty,
        1 => Pattern::Text,
        2..=4 => Pattern::Element(choices.below(elements)),
        5 => attribute(choices),
        6 => return value(choices, 2),
        7 => match choices.below(3) {
            0 => Pattern::NotAllowed,
            _ => attribute(choices),
        },
        8..=10 => Pattern::Choice(inner(choices), inner(choices)),
        11..=13 => Pattern::Group(inner(choices), inner(choices)),
        14..=15 => Pattern::Interleave(inner(choices), inner(choices)),
        16..=17 => Pattern::OneOrMore(inner(choices)),
        _ => Pattern::Choice(inner(choices), Rc::new(Pattern::Empty)),
    };
    Rc::new(pattern)
}

fn attribute(choices: &mut Choices<'_>) -> Pattern {
    let class = class(choices);
    let value = match choices.below(3) {
        0 => Rc::new(Pattern::Text),
        _ => value(choices, 2),
    };
    let is_name = matches!(class, Class::Name(_));
    let attribute = Pattern::Attribute(class, value);
    // Attributes with any number of names have to be repeated.
    if is_name { attribute } else { Pattern::OneOrMore(Rc::new(attribute)) }
}

fn value(choices: &mut Choices<'_>, depth: usize) -> Part {
    let pattern = match choices.below(if depth == 0 { 3 } else { 8 }) {
        0 => Pattern::Value(choices.one_of(&VALUES)),
        1 | 2 => Pattern::Data(datatype(choices), None),
        3 => Pattern::Data(datatype(choices), Some(Rc::new(Pattern::Value(choices.one_of(&VALUES))))),
        4 => Pattern::List(item(choices, depth)),
        5 => Pattern::Choice(value(choices, depth - 1), Rc::new(Pattern::Empty)),
        _ => Pattern::Choice(value(choices, depth - 1), value(choices, depth - 1)),
    };
    Rc::new(pattern)
}

/// Returns the content of a list.
fn item(choices: &mut Choices<'_>, depth: usize) -> Part {
    let pattern = match choices.below(if depth == 0 { 2 } else { 6 }) {
        0 => Pattern::Value(choices.one_of(&VALUES)),
        1 => Pattern::Data(datatype(choices), None),
        2 => Pattern::OneOrMore(item(choices, depth - 1)),
        3 => Pattern::Choice(item(choices, depth - 1), item(choices, depth - 1)),
        4 => Pattern::Choice(item(choices, depth - 1), Rc::new(Pattern::Empty)),
        _ => Pattern::Group(item(choices, depth - 1), item(choices, depth - 1)),
    };
    Rc::new(pattern)
}

fn datatype(choices: &mut Choices<'_>) -> Type {
    choices.one_of(&[Type::Token, Type::Text, Type::Integer, Type::Boolean, Type::Pair])
}
