//! Name classes of the compact syntax.

use super::super::{NameClass, SchemaFault};
use super::parser::Parser;
use super::token::Token;

/// Which names the class belongs to. Only element names have the default namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Element,
    Attribute,
}

impl Parser<'_> {
    pub(super) fn name_class(&mut self, named: Named) -> Result<NameClass, SchemaFault> {
        let mut choices = vec![self.member_class(named)?];
        while self.peek().is_symbol("|") {
            self.skip();
            choices.push(self.member_class(named)?);
        }
        Ok(if choices.len() == 1 { choices.remove(0) } else { NameClass::Choice(choices) })
    }

    /// Reads a class that may be joined with others. One with an exception needs parentheses there.
    fn member_class(&mut self, named: Named) -> Result<NameClass, SchemaFault> {
        let (at, is_in_parentheses) = (self.at(), self.peek().is_symbol("("));
        let is_first = !self.follows("|");
        let class = self.basic_name_class(named)?;
        let has_except =
            matches!(&class, NameClass::AnyName(Some(_)) | NameClass::NamespaceName { except: Some(_), .. });
        let is_joined = !is_first || self.peek().is_symbol("|");
        if has_except && is_joined && !is_in_parentheses {
            return Err(SchemaFault::new(at, "the exception needs parentheses around it and its name class"));
        }
        Ok(class)
    }

    fn basic_name_class(&mut self, named: Named) -> Result<NameClass, SchemaFault> {
        self.skip_annotation()?;
        let at = self.at();
        let class = match self.peek().clone() {
            Token::Identifier { text, .. } => {
                self.skip();
                let namespace = if named == Named::Element { self.prefixes.default() } else { "" };
                NameClass::Name { namespace: namespace.to_owned(), local: text }
            }
            Token::Qualified { prefix, local } => {
                self.skip();
                let namespace =
                    self.prefixes.namespace(&prefix).map_err(|text| SchemaFault::new(at, text))?;
                NameClass::Name { namespace: namespace.to_owned(), local }
            }
            Token::AnyIn(prefix) => {
                self.skip();
                let namespace =
                    self.prefixes.namespace(&prefix).map_err(|text| SchemaFault::new(at, text))?;
                let namespace = namespace.to_owned();
                NameClass::NamespaceName { namespace, except: self.name_except(named)? }
            }
            Token::Symbol("*") => {
                self.skip();
                NameClass::AnyName(self.name_except(named)?)
            }
            Token::Symbol("(") => self.nested("(", |parser| parser.name_class(named))?,
            other => return Err(self.unexpected(&other.described(), "a name")),
        };
        self.skip_following_annotations()?;
        Ok(class)
    }

    fn name_except(&mut self, named: Named) -> Result<Option<Box<NameClass>>, SchemaFault> {
        if !self.peek().is_symbol("-") {
            return Ok(None);
        }
        self.skip();
        Ok(Some(Box::new(self.basic_name_class(named)?)))
    }
}
