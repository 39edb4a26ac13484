//! Seals a segment: reads it back, checks and digests it, writes its footer, and gives it its sealed name.

use std::io::IoSlice;
use std::path::Path;

use crate::digest::scan_digested;
use crate::error::{FormatError, LogError};
use crate::scan::SegmentScan;
use crate::segment::{Digest, SegmentDigestAlgorithm, SegmentFooter, SegmentState};
use crate::segment_writer::ClosedSegment;
use crate::storage::{Storage, StorageFile};

impl ClosedSegment {
    /// Seals a segment and returns its footer. The batches of the segment are synced already.
    ///
    /// The order is: write the footer, cut the bytes after it, sync the file, rename it, sync the folder.
    /// This order survives a crash at any point: see the table in `docs/reference/log-format.md`.
    ///
    /// # Errors
    /// The disk returns an error, or bytes that differ from the written ones.
    pub fn seal(
        &self,
        storage: &dyn Storage,
        algorithm: SegmentDigestAlgorithm,
        digest_before: [u8; 64],
    ) -> Result<SegmentFooter, LogError> {
        let (scan, digest) = scan_digested(storage, &self.name.path(&self.folder), algorithm)?;
        self.seal_scanned(storage, &scan, digest, digest_before)
    }

    /// Seals a segment whose `scan` and `digest` are already known.
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
