//! Times of a day, without a date and a zone.

use std::fmt;

use crate::civil::DAY_US;
use crate::digits::number_of;

/// A time of a day, from 00:00:00 to 23:59:59.999999.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TimeOfDay {
    us: i64,
}

impl TimeOfDay {
    /// The last time of a day.
    pub const LAST: Self = Self { us: DAY_US - 1 };

    /// Returns the time of a number of microseconds since midnight. Returns `None` if the day has no such
    /// time.
    pub fn from_microseconds(us: i64) -> Option<Self> {
        (0..DAY_US).contains(&us).then_some(Self { us })
    }

    /// Returns the number of microseconds since midnight.
    pub const fn microseconds(self) -> i64 {
        self.us
    }

    /// Parses `HH:MM`, `HH:MM:SS` or `HH:MM:SS.ffffff` (ISO 8601). Digits after the microsecond are dropped.
    ///
    /// A day has no time 24:00, and no second 60.
    pub fn parse(text: &str) -> Option<Self> {
        let (&[h0, h1, b':', m0, m1], rest) = text.as_bytes().split_first_chunk()? else { return None };
        let (second, fraction_us) = match rest {
            [] => (0, 0),
            [b':', s0, s1] => (number_of([*s0, *s1])?, 0),
            [b':', s0, s1, b'.', digits @ ..] => (number_of([*s0, *s1])?, fraction_us(digits)?),
            _ => return None,
        };
        let (hour, minute) = (number_of([h0, h1])?, number_of([m0, m1])?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        Self::from_microseconds(((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction_us)
    }
}

/// Returns the digits after the second in microseconds.
fn fraction_us(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut padded = [b'0'; 6];
    let kept = digits.len().min(padded.len());
    padded[..kept].copy_from_slice(&digits[..kept]);
    number_of(padded)
}

/// Writes `HH:MM:SS`, and after it a fraction without zeros at its end. So the texts sort by time.
impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, microsecond) = (self.us / 1_000_000, self.us % 1_000_000);
        write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        match microsecond {
            0 => Ok(()),
            _ => write!(f, ".{}", format!("{microsecond:06}").trim_end_matches('0')),
        }
    }
}

impl fmt::Debug for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expect: Option<i64>) {
        assert_eq!(TimeOfDay::parse(text).map(TimeOfDay::microseconds), expect, "{text}");
    }

    #[test]
    fn a_time_of_a_day_is_read() {
        check("00:00:00", Some(0));
        check("00:00", Some(0));
        check("13:05", Some(47_100_000_000));
        check("00:00:01.5", Some(1_500_000));
        check("00:00:00.000001", Some(1));
        check("23:59:59.999999", Some(TimeOfDay::LAST.microseconds()));
        check("23:59:59.999999999", Some(TimeOfDay::LAST.microseconds()));
    }

    #[test]
    fn another_text_is_no_time_of_a_day() {
        for text in [
            "",
            "24:00",
            "24:00:00",
            "12:60",
            "12:00:60",
            "1:00",
            "12",
            "12:00:0",
            "12:00:00.",
            "12:00:00,5",
            "12:00Z",
            "12:00:00Z",
            "12:00:00+01:00",
            "12:00 PM",
            " 12:00",
            "T12:00",
            "-1:00",
            "12:00:00.5x",
        ] {
            check(text, None);
        }
    }

    proptest! {
        #[test]
        fn a_time_reads_as_it_was_written_and_its_text_sorts(one in 0..DAY_US, other in 0..DAY_US) {
            let [one, other] = [one, other].map(|us| TimeOfDay::from_microseconds(us).unwrap());
            prop_assert_eq!(TimeOfDay::parse(&one.to_string()), Some(one));
            prop_assert_eq!(one.to_string().cmp(&other.to_string()), one.us.cmp(&other.us));
        }
    }
}
