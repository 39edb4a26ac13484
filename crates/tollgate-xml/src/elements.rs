//! The open elements.

use crate::scope::NamespaceId;

/// The open elements, the innermost last.
#[derive(Debug, Default)]
pub(crate) struct OpenElements {
    elements: Vec<OpenElement>,
    /// The names of all open elements, one after another.
    names: String,
}

/// An open element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenElement {
    name_start: usize,
    pub(crate) namespace: NamespaceId,
    /// Number of namespace declarations outside of the element.
    pub(crate) outer_scope: usize,
}

impl OpenElements {
    pub(crate) fn depth(&self) -> usize {
        self.elements.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, name: &str, namespace: NamespaceId, outer_scope: usize) {
        self.elements.push(OpenElement { name_start: self.names.len(), namespace, outer_scope });
        self.names.push_str(name);
    }

    /// Returns the innermost element and its name as written.
    #[inline]
    pub(crate) fn last(&self) -> Option<(OpenElement, &str)> {
        let last = self.elements.last()?;
        Some((*last, &self.names[last.name_start..]))
    }

    #[inline]
    pub(crate) fn pop(&mut self) {
        if let Some(last) = self.elements.pop() {
            self.names.truncate(last.name_start);
        }
    }

    /// Returns the names of the open elements as a path. `/` if there is none.
    pub(crate) fn path(&self) -> String {
        let mut path = String::with_capacity(self.names.len() + self.elements.len() + 1);
        for (index, element) in self.elements.iter().enumerate() {
            let end = self.elements.get(index + 1).map_or(self.names.len(), |next| next.name_start);
            path.push('/');
            path.push_str(&self.names[element.name_start..end]);
        }
        if path.is_empty() {
            path.push('/');
        }
        path
    }
}
