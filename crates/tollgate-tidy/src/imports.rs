//! Imports between the files of a crate: which file uses a name that another file defines.
//!
//! - A private `use`, and a path in code (`super::clock::now()`), is an import of the file that *defines* the
//!   name. The path may be inside of a macro or an attribute. A re-export between the two files (`pub use
//!   child::Thing` in `mod.rs`) is not part of the import.
//! - `mod child;` is no import, and neither is `pub use child::Thing`. A file that re-exports a name and uses
//!   it in its own code does import it.
//! - A glob is an import of each name that the file uses from it. If no such name is found, it is an import
//!   of the module, because the file may use its traits.
//! - `use some::module;` alone is no import. Paths that begin with `module` are imports.
//! - A call of a method has no path, so it is no import.
//! - Tests (`#[cfg(test)]`) and links of comments are left out.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, ImplItem, Item, Meta, Path, spanned::Spanned, visit::Visit};

use crate::{
    graph::Graph,
    names::{Found, resolve},
    target::{Binds, ModuleId, Target, Use, attributes, is_test},
};

/// Returns the imports of a crate. The nodes are the files of `target`, in their order.
#[must_use]
pub fn imports(target: &Target) -> Graph {
    let mut graph = Graph::new(target.files.len());
    for module in 0..target.modules.len() {
        let mut reader = Reader { target, module, graph: &mut graph, taken_from: BTreeSet::new() };
        for item in &target.modules[module].items {
            reader.visit_item(item);
        }
        for part in target.modules[module].uses.iter().filter(|part| !part.is_reexport) {
            reader.read_use(part);
        }
    }
    graph
}

struct Reader<'target> {
    target: &'target Target,
    module: ModuleId,
    graph: &'target mut Graph,
    /// Files whose names the code of this module uses.
    taken_from: BTreeSet<usize>,
}

impl Reader<'_> {
    fn file(&self) -> usize {
        self.target.modules[self.module].file
    }

    fn read_path(&mut self, path: &[String], line: usize) {
        if let Some(Found::Item { name, file }) = resolve(self.target, self.module, path) {
            self.taken_from.insert(file);
            self.graph.add(self.file(), file, &name, line);
        }
    }

    fn read_use(&mut self, part: &Use) {
        match (&part.binds, resolve(self.target, self.module, &part.path)) {
            (_, Some(Found::Item { name, file })) => self.graph.add(self.file(), file, &name, part.line),
            (Binds::Glob, Some(Found::Module(from))) => {
                let files = self.files_behind(from);
                if files.is_disjoint(&self.taken_from) {
                    self.graph.add(self.file(), self.target.modules[from].file, "*", part.line);
                }
            }
            _ => {}
        }
    }

    /// Returns the file of a module, and the files of the items that it re-exports.
    fn files_behind(&self, module: ModuleId) -> BTreeSet<usize> {
        let reexports = self.target.modules[module].uses.iter().filter(|part| part.is_reexport);
        let files = reexports.filter_map(|part| match resolve(self.target, module, &part.path)? {
            Found::Item { file, .. } => Some(file),
            Found::Module(module) => Some(self.target.modules[module].file),
        });
        files.chain([self.target.modules[module].file]).collect()
    }

    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path = PathInTokens::default();
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if !path.continues && !path.names.is_empty() {
                        self.read_found(&mut path);
                    }
                    path.push(name.to_string(), name.span().start().line);
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => path.colon(),
                TokenTree::Punct(mark) => {
                    let is_second_dot = path.is_other && path.names.is_empty();
                    self.read_found(&mut path);
                    path.is_other = matches!(mark.as_char(), '.' | '$' | '\'') && !is_second_dot;
                }
                TokenTree::Group(group) => {
                    self.read_found(&mut path);
                    self.read_tokens(group.stream());
                }
                TokenTree::Literal(_) => self.read_found(&mut path),
            }
        }
        self.read_found(&mut path);
    }

    fn read_found(&mut self, path: &mut PathInTokens) {
        let found = std::mem::take(path);
        if !found.is_other && !found.names.is_empty() {
            self.read_path(&found.names, found.line);
        }
    }
}

/// The part of a path in a macro's tokens that was read so far.
#[derive(Default)]
struct PathInTokens {
    names: Vec<String>,
    line: usize,
    colons: usize,
    /// Whether the next name belongs to this path, because it follows `::`.
    continues: bool,
    /// Whether these tokens are ignored, because they are a field, a lifetime, or a path that begins with
    /// `$crate` or `::`.
    is_other: bool,
}

impl PathInTokens {
    fn push(&mut self, name: String, line: usize) {
        if self.names.is_empty() {
            self.line = line;
        }
        self.names.push(name);
        self.colons = 0;
        self.continues = false;
    }

    fn colon(&mut self) {
        self.colons += 1;
        self.continues = self.colons == 2;
        if self.continues && self.names.is_empty() {
            self.is_other = true;
        }
    }
}

impl<'item> Visit<'item> for Reader<'_> {
    fn visit_item(&mut self, item: &'item Item) {
        if !is_test(attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'item ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => return syn::visit::visit_impl_item(self, item),
        };
        if !is_test(attributes) {
            syn::visit::visit_impl_item(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'item Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.read_tokens(list.tokens.clone());
        }
    }

    /// Does nothing, because the module already has all `use` declarations, also those inside of functions.
    fn visit_item_use(&mut self, _: &'item syn::ItemUse) {}

    fn visit_path(&mut self, path: &'item Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>();
            self.read_path(&names, path.span().start().line);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'item syn::Macro) {
        self.visit_path(&call.path);
        self.read_tokens(call.tokens.clone());
    }
}

#[cfg(test)]
mod tests;
