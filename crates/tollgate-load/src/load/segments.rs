//! Loads of whole segments: which sealed segments the next load has.

use std::path::Path;

use tollgate_log::{LogError, LogId, Position, SegmentState, Sequence, Storage, segments};

use crate::footer::read_footer;

/// The next sealed segments of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WholeSegments {
    /// The last record of these segments. `None`: the end of a damaged segment is unknown, and no segment
    /// follows.
    pub(super) last: Option<Sequence>,
    /// Bytes of their files.
    pub(super) bytes: u64,
}

/// Returns the segments after a position, up to the one that reaches `bytes_max` bytes. `None`: there are no
/// sealed segments after it.
///
/// A segment ends before the first record of the next one. So a load also has the records of a segment that
/// is gone, as a gap.
pub(super) fn whole_segments(
    storage: &dyn Storage,
    dir: &Path,
    log: LogId,
    position: Option<Position>,
    bytes_max: u64,
) -> Result<Option<WholeSegments>, LogError> {
    let after = position.map_or(Sequence(0), |position| position.last);
    let names = segments(storage, dir, log)?;
    let mut found: Option<WholeSegments> = None;
    for (place, (name, path)) in names.iter().enumerate() {
        if name.state == SegmentState::Open {
            break;
        }
        let next = names.get(place + 1).map(|(next, _)| next.first.before());
        // The last segments that a position has passed need no look at their footer.
        if next.is_some_and(|last| last <= after) {
            continue;
        }
        let footer = read_footer(storage, path)?;
        let last = next.or(footer.as_ref().map(|footer| footer.last));
        if last.is_some_and(|last| last <= after) {
            continue;
        }
        let bytes = found.map_or(0, |found| found.bytes);
        let bytes = bytes.saturating_add(footer.map_or(0, |footer| footer.file_bytes()));
        found = Some(WholeSegments { last, bytes });
        if bytes >= bytes_max {
            break;
        }
    }
    Ok(found)
}
