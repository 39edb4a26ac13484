//! The outer parts of the compact syntax: declarations, grammars and their components.

use std::rc::Rc;

use super::super::{
    At, Combine, Component, Define, File, Node, Part, Reference, SchemaFault, WrittenGrammar, WrittenPattern,
    library, path,
};
use super::prefixes::Declarations;
use super::token::{Placed, Token};

/// Reads the tokens of one file.
pub(super) struct Parser<'a> {
    tokens: Vec<Placed>,
    next: usize,
    depth: usize,
    pub(super) file: File<'a>,
    pub(super) prefixes: Declarations,
}

impl<'a> Parser<'a> {
    pub(super) fn new(tokens: Vec<Placed>, file: File<'a>) -> Result<Self, SchemaFault> {
        let mut parser =
            Self { tokens, next: 0, depth: 0, file, prefixes: Declarations::new(file.namespace) };
        parser.declarations()?;
        Ok(parser)
    }

    /// Reads what follows the declarations: a pattern, or the components of a grammar.
    pub(super) fn schema(mut self) -> Result<Part, SchemaFault> {
        self.skip_annotation()?;
        let at = self.at();
        let part = if self.begins_component() {
            let components = self.components(&Token::End)?;
            Rc::new(Node { at, pattern: WrittenPattern::Grammar(WrittenGrammar { components }) })
        } else if *self.peek() == Token::End {
            // A grammar without components has no start, which is the fault that is reported later.
            Rc::new(Node { at, pattern: WrittenPattern::Grammar(WrittenGrammar::default()) })
        } else {
            self.pattern()?
        };
        match self.peek() {
            Token::End => Ok(part),
            other => Err(self.unexpected(&other.described(), "the end of the file")),
        }
    }

    fn declarations(&mut self) -> Result<(), SchemaFault> {
        loop {
            self.skip_annotation()?;
            let at = self.at();
            let declared = match self.peek().keyword() {
                Some("namespace") => {
                    self.next += 1;
                    let prefix = self.name_or_keyword()?;
                    let uri = self.namespace_uri()?;
                    self.prefixes.declare(&prefix, &uri)
                }
                Some("default") => {
                    self.next += 1;
                    self.expect_keyword("namespace")?;
                    let prefix =
                        if self.peek().is_symbol("=") { None } else { Some(self.name_or_keyword()?) };
                    let uri = self.namespace_uri()?;
                    let declared = prefix.map_or(Ok(()), |prefix| self.prefixes.declare(&prefix, &uri));
                    declared.and_then(|()| self.prefixes.declare_default(&uri))
                }
                Some("datatypes") => {
                    self.next += 1;
                    let prefix = self.name_or_keyword()?;
                    self.expect("=")?;
                    let uri = self.literal()?;
                    library::check(&uri).and_then(|()| self.prefixes.declare_library(&prefix, &uri))
                }
                _ => return Ok(()),
            };
            declared.map_err(|text| SchemaFault::new(at, text))?;
        }
    }

    fn namespace_uri(&mut self) -> Result<String, SchemaFault> {
        self.expect("=")?;
        if self.peek().keyword() == Some("inherit") {
            self.next += 1;
            return Ok(self.file.namespace.to_owned());
        }
        self.literal()
    }

    /// Whether a component of a grammar begins here, and not a pattern.
    fn begins_component(&self) -> bool {
        let is_assignment =
            |token: &Token| token.is_symbol("=") || token.is_symbol("|=") || token.is_symbol("&=");
        match self.peek() {
            token if matches!(token.keyword(), Some("start" | "div" | "include")) => true,
            token if token.identifier().is_some() => {
                is_assignment(self.ahead(1)) || self.ahead(1).is_symbol("[")
            }
            Token::Qualified { .. } => self.ahead(1).is_symbol("["),
            _ => false,
        }
    }

    /// Reads the components up to `end`, which stays.
    pub(super) fn components(&mut self, end: &Token) -> Result<Vec<Component>, SchemaFault> {
        let mut components = Vec::new();
        loop {
            self.skip_annotation()?;
            if self.peek() == end {
                return Ok(components);
            }
            if self.skip_foreign_element()? {
                continue;
            }
            match self.peek().keyword() {
                Some("div") => {
                    self.next += 1;
                    self.nested("{", |parser| {
                        components.append(&mut parser.components(&Token::Symbol("}"))?);
                        Ok(())
                    })?;
                }
                Some("include") => components.push(self.include()?),
                _ => components.push(Component::Define(self.define()?)),
            }
        }
    }

    fn include(&mut self) -> Result<Component, SchemaFault> {
        let at = self.at();
        self.next += 1;
        let file = self.reference()?;
        let mut overrides = Vec::new();
        if self.peek().is_symbol("{") {
            self.nested("{", |parser| parser.overrides(&mut overrides))?;
        }
        Ok(Component::Include { at, file, overrides })
    }

    fn overrides(&mut self, overrides: &mut Vec<Define>) -> Result<(), SchemaFault> {
        let at = self.at();
        for component in self.components(&Token::Symbol("}"))? {
            match component {
                Component::Define(define) => overrides.push(define),
                Component::Include { .. } => {
                    return Err(SchemaFault::new(
                        at,
                        "an include contains another include; include one by one",
                    ));
                }
            }
        }
        Ok(())
    }

