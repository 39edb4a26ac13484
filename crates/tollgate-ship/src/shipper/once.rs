//! Ships once, for the command line.

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
    /// Result of the visit. `None`: the store lacks the segment, and a dry run sent nothing.
    pub sent: Option<Sent>,
}

/// Why shipping ended early.
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
        for (name, path) in segments(storage, dir, log)? {
            if name.state != SegmentState::Sealed {
                continue;
            }
            let Some(footer) = read_footer(storage, &path)? else { continue };
            let object = ObjectName::Segment { node: node.clone(), log, first: name.first };
            let (text, identity) = (object.to_string(), SegmentIdentity::of(&footer));
            let sent = if is_dry_run {
                find_segment(store, &text, &identity)?
            } else {
                Some(send_segment(store, &text, &path, &identity)?)
            };
            report(&ShipOnce { name: object, bytes: footer.file_bytes(), sent });
        }
    }
    Ok(())
}
