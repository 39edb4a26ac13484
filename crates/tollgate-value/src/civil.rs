//! Dates of the proleptic Gregorian calendar, as numbers of days since 1970-01-01, and back.
//!
//! Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days` and
//! `days_from_civil`.

use crate::range::TIMESTAMP_US;

pub(crate) const DAY_US: i64 = 86_400_000_000;

/// The parts of a timestamp in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CivilTime {
    /// 1 to 9999.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 59.
    pub second: i64,
    /// 0 to 999,999.
    pub microsecond: i64,
}

/// Returns the parts of a timestamp. Returns `None` outside [`TIMESTAMP_US`].
pub fn civil_time(us: i64) -> Option<CivilTime> {
    if !TIMESTAMP_US.contains(&us) {
        return None;
    }
    let (year, month, day) = civil_from_days(us.div_euclid(DAY_US));
    let of_day = us.rem_euclid(DAY_US);
    let (seconds, microsecond) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Some(CivilTime { year, month, day, hour, minute, second, microsecond })
}

/// Returns the year, month and day of a number of days since 1970-01-01.
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the number of days since 1970-01-01.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_400_years_is_that_of_jiff() {
        let mut date = jiff::civil::date(1970, 1, 1);
        for day in 0..146_097 {
            let expected = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
            assert_eq!(civil_from_days(day), expected);
            assert_eq!(days_from_civil(expected.0, expected.1, expected.2), day);
            date = date.tomorrow().unwrap();
        }
    }

    #[test]
    fn the_first_and_the_last_day_of_the_range_have_their_numbers() {
        assert_eq!(days_from_civil(1, 1, 1), -719_162);
        assert_eq!(civil_from_days(-719_162), (1, 1, 1));
        assert_eq!(days_from_civil(9999, 12, 31), 2_932_896);
        assert_eq!(civil_from_days(2_932_896), (9999, 12, 31));
    }
}
