//! The order of the logs of a folder: each log comes after its predecessor.
//!
//! The ids of logs sort by the wall clock of their starts. If the clock was set back, a later log would be
//! first. So the headers of segments decide, because they name the previous log. The ids decide only if no
//! header does. So a consumer that keeps the identity of its last record can continue after this record,
//! because it has read all earlier logs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tollgate_log::{DiskStorage, LogError, LogId, segment_header, segments};

/// Orders logs, and caches the previous log that each header names.
#[derive(Default)]
pub(super) struct LogOrder {
    before: BTreeMap<LogId, Option<LogId>>,
}

impl LogOrder {
    /// Returns the logs in order. `ids` are sorted.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(super) fn of(&mut self, dir: &Path, ids: &[LogId]) -> Result<Vec<LogId>, LogError> {
        for log in ids {
            if !self.before.contains_key(log)
                && let Some(before) = log_before(dir, *log)?
            {
                self.before.insert(*log, before);
            }
        }
        Ok(sorted(ids, &self.before))
    }

    /// Returns the logs before `log`. `log` may be deleted. `ids`: the ids of the kept logs.
    pub(super) fn before(&self, log: LogId, ids: &[LogId]) -> Vec<LogId> {
        let all: BTreeSet<_> = ids.iter().copied().chain([log]).collect();
        let order = sorted(&all.into_iter().collect::<Vec<_>>(), &self.before);
        order.into_iter().take_while(|before| *before != log).collect()
    }

    /// Returns whether a header of each log was read.
    pub(super) fn is_complete(&self, ids: &[LogId]) -> bool {
        ids.iter().all(|log| self.before.contains_key(log))
    }

    /// Returns whether the header of another log names `log` as its predecessor. No record is then appended
    /// to `log` any more.
    pub(super) fn has_successor(&self, log: LogId) -> bool {
        self.before.values().any(|before| *before == Some(log))
    }
}

/// Returns the previous log that the header of a log names. The outer `None`: the log has no intact header
/// yet. The inner `None`: the log is the first log.
fn log_before(dir: &Path, log: LogId) -> Result<Option<Option<LogId>>, LogError> {
    for (_, path) in segments(&DiskStorage, dir, log)? {
        match segment_header(&DiskStorage, &path) {
            Ok(Some(header)) => return Ok(Some(header.log_before)),
            Ok(None) => {}
            // The sealer renamed the segment, or retention deleted it.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn sorted(ids: &[LogId], before: &BTreeMap<LogId, Option<LogId>>) -> Vec<LogId> {
    let mut order = Vec::with_capacity(ids.len());
    let mut placed = BTreeSet::new();
    for log in ids {
        // The log and its predecessors that are not in the list yet, from the last to the first. Forged
        // headers may form a circle, so the search ends at a log that it has already visited.
        let mut chain = Vec::new();
        let mut next = Some(*log);
        while let Some(log) = next.filter(|log| ids.binary_search(log).is_ok() && placed.insert(*log)) {
            chain.push(log);
            next = before.get(&log).copied().flatten();
        }
        order.extend(chain.into_iter().rev());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_decide_the_order_and_ids_where_no_head_tells() {
        let id = |number| LogId::from_bytes([number; 16]);
        let check = |heads: &[(u8, Option<u8>)], expected: &[u8]| {
            let before = heads.iter().map(|(log, before)| (id(*log), before.map(id))).collect();
            let order = sorted(&[id(1), id(2), id(3), id(4)], &before);
            assert_eq!(order, expected.iter().map(|log| id(*log)).collect::<Vec<_>>(), "{heads:?}");
        };
        check(&[], &[1, 2, 3, 4]);
        check(&[(2, Some(1)), (3, Some(2)), (4, Some(3))], &[1, 2, 3, 4]);
        // The clock was set back before the starts of 1 and 2.
        check(&[(1, Some(4)), (2, Some(1)), (4, Some(3))], &[3, 4, 1, 2]);
        check(&[(1, Some(9)), (2, Some(1))], &[1, 2, 3, 4]);
        check(&[(1, Some(2)), (2, Some(1))], &[2, 1, 3, 4]);
    }
}
