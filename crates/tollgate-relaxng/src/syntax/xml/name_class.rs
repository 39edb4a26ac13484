//! Name classes of the XML syntax.

use super::super::{NameClass, SchemaFault};
use super::attributes;
use super::element::WrittenElement;
use super::scope::{Reader, Scope};
use crate::name::{is_ncname, trimmed};

impl Reader<'_> {
    pub(super) fn name_class(element: &WrittenElement, outer: &Scope) -> Result<NameClass, SchemaFault> {
        attributes::check(element)?;
        let scope = Self::inner(element, outer)?;
        match element.name.as_str() {
            "name" => Self::qualified(element, &element.text, &scope.namespace),
            "anyName" => Ok(NameClass::AnyName(Self::name_except(element, &scope)?)),
            "nsName" => {
                let except = Self::name_except(element, &scope)?;
                Ok(NameClass::NamespaceName { namespace: scope.namespace, except })
            }
            "choice" => Self::name_choice(element, &scope),
            other => Err(element.fault(format!("element \"{other}\" is not a name class"))),
        }
    }

    fn name_choice(element: &WrittenElement, scope: &Scope) -> Result<NameClass, SchemaFault> {
        if element.children.is_empty() {
            return Err(element.fault(format!("element \"{}\" is empty", element.name)));
        }
        let choices = element.children.iter().map(|child| Self::name_class(child, scope));
        Ok(NameClass::Choice(choices.collect::<Result<_, _>>()?))
    }

    fn name_except(element: &WrittenElement, scope: &Scope) -> Result<Option<Box<NameClass>>, SchemaFault> {
        match element.children.as_slice() {
            [] => Ok(None),
            [except] if except.name == "except" => {
                attributes::check(except)?;
                let scope = Self::inner(except, scope)?;
                Ok(Some(Box::new(Self::name_choice(except, &scope)?)))
            }
            _ => {
                Err(element.fault(format!("element \"{}\" has other content than \"except\"", element.name)))
            }
        }
    }

    /// Resolves a name with its prefix (section 4.10). A name without one has `namespace`.
    pub(super) fn qualified(
        element: &WrittenElement,
        text: &str,
        namespace: &str,
    ) -> Result<NameClass, SchemaFault> {
        let text = trimmed(text);
        let (prefix, local) = text.split_once(':').unwrap_or(("", text));
        if !is_ncname(local) || (text.contains(':') && !is_ncname(prefix)) {
            return Err(element.fault(format!("\"{text}\" is not a name")));
        }
        let namespace = if text.contains(':') {
            let found = element.prefixes.iter().find(|(own, _)| own == prefix);
            let (_, uri) =
                found.ok_or_else(|| element.fault(format!("prefix \"{prefix}\" is not declared")))?;
            uri
        } else {
            namespace
        };
        Ok(NameClass::Name { namespace: namespace.to_owned(), local: local.to_owned() })
    }
}
