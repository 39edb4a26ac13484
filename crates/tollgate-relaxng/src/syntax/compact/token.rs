//! The tokens of the compact syntax.

use super::super::At;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name. A name after `\` is never a keyword.
    Identifier {
        text: String,
        is_escaped: bool,
    },
    /// `prefix:local`
    Qualified {
        prefix: String,
        local: String,
    },
    /// `prefix:*`
    AnyIn(String),
    Literal(String),
    Symbol(&'static str),
    End,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) at: At,
    pub(super) token: Token,
}

/// The keywords. As a name of a pattern they need `\`.
const KEYWORDS: [&str; 19] = [
    "attribute",
    "datatypes",
    "default",
    "div",
    "element",
    "empty",
    "external",
    "grammar",
    "include",
    "inherit",
    "list",
    "mixed",
    "namespace",
    "notAllowed",
    "parent",
    "start",
    "string",
    "text",
    "token",
];

impl Token {
    /// Returns the keyword that this token is.
    pub(super) fn keyword(&self) -> Option<&str> {
        match self {
            Self::Identifier { text, is_escaped: false } if KEYWORDS.contains(&text.as_str()) => Some(text),
            _ => None,
        }
    }

    /// Returns the name, which is not a keyword.
    pub(super) fn identifier(&self) -> Option<&str> {
        match self {
            Self::Identifier { text, .. } if self.keyword().is_none() => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self, Self::Symbol(own) if *own == symbol)
    }

    /// Describes the token in an error.
    pub(super) fn described(&self) -> String {
        match self {
            Self::Identifier { text, .. } => format!("\"{text}\""),
            Self::Qualified { prefix, local } => format!("\"{prefix}:{local}\""),
            Self::AnyIn(prefix) => format!("\"{prefix}:*\""),
            Self::Literal(_) => "a literal".to_owned(),
            Self::Symbol(symbol) => format!("\"{symbol}\""),
            Self::End => "the end of the file".to_owned(),
        }
    }
}
