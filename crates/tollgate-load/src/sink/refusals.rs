//! Counts the rows of each segment that a database refused for their content.
//!
//! At most `rejects_max` rows of one segment may be refused, over all loads and runs. More refusals mean that
//! something other than the rows is wrong.

use std::collections::BTreeMap;

use tollgate_log::{LogId, Sequence};

use crate::error::SinkError;

/// Refused rows of the segments in an open transaction.
#[derive(Debug)]
pub(super) struct Refusals {
    log: LogId,
    max: u64,
    /// First record of each segment in the transaction, in order.
    segments: Vec<Sequence>,
    counts: BTreeMap<Sequence, Count>,
}

/// Refused rows of one segment.
#[derive(Debug, Clone, Copy)]
struct Count {
    /// Rows refused in earlier loads.
    kept: u64,
    new: u64,
}

impl Refusals {
    pub(super) fn new(log: LogId, max: u64) -> Self {
        Self { log, max, segments: Vec::new(), counts: BTreeMap::new() }
    }

    /// Notes the segment of the next records. `segment` is its first record.
    pub(super) fn enter(&mut self, segment: Sequence) {
        if self.segments.last() != Some(&segment) {
            self.segments.push(segment);
        }
    }

    /// Counts a refused row. `kept` reads how many of its segment were refused in earlier loads.
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

    /// Returns the refused rows of this transaction, by segment.
    pub(super) fn new_ones(&self) -> impl Iterator<Item = (Sequence, u64)> {
        self.counts.iter().map(|(segment, count)| (*segment, count.new))
    }
}
