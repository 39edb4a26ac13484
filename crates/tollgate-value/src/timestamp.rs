//! Timestamps as text of RFC 3339.

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;

use crate::civil::{CivilTime, DAY_US, civil_time, days_from_civil};
use crate::range::TIMESTAMP_US;
use crate::zone::Zone;

/// Why a text is no timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampError {
    /// The text has another form, or its time is outside [`TIMESTAMP_US`].
    Unfit,
    /// The text is a date and a time without an offset, and the caller has no zone.
    NoOffset,
}

/// Parses a time of RFC 3339. Digits after the microsecond are dropped.
///
/// A time without an offset is a time in `zone`. If a change of the clocks skips the time, or shows it twice,
/// the offset before the change applies.
///
/// # Errors
/// The text is no time, its time is outside [`TIMESTAMP_US`], or it needs a zone.
pub fn parse_timestamp(text: &str, zone: Option<&Zone>) -> Result<i64, TimestampError> {
    let us = match text.parse::<Timestamp>() {
        Ok(time) => time.as_microsecond(),
        Err(_) => parse_pieces(text, zone)?,
    };
    if TIMESTAMP_US.contains(&us) { Ok(us) } else { Err(TimestampError::Unfit) }
}

/// Parses a time that jiff cannot represent as a [`Timestamp`]: the last day of the year 9999, or a time
/// without an offset.
#[cold]
fn parse_pieces(text: &str, zone: Option<&Zone>) -> Result<i64, TimestampError> {
    let pieces = Pieces::parse(text).map_err(|_| TimestampError::Unfit)?;
    let (date, Some(time)) = (pieces.date(), pieces.time()) else { return Err(TimestampError::Unfit) };
    let offset_s = match (pieces.to_numeric_offset(), zone) {
        (Some(offset), _) => offset.seconds().into(),
        (None, _) if pieces.time_zone_annotation().is_some() => return Err(TimestampError::Unfit),
        (None, None) => return Err(TimestampError::NoOffset),
        (None, Some(zone)) => zone.offset_s(date.to_datetime(time)),
    };
    let days = days_from_civil(date.year().into(), date.month().into(), date.day().into());
    let [hour, minute, second] = [time.hour(), time.minute(), time.second()].map(i64::from);
    let seconds = (hour * 60 + minute) * 60 + second - offset_s;
    Ok(days * DAY_US + seconds * 1_000_000 + i64::from(time.subsec_nanosecond() / 1000))
}

/// Returns a timestamp as RFC 3339 text in UTC, with six digits after the seconds. Returns `None` outside
/// [`TIMESTAMP_US`].
pub fn timestamp_text(us: i64) -> Option<[u8; 27]> {
    let CivilTime { year, month, day, hour, minute, second, microsecond } = civil_time(us)?;
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    let fields = [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, hour),
        (14..16, minute),
        (17..19, second),
        (20..26, microsecond),
    ];
    for (place, mut number) in fields {
        for digit in text[place].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    Some(text)
}

/// Returns a timestamp as RFC 3339 text in UTC, without zeros at the end of the fraction. Returns `None`
/// outside [`TIMESTAMP_US`].
pub fn trimmed_timestamp_text(us: i64) -> Option<String> {
    let text = timestamp_text(us)?;
    let last_digit = text.iter().rposition(|byte| matches!(byte, b'1'..=b'9')).unwrap_or_default();
    let kept = if us % 1_000_000 == 0 { WHOLE_SECONDS_BYTES } else { last_digit + 1 };
    Some(String::from_utf8_lossy(&text[..kept]).into_owned() + "Z")
}

