//! Listing logs and checking segments, for people and tools. Nothing is changed.

use std::path::{Path, PathBuf};

use crate::error::LogError;
use crate::id::{LogId, Sequence};
use crate::recover::segment_names;
use crate::scan::{Schemas, SegmentReader, SegmentScan, scan_segment};
use crate::seal::{digest_of, read_footer};
use crate::segment::{SegmentName, SegmentState};
use crate::storage::Storage;

/// The logs in a folder, by id.
///
/// # Errors
/// The folder cannot be listed.
pub fn log_ids(storage: &dyn Storage, dir: &Path) -> Result<Vec<LogId>, LogError> {
    let names = storage.list(dir).map_err(LogError::io("list", dir))?;
    let mut ids: Vec<LogId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// The segments of a log, in the order of their records; none if the log is gone.
///
/// # Errors
/// The folder cannot be listed.
pub fn segments(
    storage: &dyn Storage,
    dir: &Path,
    log: LogId,
) -> Result<Vec<(SegmentName, PathBuf)>, LogError> {
    let folder = dir.join(log.to_string());
    let names = segment_names(storage, &folder)?;
    Ok(names.into_iter().map(|name| (name, name.path(&folder))).collect())
}

/// What a check of one segment found.
#[derive(Debug)]
pub struct SegmentVerdict {
    /// The walk over its batches.
    pub scan: SegmentScan,
    /// What is wrong; none if all holds.
    pub problem: Option<SegmentProblem>,
}

/// Where a segment does not hold, and which records that concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentProblem {
    /// Where the damage begins.
    pub offset: u64,
    /// First record concerned.
    pub first: Sequence,
    /// Last record concerned, where a later batch, the footer or the next segment tells.
    pub last: Option<Sequence>,
    /// What is wrong.
    pub reason: String,
}

/// Checks every checksum of a segment, its digest, and that it continues `before` (next number, chain).
///
/// # Errors
/// Only those of the disk.
pub fn verify_segment(
    storage: &dyn Storage,
    name: SegmentName,
    path: &Path,
    before: Option<(Sequence, u32)>,
) -> Result<SegmentVerdict, LogError> {
    let scan = scan_segment(storage, path)?;
    let problem = match problem_of(&scan, name, before) {
        Some(mut problem) => {
            problem.last = end_of_damage(storage, path, &scan, &problem)?;
            Some(problem)
        }
        None => digest_problem(storage, path, &scan)?,
    };
    Ok(SegmentVerdict { scan, problem })
}

fn problem_of(
    scan: &SegmentScan,
    name: SegmentName,
    before: Option<(Sequence, u32)>,
) -> Option<SegmentProblem> {
    let problem = |offset, first, reason| Some(SegmentProblem { offset, first, last: None, reason });
    if let Some(failure) = &scan.failure {
        return problem(failure.offset, failure.first.max(name.first), failure.error.to_string());
    }
    if let (Some(header), Some((first, chain))) = (&scan.header, before)
        && (header.first, header.chain) != (first, chain)
    {
        return problem(
            0,
            first,
            format!("does not continue the segment before, which ends at {}", first.before()),
        );
    }
    if name.state == SegmentState::Sealed && scan.footer.is_none() {
        return problem(scan.end, scan.last.after(1), "sealed segment has no footer".to_owned());
    }
    None
}

/// The record before the next intact batch: the damage ends there.
fn end_of_damage(
    storage: &dyn Storage,
    path: &Path,
    scan: &SegmentScan,
    problem: &SegmentProblem,
) -> Result<Option<Sequence>, LogError> {
    // Without a header nothing vouches for the first batch, nor for those that continue it.
    if scan.header.is_some() {
        let mut reader = SegmentReader::open(storage, path, Schemas::new())?;
        let mut from = problem.offset + 8;
        while let Some((offset, header)) = reader.find_header(from)? {
            if header.first > problem.first {
                return Ok(Some(header.first.before()));
            }
            from = offset + 8;
        }
    }
    Ok(read_footer(storage, path)?.map(|footer| footer.last))
}

fn digest_problem(
    storage: &dyn Storage,
    path: &Path,
    scan: &SegmentScan,
) -> Result<Option<SegmentProblem>, LogError> {
    let (Some(footer), Some(header)) = (&scan.footer, &scan.header) else { return Ok(None) };
    let file = storage.open_read(path).map_err(LogError::io("open", path))?;
    let found = digest_of(&*file, path, footer.content_bytes, footer.digest.algorithm())?;
    Ok((found != footer.digest).then(|| SegmentProblem {
        offset: 0,
        first: header.first,
        last: Some(scan.last),
        reason: format!("digest is {found}, the footer has {}", footer.digest),
    }))
}