    fn define(&mut self) -> Result<Define, SchemaFault> {
        let at = self.at();
        let name = match self.peek() {
            token if token.keyword() == Some("start") => None,
            token => match token.identifier() {
                Some(name) => Some(name.to_owned()),
                None => return Err(self.unexpected(&token.described(), "a definition")),
            },
        };
        self.next += 1;
        let combine = match self.peek() {
            Token::Symbol("=") => None,
            Token::Symbol("|=") => Some(Combine::Choice),
            Token::Symbol("&=") => Some(Combine::Interleave),
            other => return Err(self.unexpected(&other.described(), "\"=\"")),
        };
        self.next += 1;
        Ok(Define { at, name, combine, body: self.pattern()? })
    }

    /// Reads the path of another file, and the namespace that it inherits.
    pub(super) fn reference(&mut self) -> Result<Reference, SchemaFault> {
        let at = self.at();
        let reference = self.literal()?;
        let path = path::resolve(self.file.path, &reference).map_err(|text| SchemaFault::new(at, text))?;
        let namespace = if self.peek().keyword() == Some("inherit") {
            self.next += 1;
            self.expect("=")?;
            let at = self.at();
            let prefix = self.name_or_keyword()?;
            self.prefixes.namespace(&prefix).map_err(|text| SchemaFault::new(at, text))?.to_owned()
        } else {
            self.prefixes.default().to_owned()
        };
        Ok(Reference { path, namespace })
    }

    /// Reads a part in brackets, one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        open: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, SchemaFault>,
    ) -> Result<T, SchemaFault> {
        let at = self.at();
        self.expect(open)?;
        self.depth += 1;
        let limit = self.file.limits.depth_max;
        if self.depth > limit {
            return Err(SchemaFault::new(
                at,
                format!("patterns are nested too deeply: limit {limit} levels"),
            ));
        }
        let read = read(self)?;
        self.depth -= 1;
        self.expect(if open == "{" { "}" } else { ")" })?;
        Ok(read)
    }

    /// Skips annotations in brackets before a pattern or a component.
    pub(super) fn skip_annotation(&mut self) -> Result<(), SchemaFault> {
        while self.peek().is_symbol("[") {
            self.skip_brackets()?;
        }
        Ok(())
    }

    /// Skips an element of an annotation, `name [ ... ]`, between components.
    fn skip_foreign_element(&mut self) -> Result<bool, SchemaFault> {
        let is_name = matches!(self.peek(), Token::Identifier { .. } | Token::Qualified { .. });
        if !is_name || !self.ahead(1).is_symbol("[") {
            return Ok(false);
        }
        self.next += 1;
        self.skip_brackets()?;
        Ok(true)
    }

    /// Skips annotations after a pattern: `>> name [ ... ]`.
    pub(super) fn skip_following_annotations(&mut self) -> Result<(), SchemaFault> {
        while self.peek().is_symbol(">>") {
            self.next += 1;
            if !matches!(self.peek(), Token::Identifier { .. } | Token::Qualified { .. }) {
                return Err(self.unexpected(&self.peek().described(), "the name of an annotation"));
            }
            self.next += 1;
            self.skip_brackets()?;
        }
        Ok(())
    }

    fn skip_brackets(&mut self) -> Result<(), SchemaFault> {
        let at = self.at();
        self.expect("[")?;
        let mut open = 1_usize;
        while open > 0 {
            match self.peek() {
                Token::Symbol("[") => open += 1,
                Token::Symbol("]") => open -= 1,
                Token::End => return Err(SchemaFault::new(at, "the annotation has no end")),
                _ => {}
            }
            self.next += 1;
        }
        Ok(())
    }

    /// Reads literals that `~` joins.
    pub(super) fn literal(&mut self) -> Result<String, SchemaFault> {
        let mut text = self.one_literal()?;
        while self.peek().is_symbol("~") {
            self.next += 1;
            text.push_str(&self.one_literal()?);
        }
        Ok(text)
    }

    fn one_literal(&mut self) -> Result<String, SchemaFault> {
        match self.peek() {
            Token::Literal(text) => {
                let text = text.clone();
                self.next += 1;
                Ok(text)
            }
            other => Err(self.unexpected(&other.described(), "a literal")),
        }
    }

    pub(super) fn name_or_keyword(&mut self) -> Result<String, SchemaFault> {
        match self.peek() {
            Token::Identifier { text, .. } => {
                let text = text.clone();
                self.next += 1;
                Ok(text)
            }
            other => Err(self.unexpected(&other.described(), "a name")),
        }
    }

    pub(super) fn expect(&mut self, symbol: &'static str) -> Result<(), SchemaFault> {
        if !self.peek().is_symbol(symbol) {
            return Err(self.unexpected(&self.peek().described(), &format!("\"{symbol}\"")));
        }
        self.next += 1;
        Ok(())
    }

    fn expect_keyword(&mut self, keyword: &str) -> Result<(), SchemaFault> {
        if self.peek().keyword() != Some(keyword) {
            return Err(self.unexpected(&self.peek().described(), &format!("\"{keyword}\"")));
        }
        self.next += 1;
        Ok(())
    }

    pub(super) fn unexpected(&self, found: &str, expected: &str) -> SchemaFault {
        SchemaFault::new(self.at(), format!("found {found}; expected {expected}"))
    }

    pub(super) fn peek(&self) -> &Token {
        self.ahead(0)
    }

    /// Whether the token before the next one is `symbol`.
    pub(super) fn follows(&self, symbol: &str) -> bool {
        self.next > 0 && self.tokens[self.next - 1].token.is_symbol(symbol)
    }

    fn ahead(&self, count: usize) -> &Token {
        &self.tokens[(self.next + count).min(self.tokens.len() - 1)].token
    }

    pub(super) fn skip(&mut self) {
        self.next += 1;
    }

    pub(super) fn at(&self) -> At {
        self.tokens[self.next.min(self.tokens.len() - 1)].at
    }
}
