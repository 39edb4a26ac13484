//! The spelling of a fault on a command line: its name, a colon, and its argument, for example `slow:200ms`.

use std::str::FromStr;
use std::time::Duration;

/// Error of a text that is no fault.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SpellingError {
    /// No fault has this name.
    #[error("unknown fault: \"{0}\": `tollgate-faults list` prints all faults")]
    Unknown(String),
    /// The text after the colon is no valid argument of this fault.
    #[error("{what}: found \"{found}\", allowed {allowed}")]
    Argument {
        /// The name of the fault.
        what: String,
        /// The text that was found.
        found: String,
        /// The allowed texts, with an example.
        allowed: &'static str,
    },
}

/// The spelling of a fault, split into its name and the text after the colon.
pub(crate) struct Spelled<'a> {
    pub(crate) name: &'a str,
    argument: Option<&'a str>,
}

impl<'a> Spelled<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        match text.split_once(':') {
            Some((name, argument)) => Self { name, argument: Some(argument) },
            None => Self { name: text, argument: None },
        }
    }

    /// Returns the value. Fails if the text has an argument, because the fault has none.
    pub(crate) fn bare<T>(&self, value: T) -> Result<T, SpellingError> {
        match self.argument {
            None => Ok(value),
            Some(_) => Err(self.error("nothing")),
        }
    }

    pub(crate) fn duration(&self, default: Duration) -> Result<Duration, SpellingError> {
        self.argument.map_or(Some(default), duration).ok_or_else(|| self.error("a time like 200ms, 5s, 1m"))
    }

    pub(crate) fn bytes(&self, default: u64) -> Result<u64, SpellingError> {
        self.argument.map_or(Some(default), bytes).ok_or_else(|| self.error("a size like 500, 64KiB, 1MiB"))
    }

    pub(crate) fn number<T: FromStr>(&self, default: T) -> Result<T, SpellingError> {
        let number = self.argument.map_or(Some(default), |text| text.parse().ok());
        number.ok_or_else(|| self.error("a whole number"))
    }

    pub(crate) fn status(&self) -> Result<u16, SpellingError> {
        let status = self.argument.map_or(Some(503), |text| text.parse().ok());
        status
            .filter(|status| (200..600).contains(status))
            .ok_or_else(|| self.error("a status from 200 to 599"))
    }

    /// Reads `30%:FAULT`: the share in thousandths, and the fault.
    pub(crate) fn share<T: FromStr<Err = SpellingError>>(&self) -> Result<(u16, T), SpellingError> {
        let allowed = "a share and a fault like 30%:reset";
        let (share, fault) =
            self.argument.and_then(|text| text.split_once(':')).ok_or_else(|| self.error(allowed))?;
        let percent = share.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
        let percent =
            percent.filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(|| self.error(allowed))?;
        Ok(((percent * 10.0).round() as u16, fault.parse()?))
    }

    pub(crate) fn unknown(&self) -> SpellingError {
        SpellingError::Unknown(self.name.to_owned())
    }

    fn error(&self, allowed: &'static str) -> SpellingError {
        let found = self.argument.unwrap_or_default().to_owned();
        SpellingError::Argument { what: self.name.to_owned(), found, allowed }
    }
}

/// Reads `200ms`, `5s` or `1m`.
pub fn duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (count, unit) = text.split_at(unit_at);
    let count: u32 = count.parse().ok()?;
    let unit = match unit {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        _ => return None,
    };
    unit.checked_mul(count)
}

/// Reads `500`, `500B`, `64KiB`, `1MiB` or `1GiB`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(unit_at);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    count.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes() {
        let times = ["200ms", "5s", "1m", "70us", "", "5", "s", "5h", "1.5s", "99999999999s"].map(duration);
        let ms = |ms| Some(Duration::from_millis(ms));
        let us = Some(Duration::from_micros(70));
        assert_eq!(times, [ms(200), ms(5000), ms(60_000), us, None, None, None, None, None, None]);
        let sizes = ["500", "64KiB", "1MiB", "2GiB", "", "KiB", "1MB", "99999999999GiB"].map(bytes);
        assert_eq!(sizes, [Some(500), Some(65536), Some(1 << 20), Some(2 << 30), None, None, None, None]);
    }
}
