//! The footer of a sealed segment: its encoding, and reading it from the end of a file.

use std::path::Path;

use super::digest::{Digest, SegmentDigestAlgorithm};
use super::layout::{
    FOOTER_BYTES_MAX, FOOTER_COUNT_BYTES, FOOTER_FIXED_BYTES, FOOTER_MAGIC, FOOTER_TAIL_BYTES,
    SEGMENT_HEADER_BYTES,
};
use super::name::SegmentName;
use crate::batch::{BATCH_HEADER_BYTES, u32_at, u64_at};
use crate::error::{FormatError, LogError};
use crate::id::Sequence;
use crate::record::FRAME_BYTES;
use crate::schema::SchemaId;
use crate::storage::{Storage, StorageFile};

/// Offset in bytes of the count of schemas in a footer.
const COUNTED_AT: usize = 184;

/// Counts of the records of one schema in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamCount {
    /// Id of the counted schema.
    pub schema: SchemaId,
    /// Number of rows of the schema.
    pub rows: u64,
    /// Number of rejects of the schema.
    pub rejects: u64,
}

/// The footer of a sealed segment. `docs/reference/log-format.md` has the byte table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFooter {
    /// The segment's nonce.
    pub nonce: u64,
    /// Number of batches, including batches of schemas.
    pub batches: u64,
    /// Number of records that have a sequence number.
    pub records: u64,
    /// The last sequence number.
    pub last: Sequence,
    /// Number of bytes before the footer.
    pub content_bytes: u64,
    /// Header checksum of the last batch.
    pub chain: u32,
    /// Digest of the bytes before the footer.
    pub digest: Digest,
    /// Digest of the previous segment, from its footer. Zero if there is no previous segment.
    pub digest_before: [u8; 64],
    /// Rows and rejects by schema, in the order of the ids.
    pub counts: Vec<StreamCount>,
}

impl SegmentFooter {
    /// Returns the bytes of the digest. The footer of the next segment repeats them.
    pub fn digest_bytes(&self) -> [u8; 64] {
        self.digest.bytes
    }

    /// Returns the size of the file that the footer ends, in bytes.
    pub fn file_bytes(&self) -> u64 {
        let footer_bytes = FOOTER_FIXED_BYTES + FOOTER_COUNT_BYTES * self.counts.len() + FOOTER_TAIL_BYTES;
        self.content_bytes.saturating_add(footer_bytes as u64)
    }

    /// Checks whether the numbers of the footer match each other, the name of the file, and its size.
    ///
    /// The batches are not read. A footer with impossible numbers counts as no footer, even if its checksum
    /// is right.
    ///
    /// # Errors
    /// The first impossible number.
    pub(crate) fn check_possible(
        &self,
        first: Option<Sequence>,
        content_bytes: u64,
    ) -> Result<(), FormatError> {
        let impossible = |what, found, allowed| Err(FormatError::Value { what, found, allowed });
        let batches_bytes = content_bytes.saturating_sub(SEGMENT_HEADER_BYTES as u64);
        if self.content_bytes != content_bytes {
            return impossible("footer content bytes", self.content_bytes, "the offset of the footer");
        }
        if self.batches > batches_bytes / BATCH_HEADER_BYTES as u64 {
            return impossible("footer batch count", self.batches, "at most one for each 64 bytes");
        }
        if self.records > batches_bytes / FRAME_BYTES as u64 {
            return impossible("footer record count", self.records, "at most one for each 8 bytes");
        }
        let counted = self
            .counts
            .iter()
            .try_fold(0_u64, |sum, count| sum.checked_add(count.rows)?.checked_add(count.rejects));
        if counted != Some(self.records) {
            return impossible("footer record count", self.records, "the sum over its schemas");
        }
        let is_last = first.is_none_or(|first| self.last == first.before().after(self.records));
        if self.last > Sequence::MAX || !is_last {
            return impossible(
                "footer last sequence number",
                self.last.0,
                "the number of its last counted record",
            );
        }
        Ok(())
    }

