//! Dates and times of XML Schema Part 2, sections 3.2.7 to 3.2.14.

use std::cmp::Ordering;

/// Which parts a type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temporal {
    DateTime,
    Date,
    Time,
    Year,
    YearMonth,
    Month,
    MonthDay,
    Day,
}

/// A moment: 2000-01-01T00:00:00 fills the parts that a type lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Seconds from 1970-01-01T00:00:00, in UTC if there is a zone.
    seconds: i64,
    /// The digits of the fraction of a second, without zeros at the end.
    fraction: String,
    has_zone: bool,
}

/// The largest zone is 14 hours. A moment without a zone may be that far away in both directions.
const ZONE_MAX_SECONDS: i64 = 14 * 3600;

/// Years of more digits are refused, so that seconds fit 64 bits.
const YEAR_DIGITS_MAX: usize = 9;

impl Moment {
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self.has_zone, other.has_zone) {
            (true, true) | (false, false) => Some(self.place(0).cmp(&other.place(0))),
            (true, false) => {
                if self.place(0) < other.place(-ZONE_MAX_SECONDS) {
                    Some(Ordering::Less)
                } else if self.place(0) > other.place(ZONE_MAX_SECONDS) {
                    Some(Ordering::Greater)
                } else {
                    None
                }
            }
            (false, true) => other.order(self).map(Ordering::reverse),
        }
    }

    fn place(&self, moved: i64) -> (i64, &str) {
        (self.seconds + moved, &self.fraction)
    }

    /// Makes a moment without a zone, for the order of durations.
    pub(super) fn of_date(year: i64, month: i64) -> Self {
        Self { seconds: days(year, month, 1) * 86_400, fraction: String::new(), has_zone: false }
    }

    pub(super) const fn seconds(&self) -> i64 {
        self.seconds
    }

    pub(super) fn parse(kind: Temporal, text: &str) -> Option<Self> {
        let mut rest = Rest(text);
        let (mut year, mut month, mut day) = (2000, 1, 1);
        let (mut seconds, mut fraction) = (0, "");
        match kind {
            Temporal::DateTime => {
                (year, month, day) = rest.date()?;
                rest.skip('T')?;
                (seconds, fraction) = rest.time()?;
            }
            Temporal::Date => (year, month, day) = rest.date()?,
            Temporal::Time => (seconds, fraction) = rest.time()?,
            Temporal::Year => year = rest.year()?,
            Temporal::YearMonth => {
                year = rest.year()?;
                rest.skip('-')?;
                month = rest.two(1, 12)?;
            }
            Temporal::Month => {
                rest.skip('-')?;
                rest.skip('-')?;
                month = rest.two(1, 12)?;
                // The first edition of the specification wrote `--MM--`.
                if rest.0.starts_with("--") {
                    rest.0 = &rest.0[2..];
                }
            }
            Temporal::MonthDay => {
                rest.skip('-')?;
                rest.skip('-')?;
                month = rest.two(1, 12)?;
                rest.skip('-')?;
                day = rest.two(1, days_of_month(2000, month))?;
            }
            Temporal::Day => {
                (0..3).try_for_each(|_| rest.skip('-'))?;
                day = rest.two(1, 31)?;
            }
        }
        let zone = rest.zone()?;
        let seconds = days(year, month, day) * 86_400 + seconds - zone.unwrap_or(0);
        let fraction = fraction.trim_end_matches('0').to_owned();
        Some(Self { seconds, fraction, has_zone: zone.is_some() })
    }
}

/// The part of a text that is not read yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn skip(&mut self, c: char) -> Option<()> {
        self.0 = self.0.strip_prefix(c)?;
        Some(())
    }

    fn digits(&mut self) -> &'a str {
        let count = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        digits
    }

    /// Reads two digits of a number from `first` to `last`.
    fn two(&mut self, first: i64, last: i64) -> Option<i64> {
        let digits = self.0.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        self.0 = &self.0[2..];
        digits.parse().ok().filter(|number| (first..=last).contains(number))
    }

    fn year(&mut self) -> Option<i64> {
        let is_negative = self.skip('-').is_some();
        let digits = self.digits();
        let has_needless_zero = digits.len() > 4 && digits.starts_with('0');
        if digits.len() < 4 || digits.len() > YEAR_DIGITS_MAX || has_needless_zero {
            return None;
        }
        let year: i64 = digits.parse().ok()?;
        // There is no year 0 in the first version of the specification: 1 BC is -1.
        match (year, is_negative) {
            (0, _) => None,
            (year, true) => Some(1 - year),
            (year, false) => Some(year),
        }
    }

    fn date(&mut self) -> Option<(i64, i64, i64)> {
        let year = self.year()?;
        self.skip('-')?;
        let month = self.two(1, 12)?;
        self.skip('-')?;
        Some((year, month, self.two(1, days_of_month(year, month))?))
    }

    fn time(&mut self) -> Option<(i64, &'a str)> {
        let hour = self.two(0, 24)?;
        self.skip(':')?;
        let minute = self.two(0, 59)?;
        self.skip(':')?;
        let second = self.two(0, 59)?;
        let mut fraction = "";
        if self.skip('.').is_some() {
            fraction = self.digits();
            if fraction.is_empty() {
                return None;
            }
        }
        let is_after_midnight = minute > 0 || second > 0 || fraction.bytes().any(|digit| digit != b'0');
        if hour == 24 && is_after_midnight {
            return None;
        }
        Some((hour * 3600 + minute * 60 + second, fraction))
    }

    /// Reads the zone in seconds, which is the rest of the text.
    fn zone(&mut self) -> Option<Option<i64>> {
        if self.0.is_empty() {
            return Some(None);
        }
        if self.0 == "Z" {
            return Some(Some(0));
        }
        let sign = if self.skip('-').is_some() { -1 } else { 1 };
        if sign == 1 {
            self.skip('+')?;
        }
        let hour = self.two(0, 14)?;
        self.skip(':')?;
        let minute = self.two(0, 59)?;
        let seconds = hour * 3600 + minute * 60;
        (self.0.is_empty() && seconds <= ZONE_MAX_SECONDS).then_some(Some(sign * seconds))
    }
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 to a date of the proleptic Gregorian calendar. March begins its years.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
