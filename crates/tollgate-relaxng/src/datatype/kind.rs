//! The types themselves: white space, the form of a text, and its value.

use std::borrow::Cow;

use super::decimal::{self, Decimal};
use super::duration::Duration;
use super::temporal::{Moment, Temporal};
use super::value::{Float, Value};
use super::{Namespaces, binary};
use crate::name::{collapsed, is_name, is_ncname, is_nmtoken, is_space, trimmed, words};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Normalized,
    Token,
    Language,
    Nmtoken,
    Name,
    Ncname,
    /// A list of words of this form, at least one.
    Nmtokens,
    Ncnames,
    QName,
    AnyUri,
    Boolean,
    Decimal,
    /// An integer with the smallest and the largest value.
    Integer(Option<i64>, Option<i128>),
    Float,
    Double,
    Temporal(Temporal),
    Duration,
    Hex,
    Base64,
}

impl Kind {
    /// Finds a type of RELAX NG itself.
    pub(super) fn built_in(name: &str) -> Option<Self> {
        match name {
            "string" => Some(Self::String),
            "token" => Some(Self::Token),
            _ => None,
        }
    }

    /// Finds a type of XML Schema.
    pub(super) fn of_schema(name: &str) -> Option<Self> {
        let kind = match name {
            "string" => Self::String,
            "normalizedString" => Self::Normalized,
            "token" => Self::Token,
            "language" => Self::Language,
            "NMTOKEN" => Self::Nmtoken,
            "NMTOKENS" => Self::Nmtokens,
            "Name" => Self::Name,
            "NCName" | "ID" | "IDREF" | "ENTITY" => Self::Ncname,
            "IDREFS" | "ENTITIES" => Self::Ncnames,
            "QName" | "NOTATION" => Self::QName,
            "anyURI" => Self::AnyUri,
            "boolean" => Self::Boolean,
            "decimal" => Self::Decimal,
            "float" => Self::Float,
            "double" => Self::Double,
            "dateTime" => Self::Temporal(Temporal::DateTime),
            "date" => Self::Temporal(Temporal::Date),
            "time" => Self::Temporal(Temporal::Time),
            "gYear" => Self::Temporal(Temporal::Year),
            "gYearMonth" => Self::Temporal(Temporal::YearMonth),
            "gMonth" => Self::Temporal(Temporal::Month),
            "gMonthDay" => Self::Temporal(Temporal::MonthDay),
            "gDay" => Self::Temporal(Temporal::Day),
            "duration" => Self::Duration,
            "hexBinary" => Self::Hex,
            "base64Binary" => Self::Base64,
            _ => return Self::integer(name),
        };
        Some(kind)
    }

    fn integer(name: &str) -> Option<Self> {
        let (first, last) = match name {
            "integer" => (None, None),
            "nonPositiveInteger" => (None, Some(0)),
            "negativeInteger" => (None, Some(-1)),
            "long" => (Some(i64::MIN), Some(i128::from(i64::MAX))),
            "int" => (Some(i64::from(i32::MIN)), Some(i128::from(i32::MAX))),
            "short" => (Some(i64::from(i16::MIN)), Some(i128::from(i16::MAX))),
            "byte" => (Some(i64::from(i8::MIN)), Some(i128::from(i8::MAX))),
            "nonNegativeInteger" => (Some(0), None),
            "positiveInteger" => (Some(1), None),
            "unsignedLong" => (Some(0), Some(i128::from(u64::MAX))),
            "unsignedInt" => (Some(0), Some(i128::from(u32::MAX))),
            "unsignedShort" => (Some(0), Some(i128::from(u16::MAX))),
            "unsignedByte" => (Some(0), Some(i128::from(u8::MAX))),
            _ => return None,
        };
        Some(Self::Integer(first, last))
    }

    pub(super) const fn is_list(self) -> bool {
        matches!(self, Self::Nmtokens | Self::Ncnames)
    }

    pub(super) const fn is_ordered(self) -> bool {
        matches!(
            self,
            Self::Decimal
                | Self::Integer(..)
                | Self::Float
                | Self::Double
                | Self::Temporal(_)
                | Self::Duration
        )
    }

    pub(super) const fn is_decimal(self) -> bool {
        matches!(self, Self::Decimal | Self::Integer(..))
    }

    pub(super) const fn has_length(self) -> bool {
        !self.is_ordered() && !matches!(self, Self::Boolean)
    }

    /// Whether two texts are the same value if their words are the same.
    pub(super) const fn compares_words(self) -> bool {
        matches!(
            self,
            Self::Token | Self::Language | Self::Nmtoken | Self::Name | Self::Ncname | Self::AnyUri
        )
    }

    /// Compares `text` with a value, if that needs no conversion.
    pub(super) fn has_text(self, expected: &str, text: &str) -> Option<bool> {
        match self {
            Self::String => Some(text == expected),
            _ if self.compares_words() => Some(text == expected || words(text).eq(words(expected))),
            _ => None,
        }
    }

