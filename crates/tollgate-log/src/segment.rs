//! A segment's name, header and footer.

mod digest;
mod name;

use crate::batch::{BATCH_HEADER_BYTES, u32_at, u64_at};
use crate::error::FormatError;
use crate::id::{LogId, Sequence};
use crate::record::FRAME_BYTES;
use crate::schema::SchemaId;
pub(crate) use digest::Digester;
pub use digest::{Digest, DigestAlgorithm};
pub use name::{SegmentName, SegmentState};

/// Bytes of a segment header.
pub const SEGMENT_HEADER_BYTES: usize = 128;
pub(crate) const FORMAT_VERSION: u16 = 1;

const HEADER_MAGIC: &[u8; 8] = b"TOLLGATE";
pub(crate) const FOOTER_MAGIC: &[u8; 8] = b"TGSEALED";
const NODE_BYTES: usize = 48;
/// Where the footer says how many schemas it counts.
const COUNTED_AT: usize = 184;
const FOOTER_FIXED_BYTES: usize = 192;
const COUNT_BYTES: usize = 24;
/// Bytes from which the length of a footer can be told.
pub(crate) const FOOTER_HEAD_BYTES: usize = FOOTER_FIXED_BYTES + FOOTER_TAIL_BYTES;
const FOOTER_TAIL_BYTES: usize = 8;
/// More schemas than numbers for them cannot be.
pub(crate) const FOOTER_BYTES_MAX: usize = FOOTER_FIXED_BYTES + COUNT_BYTES * 65_536 + FOOTER_TAIL_BYTES;

/// The first 128 bytes of a segment. `docs/log-format.md` has the byte table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The log.
    pub log: LogId,
    /// The log before it, if there was one.
    pub log_before: Option<LogId>,
    /// Random, never shown outside.
    pub nonce: u64,
    /// Number of the first record.
    pub first: Sequence,
    /// Header checksum of the last batch of the segment before; 0 in the first.
    pub chain: u32,
    /// The machine that wrote it.
    pub node: String,
}

impl SegmentHeader {
    /// Writes the header and returns it with its checksum, which the first batch names as `previous`.
    pub fn encode(&self) -> ([u8; SEGMENT_HEADER_BYTES], u32) {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[0..8].copy_from_slice(HEADER_MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&(SEGMENT_HEADER_BYTES as u16).to_le_bytes());
        bytes[16..32].copy_from_slice(self.log.as_bytes());
        if let Some(before) = self.log_before {
            bytes[32..48].copy_from_slice(before.as_bytes());
        }
        bytes[48..56].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[64..68].copy_from_slice(&self.chain.to_le_bytes());
        let node = &self.node.as_bytes()[..self.node.floor_char_boundary(NODE_BYTES)];
        bytes[72..72 + node.len()].copy_from_slice(node);
        let checksum = crc32c::crc32c(&bytes[..124]);
        bytes[124..128].copy_from_slice(&checksum.to_le_bytes());
        (bytes, checksum)
    }

