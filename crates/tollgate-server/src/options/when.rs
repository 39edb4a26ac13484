//! The options of a route that chooses its handler by the request.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tollgate_xml::{PathSet, PrefixBinding};

use super::proxy::ProxySpec;
use super::stream::FieldPath;

/// A handler that is chosen by the head and by the first bytes of the content.
#[derive(Debug, Clone)]
pub struct WhenSpec {
    /// Number of bytes of the content that the conditions may read.
    pub look_ahead_bytes: usize,
    /// The paths of all conditions about XML. A condition names its path by the index.
    pub xml_paths: XmlPaths,
    /// The namespaces of the prefixes in these paths.
    pub namespaces: Vec<(String, String)>,
    /// The rules. The first rule whose conditions all hold decides.
    pub rules: Vec<RuleSpec>,
    /// The handler of requests for which no rule decides.
    pub otherwise: ChosenHandler,
}

/// A rule of a route that chooses its handler.
#[derive(Debug, Clone)]
pub struct RuleSpec {
    /// The conditions. There is at least one.
    pub conditions: Vec<ConditionSpec>,
    /// The handler of requests for which the conditions hold.
    pub handler: ChosenHandler,
}

/// A handler that a rule may choose.
#[derive(Debug, Clone)]
pub enum ChosenHandler {
    /// Forwards requests to a backend.
    Proxy(Box<ProxySpec>),
    /// A fixed reply.
    Reply {
        /// Status of the reply.
        status: u16,
        /// The content type.
        content_type: String,
        /// Content of the reply.
        body: Bytes,
    },
}

/// A condition about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionSpec {
    /// A header field.
    Header {
        /// The name of the field.
        name: String,
        /// The test of its value.
        test: ValueTest,
    },
    /// A field of a JSON object.
    Json {
        /// The path of the field.
        path: FieldPath,
        /// The test of its value.
        test: ValueTest,
    },
    /// A path that finds something in an XML document.
    Xml {
        /// The path, as an index in [`WhenSpec::xml_paths`].
        path: usize,
        /// The text of the path.
        text: String,
    },
}

/// Compiled paths of XML.
#[derive(Debug, Clone)]
pub struct XmlPaths(pub(crate) Arc<PathSet>);

impl XmlPaths {
    /// Compiles paths with the namespaces of their prefixes.
    ///
    /// # Errors
    /// The index of the first faulty path, and the reason.
    pub fn compile(paths: &[String], namespaces: &[(String, String)]) -> Result<Self, (usize, String)> {
        let bindings: Vec<_> = namespaces.iter().map(|(prefix, uri)| PrefixBinding { prefix, uri }).collect();
        let set = PathSet::new(paths.iter().map(String::as_str), &bindings);
        set.map(|set| Self(Arc::new(set)))
            .map_err(|error| (error.path, format!("at byte {}: {}", error.byte, error.reason)))
    }
}

/// A test of a value that a request may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueTest {
    /// The value exists.
    Exists,
    /// The value is this text.
    Is(String),
    /// The value exists, and is not this text.
    IsNot(String),
}

impl ValueTest {
    /// Splits a condition into the path or name before the comparison, and the test.
    ///
    /// # Errors
    /// The text after the operator is not in quotes.
    pub fn split(condition: &str) -> Result<(&str, Self), &'static str> {
        let Some((left, right)) = condition.split_once('=') else {
            return Ok((condition.trim(), Self::Exists));
        };
        let text = quoted(right.trim()).ok_or("the text after = is not in quotes: write 'text'")?.to_owned();
        Ok(match left.strip_suffix('!') {
            Some(left) => (left.trim(), Self::IsNot(text)),
            None => (left.trim(), Self::Is(text)),
        })
    }

    /// Returns whether a value passes. `None`: the request does not have it.
    pub(crate) fn passes(&self, value: Option<&[u8]>) -> bool {
        match (self, value) {
            (_, None) => false,
            (Self::Exists, Some(_)) => true,
            (Self::Is(text), Some(value)) => text.as_bytes() == value,
            (Self::IsNot(text), Some(value)) => text.as_bytes() != value,
        }
    }
}

/// Returns the text between two quotes. The text does not contain the quote.
fn quoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

impl fmt::Display for ValueTest {
    /// Writes the operator and the text, as [`ValueTest::split`] reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, text) = match self {
            Self::Exists => return Ok(()),
            Self::Is(text) => ("=", text),
            Self::IsNot(text) => ("!=", text),
        };
        let quote = if text.contains('\'') { '"' } else { '\'' };
        write!(f, " {operator} {quote}{text}{quote}")
    }
}

impl WhenSpec {
    /// Returns the handlers that the rules may choose, in order, with the handler of `otherwise` last.
    pub fn handlers(&self) -> impl Iterator<Item = &ChosenHandler> {
        self.rules.iter().map(|rule| &rule.handler).chain([&self.otherwise])
    }

    /// Returns the options of each backend that the rules may choose.
    pub fn proxies(&self) -> impl Iterator<Item = &ProxySpec> {
        self.handlers().filter_map(|handler| match handler {
            ChosenHandler::Proxy(proxy) => Some(&**proxy),
            ChosenHandler::Reply { .. } => None,
        })
    }

    /// Returns whether a condition reads the content.
    pub fn reads_content(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.conditions).any(ConditionSpec::reads_content)
    }
}

impl ConditionSpec {
    fn reads_content(&self) -> bool {
        match self {
            Self::Header { .. } => false,
            Self::Json { .. } | Self::Xml { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_split_and_written_back() {
        for (text, name, test) in [
            ("SOAPAction", "SOAPAction", ValueTest::Exists),
            ("/a/b = 'x y'", "/a/b", ValueTest::Is("x y".to_owned())),
            ("a!=\"it's\"", "a", ValueTest::IsNot("it's".to_owned())),
            ("a = 'b=c'", "a", ValueTest::Is("b=c".to_owned())),
            ("a = ''", "a", ValueTest::Is(String::new())),
        ] {
            assert_eq!(ValueTest::split(text), Ok((name, test.clone())), "{text}");
            assert_eq!(ValueTest::split(&format!("{name}{test}")), Ok((name, test)), "{text}");
        }
        for text in ["a = b", "a = 'b", "a = 'b'c'", "a ="] {
            assert!(ValueTest::split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_test_of_a_value_that_is_absent_never_passes() {
        let is_not = ValueTest::IsNot("a".to_owned());
        assert!(!is_not.passes(None) && is_not.passes(Some(b"b")) && !is_not.passes(Some(b"a")));
        assert!(ValueTest::Exists.passes(Some(b"")) && !ValueTest::Exists.passes(None));
        assert!(!ValueTest::Is(String::new()).passes(None));
    }
}
