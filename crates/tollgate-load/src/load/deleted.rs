//! Records that retention deleted because the sink had them, and that its database, put back, lacks.
//!
//! Their segments are gone, perhaps with the folder of their log, so that no cursor meets them: `log.dir/deleted` tells.

use std::collections::BTreeMap;
use std::path::Path;

use tollgate_log::{Deleted, LogError, LogId, Position, Sequence, Storage, segments};

/// Why such records are in a gap. If they turn up, they are loaded.
pub(super) const DELETED: &str = "deleted before the database was put back";

/// Where a sink stands that has all that was deleted, of each log: before the oldest record that is kept.
pub(crate) fn deleted_ends(storage: &dyn Storage, dir: &Path) -> Result<BTreeMap<LogId, Position>, LogError> {
    let mut ends = BTreeMap::new();
    for (log, last) in Deleted::read(storage, dir)?.iter() {
        let last = oldest(storage, dir, log)?.map_or(last, |oldest| oldest.before().min(last));
        if last > Sequence(0) {
            ends.insert(log, Position { last, chain: None });
        }
    }
    Ok(ends)
}

/// The first record that is kept; none if the log is gone.
fn oldest(storage: &dyn Storage, dir: &Path, log: LogId) -> Result<Option<Sequence>, LogError> {
    match segments(storage, dir, log) {
        Err(error) if error.is_not_found() => Ok(None),
        segments => Ok(segments?.first().map(|(name, _)| name.first)),
    }
}
