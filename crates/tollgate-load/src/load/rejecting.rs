//! Finds streams whose last records are rejected more often than loaded.

use std::collections::BTreeMap;
use std::time::Instant;

use tollgate_meter::{OutcomeBlock, RecentOutcomes};

use crate::sink::{StreamTallies, Taken};

/// The recent rows and rejects of each stream.
#[derive(Debug, Default)]
pub(super) struct RecentRejects(BTreeMap<String, RecentOutcomes>);

impl RecentRejects {
    /// Adds the records of a commit.
    pub(super) fn committed(&mut self, now: Instant, tallies: &StreamTallies) {
        for (stream, tally) in tallies.iter() {
            // A duplicate is a record that was loaded before.
            let good = tally.rows.saturating_add(tally.duplicates);
            match self.0.get_mut(stream) {
                Some(outcomes) => outcomes.add(now, good, tally.rejects),
                None if tally.rejects > 0 => {
                    let mut outcomes = RecentOutcomes::default();
                    outcomes.add(now, good, tally.rejects);
                    self.0.insert(stream.clone(), outcomes);
                }
                // A stream without rejects needs no entry.
                None => {}
            }
        }
    }

    /// Forgets the streams that the sink no longer takes.
    pub(super) fn retain(&mut self, taken: &Taken) {
        self.0.retain(|stream, _| taken.takes(stream));
    }

    /// Returns the streams with more rejects than rows, each with the records of its last block.
    pub(super) fn streams(&self, now: Instant) -> BTreeMap<String, OutcomeBlock> {
        let latest = self.0.iter().filter_map(|(stream, outcomes)| Some((stream, outcomes.latest(now)?)));
        let rejecting = latest.filter(|(_, block)| block.bad > block.good);
        rejecting.map(|(stream, block)| (stream.clone(), block)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sink::Tally;

    #[test]
    fn a_stream_with_more_rejects_than_rows_is_found_until_it_has_more_rows() {
        let (mut recent, begun) = (RecentRejects::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut commit = |second, stream: &str, rows, rejects| {
            let mut tallies = StreamTallies::default();
            tallies.add(stream, Tally { rows, rejects, ..Tally::default() });
            recent.committed(at(second), &tallies);
            let rejecting = recent.streams(at(second + 5));
            rejecting.into_iter().map(|(stream, block)| (stream, block.bad, block.good)).collect::<Vec<_>>()
        };
        let of = |stream: &str, rejects, rows| (stream.to_owned(), rejects, rows);
        assert_eq!(commit(0, "a", 100, 0), []);
        assert_eq!(commit(1, "a", 0, 9), []);
        assert_eq!(commit(2, "a", 1, 0), [of("a", 9, 1)]);
        assert_eq!(commit(3, "b", 10, 10), [of("a", 9, 1)], "as many rejects as rows are no finding");
        assert_eq!(commit(10, "b", 10, 11), [of("a", 9, 1), of("b", 11, 10)]);
        assert_eq!(commit(20, "a", 10, 0), [of("b", 11, 10)]);
        recent.retain(&Taken::Only(["a".to_owned()].into()));
        assert_eq!(recent.streams(at(25)), BTreeMap::new());
    }
}
