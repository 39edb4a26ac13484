//! Decimal numbers of any length.

use std::cmp::Ordering;

/// A decimal number without needless zeros, so that equal numbers have equal fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    is_negative: bool,
    whole: String,
    fraction: String,
}

impl Decimal {
    /// Reads a number: `-1.50`, `.5`, `1.`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if !is_decimal(text) {
            return None;
        }
        let digits = text.trim_start_matches(['+', '-']);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let is_zero = whole.is_empty() && fraction.is_empty();
        Some(Self {
            is_negative: text.starts_with('-') && !is_zero,
            whole: whole.to_owned(),
            fraction: fraction.to_owned(),
        })
    }

    pub(super) fn total_digits(&self) -> usize {
        (self.whole.len() + self.fraction.len()).max(1)
    }

    pub(super) fn fraction_digits(&self) -> usize {
        self.fraction.len()
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = |own: &Self, other: &Self| {
            let length = own.whole.len().cmp(&other.whole.len());
            length.then_with(|| own.whole.cmp(&other.whole)).then_with(|| own.fraction.cmp(&other.fraction))
        };
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => size(self, other),
            (true, true) => size(other, self),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether `text` is a decimal number.
pub(super) fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text).as_bytes();
    let whole = digits(unsigned);
    match unsigned.get(whole) {
        None => whole > 0,
        Some(b'.') => {
            let fraction = digits(&unsigned[whole + 1..]);
            whole + fraction > 0 && whole + 1 + fraction == unsigned.len()
        }
        Some(_) => false,
    }
}

/// Whether `text` is a decimal number without a point.
pub(super) fn is_integer(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text).as_bytes();
    !unsigned.is_empty() && digits(unsigned) == unsigned.len()
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}
