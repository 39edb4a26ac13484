//! Ships all sealed segments once, for the command line. Two segments are sent at once, so that a store need
//! not wait while the next segment is read and its checksum is computed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

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

/// Number of segments that are sent at once.
const SENT_AT_ONCE: usize = 2;

/// Ships all sealed segments of a folder of logs, oldest first. Calls `report` for each segment, in the same
/// order.
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
    let sealed = sealed_segments(storage, dir, node)?;
    let (next, (results, visits)) = (AtomicUsize::new(0), channel());
    let send = |results: Sender<_>| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, path)) = sealed.get(index) else { return };
            let visit = visit(storage, path, name, store, is_dry_run);
            if visit.is_err() {
                // No further segment is begun.
                next.store(sealed.len(), Ordering::Relaxed);
            }
            // After the first error, results are not received any more.
            if results.send((index, visit)).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..SENT_AT_ONCE.min(sealed.len()) {
            let results = results.clone();
            scope.spawn(|| send(results));
        }
        // If all threads end early by a panic, no result arrives any more.
        drop(results);
        let (visits, mut early, mut due) = (visits, BTreeMap::new(), 0);
        while due < sealed.len() {
            let Ok((index, visit)) = visits.recv() else { break };
            early.insert(index, visit);
            while let Some(visit) = early.remove(&due) {
                due += 1;
                visit?.iter().for_each(&mut report);
            }
        }
        Ok(())
    })
}

/// Returns the names in the store and the files of all sealed segments, oldest first.
pub(crate) fn sealed_segments(
    storage: &dyn Storage,
    dir: &Path,
    node: &NodeName,
) -> Result<Vec<(ObjectName, PathBuf)>, LogError> {
    let mut sealed = Vec::new();
    for log in log_ids(storage, dir)? {
        let found = match segments(storage, dir, log) {
            // A running server removes the folders of logs without segments.
            Err(error) if error.is_not_found() => continue,
            found => found?,
        };
        let found = found.into_iter().filter(|(name, _)| name.state == SegmentState::Sealed);
        let named = |first| ObjectName::Segment { node: node.clone(), log, first };
        sealed.extend(found.map(|(name, path)| (named(name.first), path)));
    }
    Ok(sealed)
}

/// Ships one segment, or looks for it. Returns `None` if a running server deleted the segment meanwhile. The
/// sinks and targets of that server have the segment.
pub(crate) fn visit(
    storage: &dyn Storage,
    path: &Path,
    name: &ObjectName,
    store: &dyn Store,
    is_dry_run: bool,
) -> Result<Option<ShipOnce>, ShipOnceError> {
    match ship(storage, path, &name.to_string(), store, is_dry_run) {
        Ok((bytes, outcome)) => Ok(Some(ShipOnce { name: name.clone(), bytes, outcome })),
        Err(_) if is_deleted(storage, path) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Ships one segment, or looks for it. Returns its size and the result.
fn ship(
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