    /// Applies the facet `whiteSpace`.
    pub(super) fn normalized(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::String => Cow::Borrowed(text),
            Self::Normalized => Cow::Owned(text.replace(is_space, " ")),
            _ => {
                let text = trimmed(text);
                let needs_change = text.contains(['\t', '\r', '\n']) || text.contains("  ");
                if needs_change { Cow::Owned(collapsed(text)) } else { Cow::Borrowed(text) }
            }
        }
    }

    /// Whether `text` is a value. White space is not normalized yet.
    pub(super) fn allows(self, text: &str, namespaces: &dyn Namespaces) -> bool {
        match self {
            Self::String | Self::Normalized | Self::Token => true,
            Self::Nmtoken => is_nmtoken(trimmed(text)),
            Self::Name => is_name(trimmed(text)),
            Self::Ncname => is_ncname(trimmed(text)),
            Self::Boolean => boolean(trimmed(text)).is_some(),
            Self::Decimal => decimal::is_decimal(trimmed(text)),
            Self::Integer(first, last) => is_integer_within(trimmed(text), first, last),
            _ => self.value(&self.normalized(text), namespaces).is_some(),
        }
    }

    /// Returns the value of a text with normalized white space.
    pub(super) fn value(self, text: &str, namespaces: &dyn Namespaces) -> Option<Value> {
        let own = |is_valid: bool| is_valid.then(|| Value::Text(text.to_owned()));
        match self {
            Self::String | Self::Normalized | Self::Token => own(true),
            Self::Language => own(is_language(text)),
            Self::Nmtoken => own(is_nmtoken(text)),
            Self::Name => own(is_name(text)),
            Self::Ncname => own(is_ncname(text)),
            Self::AnyUri => own(is_uri(text)),
            Self::Nmtokens => list(text, is_nmtoken),
            Self::Ncnames => list(text, is_ncname),
            Self::QName => qualified(text, namespaces),
            Self::Boolean => boolean(text).map(Value::Boolean),
            Self::Decimal => Decimal::parse(text).map(Value::Decimal),
            Self::Integer(first, last) if is_integer_within(text, first, last) => {
                Decimal::parse(text).map(Value::Decimal)
            }
            Self::Integer(..) => None,
            Self::Double => float(text).map(|number| Value::Float(Float(number))),
            Self::Float => single(text).map(|number| Value::Float(Float(f64::from(number)))),
            Self::Temporal(temporal) => Moment::parse(temporal, text).map(Value::Moment),
            Self::Duration => Duration::parse(text).map(Value::Duration),
            Self::Hex => binary::hex(text).map(Value::Octets),
            Self::Base64 => binary::base64(text).map(Value::Octets),
        }
    }
}

fn list(text: &str, is_word: fn(&str) -> bool) -> Option<Value> {
    let words: Vec<String> = words(text).map(str::to_owned).collect();
    let is_valid = !words.is_empty() && words.iter().all(|word| is_word(word));
    is_valid.then_some(Value::Words(words))
}

fn qualified(text: &str, namespaces: &dyn Namespaces) -> Option<Value> {
    let (prefix, local) = match text.split_once(':') {
        Some((prefix, local)) if is_ncname(prefix) => (prefix, local),
        Some(_) => return None,
        None => ("", text),
    };
    let namespace = match prefix {
        "xml" => crate::name::XML,
        "" => namespaces.namespace("").unwrap_or(""),
        _ => namespaces.namespace(prefix)?,
    };
    is_ncname(local).then(|| Value::Name { namespace: namespace.to_owned(), local: local.to_owned() })
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// Whether `text` is an integer from `first` to `last`.
fn is_integer_within(text: &str, first: Option<i64>, last: Option<i128>) -> bool {
    if !decimal::is_integer(text) {
        return false;
    }
    if first.is_none() && last.is_none() {
        return true;
    }
    let is_negative = text.starts_with('-');
    // A number that fits no 128 bits is outside of each range that has an end on its side.
    let number = text.parse::<i128>().unwrap_or(if is_negative { i128::MIN } else { i128::MAX });
    first.is_none_or(|first| number >= i128::from(first)) && last.is_none_or(|last| number <= last)
}

fn float(text: &str) -> Option<f64> {
    match text {
        "INF" => Some(f64::INFINITY),
        "-INF" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ if is_float(text) => text.parse().ok(),
        _ => None,
    }
}

fn single(text: &str) -> Option<f32> {
    match text {
        "INF" => Some(f32::INFINITY),
        "-INF" => Some(f32::NEG_INFINITY),
        "NaN" => Some(f32::NAN),
        _ if is_float(text) => text.parse().ok(),
        _ => None,
    }
}

fn is_float(text: &str) -> bool {
    match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => decimal::is_decimal(mantissa) && decimal::is_integer(exponent),
        None => decimal::is_decimal(text),
    }
}

fn is_language(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_part = |part: &str, is_allowed: fn(&u8) -> bool| {
        (1..=8).contains(&part.len()) && part.bytes().all(|byte| is_allowed(&byte))
    };
    parts.next().is_some_and(|first| is_part(first, u8::is_ascii_alphabetic))
        && parts.all(|part| is_part(part, u8::is_ascii_alphanumeric))
}

/// Whether `text` is a URI reference after escapes. XML Schema allows almost any text, so only the scheme,
/// `%` and `#` are checked.
fn is_uri(text: &str) -> bool {
    let has_whole_escapes = text.split('%').skip(1).all(|part| {
        let bytes = part.as_bytes();
        bytes.len() >= 2 && bytes[..2].iter().all(u8::is_ascii_hexdigit)
    });
    let scheme = text.split(['/', '?', '#']).next().and_then(|first| first.split_once(':'));
    let has_valid_scheme = scheme.is_none_or(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    has_whole_escapes && has_valid_scheme && text.matches('#').count() <= 1
}