/// Length of `0000-00-00T00:00:00`.
const WHOLE_SECONDS_BYTES: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::{TIMESTAMP_FIRST_US, TIMESTAMP_LAST_US};
    use proptest::prelude::*;

    fn text(us: i64) -> Option<String> {
        timestamp_text(us).map(|text| String::from_utf8(text.to_vec()).unwrap())
    }

    #[test]
    fn timestamps_have_one_form() {
        assert_eq!(text(0).unwrap(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(-1).unwrap(), "1969-12-31T23:59:59.999999Z");
        assert_eq!(text(TIMESTAMP_FIRST_US).unwrap(), "0001-01-01T00:00:00.000000Z");
        assert_eq!(text(TIMESTAMP_LAST_US).unwrap(), "9999-12-31T23:59:59.999999Z");
        for outside in [TIMESTAMP_FIRST_US - 1, TIMESTAMP_LAST_US + 1, i64::MIN, i64::MAX] {
            assert_eq!((text(outside), trimmed_timestamp_text(outside)), (None, None));
        }
    }

    #[test]
    fn a_trimmed_text_has_only_the_digits_that_it_needs() {
        let check = |us, expect: &str| assert_eq!(trimmed_timestamp_text(us).unwrap(), expect);
        check(0, "1970-01-01T00:00:00Z");
        check(10_000_000, "1970-01-01T00:00:10Z");
        check(500_000, "1970-01-01T00:00:00.5Z");
        check(TIMESTAMP_LAST_US, "9999-12-31T23:59:59.999999Z");
    }

    #[test]
    fn the_whole_range_is_read_and_nothing_outside_it() {
        let check = |text: &str, expect| assert_eq!(parse_timestamp(text, None), expect, "{text}");
        check("9999-12-31T23:59:59Z", Ok(253_402_300_799_000_000));
        check("9999-12-31T23:59:59.999999Z", Ok(TIMESTAMP_LAST_US));
        check("9999-12-31T23:59:59.999999999Z", Ok(TIMESTAMP_LAST_US));
        check("9999-12-30T22:00:00Z", Ok(253_402_207_200_000_000));
        check("9999-12-31T20:59:59-03:00", Ok(253_402_300_799_000_000));
        check("0001-01-01T00:00:00Z", Ok(TIMESTAMP_FIRST_US));
        check("0001-01-01 02:00:00.5+02:00", Ok(TIMESTAMP_FIRST_US + 500_000));
        for outside in [
            "9999-12-31T23:59:59-00:01",
            "0000-12-31T23:59:59Z",
            "0001-01-01T00:00:00+00:01",
            "-000001-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "9999-12-32T00:00:00Z",
            "9999-12-31",
            "9999-12-31Z",
            "never",
            "",
        ] {
            check(outside, Err(TimestampError::Unfit));
        }
    }

    #[test]
    fn a_time_without_an_offset_needs_a_zone() {
        let zone = |name: &str| Zone::new(name).unwrap();
        let check = |text: &str, zone: &Zone, expect: &str| {
            let found = parse_timestamp(text, Some(zone)).unwrap();
            assert_eq!(trimmed_timestamp_text(found).unwrap(), expect, "{text}");
        };
        let python = "2026-01-01T00:00:00.123456";
        assert_eq!(parse_timestamp(python, None), Err(TimestampError::NoOffset));
        assert_eq!(parse_timestamp("2026-01-01", Some(&zone("UTC"))), Err(TimestampError::Unfit));
        check(python, &zone("UTC"), "2026-01-01T00:00:00.123456Z");
        check("2026-01-01 00:00:00", &zone("+05:30"), "2025-12-31T18:30:00Z");
        check("2026-07-01T12:00:00", &zone("Europe/Berlin"), "2026-07-01T10:00:00Z");
        check("2026-07-01T12:00:00+00:00", &zone("Europe/Berlin"), "2026-07-01T12:00:00Z");
        // The clocks of Berlin skip 02:30 in March, and show it twice in October.
        check("2026-03-29T02:30:00", &zone("Europe/Berlin"), "2026-03-29T01:30:00Z");
        check("2026-10-25T02:30:00", &zone("Europe/Berlin"), "2026-10-25T00:30:00Z");
        check("9999-12-31T23:59:59", &zone("Europe/Berlin"), "9999-12-31T22:59:59Z");
        check("9999-12-31T23:59:59", &zone("Z"), "9999-12-31T23:59:59Z");
    }

    proptest! {
        #[test]
        fn timestamps_are_those_of_jiff(us in TIMESTAMP_FIRST_US..253_402_000_000_000_000) {
            let time = Timestamp::from_microsecond(us).unwrap();
            prop_assert_eq!(text(us).unwrap(), format!("{time:.6}"));
            prop_assert_eq!(trimmed_timestamp_text(us).unwrap(), time.to_string());
        }

        #[test]
        fn every_timestamp_reads_back(us in TIMESTAMP_US) {
            prop_assert_eq!(parse_timestamp(&text(us).unwrap(), None), Ok(us));
            prop_assert_eq!(parse_timestamp(&trimmed_timestamp_text(us).unwrap(), None), Ok(us));
        }
    }
}
