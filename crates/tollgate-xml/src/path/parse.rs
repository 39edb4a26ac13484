//! Parses a path.

use super::model::{AttributeTest, Comparison, NameTest, Parsed, Predicate, PrefixBinding, Step, Target};
use crate::characters::{end_of_ncname, end_of_space};

/// The place of a fault, and its reason.
type Fault = (usize, String);
type Result<T> = std::result::Result<T, Fault>;

/// Parses a path.
pub(super) fn path(text: &str, namespaces: &[PrefixBinding<'_>]) -> Result<Parsed> {
    if text.len() > PATH_BYTES_MAX {
        return fault(0, format!("a path of {} bytes, limit {PATH_BYTES_MAX} bytes", text.len()));
    }
    let mut parser = Parser { text, at: 0, namespaces, has_descendant: false };
    let mut steps = Vec::new();
    let attribute = loop {
        match parser.slash()? {
            None => break None,
            Some(_) if steps.len() == STEPS_MAX => {
                return fault(parser.at, format!("a path with more than {STEPS_MAX} steps"));
            }
            Some(is_descendant) if parser.takes("@") => {
                if is_descendant {
                    return fault(parser.at, "// before an attribute: write //*/@name");
                }
                break Some(parser.attribute_name()?);
            }
            Some(is_descendant) => steps.push(parser.step(is_descendant)?),
        }
    };
    if steps.is_empty() {
        return fault(parser.at, NOT_ABSOLUTE);
    }
    let comparison = parser.comparison()?;
    parser.space();
    if parser.at < text.len() {
        return fault(parser.at, parser.unexpected());
    }
    let target = match (attribute, comparison) {
        (Some((uri, local)), comparison) => Target::Attribute(AttributeTest { uri, local, comparison }),
        (None, Some(comparison)) => Target::Text(comparison),
        (None, None) => Target::Element,
    };
    Ok(Parsed { steps, target })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    namespaces: &'a [PrefixBinding<'a>],
    has_descendant: bool,
}

