//! Records that retention deleted because the sink had them, and that its database, put back, lacks.
//!
//! Their segments are gone, perhaps with the folder of their log, so that no cursor meets them:
//! `log.dir/deleted` tells.

use std::collections::BTreeMap;
use std::path::Path;

use tollgate_log::{Deleted, LogError, LogId, Position, Sequence, Storage, join_chain, segments};

use super::follow::is_lasting;

/// Why such records are in a gap. If they turn up, they are loaded.
pub(super) const DELETED: &str = "deleted before the database was put back";

/// Where a sink stands that has all that was deleted, of each log: before the oldest record that is kept.
///
/// A line whose number no record can have is passed. So is a log whose folder cannot be listed, because its
/// loader reports that. Neither holds up the other logs.
pub(crate) fn deleted_ends(storage: &dyn Storage, dir: &Path) -> Result<BTreeMap<LogId, Position>, LogError> {
    let mut ends = BTreeMap::new();
    let deleted = match Deleted::read(storage, dir) {
        Err(error) if is_lasting(&error) => {
            tracing::error!(error = join_chain(&error), "what was deleted is not known");
            Deleted::default()
        }
        deleted => deleted?,
    };
    for (log, number) in deleted.impossible() {
        tracing::error!(%log, number, "no record has this number: the line of the log in `deleted` is passed");
    }
    for (log, last) in deleted.iter() {
        let Ok(oldest) = oldest(storage, dir, log) else { continue };
        let last = oldest.map_or(last, |oldest| oldest.before().min(last));
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
