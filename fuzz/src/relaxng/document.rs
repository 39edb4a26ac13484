//! Random documents: mostly valid ones, with mutations.

use super::choices::Choices;
use super::schema::{Class, Grammar, NAMES, Name, Pattern, Type};

/// An element.
#[derive(Clone, Debug)]
pub struct Element {
    /// The name.
    pub name: Name,
    /// The attributes, with different names.
    pub attributes: Vec<(Name, String)>,
    /// The children. Texts are not empty, and no two of them are neighbours.
    pub children: Vec<Node>,
}

/// A child of an element.
#[derive(Clone, Debug)]
pub enum Node {
    /// An element.
    Element(Element),
    /// A text.
    Text(String),
}

/// Texts of mutations.
const TEXTS: [&str; 8] = ["x", "1", "a b", " ", "true", "-12", "ab", "\n x "];

/// Levels of elements. Deeper ones are left out, so that recursive schemas end.
const DEPTH_MAX: usize = 5;

/// Returns a document that follows the schema as far as its bounds allow, with up to two mutations.
pub fn sample(grammar: &Grammar, choices: &mut Choices<'_>) -> Element {
    let mut outer = Element { name: NAMES[0], attributes: Vec::new(), children: Vec::new() };
    fill(&grammar.start, grammar, choices, &mut outer, 0);
    let root = outer.children.into_iter().find_map(|child| match child {
        Node::Element(element) => Some(element),
        Node::Text(_) => None,
    });
    let mut root = root.unwrap_or(Element { name: NAMES[0], attributes: Vec::new(), children: Vec::new() });
    for _ in 0..choices.below(3) {
        mutate(&mut root, choices);
    }
    tidy(&mut root);
    root
}

fn fill(pattern: &Pattern, grammar: &Grammar, choices: &mut Choices<'_>, to: &mut Element, depth: usize) {
    match pattern {
        Pattern::Empty | Pattern::NotAllowed => {}
        Pattern::Text => {
            if choices.below(2) == 0 {
                to.children.push(Node::Text(choices.one_of(&TEXTS).to_owned()));
            }
        }
        Pattern::Choice(one, other) => {
            let part = if choices.below(2) == 0 { one } else { other };
            fill(part, grammar, choices, to, depth);
        }
        Pattern::Group(one, other) => {
            fill(one, grammar, choices, to, depth);
            fill(other, grammar, choices, to, depth);
        }
        Pattern::Interleave(one, other) => {
            let (first, second) = if choices.below(2) == 0 { (one, other) } else { (other, one) };
            fill(first, grammar, choices, to, depth);
            fill(second, grammar, choices, to, depth);
        }
        Pattern::OneOrMore(part) => {
            for _ in 0..=choices.below(3) {
                fill(part, grammar, choices, to, depth);
            }
        }
        Pattern::List(_) | Pattern::Data(..) | Pattern::Value(_) => {
            to.children.push(Node::Text(text(pattern, choices)));
        }
        Pattern::Attribute(class, value) => {
            to.attributes.push((named(class, choices), text(value, choices)));
        }
        Pattern::Element(index) if depth < DEPTH_MAX => {
            let (class, content) = &grammar.elements[*index];
            let name = named(class, choices);
            let mut element = Element { name, attributes: Vec::new(), children: Vec::new() };
            fill(content, grammar, choices, &mut element, depth + 1);
            to.children.push(Node::Element(element));
        }
        Pattern::Element(_) => {}
    }
}

fn named(class: &Class, choices: &mut Choices<'_>) -> Name {
    let names: Vec<Name> = NAMES.into_iter().filter(|name| class.contains(*name)).collect();
    if names.is_empty() { NAMES[0] } else { choices.one_of(&names) }
}

fn text(pattern: &Pattern, choices: &mut Choices<'_>) -> String {
    match pattern {
        Pattern::Value(value) => (*value).to_owned(),
        Pattern::Data(Type::Integer, _) => choices.one_of(&["1", " -12 ", "007"]).to_owned(),
        Pattern::Data(Type::Boolean, _) => choices.one_of(&["true", "0"]).to_owned(),
        Pattern::Data(Type::Pair, _) => choices.one_of(&["ab", " 12 "]).to_owned(),
        Pattern::Choice(one, other) | Pattern::Interleave(one, other) => {
            text(if choices.below(2) == 0 { one } else { other }, choices)
        }
        Pattern::Group(one, other) => format!("{} {}", text(one, choices), text(other, choices)),
        Pattern::OneOrMore(part) => {
            let words: Vec<String> = (0..=choices.below(3)).map(|_| text(part, choices)).collect();
            words.join(" ")
        }
        Pattern::List(part) => text(part, choices),
        Pattern::Empty => String::new(),
        _ => choices.one_of(&TEXTS).to_owned(),
    }
}

/// Changes one place of a document.
fn mutate(element: &mut Element, choices: &mut Choices<'_>) {
    let count = element.children.len();
    if count > 0
        && choices.below(3) > 0
        && let Node::Element(child) = &mut element.children[choices.below(count)]
    {
        return mutate(child, choices);
    }
    match choices.below(9) {
        0 if count > 0 => drop(element.children.remove(choices.below(count))),
        1 if count > 0 => {
            let copy = element.children[choices.below(count)].clone();
            element.children.insert(choices.below(count + 1), copy);
        }
        2 if count > 1 => element.children.swap(0, count - 1),
        3 => element.children.push(Node::Text(choices.one_of(&TEXTS).to_owned())),
        4 => {
            let name = choices.one_of(&NAMES);
            let child = Element { name, attributes: Vec::new(), children: Vec::new() };
            element.children.insert(choices.below(count + 1), Node::Element(child));
        }
        5 => element.attributes.push((choices.one_of(&NAMES), choices.one_of(&TEXTS).to_owned())),
        6 => drop(element.attributes.pop()),
        7 => {
            if let Some((_, value)) = element.attributes.first_mut() {
                choices.one_of(&TEXTS).clone_into(value);
            }
        }
        _ => element.name = choices.one_of(&NAMES),
    }
}

/// Joins neighbouring texts, and removes attributes with a name that is there already.
fn tidy(element: &mut Element) {
    let mut names: Vec<Name> = Vec::new();
    element.attributes.retain(|(name, _)| {
        let is_new = !names.contains(name);
        names.push(*name);
        is_new
    });
    let mut children: Vec<Node> = Vec::new();
    for mut child in element.children.drain(..) {
        if let Node::Element(inner) = &mut child {
            tidy(inner);
        }
        match (children.last_mut(), child) {
            (Some(Node::Text(before)), Node::Text(text)) => before.push_str(&text),
            (_, Node::Text(text)) if text.is_empty() => {}
            (_, child) => children.push(child),
        }
    }
    element.children = children;
}
