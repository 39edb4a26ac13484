//! A peer whose time to take a reply is over: whether it goes on to take what the system holds for it.
//!
//! The system asks for more of a reply when half of what it holds ahead is gone, 16 KiB: a peer that takes
//! `write_rate_min` needs longer for that than `write_timeout`. So who seems to take nothing is watched for a
//! part of that time, and again as long as it takes enough. What it takes shows in steps: its system makes
//! room known some 7 KiB at a time where its buffer is small.

use std::time::Duration;

use crate::options::ConnectionLimits;

/// The part of `write_timeout` that a peer is watched for.
const PART: u32 = 2;
/// The part of `write_rate_min` that it has to take meanwhile: packets come unevenly.
const RATE_PART: u128 = 2;

/// Measures how much a slow peer takes while it is watched.
#[derive(Default)]
pub(super) struct SlowReader {
    /// What the system held for the peer at the last look, and took since.
    untaken: Option<usize>,
}

impl SlowReader {
    /// The system took so many bytes more.
    pub(super) fn add(&mut self, bytes: usize) {
        if let Some(untaken) = &mut self.untaken {
            *untaken += bytes;
        }
    }

    /// How much longer a peer has, for which the system holds so many bytes now; none if it took too little
    /// since the last look.
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

    /// What each look gives, of what the system holds.
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
