//! The modules of one crate. The modules are read from the root file along each `mod x;`, also with
//! `#[path]`.
//!
//! Items of tests (`#[cfg(test)]`) are left out, because a test may import any file that it tests. Each other
//! item stays in the module that declares it. An inline module (`mod x { .. }`) is a module of its own in the
//! same file.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::Context;
use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta, UseTree, Visibility, spanned::Spanned, visit::Visit};

/// Index of a file in [`Target::files`].
pub type FileId = usize;

/// Index of a module in [`Target::modules`]. The root of the crate is 0.
pub type ModuleId = usize;

/// Function that reads the text of a file.
pub type Read<'read> = dyn Fn(&Path) -> std::io::Result<String> + 'read;

/// A library or a program, which the compiler builds from one root file.
pub struct Target {
    /// Paths of the files, in the order of their declarations. The paths are relative or absolute, like the
    /// path of the root file.
    pub files: Vec<PathBuf>,
    /// All modules, each once. A parent is before its children.
    pub modules: Vec<Module>,
}

/// A module with the names that it defines and imports.
pub struct Module {
    /// The file that contains the module.
    pub file: FileId,
    /// Parent of the module. `None` for the root.
    pub parent: Option<ModuleId>,
    /// Modules that the module declares, by their names.
    pub children: BTreeMap<String, ModuleId>,
    /// Names of the items that the module defines.
    pub defined: BTreeSet<String>,
    /// `use` declarations of the module, also those inside of functions.
    pub uses: Vec<Use>,
    /// Items of the module that are neither `mod` nor `use`.
    pub items: Vec<Item>,
}

/// One name, or one glob, of a `use` declaration.
#[derive(Debug)]
pub struct Use {
    /// The path as it is written, without the leading `::`.
    pub path: Vec<String>,
    /// Names that the `use` brings into scope.
    pub binds: Binds,
    /// Whether other modules see the name: `pub use` in any form.
    pub is_reexport: bool,
    /// Number of the line in the file, from 1.
    pub line: usize,
}

/// The names that a `use` brings into scope.
#[derive(Debug, PartialEq, Eq)]
pub enum Binds {
    /// One name. If the `use` has `as`, this is the name after it.
    Name(String),
    /// Each public name of the module.
    Glob,
}

impl Target {
    /// Reads the crate whose root is `root`.
    ///
    /// # Errors
    /// A file cannot be read, or is no valid Rust.
    pub fn load(root: &Path, read: &Read<'_>) -> anyhow::Result<Self> {
        let mut target = Self { files: Vec::new(), modules: Vec::new() };
        target.load_file(root, true, None, read)?;
        Ok(target)
    }

    fn load_file(
        &mut self,
        path: &Path,
        is_mod_rs: bool,
        parent: Option<ModuleId>,
        read: &Read<'_>,
    ) -> anyhow::Result<ModuleId> {
        let text = read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let parsed =
            syn::parse_file(&text).with_context(|| format!("{} is not valid Rust", path.display()))?;
        let own_folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let folder = if is_mod_rs { own_folder } else { path.with_extension("") };
        self.files.push(path.to_owned());
        let file = self.files.len() - 1;
        self.load_module(file, &folder, parent, parsed.items, read)
    }

