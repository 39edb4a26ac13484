//! What a loader has before it: whole segments, counted now and then.

use std::path::Path;

use tollgate_log::{LogError, LogId, SegmentState, Sequence, Storage, segments};

use super::follow::Reach;
use crate::audit::read_footer;

/// Segments that hold records which are not loaded yet and may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// How many there are.
    pub segments: u64,
    /// Their bytes, those of records that are loaded already included.
    pub bytes: u64,
}

impl Backlog {
    /// Adds what of a log lies behind `position`.
    pub(super) fn add(
        &mut self,
        storage: &dyn Storage,
        dir: &Path,
        log: LogId,
        position: Sequence,
        reach: Reach,
    ) -> Result<(), LogError> {
        let names = segments(storage, dir, log)?;
        let limit = reach.limit().unwrap_or(Sequence(u64::MAX));
        for (index, (name, path)) in names.iter().enumerate() {
            let last = match names.get(index + 1) {
                Some((next, _)) => next.first.before(),
                None if name.state == SegmentState::Open => limit,
                None => read_footer(storage, path)?.map_or(limit, |footer| footer.last),
            };
            if name.first <= limit && last.min(limit) > position {
                let file = storage.open_read(path).and_then(|file| file.size());
                self.segments += 1;
                // One that was sealed or deleted meanwhile is counted next time.
                self.bytes += file.unwrap_or_default();
            }
        }
        Ok(())
    }
}
