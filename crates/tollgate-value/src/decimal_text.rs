//! Decimal numbers as text. The arithmetic uses the digits, so it is exact.

/// Returns the integer that a decimal number is equal to, such as 300 for `3e2` and 3 for `3.0`.
///
/// Returns `None` if the text is no number of RFC 8259 section 6, if the number is no integer, or if it
/// exceeds 64 bits.
pub fn exact_integer(text: &str) -> Option<i64> {
    let number = DecimalText::parse(text)?;
    if number.has_fraction() { None } else { number.times_ten_to(0) }
}

/// A decimal number, split into its parts.
pub(crate) struct DecimalText<'a> {
    pub(crate) is_negative: bool,
    pub(crate) whole: &'a [u8],
    /// The digits after the point, if there are any.
    pub(crate) fraction: &'a [u8],
    pub(crate) exponent: i64,
}

impl<'a> DecimalText<'a> {
    /// Splits a number of RFC 8259 section 6.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (number, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
            None => (unsigned, 0),
        };
        let are_digits =
            |digits: &&str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction).filter(are_digits)?),
            None => (number, ""),
        };
        if !are_digits(&whole) {
            return None;
        }
        Some(Self { is_negative, whole: whole.as_bytes(), fraction: fraction.as_bytes(), exponent })
    }

    /// Returns whether the number is no integer.
    fn has_fraction(&self) -> bool {
        let whole_digits = (self.whole.len() as i64).saturating_add(self.exponent);
        let fraction = usize::try_from(whole_digits).unwrap_or(0);
        self.whole.iter().chain(self.fraction).skip(fraction).any(|digit| *digit != b'0')
    }

    /// Returns the whole part of the number times a power of ten. Returns `None` if it exceeds 64 bits.
    pub(crate) fn times_ten_to(&self, exponent: i64) -> Option<i64> {
        let digits = self.whole.iter().chain(self.fraction);
        let zeros = digits.clone().take_while(|digit| **digit == b'0').count();
        if zeros == self.whole.len() + self.fraction.len() {
            return Some(0);
        }
        let whole_digits = self.whole.len() as i64 - zeros as i64;
        let kept = whole_digits.checked_add(self.exponent)?.checked_add(exponent)?;
        if kept > DIGITS_MAX {
            return None;
        }
        let digits = digits.skip(zeros).chain(std::iter::repeat(&b'0'));
        // A negative number reaches one further than a positive one.
        let sign = if self.is_negative { -1 } else { 1 };
        let mut value = 0_i64;
        for digit in digits.take(usize::try_from(kept).unwrap_or(0)) {
            value = value.checked_mul(10)?.checked_add(sign * i64::from(digit - b'0'))?;
        }
        Some(value)
    }
}

/// Maximum number of decimal digits of a 64-bit integer.
const DIGITS_MAX: i64 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_an_integer_is_that_integer() {
        let check = |text: &str, expect| assert_eq!(exact_integer(text), expect, "{text}");
        check("3", Some(3));
        check("3.0", Some(3));
        check("-3.000", Some(-3));
        check("3e2", Some(300));
        check("300E-2", Some(3));
        check("1.5e1", Some(15));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        check("0.0", Some(0));
        for text in
            ["3.5", "3e-1", "0.1", "1e-99999999999", "9223372036854775808", "1e400", "", "x", "1.", "NaN"]
        {
            check(text, None);
        }
    }
}
