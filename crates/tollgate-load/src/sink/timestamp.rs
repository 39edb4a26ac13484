//! Timestamps as text.

const DAY_US: i64 = 86_400_000_000;
/// 0000-01-01T00:00:00Z, in microseconds since 1970.
const TIMESTAMP_US_MIN: i64 = -62_167_219_200_000_000;
/// 9999-12-31T23:59:59.999999Z, in microseconds since 1970.
const TIMESTAMP_US_MAX: i64 = 253_402_300_799_999_999;

/// Returns a timestamp as RFC 3339 text in UTC, with six digits after the seconds. Returns `None` outside the
/// years 0000 to 9999.
pub(in crate::sink) fn timestamp_text(us: i64) -> Option<[u8; 27]> {
    if !(TIMESTAMP_US_MIN..=TIMESTAMP_US_MAX).contains(&us) {
        return None;
    }
    let (year, month, day) = civil_from_days(us.div_euclid(DAY_US));
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    let of_day = us.rem_euclid(DAY_US);
    let (seconds, micros) = (of_day / 1_000_000, of_day % 1_000_000);
    let fields = [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, seconds / 3600),
        (14..16, seconds / 60 % 60),
        (17..19, seconds % 60),
        (20..26, micros),
    ];
    for (place, mut number) in fields {
        for digit in text[place].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    Some(text)
}

/// Returns the year, month and day of a number of days since 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timestamps_have_one_form() {
        let text = |us| timestamp_text(us).map(|text| String::from_utf8(text.to_vec()).unwrap());
        assert_eq!(text(0).unwrap(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(-1).unwrap(), "1969-12-31T23:59:59.999999Z");
        assert_eq!(text(TIMESTAMP_US_MIN).unwrap(), "0000-01-01T00:00:00.000000Z");
        assert_eq!(text(TIMESTAMP_US_MAX).unwrap(), "9999-12-31T23:59:59.999999Z");
        assert_eq!(text(TIMESTAMP_US_MIN - 1), None);
        assert_eq!(text(TIMESTAMP_US_MAX + 1), None);
        assert_eq!(text(i64::MIN), None);
    }

    #[test]
    fn every_day_of_400_years_is_that_of_jiff() {
        let mut date = jiff::civil::date(1970, 1, 1);
        for day in 0..146_097 {
            let expected = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
            assert_eq!(civil_from_days(day), expected);
            date = date.tomorrow().unwrap();
        }
    }

    proptest! {
        #[test]
        fn timestamps_are_those_of_jiff(us in -62_135_596_800_000_000i64..253_402_000_000_000_000) {
            let expected = format!("{:.6}", jiff::Timestamp::from_microsecond(us).unwrap());
            prop_assert_eq!(String::from_utf8(timestamp_text(us).unwrap().to_vec()).unwrap(), expected);
        }
    }
}
