//! How long something is kept: a duration, or forever.

use std::fmt;
use std::time::Duration;

use super::units::{HOUR_MS, parse_duration, show_duration_ms};

const DAY_MS: u64 = 24 * HOUR_MS;
/// Ten years.
const KEEP_MS_MAX: u64 = 3650 * DAY_MS;
const FOREVER: &str = "forever";

/// How long something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    For(Duration),
    Forever,
}

impl Keep {
    /// Reads a duration, which may be in days, or the word for no end.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == FOREVER {
            return Some(Self::Forever);
        }
        let days = text.strip_suffix('d').and_then(|days| parse_duration(&format!("{days}ms")));
        let ms = days.map_or_else(|| parse_duration(text), |days| days.checked_mul(DAY_MS));
        ms.filter(|ms| *ms <= KEEP_MS_MAX).map(|ms| Self::For(Duration::from_millis(ms)))
    }

    /// Returns the duration. `None`: there is no end.
    pub(crate) const fn time(self) -> Option<Duration> {
        match self {
            Self::For(time) => Some(time),
            Self::Forever => None,
        }
    }
}

/// Writes the value so that it reads back to the same.
impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::For(time) = self else { return f.write_str(FOREVER) };
        match u64::try_from(time.as_millis()).unwrap_or(KEEP_MS_MAX) {
            ms if ms > 0 && ms.is_multiple_of(DAY_MS) => write!(f, "{}d", ms / DAY_MS),
            ms => f.write_str(&show_duration_ms(ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_may_have_days_and_reads_back_as_it_is_written() {
        for (text, hours) in [("7d", 168), ("30h", 30), ("0ms", 0), ("3650d", 87_600)] {
            let keep = Keep::parse(text).unwrap();
            assert_eq!((keep, &*keep.to_string()), (Keep::For(Duration::from_hours(hours)), text));
        }
        assert_eq!(Keep::parse("48h").unwrap().to_string(), "2d");
        assert_eq!((Keep::parse("forever"), &*Keep::Forever.to_string()), (Some(Keep::Forever), "forever"));
        for text in ["", "d", "7", "7 d", "1d12h", "-1d", "0.5d", "3651d", "99999999999999999999d", "never"] {
            assert_eq!(Keep::parse(text), None, "{text:?}");
        }
    }
}
