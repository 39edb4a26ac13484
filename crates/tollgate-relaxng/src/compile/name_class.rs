//! The restrictions of name classes (section 4.16).

use crate::syntax::{At, NameClass, SchemaFault};

/// What an exception may not contain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    AnyName,
    NamespaceName,
}

/// Checks the name class of an element or attribute.
pub(super) fn check(class: &NameClass, is_attribute: bool, at: At) -> Result<(), SchemaFault> {
    excepts(class, Within::Nothing)
        .and_then(|()| reserved(class, is_attribute))
        .map_err(|text| SchemaFault::new(at, text))
}

fn excepts(class: &NameClass, within: Within) -> Result<(), String> {
    match class {
        NameClass::Name { .. } => Ok(()),
        NameClass::AnyName(_) if within != Within::Nothing => {
            Err("the exception of a name class contains any name".to_owned())
        }
        NameClass::NamespaceName { .. } if within == Within::NamespaceName => {
            Err("the exception of the names of a namespace contains the names of a namespace".to_owned())
        }
        NameClass::AnyName(Some(except)) => excepts(except, Within::AnyName),
        NameClass::NamespaceName { except: Some(except), .. } => excepts(except, Within::NamespaceName),
        NameClass::AnyName(None) | NameClass::NamespaceName { except: None, .. } => Ok(()),
        NameClass::Choice(choices) => choices.iter().try_for_each(|choice| excepts(choice, within)),
    }
}

/// Checks that no attribute is a declaration of namespaces.
fn reserved(class: &NameClass, is_attribute: bool) -> Result<(), String> {
    let is_reserved = |uri: &str| uri.starts_with("http://www.w3.org/2000/xmlns");
    if !is_attribute {
        return Ok(());
    }
    match class {
        NameClass::Name { namespace, local } if namespace.is_empty() && local == "xmlns" => {
            Err("attribute \"xmlns\" declares a namespace and cannot be part of a schema".to_owned())
        }
        NameClass::Name { namespace, .. } | NameClass::NamespaceName { namespace, .. }
            if is_reserved(namespace) =>
        {
            Err(format!("namespace \"{namespace}\" is reserved"))
        }
        NameClass::Name { .. } => Ok(()),
        NameClass::AnyName(except) | NameClass::NamespaceName { except, .. } => {
            except.as_ref().map_or(Ok(()), |except| reserved(except, true))
        }
        NameClass::Choice(choices) => choices.iter().try_for_each(|choice| reserved(choice, true)),
    }
}

/// Whether a class contains any number of names.
pub(super) fn is_infinite(class: &NameClass) -> bool {
    match class {
        NameClass::Name { .. } => false,
        NameClass::AnyName(_) | NameClass::NamespaceName { .. } => true,
        NameClass::Choice(choices) => choices.iter().any(is_infinite),
    }
}
