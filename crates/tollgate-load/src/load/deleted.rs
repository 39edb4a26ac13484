//! Records that retention deleted because the sink had them, but that the sink's restored database lacks.
//!
//! The segments of these records are gone, and possibly the folder of the log too, so no cursor finds the
//! records. The file `log.dir/deleted` shows that they existed.

use std::collections::BTreeMap;
use std::path::Path;

use tollgate_log::{Deleted, LogError, LogId, Position, Sequence, Storage, join_chain, segments};

use super::follow::is_lasting;

/// Reason of a gap with such records. If the records are found again, they are loaded.
pub(super) const DELETED: &str = "deleted before the database was put back";

/// Returns the position in each log that is just before the oldest kept record. A sink at this position has
/// all deleted records.
///
/// A line with an impossible record number is skipped. A log whose folder cannot be listed is skipped too,
/// because the loader reports that error. In both cases the other logs are in the result.
pub(crate) fn deleted_ends(storage: &dyn Storage, dir: &Path) -> Result<BTreeMap<LogId, Position>, LogError> {
    let mut ends = BTreeMap::new();
    let deleted = match Deleted::read(storage, dir) {
        Err(error) if is_lasting(&error) => {
            tracing::error!(error = join_chain(&error), "the list of deleted segments cannot be read");
            Deleted::default()
        }
        deleted => deleted?,
    };
    for (log, number) in deleted.impossible() {
        tracing::error!(%log, number, "the line of this log in `deleted` has an impossible number: line skipped");
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

/// Returns the first kept record, or `None` if the log is gone.
fn oldest(storage: &dyn Storage, dir: &Path, log: LogId) -> Result<Option<Sequence>, LogError> {
    match segments(storage, dir, log) {
        Err(error) if error.is_not_found() => Ok(None),
        segments => Ok(segments?.first().map(|(name, _)| name.first)),
    }
}
