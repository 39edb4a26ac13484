//! Units of times that programs write as numbers, such as `1795775959.445` seconds since 1970.
//!
//! The arithmetic uses the decimal digits of the text. A double has too few digits for seconds with six
//! decimals.

use crate::decimal_text::DecimalText;
use crate::range::TIMESTAMP_US;

/// The unit of a number since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Millisecond,
    /// Microseconds.
    Microsecond,
    /// Nanoseconds.
    Nanosecond,
}

impl TimeUnit {
    /// All units, the longest first.
    pub const ALL: [Self; 4] = [Self::Second, Self::Millisecond, Self::Microsecond, Self::Nanosecond];

    /// Returns the name in configuration and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Millisecond => "ms",
            Self::Microsecond => "us",
            Self::Nanosecond => "ns",
        }
    }

    /// Returns the timestamp of a decimal number, as JSON writes it, in microseconds since 1970. Digits after
    /// the microsecond are dropped.
    ///
    /// Returns `None` if the text is no such number, or the time is outside [`TIMESTAMP_US`].
    pub fn microseconds(self, text: &str) -> Option<i64> {
        let number = DecimalText::parse(text)?;
        let us = number.times_ten_to(self.exponent())?;
        TIMESTAMP_US.contains(&us).then_some(us)
    }

    /// Returns the power of ten that converts this unit to microseconds.
    const fn exponent(self) -> i64 {
        match self {
            Self::Second => 6,
            Self::Millisecond => 3,
            Self::Microsecond => 0,
            Self::Nanosecond => -3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(unit: TimeUnit, text: &str, expect: Option<i64>) {
        assert_eq!(unit.microseconds(text), expect, "{text} {}", unit.name());
    }

    #[test]
    fn decimals_are_exact_to_the_microsecond() {
        check(TimeUnit::Second, "1795775959.445", Some(1_795_775_959_445_000));
        // The nearest double of this number is 1795775959.4450010.
        check(TimeUnit::Second, "1795775959.445001", Some(1_795_775_959_445_001));
        check(TimeUnit::Second, "1795775959.4450019", Some(1_795_775_959_445_001));
        check(TimeUnit::Second, "1.795775959445e9", Some(1_795_775_959_445_000));
        check(TimeUnit::Second, "17957759594450E-4", Some(1_795_775_959_445_000));
        check(TimeUnit::Second, "-0.5", Some(-500_000));
        check(TimeUnit::Millisecond, "1767225600123", Some(1_767_225_600_123_000));
        check(TimeUnit::Millisecond, "1767225600123.4567", Some(1_767_225_600_123_456));
        check(TimeUnit::Microsecond, "1767225600123456", Some(1_767_225_600_123_456));
        check(TimeUnit::Microsecond, "1767225600123456.9", Some(1_767_225_600_123_456));
        check(TimeUnit::Nanosecond, "1767225600123456789", Some(1_767_225_600_123_456));
        check(TimeUnit::Nanosecond, "999", Some(0));
        check(TimeUnit::Second, "0", Some(0));
        check(TimeUnit::Second, "0e99999999999", Some(0));
        check(TimeUnit::Second, "1e-99999999999", Some(0));
    }

    #[test]
    fn the_range_is_that_of_timestamps() {
        check(TimeUnit::Second, "253402300799.999999", Some(253_402_300_799_999_999));
        check(TimeUnit::Second, "253402300800", None);
        check(TimeUnit::Second, "-62135596800", Some(-62_135_596_800_000_000));
        check(TimeUnit::Second, "-62135596801", None);
        check(TimeUnit::Millisecond, "1767225600123456789", None);
        check(TimeUnit::Nanosecond, "1e400", None);
        check(TimeUnit::Second, "1e9223372036854775807", None);
    }

    #[test]
    fn other_texts_are_no_numbers() {
        for text in ["", "-", "+1", "1.", ".5", "1.5.5", "1e", "0x10", "1 ", "NaN", "inf", "1,5", "--1"] {
            check(TimeUnit::Second, text, None);
        }
    }

    proptest! {
        #[test]
        fn a_time_reads_back_in_every_unit(us in TIMESTAMP_US) {
            let text = us.to_string();
            prop_assert_eq!(TimeUnit::Microsecond.microseconds(&text), Some(us));
            prop_assert_eq!(TimeUnit::Second.microseconds(&format!("{text}e-6")), Some(us));
            prop_assert_eq!(TimeUnit::Millisecond.microseconds(&format!("{text}e-3")), Some(us));
            prop_assert_eq!(TimeUnit::Nanosecond.microseconds(&format!("{text}000")), Some(us));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = TimeUnit::Second.microseconds(&text);
        }
    }
}
