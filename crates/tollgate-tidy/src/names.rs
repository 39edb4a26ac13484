//! Finds the file that defines a name, along modules, `use` declarations, re-exports and globs.

use crate::target::{Binds, FileId, ModuleId, Target};

/// The module or item that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Module(ModuleId),
    /// An item, or an unknown name in a file with a macro that may define it.
    Item {
        name: String,
        file: FileId,
    },
}

/// The lookups that are in progress. With them, a lookup detects a name that re-exports itself.
type Asked = Vec<(ModuleId, String)>;

/// Resolves `path` inside of `module`. `None` for names of other crates, and for local variables.
pub(crate) fn resolve(target: &Target, module: ModuleId, path: &[String]) -> Option<Found> {
    walk(target, module, path, true, &mut Vec::new())
}

/// Follows the path, name by name. A module and an item may have the same name. Before `::`, the name means
/// the module. For the last name, `wants_item` decides.
fn walk(
    target: &Target,
    module: ModuleId,
    path: &[String],
    wants_item: bool,
    asked: &mut Asked,
) -> Option<Found> {
    let mut at = None;
    for (index, name) in path.iter().enumerate() {
        let is_last = index + 1 == path.len();
        let here = at.unwrap_or(module);
        let next = match name.as_str() {
            "crate" => Found::Module(0),
            "self" => Found::Module(here),
            "super" => Found::Module(target.modules[here].parent?),
            name => match look_up(target, here, name, is_last && wants_item, asked) {
                Some(found) => found,
                None if at.is_some() => {
                    Found::Item { name: name.to_owned(), file: target.modules[here].file }
                }
                None => return None,
            },
        };
        match next {
            Found::Module(next) => at = Some(next),
            item => return Some(item),
        }
    }
    at.map(Found::Module)
}

fn look_up(
    target: &Target,
    module: ModuleId,
    name: &str,
    wants_item: bool,
    asked: &mut Asked,
) -> Option<Found> {
    let key = (module, name.to_owned());
    if asked.contains(&key) {
        return None;
    }
    let here = &target.modules[module];
    let child = here.children.get(name).copied().map(Found::Module);
    let item = here.defined.contains(name).then(|| Found::Item { name: name.to_owned(), file: here.file });
    let own = if wants_item { item.or(child) } else { child.or(item) };
    if own.is_some() {
        return own;
    }
    asked.push(key);
    let found = through_uses(target, module, name, wants_item, asked);
    asked.pop();
    found
}

fn through_uses(
    target: &Target,
    module: ModuleId,
    name: &str,
    wants_item: bool,
    asked: &mut Asked,
) -> Option<Found> {
    let uses = &target.modules[module].uses;
    let named = uses.iter().filter(|part| part.binds == Binds::Name(name.to_owned()));
    for part in named {
        if let Some(found) = walk(target, module, &part.path, wants_item, asked) {
            return Some(found);
        }
    }
    for part in uses.iter().filter(|part| part.binds == Binds::Glob) {
        if let Some(Found::Module(from)) = walk(target, module, &part.path, false, asked)
            && let Some(found) = look_up(target, from, name, wants_item, asked)
        {
            return Some(found);
        }
    }
    None
}
