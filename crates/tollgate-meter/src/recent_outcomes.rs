//! The last outcomes of a source, such as the replies of a route: how many were good, and how many were bad.
//!
//! Outcomes are counted in blocks. A block ends [`BLOCK_MIN`] after its first outcome, if it has
//! [`OUTCOMES_MIN`] outcomes by then. A busy source therefore has a new block every few seconds, and a source
//! with one outcome in a minute has one every ten minutes. A few bad outcomes alone never make a block.
//!
//! The types here read no clock. The caller passes the time.

use std::time::{Duration, Instant};

/// Number of outcomes from which on they say something about their source.
pub const OUTCOMES_MIN: u64 = 10;
/// Shortest time of a block.
pub const BLOCK_MIN: Duration = Duration::from_secs(5);
/// Time after which a block without enough outcomes is dropped, and a complete block no longer counts as
/// recent.
pub const BLOCK_MAX: Duration = Duration::from_mins(10);

/// The outcomes of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutcomeBlock {
    /// Number of good outcomes.
    pub good: u64,
    /// Number of bad outcomes.
    pub bad: u64,
    begun: Instant,
    ended: Instant,
}

impl OutcomeBlock {
    /// Returns the number of outcomes.
    pub fn all(&self) -> u64 {
        self.good.saturating_add(self.bad)
    }

    /// Returns the time from the first outcome to the end of the block.
    pub fn time(&self) -> Duration {
        self.ended.saturating_duration_since(self.begun)
    }
}

/// Counts the outcomes of a source in blocks.
#[derive(Debug, Clone, Default)]
pub struct RecentOutcomes {
    open: Option<OutcomeBlock>,
    complete: Option<OutcomeBlock>,
}

impl RecentOutcomes {
    /// Adds outcomes that were seen at `now`.
    pub fn add(&mut self, now: Instant, good: u64, bad: u64) {
        if good == 0 && bad == 0 {
            return;
        }
        self.complete = self.latest(now);
        let first = OutcomeBlock { good: 0, bad: 0, begun: now, ended: now };
        let mut block = self.open.filter(|open| !is_over(open, now)).unwrap_or(first);
        block.good = block.good.saturating_add(good);
        block.bad = block.bad.saturating_add(bad);
        block.ended = now;
        self.open = Some(block);
    }

    /// Returns the last complete block. `None`: the last [`BLOCK_MAX`] had no complete block.
    pub fn latest(&self, now: Instant) -> Option<OutcomeBlock> {
        let open = self.open.filter(|open| is_over(open, now) && open.all() >= OUTCOMES_MIN);
        let is_recent = |block: &OutcomeBlock| now.saturating_duration_since(block.ended) < BLOCK_MAX;
        open.or(self.complete).filter(is_recent)
    }
}

/// Returns whether the next outcome begins another block.
fn is_over(block: &OutcomeBlock, now: Instant) -> bool {
    let age = now.saturating_duration_since(block.begun);
    age >= BLOCK_MAX || (age >= BLOCK_MIN && block.all() >= OUTCOMES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds outcomes at these seconds. Returns the good and bad outcomes of the last block at `now`.
    fn check(outcomes: &[(u64, u64, u64)], now: u64, expected: Option<(u64, u64)>) {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut recent = RecentOutcomes::default();
        for (second, good, bad) in outcomes {
            recent.add(at(*second), *good, *bad);
        }
        let found = recent.latest(at(now)).map(|block| (block.good, block.bad));
        assert_eq!(found, expected, "{outcomes:?} at {now} s");
    }

    #[test]
    fn a_block_needs_ten_outcomes_and_five_seconds() {
        check(&[], 60, None);
        check(&[(0, 0, 1)], 60, None);
        check(&[(0, 0, 9)], 60, None);
        check(&[(0, 0, 10)], 4, None);
        check(&[(0, 0, 10)], 5, Some((0, 10)));
        check(&[(0, 0, 9), (7, 1, 0)], 7, Some((1, 9)));
    }

    #[test]
    fn the_last_complete_block_counts_until_the_next_one_is_complete() {
        check(&[(0, 0, 10), (6, 9, 0)], 10, Some((0, 10)));
        check(&[(0, 0, 10), (6, 9, 0)], 11, Some((0, 10)));
        check(&[(0, 0, 10), (6, 10, 0)], 11, Some((10, 0)));
    }

    #[test]
    fn outcomes_of_more_than_ten_minutes_ago_do_not_count() {
        check(&[(0, 0, 10)], 599, Some((0, 10)));
        check(&[(0, 0, 10)], 600, None);
        check(&[(0, 0, 5), (600, 0, 9)], 610, None);
        let slow: Vec<_> = (0..10).map(|minute| (60 * minute, 0, 1)).collect();
        check(&slow, 540, Some((0, 10)));
        check(&slow[1..], 541, None);
    }
}
