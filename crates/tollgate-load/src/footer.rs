//! Reads the footer of a segment that retention may delete at any time.

use std::path::Path;

use tollgate_log::{LogError, SegmentFooter, Storage};

/// Reads the footer of a segment. Returns `None` if the segment has no whole footer or is gone.
pub(crate) fn read_footer(storage: &dyn Storage, path: &Path) -> Result<Option<SegmentFooter>, LogError> {
    match tollgate_log::read_footer(storage, path) {
        Err(error) if error.is_not_found() => Ok(None),
        footer => footer,
    }
}
