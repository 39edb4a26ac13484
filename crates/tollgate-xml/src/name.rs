//! Names of elements and attributes.

use crate::characters::NameSpan;

/// The name of an element or attribute. Two names are equal if their namespaces and local names are.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// The namespace. Empty if the name is in none.
    pub uri: &'a str,
    /// The name without its prefix.
    pub local: &'a str,
    /// The prefix as written. Empty if there is none.
    pub prefix: &'a str,
}

impl Name<'_> {
    /// Returns whether the name has this namespace and this local name.
    pub fn is(&self, uri: &str, local: &str) -> bool {
        self.local == local && self.uri == uri
    }
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.uri, other.local)
    }
}

impl Eq for Name<'_> {}

/// The parts of a name as written.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) local: &'a str,
}

impl NameSpan {
    #[inline(always)]
    pub(crate) fn whole<'a>(&self, text: &'a str) -> &'a str {
        &text[self.start..self.end]
    }

    #[inline(always)]
    pub(crate) fn parts<'a>(&self, text: &'a str) -> Parts<'a> {
        if self.colon == self.start {
            Parts { prefix: "", local: &text[self.start..self.end] }
        } else {
            Parts { prefix: &text[self.start..self.colon], local: &text[self.colon + 1..self.end] }
        }
    }
}
