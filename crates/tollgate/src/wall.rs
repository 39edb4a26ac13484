//! The one wall clock of the program, for times that people read. One decision depends on it: the time at
//! which a certificate is renewed, because certificates are valid by the wall clock.
//!
//! A machine without a clock battery starts before 1970, and a wrong clock may be after 9999. In both cases
//! the nearest valid time is shown, and a finding reports the fault.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use tollgate_value::TIMESTAMP_LAST_US;

/// The last time that is recorded. The times that are shown end a day earlier, with the last time of jiff.
const LAST: Duration = Duration::from_micros(TIMESTAMP_LAST_US.cast_unsigned());

/// A fault of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockFault {
    /// The clock is before 1970.
    Early,
    /// The clock is after 9999.
    Late,
}

impl ClockFault {
    /// Returns a text with the fault, and with the time that is shown instead.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Early => "the wall clock is before 1970: times are shown and recorded as 1970-01-01",
            Self::Late => {
                "the wall clock is after 9999: times are shown as 9999-12-30 and recorded as 9999-12-31"
            }
        }
    }
}

/// Returns the time now, between 1970 and 9999.
pub(crate) fn now() -> Timestamp {
    let since = system().unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::new(seconds, since.subsec_nanos().cast_signed()).unwrap_or(Timestamp::MAX)
}

/// Returns the present fault of the wall clock, if there is one.
pub(crate) fn fault() -> Option<ClockFault> {
    match system() {
        None => Some(ClockFault::Early),
        Some(since) if since > LAST => Some(ClockFault::Late),
        Some(_) => None,
    }
}

/// Returns a time in seconds since 1970 as text. A time after 9999 is shown as the last one.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.unwrap_or(Timestamp::MAX).to_string()
}

/// Returns the seconds since a time in milliseconds since 1970. 0 for a time that has not come yet.
pub(crate) fn seconds_since_ms(at_ms: u64) -> f64 {
    system().unwrap_or_default().saturating_sub(Duration::from_millis(at_ms)).as_secs_f64()
}

/// Returns the time since 1970. `None`: the clock is before 1970.
#[expect(clippy::disallowed_methods, reason = "the one wall clock of the program")]
fn system() -> Option<Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok()
}