impl Parser<'_> {
    fn space(&mut self) {
        self.at = end_of_space(self.text.as_bytes(), self.at);
    }

    /// Takes a token, with the white space before it.
    fn takes(&mut self, token: &str) -> bool {
        self.space();
        let is_there = self.text[self.at..].starts_with(token);
        if is_there {
            self.at += token.len();
        }
        is_there
    }

    /// Takes `/` or `//`, and returns whether it is `//`.
    fn slash(&mut self) -> Result<Option<bool>> {
        let start = self.at;
        if self.takes("//") {
            if self.has_descendant {
                return fault(start, "a second //: a path has at most one");
            }
            self.has_descendant = true;
            return Ok(Some(true));
        }
        Ok(self.takes("/").then_some(false))
    }

    fn step(&mut self, is_descendant: bool) -> Result<Step> {
        let test = self.name_test()?;
        let mut predicates = Vec::new();
        while self.takes("[") {
            if predicates.len() == PREDICATES_MAX {
                return fault(self.at, format!("a step with more than {PREDICATES_MAX} predicates"));
            }
            predicates.push(self.predicate()?);
        }
        Ok(Step { rule: 0, is_last: false, is_descendant, test, predicates })
    }

    fn name_test(&mut self) -> Result<NameTest> {
        if self.takes("*") {
            return Ok(NameTest::Any);
        }
        let start = self.at;
        let first = self.name()?;
        let rest = &self.text[self.at..];
        if rest.starts_with("::") {
            return fault(start, "an axis: allowed are children, //, and @name");
        }
        if rest.starts_with('(') {
            return fault(start, "a function: allowed are names, *, and @name");
        }
        if !rest.starts_with(':') {
            return Ok(NameTest::Name { uri: String::new(), local: first });
        }
        self.at += 1;
        let uri = self.namespace(&first, start)?;
        if self.text[self.at..].starts_with('*') {
            self.at += 1;
            return Ok(NameTest::Namespace(uri));
        }
        Ok(NameTest::Name { uri, local: self.name()? })
    }

    /// Reads the name of an attribute after `@`.
    fn attribute_name(&mut self) -> Result<(String, String)> {
        let start = self.at;
        if self.text[start..].starts_with('*') {
            return fault(start, "@*: an attribute has a name");
        }
        let first = self.name()?;
        if !self.text[self.at..].starts_with(':') {
            return Ok((String::new(), first));
        }
        self.at += 1;
        Ok((self.namespace(&first, start)?, self.name()?))
    }

    fn name(&mut self) -> Result<String> {
        self.space();
        let start = self.at;
        match end_of_ncname(self.text, start) {
            Ok(end) if end > start => {
                self.at = end;
                Ok(self.text[start..end].to_owned())
            }
            _ => fault(start, self.unexpected()),
        }
    }

    fn namespace(&self, prefix: &str, at: usize) -> Result<String> {
        if prefix == "xml" {
            return Ok(crate::scope::XML_NAMESPACE.to_owned());
        }
        match self.namespaces.iter().find(|binding| binding.prefix == prefix) {
            Some(binding) => Ok(binding.uri.to_owned()),
            None => fault(at, format!("the prefix {prefix} has no namespace: add it to the namespaces")),
        }
    }

    /// Reads a predicate after `[`.
    fn predicate(&mut self) -> Result<Predicate> {
        self.space();
        let start = self.at;
        let predicate = if self.takes("@") {
            let (uri, local) = self.attribute_name()?;
            Predicate::Attribute(AttributeTest { uri, local, comparison: self.comparison()? })
        } else if self.text[start..].starts_with(|first: char| first.is_ascii_digit()) {
            let end = start + self.text[start..].bytes().take_while(u8::is_ascii_digit).count();
            self.at = end;
            if &self.text[start..end] != "1" {
                return fault(start, "a position other than 1: allowed is [1]");
            }
            Predicate::First(0)
        } else {
            return fault(start, PREDICATE);
        };
        if self.takes("]") { Ok(predicate) } else { fault(self.at, PREDICATE) }
    }

    /// Reads `= 'text'` or `!= 'text'`, if one is there.
    fn comparison(&mut self) -> Result<Option<Comparison>> {
        let is_equal = match () {
            () if self.takes("!=") => false,
            () if self.takes("=") => true,
            () => return Ok(None),
        };
        self.space();
        let start = self.at;
        let quote = self.text[start..].chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let quoted = quote.and_then(|quote| self.text[start + 1..].split_once(quote));
        let Some((text, _)) = quoted else {
            return fault(start, "a comparison with other than a text in quotes");
        };
        if text.len() > COMPARED_BYTES_MAX {
            return fault(start, format!("a text of {} bytes, limit {COMPARED_BYTES_MAX} bytes", text.len()));
        }
        self.at = start + text.len() + 2;
        Ok(Some(Comparison { is_equal, text: text.to_owned() }))
    }

    fn unexpected(&self) -> String {
        let rest = &self.text[self.at..];
        match rest.chars().next() {
            None => "the path ends: allowed are names, *, and @name".to_owned(),
            Some('.') => "a step to the element itself or to its parent: a path goes down only".to_owned(),
            Some('|') => "| between paths: give each path for itself".to_owned(),
            Some(_) if self.at == 0 => NOT_ABSOLUTE.to_owned(),
            Some(found) => format!("unexpected {found:?}: allowed are names, *, @name, [ ], = and !="),
        }
    }
}

fn fault<T>(at: usize, reason: impl Into<String>) -> Result<T> {
    Err((at, reason.into()))
}

const NOT_ABSOLUTE: &str = "a path that does not begin with / and the name of an element";
const PREDICATE: &str = "an unknown predicate: allowed are [1], [@name], [@name = 'x'] and [@name != 'x']";
const PATH_BYTES_MAX: usize = 4096;
const STEPS_MAX: usize = 32;
const PREDICATES_MAX: usize = 8;
/// Greatest length of a text that a path compares.
const COMPARED_BYTES_MAX: usize = 1024;
