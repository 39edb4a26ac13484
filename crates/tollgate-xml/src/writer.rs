//! Writes well-formed documents.

use std::fmt;

use crate::characters::is_ncname;
use crate::escape::{Place, escape};
use crate::name::Name;
use crate::scope::{NamespaceId, Scope, XML_NAMESPACE};

/// Writes one element with all that it contains.
///
/// Texts and values are escaped, names are checked, and namespaces are declared where they are missing. A
/// name keeps its prefix if the prefix is free or means the same namespace. Otherwise it gets another one.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    limits: WriterLimits,
    scope: Scope,
    open: Vec<Open>,
    /// The written names of the open elements, one after another.
    names: String,
    /// The attributes of the start tag that is not closed yet.
    attributes: Option<Vec<(NamespaceId, String)>>,
    is_complete: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    name_start: usize,
    outer_scope: usize,
}

/// The bounds of a writer.
#[derive(Clone, Copy, Debug)]
pub struct WriterLimits {
    /// Greatest number of elements within each other.
    pub depth_max: usize,
    /// Greatest number of attributes of an element.
    pub attributes_max: usize,
    /// Greatest number of namespace declarations in scope.
    pub namespaces_max: usize,
    /// Greatest length of the output.
    pub bytes_max: usize,
}

impl Default for WriterLimits {
    fn default() -> Self {
        Self { depth_max: 128, attributes_max: 256, namespaces_max: 256, bytes_max: 1 << 20 }
    }
}

/// Why a writer refused a part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The text is no name.
    Name(String),
    /// The text has a character that XML does not allow, at this byte, counted from 1.
    Character(usize),
    /// The start tag has the attribute already.
    RepeatedAttribute(String),
    /// A call does not fit the state of the document, such as an attribute after a text.
    Order(&'static str),
    /// A bound is exceeded.
    Limit(&'static str, usize),
}

impl fmt::Display for WriteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(formatter, "{name:?} is not an XML name"),
            Self::Character(at) => {
                write!(formatter, "text has a character at byte {at} that XML does not allow")
            }
            Self::RepeatedAttribute(name) => write!(formatter, "attribute {name:?} is repeated"),
            Self::Order(reason) => formatter.write_str(reason),
            Self::Limit(what, limit) => write!(formatter, "XML exceeds limit: {limit} {what}"),
        }
    }
}

impl std::error::Error for WriteError {}

type Result = std::result::Result<(), WriteError>;

impl Writer {
    /// Creates a writer.
    pub fn new(limits: WriterLimits) -> Self {
        Self {
            out: Vec::new(),
            limits,
            scope: Scope::new(),
            open: Vec::new(),
            names: String::new(),
            attributes: None,
            is_complete: false,
        }
    }

    /// Begins an element.
    ///
    /// # Errors
    /// The name is invalid, the root element is complete, or a limit is exceeded.
    pub fn start(&mut self, name: Name<'_>) -> Result {
        check_name(name)?;
        if self.is_complete {
            return Err(WriteError::Order("a document has one root element"));
        }
        if self.open.len() >= self.limits.depth_max {
            return Err(WriteError::Limit("levels", self.limits.depth_max));
        }
        self.close_tag();
        let open = Open { name_start: self.names.len(), outer_scope: self.scope.len() };
        let (prefix, is_new) = self.prefix_of_element(name);
        push_name(&mut self.names, &prefix, name.local);
        self.out.push(b'<');
        self.out.extend_from_slice(&self.names.as_bytes()[open.name_start..]);
        self.open.push(open);
        self.attributes = Some(Vec::new());
        if is_new { self.declare(&prefix, name.uri) } else { self.check_size() }
    }

    /// Adds an attribute to the start tag that was begun last.
    ///
    /// # Errors
    /// There is no such tag, the name is invalid or repeated, or a limit is exceeded.
    pub fn attribute(&mut self, name: Name<'_>, value: &str) -> Result {
        check_name(name)?;
        let Some(known) = &self.attributes else {
            return Err(WriteError::Order("an attribute follows a start tag or an attribute"));
        };
        if known.len() >= self.limits.attributes_max {
            return Err(WriteError::Limit("attributes", self.limits.attributes_max));
        }
        let (prefix, is_new) = self.prefix_of_attribute(name);
        if is_new {
            self.declare(&prefix, name.uri)?;
        }
        let namespace = if prefix.is_empty() { None } else { self.scope.resolve(&prefix) };
        let key = (namespace.unwrap_or(NamespaceId::NONE), name.local.to_owned());
        let mut written = String::new();
        push_name(&mut written, &prefix, name.local);
        if let Some(known) = &mut self.attributes {
            if known.contains(&key) {
                return Err(WriteError::RepeatedAttribute(written));
            }
            known.push(key);
        }
        self.value(&written, value)
    }

