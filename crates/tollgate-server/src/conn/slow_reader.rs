//! Decides whether a peer that exceeded its write deadline still takes bytes.
//!
//! The system asks for more of a reply when half of its unsent buffer is free, which is 16 KiB. A peer at
//! `write_rate_min` needs longer for that than `write_timeout`. After its write deadline, a peer therefore
//! gets a further part of `write_timeout`, and is then checked. Parts and checks repeat as long as the peer
//! takes enough bytes.
//!
//! The progress of a peer is visible only in steps. A system with a small receive buffer announces free space
//! in steps of about 7 KiB.

use std::time::Duration;

use crate::options::ConnectionLimits;

/// Divisor of `write_timeout` for the time between two checks.
const PART: u32 = 2;
/// Divisor of `write_rate_min` for the rate that a peer must reach between two checks. The rate is lower than
/// `write_rate_min`, because packets arrive unevenly.
const RATE_PART: u128 = 2;

/// Measures how many bytes a slow peer takes between two checks.
#[derive(Default)]
pub(super) struct SlowReader {
    /// Bytes that the system held for the peer at the last check, plus the bytes that the system accepted
    /// since then.
    untaken: Option<usize>,
}

impl SlowReader {
    /// Adds bytes that the system accepted for the peer.
    pub(super) fn add(&mut self, bytes: usize) {
        if let Some(untaken) = &mut self.untaken {
            *untaken += bytes;
        }
    }

    /// Returns the further time for the peer, if the system holds `untaken` bytes for it now. Returns `None`
    /// if the peer took too few bytes since the last check.
    pub(super) fn more_time(&mut self, untaken: usize, limits: &ConnectionLimits) -> Option<Duration> {
        let time = limits.write_timeout / PART;
        let Some(before) = self.untaken.replace(untaken) else { return Some(time) };
        let taken = before.saturating_sub(untaken) as u128;
        let due = u128::from(limits.write_rate_min) * time.as_nanos() / 1_000_000_000;
        (taken > 0 && taken >= due / RATE_PART).then_some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    fn limits(write_rate_min: u64) -> ConnectionLimits {
        ConnectionLimits { write_timeout: TIME * PART, write_rate_min, ..ConnectionLimits::default() }
    }

    /// Returns the result of each check. `untaken` has the bytes that the system holds at each check.
    fn looks(write_rate_min: u64, untaken: &[usize]) -> Vec<Option<Duration>> {
        let mut reader = SlowReader::default();
        untaken.iter().map(|&bytes| reader.more_time(bytes, &limits(write_rate_min))).collect()
    }

    #[test]
    fn a_peer_that_takes_half_of_the_rate_is_watched_on() {
        assert_eq!(looks(500, &[9000, 6500, 4000]), [Some(TIME); 3]);
        assert_eq!(looks(500, &[9000, 6501]), [Some(TIME), None]);
    }

    #[test]
    fn bytes_that_the_system_took_meanwhile_are_not_yet_taken_by_the_peer() {
        let mut reader = SlowReader::default();
        reader.add(100_000);
        assert_eq!(reader.more_time(9000, &limits(500)), Some(TIME));
        reader.add(5000);
        assert_eq!(reader.more_time(11_500, &limits(500)), Some(TIME));
        reader.add(5000);
        assert_eq!(reader.more_time(14_001, &limits(500)), None);
    }

    #[test]
    fn a_peer_that_takes_nothing_has_no_more_time_whatever_the_rate() {
        assert_eq!(looks(500, &[9000, 9000]), [Some(TIME), None]);
        assert_eq!(looks(0, &[9000, 8999, 8999]), [Some(TIME), Some(TIME), None]);
    }
}
