//! Lists logs and checks segments, for people and tools. These functions do not change the log.

use std::path::{Path, PathBuf};

use crate::batch::BatchKind;
use crate::digest::{digest_of, scan_digested};
use crate::error::{FormatError, LogError};
use crate::id::{LogId, Sequence};
use crate::recover::segment_names;
use crate::scan::{Found, Schemas, SegmentReader, SegmentScan, StepError, read_header};
use crate::segment::{
    Digest, SegmentDigestAlgorithm, SegmentFooter, SegmentHeader, SegmentName, SegmentState, footer_at_end,
    read_footer,
};
use crate::storage::Storage;

/// Returns the logs in a folder, sorted by id.
///
/// # Errors
/// The folder cannot be listed.
pub fn log_ids(storage: &dyn Storage, dir: &Path) -> Result<Vec<LogId>, LogError> {
    let names = storage.list(dir).map_err(LogError::io("list", dir))?;
    let mut ids: Vec<LogId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Returns the segments of a log, in the order of their records. A missing log has none.
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

/// Result of the check of one segment.
#[derive(Debug)]
pub struct SegmentVerdict {
    /// Result of the scan of the batches.
    pub scan: SegmentScan,
    /// The first problem. `None` if the segment is intact.
    pub problem: Option<SegmentProblem>,
}

/// A problem of a segment, and the records that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentProblem {
    /// Offset where the damage begins.
    pub offset: u64,
    /// First record that the problem concerns.
    pub first: Sequence,
    /// Last record that the problem concerns, if a later batch, the footer or the next segment shows it.
    pub last: Option<Sequence>,
    /// Description of the problem.
    pub reason: String,
}

/// End of a segment, which the next segment has to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEnd {
    /// Number of the next record.
    pub next: Sequence,
    /// Header checksum of the last batch.
    pub chain: u32,
    /// Digest in the footer, which the next footer repeats. `None` without a footer.
    pub digest: Option<[u8; 64]>,
}

impl SegmentEnd {
    /// The end that the first segment of a log continues.
    pub const OF_NOTHING: Self = Self { next: Sequence::FIRST, chain: 0, digest: Some([0; 64]) };
}

impl SegmentVerdict {
    /// Returns the end of the segment. Returns `None` if the segment is damaged, because its end is then
    /// unknown.
    pub fn end(&self) -> Option<SegmentEnd> {
        let digest = self.scan.footer.as_ref().map(SegmentFooter::digest_bytes);
        let end = SegmentEnd { next: self.scan.last.after(1), chain: self.scan.chain, digest };
        self.problem.is_none().then_some(end)
    }
}

/// Checks every checksum of a segment and its digest. If `before` is known, also checks that the segment
/// continues it.
///
/// # Errors
/// Only an error of the disk.
pub fn verify_segment(
    storage: &dyn Storage,
    name: SegmentName,
    path: &Path,
    before: Option<SegmentEnd>,
) -> Result<SegmentVerdict, LogError> {
    let algorithm = read_footer(storage, path)?.map(|footer| footer.digest.algorithm());
    let (scan, digest) = scan_digested(storage, path, algorithm.unwrap_or(SegmentDigestAlgorithm::None))?;
    let problem = match problem_of(&scan, name, before).or_else(|| stranger_problem(&scan, name, path)) {
        Some(mut problem) => {
            problem.last = end_of_damage(storage, path, &scan, &problem)?;
            Some(problem)
        }
        None => digest_problem(&scan, digest),
    };
    Ok(SegmentVerdict { scan, problem })
}

/// A sealed segment whose bytes are the bytes that its writer digested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestedSegment {
    /// Header of the segment.
    pub header: SegmentHeader,
    /// Footer of the segment.
    pub footer: SegmentFooter,
}

/// Checks the header, the footer and the digest of a sealed segment. Returns the reason if the segment is
/// damaged.
///
/// The digest covers all bytes before the footer, so no batch is looked at. A reader of the records checks
/// each batch again. A segment without a digest is checked as by [`verify_segment`].
///
/// # Errors
/// Only an error of the disk.
pub fn check_digest(
    storage: &dyn Storage,
    name: SegmentName,
    path: &Path,
) -> Result<Result<DigestedSegment, String>, LogError> {
    let file = storage.open_read(path).map_err(LogError::io("open", path))?;
    let Some(footer) = footer_at_end(&*file, path)? else {
        return Ok(Err("sealed segment has no footer".to_owned()));
    };
    let header = match read_header(&*file, path)? {
        Ok((header, _)) => header,
        Err(error) => return Ok(Err(error.to_string())),
    };
    if let Err(error) = footer.check_possible(Some(name.first), footer.content_bytes) {
        return Ok(Err(error.to_string()));
    }
    if footer.nonce != header.nonce {
        return Ok(Err("the footer belongs to another segment".to_owned()));
    }
    if let Some(reason) = stranger(&header, name, path) {
        return Ok(Err(reason));
    }
    let algorithm = footer.digest.algorithm();
    let problem = if algorithm == SegmentDigestAlgorithm::None {
        verify_segment(storage, name, path, None)?.problem.map(|problem| problem.reason)
    } else {
        let found = digest_of(&*file, path, footer.content_bytes, algorithm)?;
        (found != footer.digest).then(|| wrong_digest(&footer, found))
    };
    Ok(match problem {
        Some(reason) => Err(reason),
        None => Ok(DigestedSegment { header, footer }),
    })
}

