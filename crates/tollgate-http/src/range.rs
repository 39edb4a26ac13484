//! Byte ranges: selects the ranges that a request gets (RFC 9110 section 14).

use std::ops::Range;

use crate::connection_options;

/// Maximum number of ranges in one request. A request with more ranges gets the whole representation.
///
/// Many small ranges may be a denial-of-service attack (RFC 9110 section 17.15).
pub const RANGES_MAX: usize = 16;

/// Result of a `Range` field for a representation of a given length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The field is ignored.
    ///
    /// The field has another unit, no range, or too many ranges, or asks for the last bytes of an empty
    /// representation.
    Whole,
    /// The selected ranges. Each range has at least one byte and is within the length. No two ranges overlap.
    Parts(Vec<Range<u64>>),
    /// The reply is 416, because no range has a byte.
    Unsatisfiable,
}

impl Ranges {
    /// Selects ranges of a representation of `length` bytes, in the order of the request.
    ///
    /// Ranges that overlap or are adjacent become one range, in the place of the first one.
    pub fn select(value: &[u8], length: u64) -> Self {
        let Some(set) = range_set(value) else { return Self::Whole };
        let mut parts = Vec::new();
        let (mut count, mut is_satisfiable) = (0, false);
        for spec in connection_options(set) {
            let Some(spec) = Spec::parse(spec) else { return Self::Whole };
            count += 1;
            is_satisfiable |= spec.is_satisfiable(length);
            parts.extend(spec.within(length));
        }
        match count {
            0 => Self::Whole,
            _ if count > RANGES_MAX => Self::Whole,
            _ if !is_satisfiable => Self::Unsatisfiable,
            _ if parts.is_empty() => Self::Whole,
            _ => Self::Parts(joined(parts)),
        }
    }
}

fn range_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

enum Spec {
    /// Positions of the first and the last byte, counted from 0.
    From(u64, u64),
    /// Number of bytes at the end of the representation.
    Last(u64),
}

impl Spec {
    fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&byte| byte == b'-')?;
        let (first, last) = (&text[..dash], &text[dash + 1..]);
        match (first, last) {
            ([], last) => number(last).map(Self::Last),
            (first, []) => number(first).map(|first| Self::From(first, u64::MAX)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, last))
            }
        }
    }

    /// Returns whether the range is satisfiable (RFC 9110 section 14.1.2). The last bytes of an empty
    /// representation are satisfiable, too.
    fn is_satisfiable(&self, length: u64) -> bool {
        match *self {
            Self::From(first, _) => first < length,
            Self::Last(bytes) => bytes > 0,
        }
    }

    fn within(&self, length: u64) -> Option<Range<u64>> {
        let range = match *self {
            Self::From(first, last) => first..last.saturating_add(1).min(length),
            Self::Last(bytes) => length.saturating_sub(bytes)..length,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// Parses a number. A number above 64 bits becomes `u64::MAX`, which is beyond the end of every file.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

/// Joins ranges so that no byte is sent twice. Ranges that are not joined keep their order (RFC 9110 section
/// 15.3.7.2).
fn joined(parts: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = parts.into_iter().enumerate().collect();
    sorted.sort_by_key(|(_, part)| part.start);
    let mut joined: Vec<(usize, Range<u64>)> = Vec::new();
    for (place, part) in sorted {
        match joined.last_mut() {
            Some((first, last)) if part.start <= last.end => {
                last.end = last.end.max(part.end);
                *first = place.min(*first);
            }
            _ => joined.push((place, part)),
        }
    }
    joined.sort_by_key(|(place, _)| *place);
    joined.into_iter().map(|(_, part)| part).collect()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_by_the_examples_of_the_rfc_and_their_edges() {
        let check = |value: &str, length, expected: &[Range<u64>]| {
            let expected = Ranges::Parts(expected.to_vec());
            assert_eq!(Ranges::select(value.as_bytes(), length), expected, "{value} of {length}");
        };
        check("bytes=0-499", 10_000, &[0..500]);
        check("bytes=-500", 10_000, &[9500..10_000]);
        check("bytes=9500-", 10_000, &[9500..10_000]);
        check("bytes=0-0,-1", 10_000, &[0..1, 9999..10_000]);
        check("BYTES=0-0", 1, &[0..1]);
        check("bytes=0-99999", 10, &[0..10]);
        check("bytes=-99999", 10, &[0..10]);
        check("bytes= 0-1 ,, 4-5 ,", 10, &[0..2, 4..6]);
        check("bytes=500-600,601-999", 10_000, &[500..1000]);
        check("bytes=500-700,601-999", 10_000, &[500..1000]);
        check("bytes=7-8,0-1", 10, &[7..9, 0..2]);
        check("bytes=7-8,0-7", 10, &[0..9]);
        check("bytes=90-91,50-51,52-53,0-1", 100, &[90..92, 50..54, 0..2]);
        check("bytes=90-91,52-53,0-1,50-51", 100, &[90..92, 50..54, 0..2]);
        check("bytes=20-30,1-1", 10, &[1..2]);
        check("bytes=4294967296-4294967297", 1 << 40, &[1 << 32..(1 << 32) + 2]);
        check("bytes=1-99999999999999999999999999", 3, &[1..3]);
    }

    #[test]
    fn a_malformed_range_does_not_count_and_a_range_without_a_byte_is_416() {
        let check = |value: &str, length, expected| {
            assert_eq!(Ranges::select(value.as_bytes(), length), expected, "{value} of {length}");
        };
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-4",
            "bytes=1-2,x",
            "bytes=--1",
            "bytes=+1-2",
            "items=0-1",
            "bytes 0-1",
            "bytes=0x1-2",
            "bytes=1 - 2",
            "bytes=0-1-2",
        ] {
            check(value, 10, Ranges::Whole);
        }
        let many = |count: usize| format!("bytes={}", vec!["1-1"; count].join(","));
        check(&many(RANGES_MAX), 10, Ranges::Parts(vec![1..2]));
        check(&many(RANGES_MAX + 1), 10, Ranges::Whole);
        for value in ["bytes=10-", "bytes=10-20,30-", "bytes=-0", "bytes=99999999999999999999-"] {
            check(value, 10, Ranges::Unsatisfiable);
        }
        check("bytes=0-", 0, Ranges::Unsatisfiable);
        // The last bytes of an empty representation are the whole representation. No Content-Range can
        // express that.
        check("bytes=-5", 0, Ranges::Whole);
        check("bytes=0-5,-5", 0, Ranges::Whole);
        // RFC 9110 section 14.1.2: a suffix of zero bytes is not satisfiable.
        check("bytes=-0", 0, Ranges::Unsatisfiable);
        check("bytes=0-5,-0", 0, Ranges::Unsatisfiable);
    }

    proptest! {
        #[test]
        fn parts_are_within_the_length_and_never_overlap(value in "bytes=[0-9,-]{0,40}", length in 0..200_u64) {
            if let Ranges::Parts(mut parts) = Ranges::select(value.as_bytes(), length) {
                prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= length));
                parts.sort_by_key(|part| part.start);
                prop_assert!(parts.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }
    }
}
