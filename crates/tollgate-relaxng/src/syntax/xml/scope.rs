//! The attributes `ns` and `datatypeLibrary`, which elements inherit (sections 4.3, 4.4, 4.8).

use super::super::{File, SchemaFault, library};
use super::element::WrittenElement;
use crate::name::trimmed;

/// Reads the elements of one file.
pub(super) struct Reader<'a> {
    pub(super) file: File<'a>,
}

/// What an element inherits.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) namespace: String,
    pub(super) library: String,
}

impl Reader<'_> {
    /// Returns the scope of the root element.
    pub(super) fn outer(&self) -> Scope {
        Scope { namespace: self.file.namespace.to_owned(), library: String::new() }
    }

    /// Returns the scope inside `element`.
    pub(super) fn inner(element: &WrittenElement, outer: &Scope) -> Result<Scope, SchemaFault> {
        let mut scope = outer.clone();
        if let Some(namespace) = element.attribute("ns") {
            namespace.clone_into(&mut scope.namespace);
        }
        if let Some(uri) = element.attribute("datatypeLibrary") {
            library::check(uri).map_err(|text| element.fault(text))?;
            uri.clone_into(&mut scope.library);
        }
        Ok(scope)
    }
}

/// Returns the attribute `name` without white space around it (section 4.2).
///
/// # Errors
/// The element lacks the attribute.
pub(super) fn required<'e>(element: &'e WrittenElement, name: &str) -> Result<&'e str, SchemaFault> {
    let value = element.attribute(name).map(trimmed);
    value.ok_or_else(|| element.fault(format!("element \"{}\" lacks the attribute \"{name}\"", element.name)))
}
