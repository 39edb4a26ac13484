//! Counts the rows of each segment that a database refused for their content.
//!
//! At most `rejects_max` rows of one segment may be refused, in all loads and runs together. If there are
//! more refusals, the cause is probably not the content of the rows.

use std::collections::BTreeMap;

use tollgate_log::{LogId, Sequence};

use crate::error::SinkError;

/// Counts of the refused rows of the segments in an open transaction.
#[derive(Debug)]
pub(super) struct Refusals {
    log: LogId,
    max: u64,
    /// First record of each segment in the transaction, in order.
    segments: Vec<Sequence>,
    counts: BTreeMap<Sequence, Count>,
}

/// Count of the refused rows of one segment.
#[derive(Debug, Clone, Copy)]
struct Count {
    /// Number of rows refused in earlier loads.
    kept: u64,
    new: u64,
}

impl Refusals {
    pub(super) fn new(log: LogId, max: u64) -> Self {
        Self { log, max, segments: Vec::new(), counts: BTreeMap::new() }
    }

    /// Notes the segment of the next records. `segment` is the first record of that segment.
    pub(super) fn enter(&mut self, segment: Sequence) {
        if self.segments.last() != Some(&segment) {
            self.segments.push(segment);
        }
    }

    /// Counts a refused row. `kept` reads the number of rows of the segment that were refused in earlier
    /// loads.
    ///
    /// # Errors
    /// More rows are refused than allowed, or `kept` failed.
    pub(super) fn count(
        &mut self,
        row: Sequence,
        kept: impl FnOnce(Sequence) -> Result<u64, SinkError>,
    ) -> Result<(), SinkError> {
        let behind = self.segments.partition_point(|segment| *segment <= row);
        let segment = behind.checked_sub(1).map_or(Sequence::FIRST, |at| self.segments[at]);
        let mut count = match self.counts.get(&segment) {
            Some(count) => *count,
            None => Count { kept: kept(segment)?, new: 0 },
        };
        count.new += 1;
        self.counts.insert(segment, count);
        match count.kept + count.new {
            found if found > self.max => {
                Err(SinkError::TooManyRejects { log: self.log, segment, found, limit: self.max })
            }
            _ => Ok(()),
        }
    }

    /// Returns the segment of the last record in the transaction.
    pub(super) fn last_segment(&self) -> Option<Sequence> {
        self.segments.last().copied()
    }

    /// Returns the number of rows that were refused in this transaction, by segment.
    pub(super) fn new_ones(&self) -> impl Iterator<Item = (Sequence, u64)> {
        self.counts.iter().map(|(segment, count)| (*segment, count.new))
    }
}
