//! The namespace declarations in scope.

use crate::error::XmlErrorKind::Namespace;
use crate::error::{AtFault, Fault, Result};

/// The namespace of the prefix `xml`.
pub const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";
/// The namespace of the prefix `xmlns`.
const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// A namespace in scope. Two equal namespaces have the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamespaceId(u16);

impl NamespaceId {
    pub(crate) const NONE: Self = Self(0);
}

/// The declarations in scope, the innermost last.
#[derive(Debug)]
pub(crate) struct Scope {
    /// The first two are always there: no namespace without a prefix, and the prefix `xml`.
    bindings: Vec<Binding>,
    /// Prefixes and namespaces of all bindings.
    text: String,
    /// The bindings that no inner one hides, in the order of their prefixes. So a search compares few
    /// prefixes, whatever a client declares.
    visible: Vec<u16>,
}

#[derive(Debug)]
struct Binding {
    prefix_start: usize,
    uri_start: usize,
    uri_end: usize,
    /// The first binding with the same namespace.
    same_as: u16,
    /// The binding of the same prefix that this one hides.
    hidden: Option<u16>,
}

impl Scope {
    pub(crate) fn new() -> Self {
        let mut scope = Self { bindings: Vec::new(), text: String::new(), visible: Vec::new() };
        scope.push("", "");
        scope.push("xml", XML_NAMESPACE);
        scope
    }

    /// Returns the number of bindings, to which [`Scope::truncate`] goes back.
    pub(crate) fn len(&self) -> usize {
        self.bindings.len()
    }

    pub(crate) fn declared_count(&self) -> usize {
        self.bindings.len() - PREDEFINED
    }