    /// Reads a header and its checksum.
    ///
    /// # Errors
    /// Not a segment, a later version (to be left untouched), or a checksum that does not hold.
    pub fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<(Self, u32), FormatError> {
        if &bytes[0..8] != HEADER_MAGIC {
            return Err(FormatError::Magic { what: "segment" });
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        let (found, stored) = (crc32c::crc32c(&bytes[..124]), u32_at(bytes, 124));
        if version > FORMAT_VERSION && !Self::is_known_below_its_version(bytes, stored) {
            return Err(FormatError::Version { found: version, known: FORMAT_VERSION });
        }
        if found != stored {
            return Err(FormatError::Checksum { what: "segment header", found, stored });
        }
        if version == 0 {
            return Err(FormatError::Value { what: "format version", found: 0, allowed: "1 and above" });
        }
        let header = Self::as_it_stands(bytes);
        header.check_bounds()?;
        Ok((header, found))
    }

    fn check_bounds(&self) -> Result<(), FormatError> {
        if !is_nonce(self.nonce) {
            let allowed = "neither zeros nor the first bytes of a footer";
            return Err(FormatError::Value { what: "nonce", found: self.nonce, allowed });
        }
        if !self.first.is_possible() {
            let found = self.first.0;
            return Err(FormatError::Value {
                what: "first sequence number",
                found,
                allowed: "1 to 2^56 - 1",
            });
        }
        Ok(())
    }

    /// Reads the fields without asking whether they hold.
    pub(crate) fn as_it_stands(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Self {
        let node = bytes[72..72 + NODE_BYTES].split(|byte| *byte == 0).next().unwrap_or_default();
        let before = id_at(bytes, 32);
        Self {
            log: id_at(bytes, 16),
            log_before: (before.as_bytes() != &[0; 16]).then_some(before),
            nonce: u64_at(bytes, 48),
            first: Sequence(u64_at(bytes, 56)),
            chain: u32_at(bytes, 64),
            node: String::from_utf8_lossy(node).into_owned(),
        }
    }

    /// Whether the checksum holds once the version is this program's: then only the version is damaged.
    fn is_known_below_its_version(bytes: &[u8; SEGMENT_HEADER_BYTES], stored: u32) -> bool {
        let mut restored = *bytes;
        restored[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        crc32c::crc32c(&restored[..124]) == stored
    }

    /// Stands in for a header that is damaged, to read the batches behind it.
    pub(crate) fn stand_in(nonce: u64, first: Sequence) -> Self {
        let log = LogId::from_bytes([0; 16]);
        Self { log, log_before: None, nonce, first, chain: 0, node: String::new() }
    }
}

/// Whether a segment can have this nonce: a batch that begins with it is taken neither for a runway nor for a footer.
pub(crate) fn is_nonce(nonce: u64) -> bool {
    nonce != 0 && nonce.to_le_bytes() != *FOOTER_MAGIC
}

fn id_at(bytes: &[u8], at: usize) -> LogId {
    let mut id = [0; 16];
    id.copy_from_slice(&bytes[at..at + 16]);
    LogId::from_bytes(id)
}

/// Records of one schema in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamCount {
    /// The schema.
    pub schema: SchemaId,
    /// Its rows.
    pub rows: u64,
    /// Its rejects.
    pub rejects: u64,
}

/// What ends a sealed segment. `docs/log-format.md` has the byte table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFooter {
    /// The segment's nonce.
    pub nonce: u64,
    /// Batches, those of schemas too.
    pub batches: u64,
    /// Records with a number.
    pub records: u64,
    /// The last number.
    pub last: Sequence,
    /// Bytes before the footer.
    pub content_bytes: u64,
    /// Header checksum of the last batch.
    pub chain: u32,
    /// Digest of the bytes before the footer.
    pub digest: Digest,
    /// The digest in the footer before, zeros if there is none.
    pub digest_before: [u8; 64],
    /// Rows and rejects by schema, in the order of the ids.
    pub counts: Vec<StreamCount>,
}

impl SegmentFooter {
    /// Bytes of a digest as the next footer repeats them.
    pub fn digest_bytes(&self) -> [u8; 64] {
        self.digest.bytes
    }

    /// Bytes of the whole file that it ends.
    pub fn file_bytes(&self) -> u64 {
        let footer_bytes = FOOTER_FIXED_BYTES + COUNT_BYTES * self.counts.len() + FOOTER_TAIL_BYTES;
        self.content_bytes.saturating_add(footer_bytes as u64)
    }

    /// Checks the numbers against each other, and against what the name and the size of the file allow.
    ///
    /// The batches are not read. A footer whose numbers cannot be is none, whatever its checksum says.
    ///
    /// # Errors
    /// The first number that cannot be.
    pub(crate) fn check_possible(
        &self,
        first: Option<Sequence>,
        content_bytes: u64,
    ) -> Result<(), FormatError> {
        let impossible = |what, found, allowed| Err(FormatError::Value { what, found, allowed });
        let batches_bytes = content_bytes.saturating_sub(SEGMENT_HEADER_BYTES as u64);
        if self.content_bytes != content_bytes {
            return impossible("footer content bytes", self.content_bytes, "the place of the footer");
        }
        if self.batches > batches_bytes / BATCH_HEADER_BYTES as u64 {
            return impossible("footer batch count", self.batches, "one for each 64 bytes at most");
        }
        if self.records > batches_bytes / FRAME_BYTES as u64 {
            return impossible("footer record count", self.records, "one for each 8 bytes at most");
        }
        let counted = self
            .counts
            .iter()
            .try_fold(0_u64, |sum, count| sum.checked_add(count.rows)?.checked_add(count.rejects));
        if counted != Some(self.records) {
            return impossible("footer record count", self.records, "the sum of its schemas");
        }
        let is_last = first.is_none_or(|first| self.last == first.before().after(self.records));
        if self.last > Sequence::MAX || !is_last {
            return impossible(
                "footer last sequence number",
                self.last.0,
                "the last of the records that it counts",
            );
        }
        Ok(())
    }

