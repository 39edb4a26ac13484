//! The parameters of datatypes: the facets of XML Schema Part 2, section 4.3.

use std::cmp::Ordering;

use ::regex::Regex;

use super::kind::Kind;
use super::regex;
use super::value::Value;
use crate::name::trimmed;

#[derive(Clone, Debug, Default)]
pub(super) struct Facets {
    length_min: Option<usize>,
    length_max: Option<usize>,
    total_digits: Option<usize>,
    fraction_digits: Option<usize>,
    bounds: Vec<(Bound, Value)>,
    patterns: Vec<Regex>,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast,
    MoreThan,
    AtMost,
    LessThan,
}

impl Bound {
    fn allows(self, order: Option<Ordering>) -> bool {
        match (self, order) {
            (_, None) => false,
            (Self::AtLeast, Some(order)) => order.is_ge(),
            (Self::MoreThan, Some(order)) => order.is_gt(),
            (Self::AtMost, Some(order)) => order.is_le(),
            (Self::LessThan, Some(order)) => order.is_lt(),
        }
    }
}

impl Facets {
    pub(super) fn set(&mut self, kind: Kind, name: &str, text: &str) -> Result<(), String> {
        match name {
            "length" if kind.has_length() => {
                let length = count(text)?;
                self.at_least(length);
                self.at_most(length);
            }
            "minLength" if kind.has_length() => self.at_least(count(text)?),
            "maxLength" if kind.has_length() => self.at_most(count(text)?),
            "totalDigits" if kind.is_decimal() => smaller(&mut self.total_digits, positive(text)?),
            "fractionDigits" if kind.is_decimal() => smaller(&mut self.fraction_digits, count(text)?),
            "minInclusive" if kind.is_ordered() => self.bound(kind, Bound::AtLeast, text)?,
            "minExclusive" if kind.is_ordered() => self.bound(kind, Bound::MoreThan, text)?,
            "maxInclusive" if kind.is_ordered() => self.bound(kind, Bound::AtMost, text)?,
            "maxExclusive" if kind.is_ordered() => self.bound(kind, Bound::LessThan, text)?,
            "pattern" => self.patterns.push(regex::compile(text)?),
            "whiteSpace" | "enumeration" => {
                return Err("RELAX NG does not allow it; use another type, or values".to_owned());
            }
            _ => return Err("the type has no such parameter".to_owned()),
        }
        Ok(())
    }

    fn at_least(&mut self, length: usize) {
        self.length_min = Some(self.length_min.map_or(length, |own| own.max(length)));
    }

    fn at_most(&mut self, length: usize) {
        smaller(&mut self.length_max, length);
    }

    fn bound(&mut self, kind: Kind, bound: Bound, text: &str) -> Result<(), String> {
        let value = kind.value(&kind.normalized(text), &());
        let value = value.ok_or_else(|| format!("\"{text}\" is not a value of the type"))?;
        self.bounds.push((bound, value));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length_min.is_none()
            && self.length_max.is_none()
            && self.total_digits.is_none()
            && self.fraction_digits.is_none()
            && self.bounds.is_empty()
            && self.patterns.is_empty()
    }

    /// Whether a value has to be made to apply the facets.
    pub(super) fn need_value(&self, kind: Kind) -> bool {
        let has_length = self.length_min.is_some() || self.length_max.is_some();
        let counts_characters = !kind.is_list() && !matches!(kind, Kind::Hex | Kind::Base64);
        !self.bounds.is_empty()
            || self.total_digits.is_some()
            || self.fraction_digits.is_some()
            || (has_length && !counts_characters)
    }

    /// Whether facets that need no value allow a text with normalized white space.
    pub(super) fn allow_text(&self, text: &str) -> bool {
        self.allows_count(|| text.chars().count())
            && self.patterns.iter().all(|pattern| pattern.is_match(text))
    }

    fn allows_count(&self, count: impl FnOnce() -> usize) -> bool {
        if self.length_min.is_none() && self.length_max.is_none() {
            return true;
        }
        let count = count();
        self.length_min.is_none_or(|min| count >= min) && self.length_max.is_none_or(|max| count <= max)
    }

    /// Whether the facets allow `value`. `text` has normalized white space.
    pub(super) fn allow(&self, kind: Kind, text: &str, value: &Value) -> bool {
        self.allows_length(kind, text, value)
            && self.allows_digits(value)
            && self.bounds.iter().all(|(bound, limit)| bound.allows(value.order(limit)))
            && self.patterns.iter().all(|pattern| pattern.is_match(text))
    }

    fn allows_length(&self, kind: Kind, text: &str, value: &Value) -> bool {
        self.allows_count(|| match value {
            Value::Octets(octets) => octets.len(),
            Value::Words(words) if kind.is_list() => words.len(),
            _ => text.chars().count(),
        })
    }

    fn allows_digits(&self, value: &Value) -> bool {
        let Value::Decimal(decimal) = value else { return true };
        self.total_digits.is_none_or(|max| decimal.total_digits() <= max)
            && self.fraction_digits.is_none_or(|max| decimal.fraction_digits() <= max)
    }
}

fn smaller(own: &mut Option<usize>, limit: usize) {
    *own = Some(own.map_or(limit, |own| own.min(limit)));
}

fn count(text: &str) -> Result<usize, String> {
    let text = trimmed(text);
    let digits = text.strip_prefix('+').unwrap_or(text);
    let number = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
    number.ok_or_else(|| format!("\"{text}\" is not a count"))
}

fn positive(text: &str) -> Result<usize, String> {
    match count(text)? {
        0 => Err("\"0\" is not a positive count".to_owned()),
        number => Ok(number),
    }
}
