//! Reads the footer of a segment that retention may delete meanwhile.

use std::path::Path;

use tollgate_log::{LogError, SegmentFooter, Storage};

/// Reads the footer of a segment. Returns `None` without a whole footer, or if the segment is gone.
pub(crate) fn read_footer(storage: &dyn Storage, path: &Path) -> Result<Option<SegmentFooter>, LogError> {
    match tollgate_log::read_footer(storage, path) {
        Err(error) if error.is_not_found() => Ok(None),
        footer => footer,
    }
}
