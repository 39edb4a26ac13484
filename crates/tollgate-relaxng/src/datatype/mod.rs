//! The datatypes: the built-in types of RELAX NG, and the types of XML Schema Part 2.
//!
//! `ID`, `IDREF` and `ENTITY` and their lists are checked as names. Whether an ID is unique is not checked.

mod binary;
mod blocks;
mod decimal;
mod duration;
mod facets;
mod kind;
mod namespaces;
mod regex;
mod temporal;
mod value;

pub use namespaces::Namespaces;
pub(crate) use value::Value;

use facets::Facets;
use kind::Kind;

/// The URI of the library of XML Schema.
pub(crate) const XSD: &str = "http://www.w3.org/2001/XMLSchema-datatypes";

/// A datatype with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Datatype {
    name: String,
    kind: Kind,
    facets: Facets,
}

impl Datatype {
    /// Finds a datatype, and sets its parameters.
    ///
    /// # Errors
    /// A text if the library, the type or a parameter is not known.
    pub(crate) fn new(library: &str, name: &str, parameters: &[(String, String)]) -> Result<Self, String> {
        let kind = match library {
            "" => Kind::built_in(name),
            XSD => Kind::of_schema(name),
            _ => return Err(format!("datatype library \"{library}\" is not known; known is \"{XSD}\"")),
        };
        let Some(kind) = kind else {
            return Err(format!("datatype \"{name}\" is not known in library \"{library}\""));
        };
        let mut facets = Facets::default();
        for (parameter, value) in parameters {
            let set = if library.is_empty() {
                Err("the built-in types have none".to_owned())
            } else {
                facets.set(kind, parameter, value)
            };
            set.map_err(|reason| format!("parameter \"{parameter}\" of \"{name}\": {reason}"))?;
        }
        Ok(Self { name: name.to_owned(), kind, facets })
    }

    /// Returns the name of the type, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether `text` is a value of the type.
    pub(crate) fn allows(&self, text: &str, namespaces: &dyn Namespaces) -> bool {
        if self.facets.is_empty() {
            return self.kind.allows(text, namespaces);
        }
        if !self.facets.need_value(self.kind) {
            return self.kind.allows(text, namespaces) && self.facets.allow_text(&self.kind.normalized(text));
        }
        let text = self.kind.normalized(text);
        let value = self.kind.value(&text, namespaces);
        value.is_some_and(|value| self.facets.allow(self.kind, &text, &value))
    }

    /// Returns the value that `text` stands for.
    pub(crate) fn value(&self, text: &str, namespaces: &dyn Namespaces) -> Option<Value> {
        self.kind.value(&self.kind.normalized(text), namespaces)
    }

    /// Whether `text` stands for `value`.
    pub(crate) fn equals(&self, value: &Value, text: &str, namespaces: &dyn Namespaces) -> bool {
        if let Value::Text(expected) = value
            && let Some(is_equal) = self.kind.has_text(expected, text)
        {
            return is_equal;
        }
        self.value(text, namespaces).is_some_and(|own| own == *value)
    }

    /// Whether two values are the same if their words are the same.
    pub(crate) fn compares_words(&self) -> bool {
        self.kind.compares_words()
    }
}

#[cfg(test)]
mod tests;