    /// Encodes the footer.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((self.file_bytes() - self.content_bytes) as usize);
        bytes.extend_from_slice(FOOTER_MAGIC);
        for number in [self.nonce, self.batches, self.records, self.last.0, self.content_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.chain.to_le_bytes());
        bytes.extend_from_slice(&[self.digest.algorithm() as u8, 0, 0, 0]);
        bytes.extend_from_slice(&self.digest.bytes);
        bytes.extend_from_slice(&self.digest_before);
        bytes.extend_from_slice(&(self.counts.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for count in &self.counts {
            bytes.extend_from_slice(&count.schema.0.to_le_bytes());
            bytes.extend_from_slice(&[0; 6]);
            bytes.extend_from_slice(&count.rows.to_le_bytes());
            bytes.extend_from_slice(&count.rejects.to_le_bytes());
        }
        let footer_bytes = (bytes.len() + FOOTER_TAIL_BYTES) as u32;
        bytes.extend_from_slice(&footer_bytes.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the length of the footer with these last eight bytes. Returns `None` if no footer can have
    /// that length.
    pub(crate) fn bytes_from_tail(tail: [u8; FOOTER_TAIL_BYTES]) -> Option<usize> {
        let footer_bytes = u32_at(&tail, 0) as usize;
        (FOOTER_FIXED_BYTES + FOOTER_TAIL_BYTES..=FOOTER_BYTES_MAX)
            .contains(&footer_bytes)
            .then_some(footer_bytes)
    }

    /// Returns the length of the footer with these first bytes. Returns `None` if no footer can have that
    /// length.
    pub(crate) fn bytes_from_head(head: &[u8]) -> Option<usize> {
        let counted = head.get(COUNTED_AT..COUNTED_AT + 4).map(|bytes| u32_at(bytes, 0) as usize)?;
        let footer_bytes = FOOTER_FIXED_BYTES + FOOTER_COUNT_BYTES * counted + FOOTER_TAIL_BYTES;
        (footer_bytes <= FOOTER_BYTES_MAX).then_some(footer_bytes)
    }

    /// Decodes a whole footer.
    ///
    /// # Errors
    /// There are too few bytes, the magic bytes or the checksum are wrong, or the counts do not match the
    /// length.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let least = FOOTER_FIXED_BYTES + FOOTER_TAIL_BYTES;
        if bytes.len() < least {
            let found = bytes.len() as u64;
            return Err(FormatError::CutOff { what: "footer", found, needed: least as u64 });
        }
        if &bytes[..8] != FOOTER_MAGIC {
            return Err(FormatError::Magic { what: "footer" });
        }
        let end = bytes.len() - 4;
        let (found, stored) = (crc32c::crc32c(&bytes[..end]), u32_at(bytes, end));
        if found != stored {
            return Err(FormatError::Checksum { what: "footer", found, stored });
        }
        let counted = u32_at(bytes, COUNTED_AT) as usize;
        if bytes.len() != least + FOOTER_COUNT_BYTES * counted
            || u32_at(bytes, end - 4) as usize != bytes.len()
        {
            let found = bytes.len() as u64;
            return Err(FormatError::Value {
                what: "footer bytes",
                found,
                allowed: "200, and 24 for each schema",
            });
        }
        Ok(Self {
            nonce: u64_at(bytes, 8),
            batches: u64_at(bytes, 16),
            records: u64_at(bytes, 24),
            last: Sequence(u64_at(bytes, 32)),
            content_bytes: u64_at(bytes, 40),
            chain: u32_at(bytes, 48),
            digest: Digest::new(SegmentDigestAlgorithm::from_number(bytes[52])?, &bytes[56..120]),
            digest_before: {
                let mut before = [0; 64];
                before.copy_from_slice(&bytes[120..184]);
                before
            },
            counts: bytes[FOOTER_FIXED_BYTES..bytes.len() - FOOTER_TAIL_BYTES]
                .chunks_exact(FOOTER_COUNT_BYTES)
                .map(|entry| StreamCount {
                    schema: SchemaId(u16::from_le_bytes([entry[0], entry[1]])),
                    rows: u64_at(entry, 8),
                    rejects: u64_at(entry, 16),
                })
                .collect(),
        })
    }
}

/// Reads the footer of a segment from its last eight bytes. Returns `None` without a whole footer, or if its
/// numbers are impossible.
///
/// The batches before the footer are not read.
///
/// # Errors
/// An error of the disk, also if the segment is missing.
pub fn read_footer(storage: &dyn Storage, path: &Path) -> Result<Option<SegmentFooter>, LogError> {
    let file = storage.open_read(path).map_err(LogError::io("open", path))?;
    footer_at_end(&*file, path)
}

/// Reads the footer at the end of a file. Returns `None` without a whole footer, or if its numbers are
/// impossible.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::digest::Digester;

    fn footer() -> SegmentFooter {
        let mut digester = Digester::new(SegmentDigestAlgorithm::Sha256);
        digester.update(b"abc");
        SegmentFooter {
            nonce: 99,
            batches: 3,
            records: 10,
            last: Sequence(21),
            content_bytes: 1000,
            chain: 77,
            digest: digester.finish(),
            digest_before: [1; 64],
            counts: vec![StreamCount { schema: SchemaId(2), rows: 9, rejects: 1 }],
        }
    }

    #[test]
    fn a_footer_reads_as_it_was_written_and_every_flipped_bit_is_found() {
        let bytes = footer().encode();
        assert_eq!(SegmentFooter::decode(&bytes), Ok(footer()));
        assert_eq!(SegmentFooter::bytes_from_tail(*bytes.last_chunk().unwrap()), Some(bytes.len()));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentFooter::decode(&damaged).is_err(), "bit {bit}");
        }
    }
}
