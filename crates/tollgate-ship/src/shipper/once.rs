//! Ships all sealed segments once, without a thread, for the command line.

use std::path::Path;

use tollgate_log::{LogError, SegmentState, Storage, log_ids, read_footer, segments};

use crate::identity::SegmentIdentity;
use crate::name::{NodeName, ObjectName};
use crate::send::{Sent, find_segment, send_segment};
use crate::store::{Store, StoreError};

/// A sealed segment that [`ship_once`] visited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipOnce {
    /// Name of the segment in the store.
    pub name: ObjectName,
    /// Size of the segment in bytes.
    pub bytes: u64,
    /// Result of the visit.
    pub outcome: OnceOutcome,
}

/// Result of the visit of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnceOutcome {
    /// The store has a segment of this name.
    Sent(Sent),
    /// The store lacks the segment, and a dry run sent nothing.
    Lacking,
    /// The file has no valid footer, so nothing was sent.
    Unsound,
}

/// Why [`ship_once`] ended before it had visited all segments.
#[derive(Debug, thiserror::Error)]
pub enum ShipOnceError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Ships all sealed segments of a folder of logs, oldest first. Calls `report` for each segment.
///
/// `is_dry_run`: only checks which segments the store lacks.
///
/// # Errors
/// The store fails, or a log cannot be read. The caller may repeat the call.
pub fn ship_once(
    storage: &dyn Storage,
    dir: &Path,
    node: &NodeName,
    store: &dyn Store,
    is_dry_run: bool,
    mut report: impl FnMut(&ShipOnce),
) -> Result<(), ShipOnceError> {
    for log in log_ids(storage, dir)? {
        let found = match segments(storage, dir, log) {
            // A running server removes the folders of logs without segments.
            Err(error) if error.is_not_found() => continue,
            found => found?,
        };
        for (name, path) in found {
            if name.state != SegmentState::Sealed {
                continue;
            }
            let object = ObjectName::Segment { node: node.clone(), log, first: name.first };
            let visit = visit(storage, &path, &object.to_string(), store, is_dry_run);
            // A running server deletes segments meanwhile. Its sinks and targets have these.
            if visit.is_err() && is_deleted(storage, &path) {
                continue;
            }
            let (bytes, outcome) = visit?;
            report(&ShipOnce { name: object, bytes, outcome });
        }
    }
    Ok(())
}

/// Ships one segment, or looks for it. Returns its size and the result.
fn visit(
    storage: &dyn Storage,
    path: &Path,
    name: &str,
    store: &dyn Store,
    is_dry_run: bool,
) -> Result<(u64, OnceOutcome), ShipOnceError> {
    let Some(footer) = read_footer(storage, path)? else { return Ok((0, OnceOutcome::Unsound)) };
    let identity = SegmentIdentity::of(&footer);
    let outcome = match is_dry_run {
        true => find_segment(store, name, &identity)?.map_or(OnceOutcome::Lacking, OnceOutcome::Sent),
        false => OnceOutcome::Sent(send_segment(store, name, path, &identity)?),
    };
    Ok((footer.file_bytes(), outcome))
}

/// Whether a file is gone, as far as its folder says.
fn is_deleted(storage: &dyn Storage, path: &Path) -> bool {
    read_footer(storage, path).is_err_and(|error| error.is_not_found())
}
