//! Digests the content of a segment, alone or while its batches are scanned.
//!
//! Recovery reads, checks and digests all of a segment. The digest is slower than the scan. The digest runs
//! in a second thread that follows the scan, so that both together need only the time of the digest.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::{FormatError, LogError};
use crate::scan::{SegmentScan, scan_segment, scan_watched};
use crate::segment::{Digest, Digester, SegmentDigestAlgorithm};
use crate::storage::{Storage, StorageFile};

/// Bytes of one read from the file.
const PIECE_BYTES: u64 = 256 << 10;
/// Number of bytes after which the scan publishes its offset to the digest thread.
const STRIDE_BYTES: u64 = 1 << 20;

/// Computes the digest of the first `bytes` bytes of a file.
///
/// # Errors
/// An error of the disk, or the file has fewer bytes.
pub(crate) fn digest_of(
    file: &dyn StorageFile,
    path: &Path,
    bytes: u64,
    algorithm: SegmentDigestAlgorithm,
) -> Result<Digest, LogError> {
    let mut digester = Digester::new(algorithm);
    if algorithm != SegmentDigestAlgorithm::None {
        update(&mut digester, file, path, 0..bytes)?;
    }
    Ok(digester.finish())
}

fn update(
    digester: &mut Digester,
    file: &dyn StorageFile,
    path: &Path,
    range: std::ops::Range<u64>,
) -> Result<(), LogError> {
    let mut piece = vec![0; PIECE_BYTES.min(range.end - range.start) as usize];
    let mut offset = range.start;
    while offset < range.end {
        let wanted = PIECE_BYTES.min(range.end - offset) as usize;
        let read = file.read_at(offset, &mut piece[..wanted]).map_err(LogError::io("read", path))?;
        if read < wanted {
            let (found, needed) = (offset + read as u64, range.end);
            let error = FormatError::CutOff { what: "segment", found, needed };
            return Err(LogError::damaged(path, found, error));
        }
        digester.update(&piece[..wanted]);
        offset += wanted as u64;
    }
    Ok(())
}

/// Scans a segment from its first byte to its last, and computes the digest of the bytes up to the end of its
/// intact batches.
///
/// # Errors
/// Only an error of the disk. The result reports damage of the bytes.
pub(crate) fn scan_digested(
    storage: &dyn Storage,
    path: &Path,
    algorithm: SegmentDigestAlgorithm,
) -> Result<(SegmentScan, Digest), LogError> {
    let file = storage.open_read(path).map_err(LogError::io("open", path))?;
    let size = file.size().map_err(LogError::io("read the size of", path))?;
    if algorithm == SegmentDigestAlgorithm::None || size < 2 * STRIDE_BYTES {
        let scan = scan_segment(storage, path)?;
        let digest = digest_of(&*file, path, scan.end, algorithm)?;
        return Ok((scan, digest));
    }
    let walk = Walk::default();
    thread::scope(|scope| {
        let digest = scope.spawn(|| digest_behind(&walk, &*file, path, algorithm));
        let scan = {
            let _over = Over(&walk);
            scan_watched(storage, path, &mut |end| walk.note_end(end))
        };
        let digest = digest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((scan?, digest?))
    })
}

fn digest_behind(
    walk: &Walk,
    file: &dyn StorageFile,
    path: &Path,
    algorithm: SegmentDigestAlgorithm,
) -> Result<Digest, LogError> {
    let mut digester = Digester::new(algorithm);
    let mut done = 0;
    while let Some(end) = walk.wait_beyond(done) {
        update(&mut digester, file, path, done..end)?;
        done = end;
    }
    Ok(digester.finish())
}

/// Progress of the scan, as the digest thread sees it.
#[derive(Default)]
struct Walk {
    progress: Mutex<WalkProgress>,
    moved: Condvar,
}

#[derive(Clone, Copy, Default)]
struct WalkProgress {
    end: u64,
    published: u64,
    is_over: bool,
}

/// Guard that marks the scan as ended when it is dropped, also by a panic.
struct Over<'a>(&'a Walk);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let mut progress = self.0.progress();
        progress.published = progress.end;
        progress.is_over = true;
        self.0.moved.notify_one();
    }
}

impl Walk {
    /// Locks the progress. A poisoned lock is used too. If the scan or the digest panics, the thread that
    /// joins the other one panics as well.
    fn progress(&self) -> MutexGuard<'_, WalkProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_end(&self, end: u64) {
        let mut progress = self.progress();
        progress.end = end;
        if end - progress.published >= STRIDE_BYTES {
            progress.published = end;
            self.moved.notify_one();
        }
    }

    /// Waits until the scan has passed offset `done`, and returns its offset. Returns `None` if the scan
    /// ended before that.
    fn wait_beyond(&self, done: u64) -> Option<u64> {
        let is_waiting = |progress: &mut WalkProgress| progress.published <= done && !progress.is_over;
        let progress =
            self.moved.wait_while(self.progress(), is_waiting).unwrap_or_else(PoisonError::into_inner);
        (progress.published > done).then_some(progress.published)
    }
}
