//! RELAX NG: small schemas and documents from the bytes of an input. The validator is compared with a plain
//! derivative without tables and without interned patterns.

pub mod choices;
pub mod document;
pub mod print;
pub mod reference;
pub mod schema;

use tollgate_relaxng::{
    Attribute, CompiledSchema, Fault, Schema, SchemaLimits, Source, Start, ValidationLimits, Validator,
};

use choices::Choices;
use document::{Element, Node};
use reference::Reference;

/// The number of documents that are tried with one schema.
const DOCUMENTS: usize = 4;

/// Compares verdicts on documents of a schema. The second automaton is tiny, so it becomes full and is
/// emptied.
pub fn check(input: &[u8]) {
    let mut choices = Choices::new(input);
    let grammar = schema::grammar(&mut choices);
    let text = print::compact(&grammar);
    let Some(schema) = compiled(&text) else { return };
    let tiny = ValidationLimits { patterns_max: 400, transitions_max: 8, ..ValidationLimits::default() };
    let reference = Reference::new(&grammar);
    for _ in 0..DOCUMENTS {
        let root = document::sample(&grammar, &mut choices);
        let Some(expected) = reference.is_valid(&root) else { continue };
        for limits in [ValidationLimits::default(), tiny] {
            let judged = judge(&schema.for_thread(limits), &root, &mut choices);
            assert!(
                judged == Some(expected) || judged.is_none(),
                "{judged:?}, expected {expected}\n{text}\n{}",
                print::document(&root)
            );
        }
    }
}

/// Reads a schema in both syntaxes. A malformed one has a fault with a place, and no input panics.
pub fn check_schema(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let load = |_: &str| Err("no file".to_owned());
    let limits = SchemaLimits { patterns_max: 10_000, ..SchemaLimits::default() };
    if let Err(error) = CompiledSchema::compile(Source { path: "schema", text: &text }, &load, &limits) {
        assert!(error.line >= 1 || text.is_empty(), "{error}");
    }
}

/// Compiles a schema of the compact syntax. Random ones often break a restriction.
pub fn compiled(text: &str) -> Option<CompiledSchema> {
    let load = |_: &str| Err("no file".to_owned());
    CompiledSchema::compile(Source { path: "schema", text }, &load, &SchemaLimits::default()).ok()
}

/// Returns whether a document is valid, or nothing if a limit ended it.
pub fn judge(schema: &Schema, root: &Element, choices: &mut Choices<'_>) -> Option<bool> {
    let mut validator = Validator::new(schema);
    match feed(&mut validator, root, choices) {
        Ok(()) => Some(true),
        Err(fault) if fault.fault == Fault::Limit => None,
        Err(_) => Some(false),
    }
}

fn feed(
    validator: &mut Validator,
    element: &Element,
    choices: &mut Choices<'_>,
) -> Result<(), tollgate_relaxng::Invalid> {
    let attributes: Vec<Attribute<'_>> = element
        .attributes
        .iter()
        .map(|(name, value)| Attribute { namespace: name.namespace, local: name.local, value })
        .collect();
    let (namespace, local) = (element.name.namespace, element.name.local);
    validator.start(&Start { namespace, local, attributes: &attributes, namespaces: &(), byte: 0 })?;
    for child in &element.children {
        match child {
            Node::Element(child) => feed(validator, child, choices)?,
            Node::Text(text) => {
                let (first, second) = text.split_at(choices.below(text.len() + 1));
                validator.text(first, 0)?;
                validator.text(second, 0)?;
            }
        }
    }
    validator.end(&(), 0)
}
