//! The attributes of a start tag.

use crate::characters::NameSpan;
use crate::error::XmlErrorKind::{Malformed, Namespace};
use crate::error::{AtFault, Fault, Result};
use crate::limits::{Limits, Prefixes};
use crate::name::{Name, Parts};
use crate::scope::{NamespaceId, Scope};

/// The attributes of an element, in the order of the document, without its namespace declarations.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    list: &'a AttributeList,
    text: &'a str,
    scope: &'a Scope,
    outer_scope: usize,
}

/// An attribute, with its value after normalisation (section 3.3.3).
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    /// The name. Without a prefix it is in no namespace.
    pub name: Name<'a>,
    /// The value.
    pub value: &'a str,
}

/// A namespace declaration of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration<'a> {
    /// The prefix. Empty for the namespace of names without a prefix.
    pub prefix: &'a str,
    /// The namespace. Empty where names without a prefix are in none.
    pub uri: &'a str,
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(list: &'a AttributeList, text: &'a str, scope: &'a Scope, outer_scope: usize) -> Self {
        Self { list, text, scope, outer_scope }
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.list.attributes.len()
    }

    /// Returns whether there is no attribute.
    pub fn is_empty(&self) -> bool {
        self.list.attributes.is_empty()
    }

    /// Returns the attributes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Attribute<'a>> + use<'a> {
        let Self { list, text, scope, .. } = *self;
        list.attributes.iter().map(move |item| {
            let Parts { prefix, local } = item.name.parts(text);
            let name = Name { uri: scope.uri(item.namespace), local, prefix };
            Attribute { name, value: item.value.of(text, &list.values) }
        })
    }

    /// Returns the value of the attribute with this namespace and this local name.
    pub fn get(&self, uri: &str, local: &str) -> Option<&'a str> {
        self.iter().find(|attribute| attribute.name.is(uri, local)).map(|attribute| attribute.value)
    }

    /// Returns the namespace declarations of the element.
    pub fn declarations(&self) -> impl Iterator<Item = Declaration<'a>> + use<'a> {
        let declared = self.scope.declared_after(self.outer_scope);
        declared.map(|(prefix, uri)| Declaration { prefix, uri })
    }

    /// Returns the namespace of a prefix that is in scope at the element. An empty prefix has the namespace
    /// of elements without a prefix.
    pub fn resolve(&self, prefix: &str) -> Option<&'a str> {
        self.scope.resolve(prefix).map(|id| self.scope.uri(id))
    }
}

/// The attributes of the start tag that is being read.
#[derive(Debug, Default)]
pub(crate) struct AttributeList {
    attributes: Vec<Item>,
    declarations: Vec<Item>,
    /// The values that differ from the text of the document, one after another.
    pub(crate) values: String,
    /// Places of attributes, to sort them.
    order: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    name: NameSpan,
    value: ValueSpan,
    namespace: NamespaceId,
}

/// The place of an attribute value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueSpan {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether the value is in `values`, and not in the text of the document.
    pub(crate) is_normalised: bool,
}

impl Item {
    /// The part of the name that differs within a namespace. A name without a namespace may have a prefix
    /// that is not declared.
    #[inline]
    fn compared_name<'a>(&self, text: &'a str) -> &'a str {
        if self.namespace == NamespaceId::NONE { self.name.whole(text) } else { self.name.parts(text).local }
    }

    /// Returns the length of this part.
    #[inline]
    fn compared_bytes(&self) -> usize {
        let NameSpan { start, colon, end } = self.name;
        if self.namespace == NamespaceId::NONE || colon == start { end - start } else { end - colon - 1 }
    }
}

