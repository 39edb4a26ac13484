//! Patterns of the XML syntax.

use std::rc::Rc;

use super::super::{
    Data, NameClass, Node, Part, Reference, SchemaFault, Type, WrittenPattern, WrittenValue, path,
};
use super::attributes;
use super::element::WrittenElement;
use super::scope::{Reader, Scope, required};
use crate::name::is_ncname;

impl Reader<'_> {
    pub(super) fn pattern(&self, element: &WrittenElement, outer: &Scope) -> Result<Part, SchemaFault> {
        attributes::check(element)?;
        let scope = &Self::inner(element, outer)?;
        let pattern = match element.name.as_str() {
            "element" => {
                let (class, content) = Self::named(element, scope, &scope.namespace)?;
                WrittenPattern::Element(class, self.joined(element, content, scope)?)
            }
            "attribute" => self.attribute(element, scope)?,
            "group" => return self.joined(element, &element.children, scope),
            "interleave" => self.many(element, scope, WrittenPattern::Interleave)?,
            "choice" => self.many(element, scope, WrittenPattern::Choice)?,
            "optional" => WrittenPattern::Optional(self.joined(element, &element.children, scope)?),
            "zeroOrMore" => WrittenPattern::ZeroOrMore(self.joined(element, &element.children, scope)?),
            "oneOrMore" => WrittenPattern::OneOrMore(self.joined(element, &element.children, scope)?),
            "list" => WrittenPattern::List(self.joined(element, &element.children, scope)?),
            "mixed" => WrittenPattern::Mixed(self.joined(element, &element.children, scope)?),
            "ref" => WrittenPattern::Ref(Self::reference_name(element)?),
            "parentRef" => WrittenPattern::ParentRef(Self::reference_name(element)?),
            "empty" => Self::leaf(element, WrittenPattern::Empty)?,
            "text" => Self::leaf(element, WrittenPattern::Text)?,
            "notAllowed" => Self::leaf(element, WrittenPattern::NotAllowed)?,
            "value" => WrittenPattern::Value(Self::value(element, scope)?),
            "data" => WrittenPattern::Data(self.data(element, scope)?),
            "externalRef" => {
                Self::leaf(element, WrittenPattern::External(Self::file_reference(element, scope)?))?
            }
            "grammar" => WrittenPattern::Grammar(self.grammar(element, scope)?),
            other => return Err(element.fault(format!("element \"{other}\" is not a pattern"))),
        };
        Ok(Rc::new(Node { at: element.at, pattern }))
    }

    /// Reads children that form a group if they are several (section 4.12).
    pub(super) fn joined(
        &self,
        element: &WrittenElement,
        children: &[WrittenElement],
        scope: &Scope,
    ) -> Result<Part, SchemaFault> {
        let mut parts = self.parts(element, children, scope)?;
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        Ok(Rc::new(Node { at: element.at, pattern: WrittenPattern::Group(parts) }))
    }

    fn many(
        &self,
        element: &WrittenElement,
        scope: &Scope,
        make: impl Fn(Vec<Part>) -> WrittenPattern,
    ) -> Result<WrittenPattern, SchemaFault> {
        Ok(make(self.parts(element, &element.children, scope)?))
    }

    fn parts(
        &self,
        element: &WrittenElement,
        children: &[WrittenElement],
        scope: &Scope,
    ) -> Result<Vec<Part>, SchemaFault> {
        if children.is_empty() {
            return Err(element.fault(format!("element \"{}\" contains no pattern", element.name)));
        }
        children.iter().map(|child| self.pattern(child, scope)).collect()
    }

    fn leaf(element: &WrittenElement, pattern: WrittenPattern) -> Result<WrittenPattern, SchemaFault> {
        element.check_empty()?;
        Ok(pattern)
    }

    /// Returns the name class of an element or attribute, and the children after it.
    fn named<'e>(
        element: &'e WrittenElement,
        scope: &Scope,
        namespace: &str,
    ) -> Result<(NameClass, &'e [WrittenElement]), SchemaFault> {
        if let Some(name) = element.attribute("name") {
            return Ok((Self::qualified(element, name, namespace)?, &element.children));
        }
        let Some((class, content)) = element.children.split_first() else {
            return Err(element.fault(format!("element \"{}\" has no name", element.name)));
        };
        Ok((Self::name_class(class, scope)?, content))
    }

    /// Reads an attribute. Its attribute `name` does not inherit `ns` (section 4.8), and its content is text
    /// if there is none (section 4.12).
    fn attribute(&self, element: &WrittenElement, scope: &Scope) -> Result<WrittenPattern, SchemaFault> {
        let (class, content) = Self::named(element, scope, element.attribute("ns").unwrap_or(""))?;
        let content = match content {
            [] => Rc::new(Node { at: element.at, pattern: WrittenPattern::Text }),
            [one] => self.pattern(one, scope)?,
            [_, second, ..] => {
                return Err(second.fault("an attribute contains one pattern; use \"group\""));
            }
        };
        Ok(WrittenPattern::Attribute(class, content))
    }

    fn reference_name(element: &WrittenElement) -> Result<String, SchemaFault> {
        element.check_empty()?;
        Self::ncname(element, "name")
    }

    pub(super) fn ncname(element: &WrittenElement, attribute: &str) -> Result<String, SchemaFault> {
        let name = required(element, attribute)?;
        if is_ncname(name) {
            return Ok(name.to_owned());
        }
        Err(element.fault(format!("\"{name}\" is not a name without a colon")))
    }

    pub(super) fn file_reference(element: &WrittenElement, scope: &Scope) -> Result<Reference, SchemaFault> {
        let path = path::resolve(&element.base, required(element, "href")?);
        let path = path.map_err(|text| element.fault(text))?;
        Ok(Reference { path, namespace: scope.namespace.clone() })
    }

    fn value(element: &WrittenElement, scope: &Scope) -> Result<WrittenValue, SchemaFault> {
        // Without a type, the type is the built-in `token` (section 4.4).
        let datatype = match element.attribute("type") {
            Some(_) => Type { library: scope.library.clone(), name: Self::ncname(element, "type")? },
            None => Type { library: String::new(), name: "token".to_owned() },
        };
        let mut prefixes = Rc::clone(&element.prefixes);
        let own = Rc::make_mut(&mut prefixes);
        own.retain(|(prefix, _)| !prefix.is_empty());
        own.push((String::new(), scope.namespace.clone()));
        Ok(WrittenValue { datatype, text: element.text.clone(), prefixes })
    }

    fn data(&self, element: &WrittenElement, scope: &Scope) -> Result<Data, SchemaFault> {
        let datatype = Type { library: scope.library.clone(), name: Self::ncname(element, "type")? };
        let mut data = Data { datatype, parameters: Vec::new(), except: None };
        for child in &element.children {
            attributes::check(child)?;
            let scope = Self::inner(child, scope)?;
            match child.name.as_str() {
                "param" if data.except.is_none() => {
                    data.parameters.push((Self::ncname(child, "name")?, child.text.clone()));
                }
                "except" if data.except.is_none() => {
                    let parts = self.parts(child, &child.children, &scope)?;
                    data.except =
                        Some(Rc::new(Node { at: child.at, pattern: WrittenPattern::Choice(parts) }));
                }
                other => return Err(child.fault(format!("element \"{other}\" is not allowed here"))),
            }
        }
        Ok(data)
    }
}
