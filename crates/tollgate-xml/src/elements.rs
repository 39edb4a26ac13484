//! The open elements.

use crate::characters::NameSpan;
use crate::name::Parts;
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
    /// Length of the prefix of its name. 0 without a prefix.
    prefix_bytes: usize,
    pub(crate) namespace: NamespaceId,
    /// Number of namespace declarations outside of the element.
    pub(crate) outer_scope: usize,
}

impl OpenElement {
    /// Returns the parts of its name as written.
    #[inline]
    pub(crate) fn parts<'a>(&self, name: &'a str) -> Parts<'a> {
        match self.prefix_bytes {
            0 => Parts { prefix: "", local: name },
            bytes => Parts { prefix: &name[..bytes], local: &name[bytes + 1..] },
        }
    }
}

impl OpenElements {
    pub(crate) fn depth(&self) -> usize {
        self.elements.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &str, name: NameSpan, namespace: NamespaceId, outer_scope: usize) {
        let (name_start, prefix_bytes) = (self.names.len(), name.colon - name.start);
        self.elements.push(OpenElement { name_start, prefix_bytes, namespace, outer_scope });
        self.names.push_str(name.whole(text));
    }

    /// Returns the innermost element and its name as written.
    #[inline]
    pub(crate) fn last(&self) -> Option<(OpenElement, &str)> {
        let last = self.elements.last()?;
        Some((*last, &self.names[last.name_start..]))
    }

    /// Returns the namespace of the innermost element, if its name has the same prefix.
    #[inline]
    pub(crate) fn namespace_of_same_prefix(&self, text: &str, name: NameSpan) -> Option<NamespaceId> {
        let (last, open) = self.last()?;
        let prefix_bytes = name.colon - name.start;
        let is_same = last.prefix_bytes == prefix_bytes
            && open.as_bytes()[..prefix_bytes] == text.as_bytes()[name.start..name.colon];
        is_same.then_some(last.namespace)
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
