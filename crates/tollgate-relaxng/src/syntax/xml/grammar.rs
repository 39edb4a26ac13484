//! Grammars of the XML syntax.

use super::super::{Combine, Component, Define, SchemaFault, WrittenGrammar};
use super::attributes;
use super::element::WrittenElement;
use super::scope::{Reader, Scope};
use crate::name::trimmed;

impl Reader<'_> {
    pub(super) fn grammar(
        &self,
        element: &WrittenElement,
        scope: &Scope,
    ) -> Result<WrittenGrammar, SchemaFault> {
        let mut components = Vec::new();
        self.components(element, scope, &mut components)?;
        Ok(WrittenGrammar { components })
    }

    fn components(
        &self,
        element: &WrittenElement,
        scope: &Scope,
        to: &mut Vec<Component>,
    ) -> Result<(), SchemaFault> {
        for child in &element.children {
            match child.name.as_str() {
                "include" => to.push(self.include(child, scope)?),
                "div" => {
                    attributes::check(child)?;
                    self.components(child, &Self::inner(child, scope)?, to)?;
                }
                _ => to.push(Component::Define(self.define(child, scope)?)),
            }
        }
        Ok(())
    }

    fn include(&self, element: &WrittenElement, outer: &Scope) -> Result<Component, SchemaFault> {
        attributes::check(element)?;
        let scope = Self::inner(element, outer)?;
        let mut overrides = Vec::new();
        self.overrides(element, &scope, &mut overrides)?;
        Ok(Component::Include { at: element.at, file: Self::file_reference(element, &scope)?, overrides })
    }

    fn overrides(
        &self,
        element: &WrittenElement,
        scope: &Scope,
        to: &mut Vec<Define>,
    ) -> Result<(), SchemaFault> {
        for child in &element.children {
            if child.name == "div" {
                attributes::check(child)?;
                self.overrides(child, &Self::inner(child, scope)?, to)?;
            } else {
                to.push(self.define(child, scope)?);
            }
        }
        Ok(())
    }

    fn define(&self, element: &WrittenElement, outer: &Scope) -> Result<Define, SchemaFault> {
        let name = match element.name.as_str() {
            "start" => None,
            "define" => Some(Self::ncname(element, "name")?),
            other => return Err(element.fault(format!("element \"{other}\" is not part of a grammar"))),
        };
        attributes::check(element)?;
        let scope = Self::inner(element, outer)?;
        let combine = match element.attribute("combine").map(trimmed) {
            None => None,
            Some("choice") => Some(Combine::Choice),
            Some("interleave") => Some(Combine::Interleave),
            Some(other) => {
                return Err(element.fault(format!("combine \"{other}\" is neither choice nor interleave")));
            }
        };
        if name.is_none() && element.children.len() > 1 {
            return Err(element.children[1].fault("\"start\" contains one pattern; use \"group\""));
        }
        let body = self.joined(element, &element.children, &scope)?;
        Ok(Define { at: element.at, name, combine, body })
    }
}