    /// Reads a module. `folder` is the folder with the files of its child modules.
    fn load_module(
        &mut self,
        file: FileId,
        folder: &Path,
        parent: Option<ModuleId>,
        items: Vec<Item>,
        read: &Read<'_>,
    ) -> anyhow::Result<ModuleId> {
        let id = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            children: BTreeMap::new(),
            defined: BTreeSet::new(),
            uses: Vec::new(),
            items: Vec::new(),
        });
        for item in items {
            if is_test(attributes(&item)) {
                continue;
            }
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let child = match module.content {
                        Some((_, items)) => {
                            self.load_module(file, &folder.join(&name), Some(id), items, read)?
                        }
                        None => {
                            let (path, is_mod_rs) = self.file_of(&name, &module.attrs, file, folder, read);
                            self.load_file(&path, is_mod_rs, Some(id), read)?
                        }
                    };
                    self.modules[id].children.insert(name, child);
                }
                Item::Use(item) => self.modules[id].uses.extend(uses_of(&item)),
                item => {
                    let module = &mut self.modules[id];
                    module.defined.extend(name_of(&item));
                    UsesOfBlocks(&mut module.uses).visit_item(&item);
                    module.items.push(item);
                }
            }
        }
        Ok(id)
    }

    /// Returns the file of `mod name;`, and whether the files of its child modules are in the same folder.
    fn file_of(
        &self,
        name: &str,
        attributes: &[Attribute],
        file: FileId,
        folder: &Path,
        read: &Read<'_>,
    ) -> (PathBuf, bool) {
        let given = attributes.iter().find_map(path_given);
        if let Some(given) = given {
            let beside = self.files[file].parent().unwrap_or(Path::new(""));
            return (beside.join(given), true);
        }
        let flat = folder.join(name).with_extension("rs");
        if read(&flat).is_ok() { (flat, false) } else { (folder.join(name).join("mod.rs"), true) }
    }
}

/// Returns the names and globs of one `use` declaration.
#[must_use]
pub fn uses_of(item: &syn::ItemUse) -> Vec<Use> {
    let mut uses = Vec::new();
    if item.leading_colon.is_none() {
        flatten(&item.tree, &mut Vec::new(), is_seen_outside(&item.vis), &mut uses);
    }
    uses
}

fn flatten(tree: &UseTree, path: &mut Vec<String>, is_reexport: bool, uses: &mut Vec<Use>) {
    let mut push = |path: Vec<String>, binds, line| uses.push(Use { path, binds, is_reexport, line });
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, is_reexport, uses);
            path.pop();
        }
        UseTree::Name(part) if part.ident == "self" => {
            let name = path.last().cloned().unwrap_or_default();
            push(path.clone(), Binds::Name(name), part.ident.span().start().line);
        }
        UseTree::Name(part) => {
            let name = part.ident.to_string();
            push(with(path, &name), Binds::Name(name), part.ident.span().start().line);
        }
        UseTree::Rename(part) => {
            let whole = if part.ident == "self" { path.clone() } else { with(path, &part.ident.to_string()) };
            push(whole, Binds::Name(part.rename.to_string()), part.ident.span().start().line);
        }
        UseTree::Glob(part) => push(path.clone(), Binds::Glob, part.span().start().line),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, path, is_reexport, uses);
            }
        }
    }
}

fn with(path: &[String], name: &str) -> Vec<String> {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

/// Collects `use` declarations inside of functions. These declarations count as imports of the module that
/// contains the function.
struct UsesOfBlocks<'uses>(&'uses mut Vec<Use>);

impl<'item> Visit<'item> for UsesOfBlocks<'_> {
    fn visit_item(&mut self, item: &'item Item) {
        if !is_test(attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'item syn::ItemUse) {
        self.0.extend(uses_of(item));
    }
}

/// Returns whether code outside of the module sees an item of this visibility.
#[must_use]
pub fn is_seen_outside(visibility: &Visibility) -> bool {
    match visibility {
        Visibility::Public(_) => true,
        Visibility::Restricted(scope) => !scope.path.is_ident("self"),
        Visibility::Inherited => false,
    }
}

/// Returns whether the compiler compiles an item only when it builds tests.
#[must_use]
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
        let condition = list.tokens.to_string().replace(' ', "");
        attribute.path().is_ident("cfg") && (condition == "test" || condition.starts_with("all(test"))
    })
}

fn path_given(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("path") => Some(text.value()),
        _ => None,
    }
}

/// Returns the attributes of any item.
#[must_use]
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