    /// Writes the footer.
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

    /// The length of the footer whose last eight bytes these are, if it can be one.
    pub(crate) fn bytes_from_tail(tail: [u8; FOOTER_TAIL_BYTES]) -> Option<usize> {
        let footer_bytes = u32_at(&tail, 0) as usize;
        (FOOTER_FIXED_BYTES + FOOTER_TAIL_BYTES..=FOOTER_BYTES_MAX)
            .contains(&footer_bytes)
            .then_some(footer_bytes)
    }

    /// The length of the footer that begins with these bytes, if it can be one.
    pub(crate) fn bytes_from_head(head: &[u8]) -> Option<usize> {
        let counted = head.get(COUNTED_AT..COUNTED_AT + 4).map(|bytes| u32_at(bytes, 0) as usize)?;
        let footer_bytes = FOOTER_FIXED_BYTES + COUNT_BYTES * counted + FOOTER_TAIL_BYTES;
        (footer_bytes <= FOOTER_BYTES_MAX).then_some(footer_bytes)
    }

    /// Reads a whole footer.
    ///
    /// # Errors
    /// Cut off, no footer, a checksum that does not hold, or counts that do not fill it.
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
        if bytes.len() != least + COUNT_BYTES * counted || u32_at(bytes, end - 4) as usize != bytes.len() {
            let found = bytes.len() as u64;
            return Err(FormatError::Value {
                what: "footer bytes",
                found,
                allowed: "200 and 24 for each schema",
            });
        }
        Ok(Self {
            nonce: u64_at(bytes, 8),
            batches: u64_at(bytes, 16),
            records: u64_at(bytes, 24),
            last: Sequence(u64_at(bytes, 32)),
            content_bytes: u64_at(bytes, 40),
            chain: u32_at(bytes, 48),
            digest: Digest::new(DigestAlgorithm::from_number(bytes[52])?, &bytes[56..120]),
            digest_before: {
                let mut before = [0; 64];
                before.copy_from_slice(&bytes[120..184]);
                before
            },
            counts: bytes[FOOTER_FIXED_BYTES..bytes.len() - FOOTER_TAIL_BYTES]
                .chunks_exact(COUNT_BYTES)
                .map(|entry| StreamCount {
                    schema: SchemaId(u16::from_le_bytes([entry[0], entry[1]])),
                    rows: u64_at(entry, 8),
                    rejects: u64_at(entry, 16),
                })
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            log: LogId::from_bytes([7; 16]),
            log_before: Some(LogId::from_bytes([6; 16])),
            nonce: 99,
            first: Sequence(12),
            chain: 5,
            node: "web-1".to_owned(),
        }
    }

    fn footer() -> SegmentFooter {
        let mut digester = Digester::new(DigestAlgorithm::Sha256);
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
    fn a_header_reads_as_it_was_written_and_every_flipped_bit_is_found() {
        let (bytes, checksum) = header().encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok((header(), checksum)));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_later_version_is_told_apart_from_damage() {
        let (mut bytes, _) = header().encode();
        bytes[8] = 2;
        let damaged = SegmentHeader::decode(&bytes);
        assert!(matches!(damaged, Err(FormatError::Checksum { .. })), "{damaged:?}");
        let checksum = crc32c::crc32c(&bytes[..124]);
        bytes[124..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(FormatError::Version { found: 2, known: 1 }));
    }

    #[test]
    fn version_0_is_none_even_if_its_checksum_holds() {
        let (mut bytes, _) = header().encode();
        bytes[8] = 0;
        let checksum = crc32c::crc32c(&bytes[..124]);
        bytes[124..].copy_from_slice(&checksum.to_le_bytes());
        let error = SegmentHeader::decode(&bytes).unwrap_err();
        assert_eq!(error.to_string(), "format version is 0, allowed is 1 and above");
    }

    #[test]
    fn a_long_node_name_is_cut_between_characters() {
        let long = SegmentHeader { node: "ü".repeat(40), ..header() };
        let (bytes, _) = long.encode();
        let (read, _) = SegmentHeader::decode(&bytes).unwrap();
        assert_eq!(read.node, "ü".repeat(24));
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
