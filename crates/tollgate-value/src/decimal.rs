//! Exact decimal numbers of at most 38 digits.

use std::fmt;

use crate::decimal_text::DecimalText;

/// The precision and the scale of a column: how many digits a number has at most, and how many of them follow
/// the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecimalSize {
    precision: u8,
    scale: u8,
}

impl DecimalSize {
    /// Returns the size. Returns `None` unless `precision` is 1 to 38, and `scale` is 0 to `precision`.
    pub fn new(precision: u8, scale: u8) -> Option<Self> {
        let is_possible = (1..=Decimal::DIGITS_MAX).contains(&precision) && scale <= precision;
        is_possible.then_some(Self { precision, scale })
    }

    /// Returns the maximum number of digits.
    pub const fn precision(self) -> u8 {
        self.precision
    }

    /// Returns the number of digits after the point.
    pub const fn scale(self) -> u8 {
        self.scale
    }
}

/// Writes the size as SQL does: `12,2`.
impl fmt::Display for DecimalSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.precision, self.scale)
    }
}

/// An exact decimal number: an integer divided by a power of ten.
///
/// Two numbers are equal if they have the same digits: `1.5` and `1.50` differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    /// The integer, little-endian. As bytes the number needs no alignment, so that values of a row stay
    /// small.
    coefficient: [u8; 16],
    scale: u8,
}

impl Decimal {
    /// Maximum number of digits, and maximum number of digits after the point.
    pub const DIGITS_MAX: u8 = 38;

    /// Returns `coefficient` divided by 10 to the power of `scale`. Returns `None` if there are more than
    /// [`Self::DIGITS_MAX`] digits.
    pub fn new(coefficient: i128, scale: u8) -> Option<Self> {
        let is_possible =
            scale <= Self::DIGITS_MAX && coefficient.unsigned_abs() < power_of_ten(Self::DIGITS_MAX);
        is_possible.then(|| Self { coefficient: coefficient.to_le_bytes(), scale })
    }

    /// Parses a number of RFC 8259 section 6, and keeps all its digits.
    ///
    /// Returns `None` if the text is no such number, or has too many digits. Zeros at the end of the fraction
    /// do not count.
    pub fn parse(text: &str) -> Option<Self> {
        let number = DecimalText::parse(text)?;
        let mut scale = (number.fraction.len() as i64).checked_sub(number.exponent)?;
        let digits = number.whole.iter().chain(number.fraction).skip_while(|digit| **digit == b'0');
        let mut digits: Vec<u8> = digits.copied().collect();
        if digits.is_empty() {
            let scale = scale.clamp(0, Self::DIGITS_MAX.into());
            return Self::new(0, u8::try_from(scale).ok()?);
        }
        let digits_max = usize::from(Self::DIGITS_MAX);
        while (digits.len() > digits_max || scale > Self::DIGITS_MAX.into())
            && scale > 0
            && digits.last() == Some(&b'0')
        {
            digits.pop();
            scale -= 1;
        }
        let zeros = usize::try_from(scale.min(0).checked_neg()?).ok()?;
        if digits.len().checked_add(zeros)? > digits_max {
            return None;
        }
        digits.resize(digits.len() + zeros, b'0');
        let unsigned = digits.iter().fold(0_i128, |value, digit| value * 10 + i128::from(digit - b'0'));
        let coefficient = if number.is_negative { -unsigned } else { unsigned };
        Self::new(coefficient, u8::try_from(scale.max(0)).ok()?)
    }

    /// Returns the decimal number that a double is exactly equal to, such as 0.5. Returns `None` for the
    /// double of 0.1, because it is not exactly 0.1.
    pub fn of_double(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let exact = format!("{value:.DOUBLE_FRACTION_DIGITS$}");
        Self::parse(exact.trim_end_matches('0').trim_end_matches('.'))
    }

    /// Returns the same number with the scale of `size`. Returns `None` if this would lose a digit, or if the
    /// number needs more digits than `size` has.
    pub fn with_size(self, size: DecimalSize) -> Option<Self> {
        let value = self.with_scale(size.scale)?;
        let is_possible = value.coefficient().unsigned_abs() < power_of_ten(size.precision);
        is_possible.then_some(value)
    }

    /// Returns the same number with another number of digits after the point. Returns `None` if this would
    /// lose a digit, or if the number would have too many digits.
    pub fn with_scale(self, scale: u8) -> Option<Self> {
        let coefficient = match scale.checked_sub(self.scale) {
            Some(more) => self.coefficient().checked_mul(10_i128.checked_pow(more.into())?)?,
            None => {
                let divisor = 10_i128.checked_pow((self.scale - scale).into())?;
                if self.coefficient() % divisor != 0 {
                    return None;
                }
                self.coefficient() / divisor
            }
        };
        Self::new(coefficient, scale)
    }

    /// Returns the number without the point.
    pub const fn coefficient(self) -> i128 {
        i128::from_le_bytes(self.coefficient)
    }

    /// Returns the number of digits after the point.
    pub const fn scale(self) -> u8 {
        self.scale
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self { coefficient: i128::from(value).to_le_bytes(), scale: 0 }
    }
}

/// Writes all digits, without an exponent.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (coefficient, scale) = (self.coefficient(), usize::from(self.scale));
        let digits = format!("{:0width$}", coefficient.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let sign = if coefficient < 0 { "-" } else { "" };
        match fraction {
            "" => write!(f, "{sign}{whole}"),
            _ => write!(f, "{sign}{whole}.{fraction}"),
        }
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Number of digits after the point with which every double is written exactly.
const DOUBLE_FRACTION_DIGITS: usize = 1_074;

fn power_of_ten(exponent: u8) -> u128 {
    10_u128.pow(exponent.into())
}

#[cfg(test)]
mod tests;
