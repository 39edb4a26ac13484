//! Decimal digits of a fixed number.

/// Returns the number that these ASCII digits are. Returns `None` if a byte is no digit.
pub(crate) fn number_of<const N: usize>(digits: [u8; N]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}
