//! Time zones: UTC, a fixed offset, or a name of the IANA database that the system has installed.

use std::fmt;

use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{AmbiguousOffset, TimeZone};

/// The zone of times that have no offset.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

/// Why a text is no time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneError;

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "allowed are UTC, an offset such as +02:00, or a name such as Europe/Berlin, which needs tzdata",
        )
    }
}

impl Zone {
    /// Reads `UTC`, `Z`, an offset, or a name of the IANA database.
    ///
    /// # Errors
    /// The text is none of these, or the system has no zone with this name.
    pub fn new(name: &str) -> Result<Self, ZoneError> {
        let rules = match name {
            "Z" => TimeZone::UTC,
            name => DateTimeParser::new().parse_time_zone(name).map_err(|_| ZoneError)?,
        };
        // A zone without a name and without a fixed offset is a rule in the form of POSIX.
        if rules.iana_name().is_none() && rules.to_fixed_offset().is_err() {
            return Err(ZoneError);
        }
        Ok(Self { name: name.to_owned(), rules })
    }

    /// Returns the text from which the zone was read.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the offset of a time of this zone, in seconds.
    ///
    /// If a change of the clocks skips the time, or shows it twice, the offset before the change applies.
    pub(crate) fn offset_s(&self, time: DateTime) -> i64 {
        let offset = match self.rules.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
        };
        offset.seconds().into()
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_an_offset_or_a_name() {
        for name in ["UTC", "Z", "+02:00", "-11:00", "Europe/Berlin", "America/Lima"] {
            assert_eq!(Zone::new(name).unwrap().name(), name);
        }
        for name in ["", "Europe/Nowhere", "CET-1CEST,M3.5.0,M10.5.0/3", "+99:00", "2"] {
            assert_eq!(Zone::new(name), Err(ZoneError), "{name}");
        }
    }
}