    /// Adds a text.
    ///
    /// # Errors
    /// The text is outside of the root element, has a character that XML does not allow, or a limit is
    /// exceeded.
    pub fn text(&mut self, text: &str) -> Result {
        if self.open.is_empty() {
            return Err(WriteError::Order("a text is within an element"));
        }
        if text.is_empty() {
            return Ok(());
        }
        self.close_tag();
        escape(text, Place::Content, &mut self.out).map_err(|at| WriteError::Character(at + 1))?;
        self.check_size()
    }

    /// Ends the innermost element.
    ///
    /// # Errors
    /// No element is open, or a limit is exceeded.
    pub fn end(&mut self) -> Result {
        let Some(open) = self.open.pop() else {
            return Err(WriteError::Order("an end follows a start"));
        };
        if self.attributes.take().is_some() {
            self.out.extend_from_slice(b"/>");
        } else {
            self.out.extend_from_slice(b"</");
            self.out.extend_from_slice(&self.names.as_bytes()[open.name_start..]);
            self.out.push(b'>');
        }
        self.names.truncate(open.name_start);
        self.scope.truncate(open.outer_scope);
        self.is_complete = self.open.is_empty();
        self.check_size()
    }

    /// Returns the document.
    ///
    /// # Errors
    /// An element is open, or there is none.
    pub fn finish(self) -> std::result::Result<Vec<u8>, WriteError> {
        if self.is_complete {
            Ok(self.out)
        } else {
            Err(WriteError::Order("a document is a complete element"))
        }
    }

    fn close_tag(&mut self) {
        if self.attributes.take().is_some() {
            self.out.push(b'>');
        }
    }

    fn value(&mut self, name: &str, value: &str) -> Result {
        self.out.push(b' ');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"=\"");
        escape(value, Place::Value, &mut self.out).map_err(|at| WriteError::Character(at + 1))?;
        self.out.push(b'"');
        self.check_size()
    }

    fn declare(&mut self, prefix: &str, uri: &str) -> Result {
        if self.scope.declared_count() >= self.limits.namespaces_max {
            return Err(WriteError::Limit("namespaces", self.limits.namespaces_max));
        }
        self.scope.declare(prefix, uri, 0).map_err(|_| WriteError::Name(format!("{prefix}:{uri}")))?;
        let name = if prefix.is_empty() { "xmlns".to_owned() } else { format!("xmlns:{prefix}") };
        self.value(&name, uri)
    }

    /// Returns the prefix of an element, and whether it has to be declared.
    fn prefix_of_element(&self, name: Name<'_>) -> (String, bool) {
        match name {
            Name { uri: XML_NAMESPACE, .. } => ("xml".to_owned(), false),
            Name { uri: "", .. } => (String::new(), !self.means("", "")),
            Name { uri, prefix, .. } if self.means(prefix, uri) => (prefix.to_owned(), false),
            Name { prefix: "xml" | "xmlns", .. } => (self.free_prefix("ns"), true),
            Name { prefix, .. } => (prefix.to_owned(), true),
        }
    }

    /// Returns the prefix of an attribute, and whether it has to be declared.
    fn prefix_of_attribute(&self, name: Name<'_>) -> (String, bool) {
        match name {
            Name { uri: XML_NAMESPACE, .. } => ("xml".to_owned(), false),
            Name { uri: "", .. } => (String::new(), false),
            Name { uri, prefix, .. } if !prefix.is_empty() && self.means(prefix, uri) => {
                (prefix.to_owned(), false)
            }
            Name { uri, prefix, .. } => match self.scope.prefix_of(uri) {
                Some(known) => (known.to_owned(), false),
                None if matches!(prefix, "" | "xml" | "xmlns") => (self.free_prefix("ns"), true),
                None => (self.free_prefix(prefix), true),
            },
        }
    }

    fn means(&self, prefix: &str, uri: &str) -> bool {
        self.scope.resolve(prefix).is_some_and(|id| self.scope.uri(id) == uri)
    }

    /// Returns the prefix, or one with a number if the prefix is visible. A name that was written before
    /// keeps its meaning so.
    fn free_prefix(&self, wanted: &str) -> String {
        let is_free = |prefix: &String| prefix != "xmlns" && self.scope.resolve(prefix).is_none();
        let numbered = (1..).map(|number: usize| format!("{wanted}{number}"));
        std::iter::once(wanted.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
    }

    fn check_size(&self) -> Result {
        let bytes_max = self.limits.bytes_max;
        if self.out.len() > bytes_max { Err(WriteError::Limit("bytes", bytes_max)) } else { Ok(()) }
    }
}

fn check_name(name: Name<'_>) -> Result {
    let Name { local, prefix, .. } = name;
    if !is_ncname(local) {
        return Err(WriteError::Name(local.to_owned()));
    }
    if prefix.is_empty() || is_ncname(prefix) { Ok(()) } else { Err(WriteError::Name(prefix.to_owned())) }
}

fn push_name(out: &mut String, prefix: &str, local: &str) {
    if !prefix.is_empty() {
        out.push_str(prefix);
        out.push(':');
    }
    out.push_str(local);
}
