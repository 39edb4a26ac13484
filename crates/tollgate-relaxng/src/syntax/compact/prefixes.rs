//! The declarations at the start of a file in the compact syntax: namespaces and datatype libraries.

use std::rc::Rc;

use crate::datatype::XSD;
use crate::name::XML;

/// The declared prefixes of a file.
pub(super) struct Declarations {
    namespaces: Rc<Vec<(String, String)>>,
    libraries: Vec<(String, String)>,
    /// The namespace of element names without a prefix.
    default: String,
    has_default: bool,
}

const RESERVED: &str = "http://www.w3.org/2000/xmlns";

impl Declarations {
    /// Makes the prefixes of a file that inherits `namespace`.
    pub(super) fn new(namespace: &str) -> Self {
        let namespaces = Rc::new(vec![("xml".to_owned(), XML.to_owned())]);
        Self { namespaces, libraries: Vec::new(), default: namespace.to_owned(), has_default: false }
    }

    pub(super) fn declare(&mut self, prefix: &str, uri: &str) -> Result<(), String> {
        if prefix == "xmlns" || uri == RESERVED || uri == "http://www.w3.org/2000/xmlns/" {
            return Err("prefix \"xmlns\" and its namespace are reserved".to_owned());
        }
        if (prefix == "xml") != (uri == XML) {
            return Err(format!("prefix \"xml\" and namespace \"{XML}\" belong together"));
        }
        if prefix == "xml" {
            return Ok(());
        }
        if self.namespaces.iter().any(|(own, _)| own == prefix) {
            return Err(format!("prefix \"{prefix}\" is declared twice"));
        }
        Rc::make_mut(&mut self.namespaces).push((prefix.to_owned(), uri.to_owned()));
        Ok(())
    }

    pub(super) fn declare_default(&mut self, uri: &str) -> Result<(), String> {
        if std::mem::replace(&mut self.has_default, true) {
            return Err("the default namespace is declared twice".to_owned());
        }
        uri.clone_into(&mut self.default);
        Ok(())
    }

    pub(super) fn declare_library(&mut self, prefix: &str, uri: &str) -> Result<(), String> {
        if self.libraries.iter().any(|(own, _)| own == prefix) {
            return Err(format!("prefix \"{prefix}\" of datatypes is declared twice"));
        }
        if prefix == "xsd" && uri != XSD {
            return Err(format!("prefix \"xsd\" of datatypes belongs to \"{XSD}\""));
        }
        self.libraries.push((prefix.to_owned(), uri.to_owned()));
        Ok(())
    }

    pub(super) fn default(&self) -> &str {
        &self.default
    }

    pub(super) fn namespace(&self, prefix: &str) -> Result<&str, String> {
        let found = self.namespaces.iter().find(|(own, _)| own == prefix);
        found.map(|(_, uri)| uri.as_str()).ok_or_else(|| {
            format!("prefix \"{prefix}\" is not declared; write: namespace {prefix} = \"...\"")
        })
    }

    pub(super) fn library(&self, prefix: &str) -> Result<&str, String> {
        let found = self.libraries.iter().find(|(own, _)| own == prefix);
        match found {
            Some((_, uri)) => Ok(uri),
            None if prefix == "xsd" => Ok(XSD),
            None => Err(format!(
                "prefix \"{prefix}\" of datatypes is not declared; write: datatypes {prefix} = \"...\""
            )),
        }
    }

    /// Returns the namespaces for values that are qualified names.
    pub(super) fn of_values(&self) -> Rc<Vec<(String, String)>> {
        let mut namespaces = Rc::clone(&self.namespaces);
        Rc::make_mut(&mut namespaces).push((String::new(), self.default.clone()));
        namespaces
    }
}
