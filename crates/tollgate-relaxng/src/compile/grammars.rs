//! Grammars: includes are replaced (section 4.7), and definitions with the same name are combined (section
//! 4.17).

use std::collections::HashMap;

use super::files::Files;
use crate::syntax::{At, Combine, Component, Define, Part, SchemaFault, WrittenGrammar, WrittenPattern};

/// The definitions of a grammar by name. `None` is `start`.
pub(super) type Definitions = HashMap<Option<String>, Definition>;

/// All definitions with one name.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) at: At,
    pub(super) bodies: Vec<Part>,
    pub(super) combine: Option<Combine>,
    /// Whether one of them has no `combine`.
    has_plain: bool,
}

/// Collects the definitions of a grammar.
pub(super) fn definitions(
    grammar: &WrittenGrammar,
    files: &mut Files<'_>,
) -> Result<Definitions, SchemaFault> {
    let mut definitions = Definitions::new();
    for define in flattened(&grammar.components, files)? {
        add(&mut definitions, define)?;
    }
    Ok(definitions)
}

fn add(definitions: &mut Definitions, define: Define) -> Result<(), SchemaFault> {
    let described = described(define.name.as_ref());
    let Define { at, name, combine, body } = define;
    let known = definitions.entry(name).or_insert_with(|| Definition {
        at,
        bodies: Vec::new(),
        combine: None,
        has_plain: false,
    });
    match combine {
        None if known.has_plain => {
            let text = format!("{described} is defined twice; combine the definitions with \"|=\" or \"&=\"");
            return Err(SchemaFault::new(at, text));
        }
        None => known.has_plain = true,
        Some(combine) if known.combine.is_some_and(|own| own != combine) => {
            return Err(SchemaFault::new(at, format!("{described} is combined by choice and by interleave")));
        }
        Some(combine) => known.combine = Some(combine),
    }
    known.bodies.push(body);
    Ok(())
}

fn described(name: Option<&String>) -> String {
    name.map_or_else(|| "\"start\"".to_owned(), |name| format!("definition \"{name}\""))
}

/// Returns the definitions of components and of the files that they include.
fn flattened(components: &[Component], files: &mut Files<'_>) -> Result<Vec<Define>, SchemaFault> {
    let mut defines = Vec::new();
    for component in components {
        match component {
            Component::Define(define) => defines.push(define.clone()),
            Component::Include { at, file, overrides } => {
                let root = files.enter(file, *at)?;
                let WrittenPattern::Grammar(grammar) = &root.pattern else {
                    let text =
                        format!("file \"{}\" contains no grammar; use an external reference", file.path);
                    return Err(SchemaFault::new(*at, text));
                };
                let included = flattened(&grammar.components, files)?;
                files.leave();
                replace(&included, overrides, &mut defines)?;
            }
        }
    }
    Ok(defines)
}

/// Adds the included definitions to `defines`, with each override in place of the definitions of its name.
fn replace(included: &[Define], overrides: &[Define], defines: &mut Vec<Define>) -> Result<(), SchemaFault> {
    let mut is_used: HashMap<Option<&str>, bool> =
        overrides.iter().map(|define| (define.name.as_deref(), false)).collect();
    for define in included {
        if let Some(is_used) = is_used.get_mut(&define.name.as_deref()) {
            *is_used = true;
        }
    }
    for define in overrides {
        if is_used.get(&define.name.as_deref()) == Some(&false) {
            let described = described(define.name.as_ref());
            return Err(SchemaFault::new(
                define.at,
                format!("{described} overrides nothing in the included file"),
            ));
        }
    }
    defines.extend(included.iter().filter(|define| !is_used.contains_key(&define.name.as_deref())).cloned());
    defines.extend(overrides.iter().cloned());
    Ok(())
}