    /// Adds a declaration. An empty prefix declares the namespace of names without one.
    ///
    /// # Errors
    /// The declaration breaks a rule of Namespaces in XML 1.0. The place of the fault is `at`.
    pub(crate) fn declare(&mut self, prefix: &str, uri: &str, at: usize) -> Result<()> {
        let refused = |reason: &str| {
            let reason = format!("the declaration of {} {reason}", shown(prefix));
            Err(Fault::new(Namespace, at, reason, AtFault::Text(uri.to_owned()), ""))
        };
        match (prefix, uri) {
            ("xmlns", _) => return refused("is not allowed"),
            ("xml", XML_NAMESPACE) => {}
            ("xml", _) => return refused("has another namespace than that of XML"),
            (_, XML_NAMESPACE) => return refused("has the namespace of the prefix xml"),
            (_, XMLNS_NAMESPACE) => return refused("has the namespace of the prefix xmlns"),
            ("", "") => {}
            (_, "") => return refused("has no namespace"),
            _ => {}
        }
        self.push(prefix, uri);
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, reason = "the caller bounds the number of declarations")]
    fn push(&mut self, prefix: &str, uri: &str) {
        let index = self.bindings.len() as u16;
        let same_as = (0..index).find(|&known| {
            self.bindings[usize::from(known)].same_as == known && self.uri(NamespaceId(known)) == uri
        });
        let prefix_start = self.text.len();
        self.text.push_str(prefix);
        let uri_start = self.text.len();
        self.text.push_str(uri);
        let uri_end = self.text.len();
        let hidden = match self.find(prefix) {
            Ok(place) => Some(std::mem::replace(&mut self.visible[place], index)),
            Err(place) => {
                self.visible.insert(place, index);
                None
            }
        };
        self.bindings.push(Binding {
            prefix_start,
            uri_start,
            uri_end,
            same_as: same_as.unwrap_or(index),
            hidden,
        });
    }

    /// Removes the declarations after the first `count`.
    #[inline]
    pub(crate) fn truncate(&mut self, count: usize) {
        while self.bindings.len() > count {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let last = self.bindings.len() - 1;
        let Binding { prefix_start, hidden, .. } = self.bindings[last];
        if let Ok(place) = self.find(self.prefix(last)) {
            match hidden {
                Some(hidden) => self.visible[place] = hidden,
                None => {
                    self.visible.remove(place);
                }
            }
        }
        self.bindings.truncate(last);
        self.text.truncate(prefix_start);
    }

    /// Returns the namespace of names without a prefix.
    #[inline]
    pub(crate) fn default_namespace(&self) -> NamespaceId {
        // The empty prefix is the first in the order.
        NamespaceId(self.bindings[usize::from(self.visible[0])].same_as)
    }

    /// Returns the namespace of a prefix, if it is declared.
    #[inline]
    pub(crate) fn resolve(&self, prefix: &str) -> Option<NamespaceId> {
        let place = self.find(prefix).ok()?;
        Some(NamespaceId(self.bindings[usize::from(self.visible[place])].same_as))
    }

    /// Returns a prefix of a namespace, if one is visible. The empty prefix is not one.
    pub(crate) fn prefix_of(&self, uri: &str) -> Option<&str> {
        let mut visible = self.visible.iter().map(|&index| (self.prefix(usize::from(index)), index));
        visible
            .find(|(prefix, index)| !prefix.is_empty() && self.uri(NamespaceId(*index)) == uri)
            .map(|found| found.0)
    }

    pub(crate) fn uri(&self, id: NamespaceId) -> &str {
        let binding = &self.bindings[usize::from(id.0)];
        &self.text[binding.uri_start..binding.uri_end]
    }

    /// Returns whether a binding after the first `count` declares the prefix.
    pub(crate) fn is_declared_after(&self, count: usize, prefix: &str) -> bool {
        self.find(prefix).is_ok_and(|place| usize::from(self.visible[place]) >= count)
    }

    /// Returns the declarations after the first `count`, as prefixes and namespaces.
    pub(crate) fn declared_after(&self, count: usize) -> impl Iterator<Item = (&str, &str)> {
        self.bindings[count..].iter().map(|binding| {
            (
                &self.text[binding.prefix_start..binding.uri_start],
                &self.text[binding.uri_start..binding.uri_end],
            )
        })
    }

    fn prefix(&self, index: usize) -> &str {
        let binding = &self.bindings[index];
        &self.text[binding.prefix_start..binding.uri_start]
    }

    #[inline]
    fn find(&self, prefix: &str) -> std::result::Result<usize, usize> {
        self.visible.binary_search_by(|&index| self.prefix(usize::from(index)).cmp(prefix))
    }
}

/// The bindings that need no declaration.
const PREDEFINED: usize = 2;

fn shown(prefix: &str) -> String {
    if prefix.is_empty() { "xmlns".to_owned() } else { format!("xmlns:{prefix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_declaration_hides_an_outer_one_until_it_ends() {
        let mut scope = Scope::new();
        let uri = |scope: &Scope, prefix: &str| scope.resolve(prefix).map(|id| scope.uri(id).to_owned());
        assert_eq!(uri(&scope, "a"), None);
        assert_eq!(uri(&scope, "xml").as_deref(), Some(XML_NAMESPACE));
        scope.declare("a", "urn:1", 0).unwrap();
        let outer = scope.len();
        scope.declare("a", "urn:2", 0).unwrap();
        scope.declare("", "urn:1", 0).unwrap();
        assert_eq!(uri(&scope, "a").as_deref(), Some("urn:2"));
        assert_eq!(scope.uri(scope.default_namespace()), "urn:1");
        scope.truncate(outer);
        assert_eq!(uri(&scope, "a").as_deref(), Some("urn:1"));
        assert_eq!(scope.uri(scope.default_namespace()), "");
    }

    #[test]
    fn equal_namespaces_have_the_same_number() {
        let mut scope = Scope::new();
        scope.declare("a", "urn:1", 0).unwrap();
        scope.declare("b", "urn:2", 0).unwrap();
        scope.declare("c", "urn:1", 0).unwrap();
        assert_eq!(scope.resolve("a"), scope.resolve("c"));
        assert_ne!(scope.resolve("a"), scope.resolve("b"));
    }
}
