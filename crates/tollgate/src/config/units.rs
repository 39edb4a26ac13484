//! Sizes and durations as text with a unit: reading and writing.

use std::ops::RangeInclusive;
use std::time::Duration;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
pub(super) const SECOND_MS: u64 = 1000;
pub(super) const MINUTE_MS: u64 = 60 * SECOND_MS;
pub(super) const HOUR_MS: u64 = 60 * MINUTE_MS;
/// The bounds of most timeouts.
pub(super) const TIMEOUT_MS: RangeInclusive<u64> = 1..=24 * HOUR_MS;

/// Units of sizes in bytes, smallest first.
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", KIB), ("MiB", MIB), ("GiB", GIB)];
/// Units of durations in milliseconds, smallest first.
const DURATIONS: [(&str, u64); 4] = [("ms", 1), ("s", SECOND_MS), ("m", MINUTE_MS), ("h", HOUR_MS)];

/// Reads a size in bytes.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    parse(text, SIZES)
}

/// Reads a duration in milliseconds.
pub(super) fn parse_duration(text: &str) -> Option<u64> {
    parse(text, DURATIONS)
}

/// Writes a size with the largest unit that keeps it whole.
pub(crate) fn show_size(bytes: u64) -> String {
    show(bytes, SIZES)
}

/// Writes a duration in milliseconds with the largest unit that keeps it whole.
pub(super) fn show_duration_ms(milliseconds: u64) -> String {
    show(milliseconds, DURATIONS)
}

/// Writes a duration with the largest unit that keeps it whole. The part below a millisecond is not shown.
pub(super) fn show_duration(duration: Duration) -> String {
    show_duration_ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn parse(text: &str, units: [(&str, u64); 4]) -> Option<u64> {
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let (_, factor) = units.into_iter().find(|(name, _)| *name == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn show(count: u64, units: [(&str, u64); 4]) -> String {
    let (smallest, _) = units[0];
    let fitting = units.into_iter().rfind(|(_, factor)| count > 0 && count.is_multiple_of(*factor));
    fitting.map_or_else(|| format!("{count}{smallest}"), |(name, factor)| format!("{}{name}", count / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_with_their_units_only() {
        let check = |text, expected| assert_eq!(parse_size(text), expected, "{text}");
        check("100B", Some(100));
        check("0B", Some(0));
        check("512KiB", Some(512 << 10));
        check("64MiB", Some(64 << 20));
        check("1GiB", Some(1 << 30));
        for refused in ["", "64", "MiB", "64MB", "64 MiB", "-1B", "1.5GiB", "64mib", "99999999999GiB", "1B2B"]
        {
            check(refused, None);
        }
    }

    #[test]
    fn durations_read_with_their_units_only() {
        let check = |text, expected| assert_eq!(parse_duration(text), expected, "{text}");
        check("200ms", Some(200));
        check("10s", Some(10_000));
        check("1m", Some(60_000));
        check("24h", Some(86_400_000));
        for refused in ["", "10", "s", "1d", "10 s", "1m30s", "-1s", "0.5s", "99999999999999999h"] {
            check(refused, None);
        }
    }

    #[test]
    fn a_shown_size_or_time_reads_back_and_is_short() {
        for (bytes, expected) in
            [(0, "0B"), (100, "100B"), (8000, "8000B"), (16384, "16KiB"), (4 << 20, "4MiB")]
        {
            assert_eq!(show_size(bytes), expected);
            assert_eq!(parse_size(expected), Some(bytes));
        }
        for (ms, expected) in
            [(0, "0ms"), (200, "200ms"), (1500, "1500ms"), (90_000, "90s"), (86_400_000, "24h")]
        {
            assert_eq!(show_duration_ms(ms), expected);
            assert_eq!(parse_duration(expected), Some(ms));
        }
    }
}
