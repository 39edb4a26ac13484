//! The one wall clock of the program: times that people read. Nothing is decided by it.
//!
//! A machine without a battery starts before 1970, and a wrong one after 9999. Times are then shown as the
//! nearer end, and a finding says so.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// The last second that jiff counts: 9999-12-30 at 22:00.
const LAST: Duration = Duration::from_secs(253_402_207_199);

/// What is wrong with a wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockFault {
    /// It is before 1970.
    Early,
    /// It is after 9999.
    Late,
}

impl ClockFault {
    /// What is found, and how times are shown.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Early => "the wall clock is before 1970: times are shown and kept as 1970-01-01",
            Self::Late => "the wall clock is after 9999: times are shown and kept as 9999-12-30",
        }
    }
}

/// The time now, between 1970 and 9999.
pub(crate) fn now() -> Timestamp {
    let since = system().unwrap_or_default().min(LAST);
    let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
    Timestamp::new(seconds, since.subsec_nanos().cast_signed()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What is wrong with the wall clock now.
pub(crate) fn fault() -> Option<ClockFault> {
    match system() {
        None => Some(ClockFault::Early),
        Some(since) if since > LAST => Some(ClockFault::Late),
        Some(_) => None,
    }
}

/// The time since 1970; none before it.
#[expect(clippy::disallowed_methods, reason = "the one wall clock of the program")]
fn system() -> Option<Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok()
}