fn problem_of(scan: &SegmentScan, name: SegmentName, before: Option<SegmentEnd>) -> Option<SegmentProblem> {
    let problem = |offset, first, reason| Some(SegmentProblem { offset, first, last: None, reason });
    if let Some(failure) = &scan.failure {
        return problem(failure.offset, failure.first.max(name.first), failure.error.to_string());
    }
    if let (Some(header), Some(before)) = (&scan.header, before)
        && (header.first, header.chain) != (before.next, before.chain)
    {
        let reason = format!("does not continue the segment before, which ends at {}", before.next.before());
        return problem(0, before.next, reason);
    }
    if let (Some(footer), Some(digest)) = (&scan.footer, before.and_then(|before| before.digest))
        && footer.digest_before != digest
    {
        let reason = "the segment before has another digest than this footer states".to_owned();
        return problem(scan.end, name.first, reason);
    }
    if name.state == SegmentState::Sealed && scan.footer.is_none() {
        return problem(scan.end, scan.last.after(1), "sealed segment has no footer".to_owned());
    }
    if let Some(footer) = &scan.footer
        && name.state == SegmentState::Sealed
        && scan.file_bytes != footer.file_bytes()
    {
        return problem(footer.file_bytes(), scan.last.after(1), FormatError::BehindFooter.to_string());
    }
    None
}

/// Returns the problem of an intact segment that has the name of another segment, or is in the folder of
/// another log.
fn stranger_problem(scan: &SegmentScan, name: SegmentName, path: &Path) -> Option<SegmentProblem> {
    let reason = stranger(scan.header.as_ref()?, name, path)?;
    Some(SegmentProblem { offset: 0, first: name.first, last: None, reason })
}

/// Returns the reason if a segment has the name of another segment, or is in the folder of another log.
fn stranger(header: &SegmentHeader, name: SegmentName, path: &Path) -> Option<String> {
    if LogId::of_segment(path).is_some_and(|log| log != header.log) {
        Some(format!("the segment belongs to log {}", header.log))
    } else if header.first != name.first {
        Some(format!("the segment begins with record {}, its file name says another", header.first))
    } else {
        None
    }
}

/// Returns the last record before the next intact batch, where the damage ends.
fn end_of_damage(
    storage: &dyn Storage,
    path: &Path,
    scan: &SegmentScan,
    problem: &SegmentProblem,
) -> Result<Option<Sequence>, LogError> {
    // Without an intact segment header, it is unknown whether the batches belong to this segment.
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

/// The end of a batch in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchEnd {
    /// Offset of the batch.
    pub offset: u64,
    /// Header checksum of the batch, which chains it to all batches before it.
    pub chain: u32,
}

/// Finds the batch whose last record is `last`. Returns `None` if there is no such batch, or if there is
/// damage before it.
///
/// # Errors
/// Only an error of the disk.
pub fn batch_that_ends_at(
    storage: &dyn Storage,
    path: &Path,
    last: Sequence,
) -> Result<Option<BatchEnd>, LogError> {
    let mut reader = match SegmentReader::open(storage, path, Schemas::new()) {
        Err(LogError::Damaged { .. }) => return Ok(None),
        reader => reader?,
    };
    loop {
        let offset = reader.offset;
        match reader.step() {
            Ok(Found::Batch(header)) if header.kind == BatchKind::Records && header.last() >= last => {
                let end = BatchEnd { offset, chain: reader.chain };
                return Ok((header.last() == last).then_some(end));
            }
            Ok(Found::Batch(_)) => {}
            Ok(Found::Footer(_) | Found::End) | Err(StepError::Format(_)) => return Ok(None),
            Err(StepError::Io(error)) => return Err(error),
        }
    }
}

fn digest_problem(scan: &SegmentScan, found: Digest) -> Option<SegmentProblem> {
    let (footer, header) = (scan.footer.as_ref()?, scan.header.as_ref()?);
    (found != footer.digest).then(|| SegmentProblem {
        offset: 0,
        first: header.first,
        last: Some(scan.last),
        reason: wrong_digest(footer, found),
    })
}

fn wrong_digest(footer: &SegmentFooter, found: Digest) -> String {
    format!("the segment has digest {found}, its footer has digest {}", footer.digest)
}
