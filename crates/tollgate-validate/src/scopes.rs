//! The prefixes in scope, for values that are qualified names.

use tollgate_relaxng::Namespaces;
use tollgate_xml::{Attributes, XML_NAMESPACE};

/// The prefixes that the open elements declare.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    depth: usize,
    declared: Vec<Declared>,
}

#[derive(Debug)]
struct Declared {
    depth: usize,
    prefix: String,
    uri: String,
}

impl Scopes {
    /// Enters an element.
    pub(crate) fn enter(&mut self, attributes: &Attributes<'_>) {
        self.depth += 1;
        let depth = self.depth;
        self.declared.extend(attributes.declarations().map(|one| Declared {
            depth,
            prefix: one.prefix.to_owned(),
            uri: one.uri.to_owned(),
        }));
    }

    /// Leaves the innermost element.
    pub(crate) fn leave(&mut self) {
        while self.declared.last().is_some_and(|last| last.depth == self.depth) {
            self.declared.pop();
        }
        self.depth -= 1;
    }
}

impl Namespaces for Scopes {
    fn namespace(&self, prefix: &str) -> Option<&str> {
        let declared = self.declared.iter().rev().find(|declared| declared.prefix == prefix);
        match (declared, prefix) {
            (Some(declared), _) => Some(&declared.uri),
            (None, "") => Some(""),
            (None, "xml") => Some(XML_NAMESPACE),
            (None, _) => None,
        }
    }
}
