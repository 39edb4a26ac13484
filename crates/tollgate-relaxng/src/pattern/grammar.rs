//! A simplified schema: its patterns, and the tables that they refer to.

use super::{Arena, Id, NameSet, Names};
use crate::datatype::{Datatype, Value};
use crate::syntax::{At, NameClass};

#[derive(Debug)]
pub(crate) struct Grammar {
    pub(crate) names: Names,
    pub(crate) arena: Arena,
    pub(crate) elements: Vec<Element>,
    pub(crate) attributes: Vec<Declaration>,
    pub(crate) data: Vec<Datatype>,
    pub(crate) values: Vec<(Datatype, Value)>,
    pub(crate) start: Id,
}

#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) declaration: Declaration,
    pub(crate) content: Id,
}

/// The name class of an element or attribute, and its place in the schema.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) at: At,
    pub(crate) names: NameSet,
    /// Whether the class contains any number of names.
    pub(crate) is_infinite: bool,
    pub(crate) labels: Vec<Label>,
}

/// A part of a name class, for messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Label {
    Name { local: String, namespace: String },
    NamespaceName(String),
    AnyName,
}

impl Label {
    /// Returns the labels of a name class. Exceptions are left out.
    pub(crate) fn all(class: &NameClass) -> Vec<Self> {
        match class {
            NameClass::Name { namespace, local } => {
                vec![Self::Name { local: local.clone(), namespace: namespace.clone() }]
            }
            NameClass::AnyName(_) => vec![Self::AnyName],
            NameClass::NamespaceName { namespace, .. } => vec![Self::NamespaceName(namespace.clone())],
            NameClass::Choice(choices) => choices.iter().flat_map(Self::all).collect(),
        }
    }
}
