//! A schema as written: the patterns of section 3 of the specification, with their places. Both syntaxes are
//! read into this model. Namespaces, datatype libraries and paths are resolved already.

use std::rc::Rc;

use crate::SchemaLimits;

/// A place in a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    /// The index of the file among the files of the schema.
    pub(crate) file: u16,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A fault with its place.
#[derive(Debug)]
pub(crate) struct SchemaFault {
    pub(crate) at: At,
    pub(crate) text: String,
}

impl SchemaFault {
    pub(crate) fn new(at: At, text: impl Into<String>) -> Self {
        Self { at, text: text.into() }
    }
}

/// A pattern and its place.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: At,
    pub(crate) pattern: WrittenPattern,
}

pub(crate) type Part = Rc<Node>;

#[derive(Debug)]
pub(crate) enum WrittenPattern {
    Element(NameClass, Part),
    Attribute(NameClass, Part),
    Group(Vec<Part>),
    Interleave(Vec<Part>),
    Choice(Vec<Part>),
    Optional(Part),
    ZeroOrMore(Part),
    OneOrMore(Part),
    List(Part),
    Mixed(Part),
    Ref(String),
    ParentRef(String),
    Empty,
    Text,
    NotAllowed,
    Value(WrittenValue),
    Data(Data),
    External(Reference),
    Grammar(WrittenGrammar),
}

/// Another file, with the namespace that it inherits (section 4.8).
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) path: String,
    pub(crate) namespace: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Type {
    /// The URI of the datatype library.
    pub(crate) library: String,
    pub(crate) name: String,
}

#[derive(Debug)]
pub(crate) struct WrittenValue {
    pub(crate) datatype: Type,
    pub(crate) text: String,
    /// The namespaces of the prefixes in scope, for values that are qualified names.
    pub(crate) prefixes: Rc<Vec<(String, String)>>,
}

#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) datatype: Type,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) except: Option<Part>,
}

#[derive(Clone, Debug)]
pub(crate) enum NameClass {
    Name { namespace: String, local: String },
    AnyName(Option<Box<NameClass>>),
    NamespaceName { namespace: String, except: Option<Box<NameClass>> },
    Choice(Vec<NameClass>),
}

/// The components of a grammar. `div` is dissolved by the readers (section 4.11).
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenGrammar {
    pub(crate) components: Vec<Component>,
}

#[derive(Clone, Debug)]
pub(crate) enum Component {
    Define(Define),
    Include { at: At, file: Reference, overrides: Vec<Define> },
}

/// A definition, or `start`.
#[derive(Clone, Debug)]
pub(crate) struct Define {
    pub(crate) at: At,
    /// `None` stands for `start`.
    pub(crate) name: Option<String>,
    pub(crate) combine: Option<Combine>,
    pub(crate) body: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Choice,
    Interleave,
}

/// A file that is being read: what its reader needs to know about the schema around it.
#[derive(Clone, Copy)]
pub(crate) struct File<'a> {
    /// The path, from which the paths in the file are resolved.
    pub(crate) path: &'a str,
    /// The index of the file in the list of the schema.
    pub(crate) index: u16,
    pub(crate) text: &'a str,
    /// The namespace of names without a prefix, if the file declares none (section 4.8).
    pub(crate) namespace: &'a str,
    pub(crate) limits: &'a SchemaLimits,
}
