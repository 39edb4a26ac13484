//! Dates without a time.

use std::fmt;

use crate::civil::{civil_from_days, days_from_civil};
use crate::digits::number_of;

/// A date of the proleptic Gregorian calendar, of the years 0001 to 9999.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Date {
    days: i32,
}

impl Date {
    /// The first date, 0001-01-01.
    pub const FIRST: Self = Self { days: -719_162 };
    /// The last date, 9999-12-31.
    pub const LAST: Self = Self { days: 2_932_896 };

    /// Returns the date of a number of days since 1970-01-01. Returns `None` outside the years 0001 to 9999.
    pub fn from_days(days: i32) -> Option<Self> {
        (Self::FIRST.days..=Self::LAST.days).contains(&days).then_some(Self { days })
    }

    /// Returns the number of days since 1970-01-01.
    pub const fn days(self) -> i32 {
        self.days
    }

    /// Parses `YYYY-MM-DD` (ISO 8601).
    pub fn parse(text: &str) -> Option<Self> {
        let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text.as_bytes() else { return None };
        let date = (number_of([y0, y1, y2, y3])?, number_of([m0, m1])?, number_of([d0, d1])?);
        let (year, month, day) = date;
        if !(1..=12).contains(&month) {
            return None;
        }
        let days = days_from_civil(year, month, day);
        // A day that the month does not have is the number of another day.
        (civil_from_days(days) == date).then_some(())?;
        Self::from_days(i32::try_from(days).ok()?)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.days.into());
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<i32>) {
        assert_eq!(Date::parse(text).map(Date::days), expect, "{text}");
    }

    #[test]
    fn a_date_of_the_range_is_read() {
        check("1970-01-01", Some(0));
        check("1969-12-31", Some(-1));
        check("2000-01-01", Some(10_957));
        check("2024-02-29", Some(19_782));
        check("0001-01-01", Some(Date::FIRST.days()));
        check("9999-12-31", Some(Date::LAST.days()));
    }

    #[test]
    fn another_text_is_no_date() {
        for text in [
            "",
            "0000-12-31",
            "10000-01-01",
            "2023-02-29",
            "2026-00-10",
            "2026-13-01",
            "2026-01-00",
            "2026-04-31",
            "2026-1-1",
            "20260101",
            "2026-01-01T00:00:00Z",
            " 2026-01-01",
            "2026-01-01 ",
            "26-01-01",
            "-001-01-01",
            "2026/01/01",
            "+026-01-01",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn every_date_reads_as_it_was_written() {
        for days in Date::FIRST.days()..=Date::LAST.days() {
            let date = Date::from_days(days).unwrap();
            assert_eq!(Date::parse(&date.to_string()), Some(date));
        }
        assert_eq!(Date::from_days(Date::FIRST.days() - 1), None);
        assert_eq!(Date::from_days(Date::LAST.days() + 1), None);
    }
}
