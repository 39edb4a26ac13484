//! The header of a segment.

use super::layout::{FOOTER_MAGIC, FORMAT_VERSION, SEGMENT_HEADER_BYTES};
use crate::batch::{u32_at, u64_at};
use crate::error::FormatError;
use crate::id::{LogId, Sequence};

const HEADER_MAGIC: &[u8; 8] = b"TOLLGATE";
const NODE_BYTES: usize = 48;

/// The first 128 bytes of a segment. `docs/reference/log-format.md` has the byte table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Id of the log.
    pub log: LogId,
    /// Id of the previous log, if there was one.
    pub log_before: Option<LogId>,
    /// Random number that no client ever gets, so that no payload can contain a forged batch header.
    pub nonce: u64,
    /// Number of the first record.
    pub first: Sequence,
    /// Header checksum of the last batch in the previous segment. Zero in the first segment.
    pub chain: u32,
    /// Name of the machine that wrote the segment.
    pub node: String,
}

impl SegmentHeader {
    /// Encodes the header. Returns the bytes with their checksum, which the first batch repeats as
    /// `previous`.
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

    /// Decodes a header. Returns the header with its checksum.
    ///
    /// # Errors
    /// The bytes are no segment header, or have a wrong checksum or a later version. Leave a file of a later
    /// version unchanged.
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
            let allowed = "a value other than 0 and the magic bytes of a footer";
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

    /// Decodes the fields of a header without any check.
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

    /// Returns whether the checksum is right for a version that this program knows. If it is, only the
    /// version field is damaged.
    fn is_known_below_its_version(bytes: &[u8; SEGMENT_HEADER_BYTES], stored: u32) -> bool {
        let mut restored = *bytes;
        (1..=FORMAT_VERSION).any(|version| {
            restored[8..10].copy_from_slice(&version.to_le_bytes());
            crc32c::crc32c(&restored[..124]) == stored
        })
    }

    /// Makes a stand-in for a damaged header, so that the batches after it can be read.
    pub(crate) fn stand_in(nonce: u64, first: Sequence) -> Self {
        let log = LogId::from_bytes([0; 16]);
        Self { log, log_before: None, nonce, first, chain: 0, node: String::new() }
    }
}

/// Returns whether a segment can have this nonce. A batch begins with the nonce. So the nonce must differ
/// from the first bytes of a runway and of a footer.
pub(crate) fn is_nonce(nonce: u64) -> bool {
    nonce != 0 && nonce.to_le_bytes() != *FOOTER_MAGIC
}

fn id_at(bytes: &[u8], at: usize) -> LogId {
    let mut id = [0; 16];
    id.copy_from_slice(&bytes[at..at + 16]);
    LogId::from_bytes(id)
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

    /// Returns the header with another version and the checksum for it.
    fn of_version(version: u16) -> [u8; SEGMENT_HEADER_BYTES] {
        let (mut bytes, _) = header().encode();
        bytes[8..10].copy_from_slice(&version.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..124]);
        bytes[124..].copy_from_slice(&checksum.to_le_bytes());
        bytes
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
        for version in 1..=FORMAT_VERSION {
            let mut bytes = of_version(version);
            assert_eq!(SegmentHeader::decode(&bytes).unwrap().0, header());
            bytes[8] = 3;
            let damaged = SegmentHeader::decode(&bytes);
            assert!(matches!(damaged, Err(FormatError::Checksum { .. })), "{damaged:?}");
        }
        let error = SegmentHeader::decode(&of_version(3)).unwrap_err();
        assert_eq!(error, FormatError::Version { found: 3, known: 2 });
    }

    #[test]
    fn version_0_is_none_even_if_its_checksum_holds() {
        let error = SegmentHeader::decode(&of_version(0)).unwrap_err();
        assert_eq!(error.to_string(), "format version is 0, allowed is 1 and above");
    }

    #[test]
    fn a_long_node_name_is_cut_between_characters() {
        let long = SegmentHeader { node: "ü".repeat(40), ..header() };
        let (bytes, _) = long.encode();
        let (read, _) = SegmentHeader::decode(&bytes).unwrap();
        assert_eq!(read.node, "ü".repeat(24));
    }
}
