//! Copies one segment from a store to a folder of logs, and checks each byte of the copy.

use std::fs;
use std::io;
use std::path::Path;

use tollgate_log::{
    DigestedSegment, FormatError, LogId, SegmentName, SegmentScan, SegmentState, Sequence, Storage,
    check_digest, join_chain, verify_segment,
};

use crate::name::{NodeName, ObjectName};
use crate::store::{Store, StoreError};

/// The place of a segment in a store.
#[derive(Debug, Clone, Copy)]
pub struct SegmentPlace<'a> {
    /// The machine that wrote the segment.
    pub node: &'a NodeName,
    /// Log of the segment.
    pub log: LogId,
    /// Number of the first record of the segment.
    pub first: Sequence,
}

/// Result of copying one segment. `T` is the result of its check.
#[derive(Debug)]
pub enum SegmentCopy<T> {
    /// The segment is in the folder.
    Here(T),
    /// The store has no such object.
    Absent,
    /// The object is not a valid segment, or its content does not match its name. The text is the reason.
    Damaged(String),
    /// A later version of this program wrote the segment. The text is the reason.
    LaterVersion(String),
}

/// Copies a segment to the folder of its log in `dir`, and scans each batch of it. The scan has a header and
/// a footer.
///
/// The copy gets its name only when it is complete and checked, so a reader of the folder never reads a part
/// of it. `bytes_max`: a larger object is not copied, and counts as damaged.
///
/// # Errors
/// The store does not answer, or the folder cannot be written.
pub fn copy_segment(
    store: &dyn Store,
    storage: &dyn Storage,
    place: SegmentPlace<'_>,
    dir: &Path,
    bytes_max: u64,
) -> Result<SegmentCopy<Box<SegmentScan>>, StoreError> {
    copy(store, place, dir, bytes_max, |name, part| scanned(storage, place.node, name, part))
}

/// Copies a segment like [`copy_segment`], and checks each byte of it by its digest. The batches are not
/// scanned, because the loader checks each batch and the chain again.
///
/// # Errors
/// The store does not answer, or the folder cannot be written.
pub(crate) fn copy_digested_segment(
    store: &dyn Store,
    storage: &dyn Storage,
    place: SegmentPlace<'_>,
    dir: &Path,
    bytes_max: u64,
) -> Result<SegmentCopy<DigestedSegment>, StoreError> {
    copy(store, place, dir, bytes_max, |name, part| digested(storage, place.node, name, part))
}

fn copy<T>(
    store: &dyn Store,
    place: SegmentPlace<'_>,
    dir: &Path,
    bytes_max: u64,
    check: impl FnOnce(SegmentName, &Path) -> SegmentCopy<T>,
) -> Result<SegmentCopy<T>, StoreError> {
    let SegmentPlace { node, log, first } = place;
    let object = ObjectName::Segment { node: node.clone(), log, first }.to_string();
    let folder = dir.join(log.to_string());
    let name = SegmentName { first, state: SegmentState::Sealed };
    let (target, part) = (name.path(&folder), folder.join(format!("{name}.part")));
    fs::create_dir_all(&folder).map_err(StoreError::file("create", &folder))?;
    remove_if_there(&part).map_err(StoreError::file("delete", &part))?;
    let copied = match store.fetch(&object, &part, bytes_max) {
        Ok(None) => return Ok(SegmentCopy::Absent),
        Ok(Some(_)) => check(name, &part),
        Err(StoreError::TooLarge { found, limit, .. }) => {
            SegmentCopy::Damaged(format!("it has {found} bytes, limit {limit}"))
        }
        Err(error) => {
            drop(remove_if_there(&part));
            return Err(error);
        }
    };
    if matches!(copied, SegmentCopy::Here(_)) {
        fs::rename(&part, &target).map_err(StoreError::file("rename", &part))?;
    } else {
        drop(remove_if_there(&part));
    }
    Ok(copied)
}

/// Checks a copied segment by its digest.
fn digested(
    storage: &dyn Storage,
    node: &NodeName,
    name: SegmentName,
    part: &Path,
) -> SegmentCopy<DigestedSegment> {
    match check_digest(storage, name, part) {
        Err(error) => SegmentCopy::Damaged(join_chain(&error)),
        Ok(Err(reason)) => SegmentCopy::Damaged(reason),
        Ok(Ok(segment)) if NodeName::encode(&segment.header.node).as_ref() != Some(node) => {
            SegmentCopy::Damaged(format!("it was written by machine {:?}", segment.header.node))
        }
        Ok(Ok(segment)) => SegmentCopy::Here(segment),
    }
}

/// Checks each batch of a copied segment.
fn scanned(
    storage: &dyn Storage,
    node: &NodeName,
    name: SegmentName,
    part: &Path,
) -> SegmentCopy<Box<SegmentScan>> {
    let verdict = match verify_segment(storage, name, part, None) {
        Ok(verdict) => verdict,
        Err(error) => return SegmentCopy::Damaged(join_chain(&error)),
    };
    if let Some(failure) = &verdict.scan.failure
        && matches!(failure.error, FormatError::Version { .. })
    {
        return SegmentCopy::LaterVersion(failure.error.to_string());
    }
    if let Some(problem) = verdict.problem {
        return SegmentCopy::Damaged(problem.reason);
    }
    let scan = verdict.scan;
    let (Some(header), Some(_)) = (&scan.header, &scan.footer) else {
        return SegmentCopy::Damaged("it has no header or no footer".to_owned());
    };
    if NodeName::encode(&header.node).as_ref() != Some(node) {
        return SegmentCopy::Damaged(format!("it was written by machine {:?}", header.node));
    }
    SegmentCopy::Here(Box::new(scan))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
