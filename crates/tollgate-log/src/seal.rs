//! Sealing: read a closed segment back, check and digest it, write its footer, give it its sealed name.

use std::io::IoSlice;
use std::path::Path;

use crate::digest::scan_digested;
use crate::error::{FormatError, LogError};
use crate::scan::SegmentScan;
use crate::segment::{Digest, DigestAlgorithm, SegmentFooter, SegmentName, SegmentState};
use crate::segment_writer::ClosedSegment;
use crate::storage::{Storage, StorageFile};

impl ClosedSegment {
    /// Seals the segment, whose batches are synced, and returns its footer.
    ///
    /// The order survives a crash at any point: see the table in `docs/log-format.md`.
    ///
    /// # Errors
    /// Any error of the disk, or bytes that read back otherwise than they were written.
    pub fn seal(
        &self,
        storage: &dyn Storage,
        algorithm: DigestAlgorithm,
        digest_before: [u8; 64],
    ) -> Result<SegmentFooter, LogError> {
        let (scan, digest) = scan_digested(storage, &self.name.path(&self.folder), algorithm)?;
        self.seal_scanned(storage, &scan, digest, digest_before)
    }

    /// Seals the segment, of which that was found.
    pub(crate) fn seal_scanned(
        &self,
        storage: &dyn Storage,
        scan: &SegmentScan,
        digest: Digest,
        digest_before: [u8; 64],
    ) -> Result<SegmentFooter, LogError> {
        let open = self.name.path(&self.folder);
        let footer = match scan.footer.clone() {
            Some(footer) => footer,
            None => write_footer(&*self.file, &open, scan, digest, digest_before)?,
        };
        if scan.file_bytes > footer.file_bytes() {
            self.file.truncate(footer.file_bytes()).map_err(LogError::io("cut", &open))?;
        }
        self.file.sync().map_err(LogError::io("sync", &open))?;
        let sealed = self.name.with_state(SegmentState::Sealed).path(&self.folder);
        storage.rename(&open, &sealed).map_err(LogError::io("rename", &open))?;
        storage.sync_folder(&self.folder).map_err(LogError::io("sync", &self.folder))?;
        Ok(footer)
    }
}

fn write_footer(
    file: &dyn StorageFile,
    path: &Path,
    scan: &SegmentScan,
    digest: Digest,
    digest_before: [u8; 64],
) -> Result<SegmentFooter, LogError> {
    if let Some(failure) = &scan.failure {
        return Err(LogError::damaged(path, failure.offset, failure.error.clone()));
    }
    let Some(header) = &scan.header else {
        return Err(LogError::damaged(path, 0, FormatError::Magic { what: "segment" }));
    };
    let footer = SegmentFooter {
        nonce: header.nonce,
        batches: scan.batches,
        records: scan.records(),
        last: scan.last,
        content_bytes: scan.end,
        chain: scan.chain,
        digest,
        digest_before,
        counts: scan.counts.clone(),
    };
    file.write_at(scan.end, &mut [IoSlice::new(&footer.encode())]).map_err(LogError::io("write", path))?;
    Ok(footer)
}

/// Reads the footer of a segment by its last eight bytes. None: there is no whole one, or one whose numbers cannot be.
///
/// The batches before it are not looked at.
///
/// # Errors
/// Those of the disk; a segment that is gone is one of them.
pub fn read_footer(storage: &dyn Storage, path: &Path) -> Result<Option<SegmentFooter>, LogError> {
    let file = storage.open_read(path).map_err(LogError::io("open", path))?;
    footer_at_end(&*file, path)
}

/// Reads the footer at the end of a file. None: there is no whole one, or one whose numbers cannot be.
pub(crate) fn footer_at_end(file: &dyn StorageFile, path: &Path) -> Result<Option<SegmentFooter>, LogError> {
    let first = SegmentName::of(path).map(|name| name.first);
    let size = file.size().map_err(LogError::io("read the size of", path))?;
    let mut tail = [0; 8];
    if size < tail.len() as u64 || file.read_at(size - 8, &mut tail).map_err(LogError::io("read", path))? < 8
    {
        return Ok(None);
    }
    let Some(footer_bytes) = SegmentFooter::bytes_from_tail(tail).filter(|bytes| *bytes as u64 <= size)
    else {
        return Ok(None);
    };
    let content_bytes = size - footer_bytes as u64;
    let mut bytes = vec![0; footer_bytes];
    file.read_at(content_bytes, &mut bytes).map_err(LogError::io("read", path))?;
    Ok(SegmentFooter::decode(&bytes)
        .ok()
        .filter(|footer| footer.check_possible(first, content_bytes).is_ok()))
}
