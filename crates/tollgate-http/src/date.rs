//! HTTP dates: IMF-fixdate and the two obsolete forms (RFC 9110 section 5.6.7). The caller owns the clock.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use tollgate_value::TIMESTAMP_LAST_US;

/// Writes `time` as IMF-fixdate, the 29 bytes in `Date` and `Last-Modified`.
///
/// A time outside 1970 to 9999 is moved to the nearer end, because the format cannot express it.
pub fn http_date(time: SystemTime) -> [u8; 29] {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since_epoch = since_epoch.min(LAST_SECOND);
    let mut date = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let text = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since_epoch);
    if let Ok(text) = text.as_bytes().try_into() {
        date = text;
    }
    date
}

/// Writes a timestamp as IMF-fixdate. The timestamp is in microseconds since 1970.
///
/// A time after 9999 is moved to the end of that year.
pub fn http_date_of_us(us: i64) -> [u8; 29] {
    let Ok(since_epoch) = u64::try_from(us) else { return date_before_1970(us) };
    http_date(SystemTime::UNIX_EPOCH + Duration::from_micros(since_epoch))
}

/// Writes a time before 1970. The time is moved by 2000 years, because dates and weekdays repeat every 400
/// years.
fn date_before_1970(us: i64) -> [u8; 29] {
    let moved_us = us.saturating_add(YEARS_2000.as_micros() as i64);
    let mut date =
        http_date(SystemTime::UNIX_EPOCH + Duration::from_micros(moved_us.try_into().unwrap_or(0)));
    let year = date[YEAR].iter().fold(0, |year, digit| year * 10 + u32::from(digit - b'0'));
    let mut rest = year.saturating_sub(2000);
    for digit in date[YEAR].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    date
}

/// Parses any of the three forms of an HTTP date.
pub fn parse_http_date(value: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(value).ok()?;
    // Unix time has no leap seconds, so the second 60 is treated as the first second of the next minute.
    if let Some((before, after)) = text.split_once(":60 ") {
        return Some(parse_from_1970(&format!("{before}:59 {after}"))? + Duration::from_secs(1));
    }
    parse_from_1970(text).or_else(|| parse_before_1970(text))
}

fn parse_from_1970(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// Parses a date before 1970. The date is moved by 2000 years, because dates and weekdays repeat every 400
/// years.
fn parse_before_1970(text: &str) -> Option<SystemTime> {
    let is_year = |part: &&str| part.len() == 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    let year = text.split(' ').find(is_year)?;
    let later = year.parse::<u16>().ok().filter(|year| *year < 1970)? + 2000;
    parse_from_1970(&text.replacen(year, &later.to_string(), 1))?.checked_sub(YEARS_2000)
}

/// Place of the year in IMF-fixdate.
const YEAR: Range<usize> = 12..16;
const YEARS_2000: Duration = Duration::from_secs(5 * 146_097 * 86_400);
const LAST_SECOND: Duration = Duration::from_secs(TIMESTAMP_LAST_US.cast_unsigned() / 1_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_imf_fixdate_and_never_panic() {
        let check = |seconds, expect: &str| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(std::str::from_utf8(&http_date(time)).unwrap(), expect);
        };
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT");
        check(253_402_300_800, "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(&http_date(SystemTime::UNIX_EPOCH - Duration::from_secs(9))[..16], b"Thu, 01 Jan 1970");
    }

    #[test]
    fn every_timestamp_has_a_date() {
        let check = |us, expect: &str| {
            assert_eq!(std::str::from_utf8(&http_date_of_us(us)).unwrap(), expect);
            let read = parse_http_date(expect.as_bytes()).unwrap();
            let second = Duration::from_secs(us.div_euclid(1_000_000).unsigned_abs());
            let expected =
                if us < 0 { SystemTime::UNIX_EPOCH - second } else { SystemTime::UNIX_EPOCH + second };
            assert_eq!(read, expected, "{expect}");
        };
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(-1, "Wed, 31 Dec 1969 23:59:59 GMT");
        check(-11_644_473_600_000_000, "Mon, 01 Jan 1601 00:00:00 GMT");
        check(tollgate_value::TIMESTAMP_FIRST_US, "Mon, 01 Jan 0001 00:00:00 GMT");
        check(TIMESTAMP_LAST_US, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn all_three_forms_are_read() {
        let expect = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
        let check = |input: &str, expect| assert_eq!(parse_http_date(input.as_bytes()), expect, "{input}");
        check("Sun, 06 Nov 1994 08:49:37 GMT", expect);
        check("Sunday, 06-Nov-94 08:49:37 GMT", expect);
        check("Sun Nov  6 08:49:37 1994", expect);
        check("yesterday", None);
        let leap = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_740));
        check("Sun, 06 Nov 1994 08:48:60 GMT", leap);
        check("Sun Nov  6 08:48:60 1994", leap);
        check("Sun, 06 Nov 1994 08:60:37 GMT", None);
        check("Sun, 06 Nov 1994 08:49:61 GMT", None);
    }

    #[test]
    fn dates_before_1970_are_dates() {
        let check = |input: &str, days: Option<u32>| {
            let expect = days.map(|days| SystemTime::UNIX_EPOCH - Duration::from_secs(86_400) * days);
            assert_eq!(parse_http_date(input.as_bytes()), expect, "{input}");
        };
        check("Wed, 31 Dec 1969 00:00:00 GMT", Some(1));
        check("Fri, 01 Jan 1960 00:00:00 GMT", Some(3653));
        check("Fri Jan  1 00:00:00 1960", Some(3653));
        check("Mon, 01 Jan 1601 00:00:00 GMT", Some(134_774));
        check("Sat, 01 Jan 0000 00:00:00 GMT", Some(719_528));
        check("Thu, 01 Jan 1960 00:00:00 GMT", None);
        check("Sat, 30 Feb 1960 00:00:00 GMT", None);
    }
}
