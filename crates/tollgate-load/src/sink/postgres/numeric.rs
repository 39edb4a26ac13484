//! The binary form of `numeric`: groups of four decimal digits, the highest first.
//!
//! Before the groups are their count, the weight of the first group (the power of 10,000), the sign, and the
//! number of digits after the point.
//!
//! Source: `numeric_send` and `numeric_recv` of PostgreSQL 15.

use bytes::{BufMut, BytesMut};
use tollgate_value::Decimal;

const NEGATIVE: u16 = 0x4000;
const GROUP_DIGITS: usize = 4;
/// Groups on each side of the point. A decimal has at most 38 digits on each side.
const SIDE_GROUPS: usize = 10;
const SIDE_DIGITS: usize = SIDE_GROUPS * GROUP_DIGITS;

/// Appends a number. Refuses digits that PostgreSQL would round away.
pub(super) fn put_numeric(value: Decimal, scale: Option<i32>, out: &mut BytesMut) -> Result<(), String> {
    if let Some(scale) = scale.filter(|scale| has_more_digits(value, *scale)) {
        return Err(format!(
            "number {value} has more digits than a column of type numeric with the scale {scale}"
        ));
    }
    let groups = groups_of(value);
    let first = groups.iter().position(|group| *group != 0).unwrap_or(groups.len());
    let end = groups.iter().rposition(|group| *group != 0).map_or(first, |last| last + 1);
    // There are at most 20 groups.
    out.put_u16((end - first) as u16);
    out.put_i16(if first < end { SIDE_GROUPS as i16 - 1 - first as i16 } else { 0 });
    out.put_u16(if value.coefficient() < 0 { NEGATIVE } else { 0 });
    out.put_u16(value.scale().into());
    groups[first..end].iter().for_each(|group| out.put_u16(*group));
    Ok(())
}

/// Returns whether a number is not a multiple of 10 to the power of minus `scale`.
fn has_more_digits(value: Decimal, scale: i32) -> bool {
    let more = u32::try_from(i32::from(value.scale()) - scale).unwrap_or(0);
    // A divisor above 128 bits is larger than each number, so that only 0 is a multiple of it.
    10_i128.checked_pow(more).map_or(value.coefficient(), |divisor| value.coefficient() % divisor) != 0
}

/// Returns the groups of a number: first those before the point, then those after it.
fn groups_of(value: Decimal) -> [u16; 2 * SIDE_GROUPS] {
    let mut groups = [0; 2 * SIDE_GROUPS];
    let mut rest = value.coefficient().unsigned_abs();
    // The place of the last digit.
    let mut place = SIDE_DIGITS + usize::from(value.scale());
    while rest > 0 {
        place -= 1;
        let power = GROUP_DIGITS - 1 - place % GROUP_DIGITS;
        groups[place / GROUP_DIGITS] += (rest % 10) as u16 * 10_u16.pow(power as u32);
        rest /= 10;
    }
    groups
}

/// Decodes a number that [`put_numeric`] wrote.
pub(super) fn numeric(bytes: &[u8]) -> Option<Decimal> {
    let words: Vec<u16> = bytes.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]])).collect();
    let ([_, weight, sign, scale], groups) = words.split_first_chunk::<4>()?;
    let before = usize::try_from(i32::from(weight.cast_signed()) + 1);
    let zeros = before.map_or_else(|_| usize::from(!weight), |_| 0);
    let before = before.unwrap_or(0);
    let group = |index: usize| groups.get(index).copied().unwrap_or(0);
    let whole: String = (0..before).map(|index| format!("{:04}", group(index))).collect();
    let fraction = (0..zeros).map(|_| 0).chain(groups.iter().skip(before).copied());
    let fraction: String = fraction.map(|group| format!("{group:04}")).collect();
    let sign = if *sign == NEGATIVE { "-" } else { "" };
    let scale = usize::from(*scale);
    let point = if scale > 0 { "." } else { "" };
    Decimal::parse(&format!("{sign}0{whole}{point}{fraction:0<scale$.scale$}"))
}

/// Decodes an integer that [`put_numeric`] wrote.
pub(super) fn integer(bytes: &[u8]) -> Option<i64> {
    i64::try_from(numeric(bytes)?.with_scale(0)?.coefficient()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<u16> {
        let mut out = BytesMut::new();
        put_numeric(Decimal::parse(text).unwrap(), None, &mut out).unwrap();
        out.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]])).collect()
    }

    #[test]
    fn a_number_has_the_words_of_numeric_send() {
        assert_eq!(words("0"), [0, 0, 0, 0]);
        assert_eq!(words("0.00"), [0, 0, 0, 2]);
        assert_eq!(words("1"), [1, 0, 0, 0, 1]);
        assert_eq!(words("-12345.678"), [3, 1, NEGATIVE, 3, 1, 2345, 6780]);
        assert_eq!(words("10000"), [1, 1, 0, 0, 1]);
        assert_eq!(words("0.0001"), [1, (-1_i16).cast_unsigned(), 0, 4, 1]);
        assert_eq!(words("0.00001234"), [1, (-2_i16).cast_unsigned(), 0, 8, 1234]);
    }

    proptest! {
        #[test]
        fn a_number_reads_back_as_it_was_written(
            coefficient in -10_i128.pow(38) + 1..10_i128.pow(38), small: i64,
            scale in 0..=Decimal::DIGITS_MAX,
        ) {
            for coefficient in [coefficient, small.into(), i128::from(small % 100), 0] {
                let value = Decimal::new(coefficient, scale).unwrap();
                let mut out = BytesMut::new();
                put_numeric(value, None, &mut out).unwrap();
                prop_assert_eq!(numeric(&out), Some(value));
            }
        }
    }
}
