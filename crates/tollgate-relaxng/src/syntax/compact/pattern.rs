//! Patterns of the compact syntax.

use std::rc::Rc;

use super::super::{At, Data, Fault, Grammar, Node, Part, Pattern, Type, Value};
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
    pub(super) fn pattern(&mut self) -> Result<Part, Fault> {
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
            return Err(Fault::new(self.at(), text));
        }
        let pattern = match connector {
            "," => Pattern::Group(parts),
            "|" => Pattern::Choice(parts),
            _ => Pattern::Interleave(parts),
        };
        Ok(part(at, pattern))
    }

    /// Returns a particle that is joined with others. One with an exception needs parentheses.
    fn member(&self, particle: Particle) -> Result<Part, Fault> {
        if particle.has_open_except {
            return Err(Fault::new(
                particle.part.at,
                "the exception needs parentheses around it and its type",
            ));
        }
        Ok(particle.part)
    }

    fn particle(&mut self) -> Result<Particle, Fault> {
        self.skip_annotation()?;
        let at = self.at();
        let is_in_parentheses = self.peek().is_symbol("(");
        let primary = self.primary()?;
        let has_open_except =
            !is_in_parentheses && matches!(&primary.pattern, Pattern::Data(data) if data.except.is_some());
        let particle = Particle { part: primary, has_open_except };
        self.skip_following_annotations()?;
        let repeat = match self.peek() {
            Token::Symbol("?") => Pattern::Optional,
            Token::Symbol("*") => Pattern::ZeroOrMore,
            Token::Symbol("+") => Pattern::OneOrMore,
            _ => return Ok(particle),
        };
        let pattern = repeat(self.member(particle)?);
        self.skip();
        self.skip_following_annotations()?;
        Ok(Particle { part: part(at, pattern), has_open_except: false })
    }

    fn primary(&mut self) -> Result<Part, Fault> {
        let at = self.at();
        let pattern = match self.peek().clone() {
            Token::Symbol("(") => return self.nested("(", Self::pattern),
            Token::Literal(_) => self.value(builtin("token"))?,
            Token::Qualified { prefix, local } => {
                let library = self.prefixes.library(&prefix).map_err(|text| Fault::new(at, text))?;
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
                        Pattern::Ref(name.to_owned())
                    }
                    None => return Err(self.unexpected(&token.described(), "a pattern")),
                },
            },
        };
        Ok(part(at, pattern))
    }

    fn of_keyword(&mut self, keyword: &str, at: At) -> Result<Pattern, Fault> {
        match keyword {
            "element" => {
                let class = self.name_class(Named::Element)?;
                Ok(Pattern::Element(class, self.nested("{", Self::pattern)?))
            }
            "attribute" => {
                let class = self.name_class(Named::Attribute)?;
                Ok(Pattern::Attribute(class, self.nested("{", Self::pattern)?))
            }
            "list" => Ok(Pattern::List(self.nested("{", Self::pattern)?)),
            "mixed" => Ok(Pattern::Mixed(self.nested("{", Self::pattern)?)),
            "empty" => Ok(Pattern::Empty),
            "text" => Ok(Pattern::Text),
            "notAllowed" => Ok(Pattern::NotAllowed),
            "string" | "token" => self.value_or_data(builtin(keyword)),
            "grammar" => self.nested("{", |parser| {
                let components = parser.components(&Token::Symbol("}"))?;
                Ok(Pattern::Grammar(Grammar { components }))
            }),
            "external" => Ok(Pattern::External(self.reference()?)),
            "parent" => match self.peek().identifier().map(str::to_owned) {
                Some(name) => {
                    self.skip();
                    Ok(Pattern::ParentRef(name))
                }
                None => Err(self.unexpected(&self.peek().described(), "the name of a definition")),
            },
            _ => Err(Fault::new(
                at,
                format!("found \"{keyword}\"; expected a pattern; write \\{keyword} for a name"),
            )),
        }
    }

    fn value_or_data(&mut self, datatype: Type) -> Result<Pattern, Fault> {
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
        Ok(Pattern::Data(Data { datatype, parameters, except }))
    }

    fn value(&mut self, datatype: Type) -> Result<Pattern, Fault> {
        let prefixes = self.prefixes.of_values();
        Ok(Pattern::Value(Value { datatype, text: self.literal()?, prefixes }))
    }

    fn parameters(&mut self) -> Result<Vec<(String, String)>, Fault> {
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

fn part(at: At, pattern: Pattern) -> Part {
    Rc::new(Node { at, pattern })
}