/// Returns whether the name of an attribute declares a namespace.
#[inline]
fn declares(name: &str) -> bool {
    name.strip_prefix("xmlns").is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

impl ValueSpan {
    #[inline]
    fn of<'a>(&self, text: &'a str, values: &'a str) -> &'a str {
        let source = if self.is_normalised { values } else { text };
        &source[self.start..self.end]
    }
}

impl AttributeList {
    pub(crate) fn clear(&mut self) {
        self.attributes.clear();
        self.declarations.clear();
        self.values.clear();
    }

    /// Returns the number of attributes and declarations.
    pub(crate) fn len(&self) -> usize {
        self.attributes.len() + self.declarations.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, text: &str, name: NameSpan, value: ValueSpan) {
        let is_declaration = text.as_bytes()[name.start] == b'x' && declares(name.whole(text));
        let list = if is_declaration { &mut self.declarations } else { &mut self.attributes };
        list.push(Item { name, value, namespace: NamespaceId::NONE });
    }

    /// Adds the declarations to the scope, and finds the namespaces of the attributes.
    ///
    /// # Errors
    /// A declaration is not allowed, a prefix has none, or an attribute is repeated.
    #[inline]
    pub(crate) fn resolve(&mut self, text: &str, scope: &mut Scope, limits: &Limits) -> Result<()> {
        if !self.declarations.is_empty() {
            self.declare(text, scope, limits)?;
        }
        for item in &mut self.attributes {
            if item.name.colon != item.name.start {
                item.namespace = namespace_of(text, item.name, scope, limits)?;
            }
        }
        self.check_unique(text)
    }

    fn declare(&self, text: &str, scope: &mut Scope, limits: &Limits) -> Result<()> {
        let outer = scope.len();
        for item in &self.declarations {
            let at = item.name.start;
            let uri = item.value.of(text, &self.values);
            let Parts { prefix, local } = item.name.parts(text);
            let declared = if prefix.is_empty() { "" } else { local };
            if scope.is_declared_after(outer, declared) {
                return Err(repeated(text, item.name));
            }
            if scope.declared_count() >= limits.namespaces_max {
                let reason = format!("more than {} namespace declarations in scope", limits.namespaces_max);
                return Err(Fault::limit(at, reason));
            }
            if uri.len() > limits.name_bytes_max {
                let reason = format!("a namespace longer than {} bytes", limits.name_bytes_max);
                return Err(Fault::limit(at, reason));
            }
            scope.declare(declared, uri, at)?;
        }
        Ok(())
    }

    /// Checks that no two attributes have the same name. Few are compared in pairs, and many are sorted, so
    /// that the work is never quadratic.
    #[inline]
    fn check_unique(&mut self, text: &str) -> Result<()> {
        if self.attributes.len() > COMPARED_IN_PAIRS_MAX {
            return self.check_unique_by_order(text);
        }
        for (index, item) in self.attributes.iter().enumerate() {
            let name = item.compared_name(text);
            for other in &self.attributes[..index] {
                // Most names have another length. Only names of the same length are compared.
                if other.namespace == item.namespace
                    && other.compared_bytes() == name.len()
                    && other.compared_name(text) == name
                {
                    return Err(repeated(text, item.name));
                }
            }
        }
        Ok(())
    }

    fn check_unique_by_order(&mut self, text: &str) -> Result<()> {
        let attributes = &self.attributes;
        let key = |place: u16| {
            let item = &attributes[usize::from(place)];
            (item.compared_name(text), item.namespace)
        };
        self.order.clear();
        self.order.extend(0..u16::try_from(attributes.len()).unwrap_or(u16::MAX));
        self.order.sort_by(|&one, &other| key(one).cmp(&key(other)));
        // The sort is stable, so the later of two equal ones is the repeated one.
        let repeats = self.order.windows(2).filter(|pair| key(pair[0]) == key(pair[1])).map(|pair| pair[1]);
        match repeats.min() {
            None => Ok(()),
            Some(place) => Err(repeated(text, attributes[usize::from(place)].name)),
        }
    }
}

/// Returns the namespace of a name with a prefix.
pub(crate) fn namespace_of(
    text: &str,
    name: NameSpan,
    scope: &Scope,
    limits: &Limits,
) -> Result<NamespaceId> {
    let prefix = name.parts(text).prefix;
    match scope.resolve(prefix) {
        Some(namespace) => Ok(namespace),
        None if limits.prefixes == Prefixes::Any => Ok(NamespaceId::NONE),
        None => {
            let reason = format!("the prefix {prefix} is not declared");
            Err(Fault::new(Namespace, name.start, reason, AtFault::InReason, ""))
        }
    }
}

#[cold]
fn repeated(text: &str, name: NameSpan) -> Box<Fault> {
    let found = AtFault::Text(name.whole(text).to_owned());
    Fault::new(Malformed, name.start, "a repeated attribute", found, "")
}

const COMPARED_IN_PAIRS_MAX: usize = 8;
