//! An element of a schema in the XML syntax, as it is written.

use std::rc::Rc;

use super::super::{At, SchemaFault};
use crate::name::is_blank;

/// The namespace of the XML syntax.
pub(super) const STRUCTURE: &str = "http://relaxng.org/ns/structure/1.0";

/// The declared prefixes in scope of an element.
pub(super) type Prefixes = Rc<Vec<(String, String)>>;

/// An element of the namespace [`STRUCTURE`]. Elements of other namespaces are annotations, which the tree
/// leaves out (section 4.1).
#[derive(Debug)]
pub(super) struct WrittenElement {
    pub(super) at: At,
    pub(super) name: String,
    /// The attributes without a prefix. Others are annotations.
    pub(super) attributes: Vec<(String, String)>,
    pub(super) prefixes: Prefixes,
    /// The path from which other paths are resolved: the path of the file, or `xml:base`.
    pub(super) base: Rc<str>,
    pub(super) children: Vec<WrittenElement>,
    pub(super) text: String,
}

/// Elements with text instead of elements.
const WITH_TEXT: [&str; 3] = ["name", "param", "value"];

impl WrittenElement {
    /// Whether the element contains text, and no elements, not even annotations.
    pub(super) fn has_text(&self) -> bool {
        WITH_TEXT.contains(&self.name.as_str())
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn fault(&self, text: impl Into<String>) -> SchemaFault {
        SchemaFault::new(self.at, text)
    }

    /// Checks that an element without text has none.
    pub(super) fn check_content(&self) -> Result<(), SchemaFault> {
        if self.has_text() || is_blank(&self.text) {
            return Ok(());
        }
        Err(self.fault(format!("text inside \"{}\"", self.name)))
    }

    /// Checks that the element has no children.
    pub(super) fn check_empty(&self) -> Result<(), SchemaFault> {
        match self.children.first() {
            None => Ok(()),
            Some(child) => Err(child.fault(format!("element \"{}\" inside \"{}\"", child.name, self.name))),
        }
    }
}
