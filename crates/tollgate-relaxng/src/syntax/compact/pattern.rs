//! Patterns of the compact syntax.

use std::rc::Rc;

use super::super::{At, Data, Node, Part, SchemaFault, Type, WrittenGrammar, WrittenPattern, WrittenValue};
use super::name_class::Named;
use super::parser::Parser;
use super::token::Token;

/// A part of a pattern.
struct Particle {
    part: Part,
    /// It is a datatype with an exception, without parentheses around it.
    has_open_except: bool,
}

impl Parser<'_> {
    /// Reads particles that one connector joins. Different connectors need parentheses.
    pub(super) fn pattern(&mut self) -> Result<Part, SchemaFault> {
        let at = self.at();
        let first = self.particle()?;
        let Token::Symbol(connector @ ("," | "|" | "&")) = *self.peek() else { return Ok(first.part) };
        let mut parts = vec![self.member(first)?];
        while self.peek().is_symbol(connector) {
            self.skip();
            let next = self.particle()?;
            parts.push(self.member(next)?);
        }
        if let Token::Symbol(other @ ("," | "|" | "&")) = *self.peek() {
            let text = format!("\"{other}\" follows \"{connector}\"; use parentheses to group patterns");
            return Err(SchemaFault::new(self.at(), text));
        }
        let pattern = match connector {
            "," => WrittenPattern::Group(parts),
            "|" => WrittenPattern::Choice(parts),
            _ => WrittenPattern::Interleave(parts),
        };
        Ok(part(at, pattern))
    }

    /// Returns a particle that is joined with others. One with an exception needs parentheses.
    fn member(&self, particle: Particle) -> Result<Part, SchemaFault> {
        if particle.has_open_except {
            return Err(SchemaFault::new(
                particle.part.at,
                "the exception needs parentheses around it and its type",
            ));
        }
        Ok(particle.part)
    }

    fn particle(&mut self) -> Result<Particle, SchemaFault> {
        self.skip_annotation()?;
        let at = self.at();
        let is_in_parentheses = self.peek().is_symbol("(");
        let primary = self.primary()?;
        let has_open_except = !is_in_parentheses
            && matches!(&primary.pattern, WrittenPattern::Data(data) if data.except.is_some());
        let particle = Particle { part: primary, has_open_except };
        self.skip_following_annotations()?;
        let repeat = match self.peek() {
            Token::Symbol("?") => WrittenPattern::Optional,
            Token::Symbol("*") => WrittenPattern::ZeroOrMore,
            Token::Symbol("+") => WrittenPattern::OneOrMore,
            _ => return Ok(particle),
        };
        let pattern = repeat(self.member(particle)?);
        self.skip();
        self.skip_following_annotations()?;
        Ok(Particle { part: part(at, pattern), has_open_except: false })
    }

    fn primary(&mut self) -> Result<Part, SchemaFault> {
        let at = self.at();
        let pattern = match self.peek().clone() {
            Token::Symbol("(") => return self.nested("(", Self::pattern),
            Token::Literal(_) => self.value(builtin("token"))?,
            Token::Qualified { prefix, local } => {
                let library = self.prefixes.library(&prefix).map_err(|text| SchemaFault::new(at, text))?;
                let datatype = Type { library: library.to_owned(), name: local };
                self.skip();
                self.value_or_data(datatype)?
            }
            token => match token.keyword() {
                Some(keyword) => {
                    self.skip();
                    self.of_keyword(keyword, at)?
                }
                None => match token.identifier() {
                    Some(name) => {
                        self.skip();
                        WrittenPattern::Ref(name.to_owned())
                    }
                    None => return Err(self.unexpected(&token.described(), "a pattern")),
                },
            },
        };
        Ok(part(at, pattern))
    }

    fn of_keyword(&mut self, keyword: &str, at: At) -> Result<WrittenPattern, SchemaFault> {
        match keyword {
            "element" => {
                let class = self.name_class(Named::Element)?;
                Ok(WrittenPattern::Element(class, self.nested("{", Self::pattern)?))
            }
            "attribute" => {
                let class = self.name_class(Named::Attribute)?;
                Ok(WrittenPattern::Attribute(class, self.nested("{", Self::pattern)?))
            }
            "list" => Ok(WrittenPattern::List(self.nested("{", Self::pattern)?)),
            "mixed" => Ok(WrittenPattern::Mixed(self.nested("{", Self::pattern)?)),
            "empty" => Ok(WrittenPattern::Empty),
            "text" => Ok(WrittenPattern::Text),
            "notAllowed" => Ok(WrittenPattern::NotAllowed),
            "string" | "token" => self.value_or_data(builtin(keyword)),
            "grammar" => self.nested("{", |parser| {
                let components = parser.components(&Token::Symbol("}"))?;
                Ok(WrittenPattern::Grammar(WrittenGrammar { components }))
            }),
            "external" => Ok(WrittenPattern::External(self.reference()?)),
            "parent" => match self.peek().identifier().map(str::to_owned) {
                Some(name) => {
                    self.skip();
                    Ok(WrittenPattern::ParentRef(name))
                }
                None => Err(self.unexpected(&self.peek().described(), "the name of a definition")),
            },
            _ => Err(SchemaFault::new(
                at,
                format!("found \"{keyword}\"; expected a pattern; write \\{keyword} for a name"),
            )),
        }
    }

    fn value_or_data(&mut self, datatype: Type) -> Result<WrittenPattern, SchemaFault> {
        if matches!(self.peek(), Token::Literal(_)) {
            return self.value(datatype);
        }
        let parameters = if self.peek().is_symbol("{") { self.parameters()? } else { Vec::new() };
        let except = if self.peek().is_symbol("-") {
            self.skip();
            self.skip_annotation()?;
            Some(self.primary()?)
        } else {
            None
        };
        Ok(WrittenPattern::Data(Data { datatype, parameters, except }))
    }

    fn value(&mut self, datatype: Type) -> Result<WrittenPattern, SchemaFault> {
        let prefixes = self.prefixes.of_values();
        Ok(WrittenPattern::Value(WrittenValue { datatype, text: self.literal()?, prefixes }))
    }

    fn parameters(&mut self) -> Result<Vec<(String, String)>, SchemaFault> {
        self.nested("{", |parser| {
            let mut parameters = Vec::new();
            loop {
                parser.skip_annotation()?;
                if parser.peek().is_symbol("}") {
                    return Ok(parameters);
                }
                let name = parser.name_or_keyword()?;
                parser.expect("=")?;
                parameters.push((name, parser.literal()?));
            }
        })
    }
}

fn builtin(name: &str) -> Type {
    Type { library: String::new(), name: name.to_owned() }
}

fn part(at: At, pattern: WrittenPattern) -> Part {
    Rc::new(Node { at, pattern })
}
