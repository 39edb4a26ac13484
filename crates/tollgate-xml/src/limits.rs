//! The bounds of a reader.

/// The bounds of one document. Text has no bound here, because it is reported in parts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Greatest number of elements within each other.
    pub depth_max: usize,
    /// Greatest number of attributes of an element. Namespace declarations count too.
    pub attributes_max: usize,
    /// Greatest length of a name, of a namespace and of a reference in bytes.
    pub name_bytes_max: usize,
    /// Greatest number of namespace declarations in scope.
    pub namespaces_max: usize,
    /// Greatest length of a start tag in bytes, with its attribute values.
    pub tag_bytes_max: usize,
    /// What the reader does with a document type declaration.
    pub doctype: Doctype,
    /// What the reader does with a prefix that is not declared.
    pub prefixes: Prefixes,
}

/// What a reader does with a prefix that is not declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefixes {
    /// The document is refused, as Namespaces in XML 1.0 requires.
    Declared,
    /// The name is in no namespace, and keeps its prefix.
    Any,
}

/// What a reader does with a document type declaration without an internal subset. One with an internal
/// subset is always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doctype {
    /// The document is refused.
    Refuse,
    /// The declaration is checked and skipped. Nothing is fetched.
    Skip,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth_max: 128,
            attributes_max: 256,
            name_bytes_max: 1024,
            namespaces_max: 256,
            tag_bytes_max: 64 << 10,
            doctype: Doctype::Refuse,
            prefixes: Prefixes::Declared,
        }
    }
}
