//! Finds logs that continue in another way than the log that the sink loaded.

use std::path::Path;
use std::sync::Arc;

use tollgate_log::{Cursor, FormatError, LogError, LogId, Position, Storage};

/// Returns whether the log has diverged from the log of `position`: the chain of the next batch is not the
/// chain of `position`. Deleted segments are not compared.
pub(super) fn went_another_way(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    position: Position,
) -> bool {
    let mut cursor = Cursor::new(storage.clone(), dir, log, Some(position));
    let step = cursor.step(Some(position.last.after(1)));
    matches!(step, Err(LogError::Damaged { source: FormatError::Chain { .. }, .. }))
}
