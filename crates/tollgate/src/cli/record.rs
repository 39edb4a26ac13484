//! Values that name a record: its identity, or its time.

use std::str::FromStr;

use jiff::{SignedDuration, Span, SpanRelativeTo};
use tollgate_log::{LogId, Sequence};
use tollgate_value::parse_timestamp;

/// The identity of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordId {
    pub(crate) log: LogId,
    pub(crate) sequence: Sequence,
}

impl FromStr for RecordId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = "allowed is the id of a log, a colon, and the number of a record from 1 on";
        let (log, sequence) = text.split_once(':').ok_or(allowed)?;
        let log = log.parse().map_err(|_| allowed)?;
        let sequence = Sequence(sequence.parse().map_err(|_| allowed)?);
        if sequence.is_possible() { Ok(Self { log, sequence }) } else { Err(allowed) }
    }
}

/// A time, by itself or before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// Microseconds since 1970.
    At(i64),
    Ago(SignedDuration),
}

impl FromStr for Since {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(us) = parse_timestamp(text, None) {
            return Ok(Self::At(us));
        }
        let ago = text.parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
        ago.map(|ago| Self::Ago(ago.abs())).map_err(
            |_| "allowed is a time with its zone (2026-01-31T12:00:00Z), or a duration (90s, 1h, 7d)",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_named_by_its_log_and_its_number() {
        let log = LogId::from_bytes([0x1a; 16]);
        let read = |number: &str| format!("{log}:{number}").parse::<RecordId>();
        assert_eq!(read("7"), Ok(RecordId { log, sequence: Sequence(7) }));
        for wrong in ["0", "-1", "", "x", "1 ", "72057594037927936", "99999999999999999999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(log.to_string().parse::<RecordId>().is_err());
        assert!("7:7".parse::<RecordId>().is_err());
    }

    #[test]
    fn since_is_a_time_or_a_duration() {
        let check = |text: &str, expected| assert_eq!(text.parse(), Ok(expected), "{text}");
        let ago = |seconds| Since::Ago(SignedDuration::from_secs(seconds));
        check("2026-01-31T12:00:00Z", Since::At(1_769_860_800_000_000));
        check("2026-01-31T13:00:00.5+01:00", Since::At(1_769_860_800_500_000));
        check("90s", ago(90));
        check("1500ms", Since::Ago(SignedDuration::from_millis(1500)));
        check("1h", ago(3600));
        check("1h30m", ago(5400));
        check("7d", ago(7 * 86_400));
        check("1h ago", ago(3600));
        check("0s", ago(0));
        for wrong in ["", "1", "h", "2026-01-31", "2026-01-31T12:00:00", "12:00", "1 fortnight", "yesterday"]
        {
            assert!(wrong.parse::<Since>().is_err(), "{wrong}");
        }
    }
}
