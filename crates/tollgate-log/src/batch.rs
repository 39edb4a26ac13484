//! The header of a batch. One checksum covers the records of a batch, and a crash keeps all of them or none.
//!
//! Workers compute the checksum of the payload, so that the writer has to fill in only the header.

use crate::error::FormatError;
use crate::id::Sequence;
use crate::record::FRAME_BYTES;

/// Bytes of a batch header. Batches begin at multiples of an eighth of this size.
pub const BATCH_HEADER_BYTES: usize = 64;
/// Maximum bytes of a payload.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Kind of the records in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// Rows and rejects. Each has a sequence number.
    Records = 1,
    /// Schemas, without sequence numbers.
    Schemas = 2,
}

/// The header of one batch. `docs/reference/log-format.md` has the byte table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The segment's nonce.
    pub nonce: u64,
    /// Bytes of the payload, without padding.
    pub payload_bytes: u32,
    /// Number of records in the payload.
    pub count: u32,
    /// Sequence number of the first record.
    pub first: Sequence,
    /// The highest sequence number that was known to be synced when the header was written.
    pub durable: Sequence,
    /// Mask of the schemas that the records of the batch use.
    pub schema_mask: u64,
    /// Wall clock in microseconds since 1970. Only people use this value.
    pub stamp_us: i64,
    /// CRC32C of the payload.
    pub payload_checksum: u32,
    /// CRC32C of the header of the previous batch.
    pub previous: u32,
    /// Kind of the records in the payload.
    pub kind: BatchKind,
}

impl BatchHeader {
    /// Returns the sequence number of the last record. For a batch of schemas, returns the number before the
    /// next record.
    pub fn last(&self) -> Sequence {
        match self.kind {
            BatchKind::Records => self.first.after(u64::from(self.count)).before(),
            BatchKind::Schemas => self.first.before(),
        }
    }

    /// Returns the size of the whole batch in bytes: header, payload, padding.
    pub fn batch_bytes(&self) -> u64 {
        BATCH_HEADER_BYTES as u64 + u64::from(self.payload_bytes).next_multiple_of(8)
    }

    /// Encodes the header. Returns the bytes with their checksum, which the next header repeats as
    /// `previous`.
    pub fn encode(&self) -> ([u8; BATCH_HEADER_BYTES], u32) {
        let mut bytes = [0; BATCH_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.durable.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.schema_mask.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.stamp_us.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.payload_checksum.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.previous.to_le_bytes());
        bytes[56] = self.kind as u8;
        let checksum = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        (bytes, checksum)
    }

    /// Decodes a header of the segment with this nonce. Returns the header with its checksum.
    ///
    /// # Errors
    /// The nonce differs, the checksum is wrong, or a value is one that no writer writes. The caller checks
    /// the chain, the order and the payload.
    pub fn decode(bytes: &[u8; BATCH_HEADER_BYTES], nonce: u64) -> Result<(Self, u32), FormatError> {
        if u64_at(bytes, 0) != nonce {
            return Err(FormatError::Nonce);
        }
        let (found, stored) = (crc32c::crc32c(&bytes[..60]), u32_at(bytes, 60));
        if found != stored {
            return Err(FormatError::Checksum { what: "batch header", found, stored });
        }
        let kind = match bytes[56..60] {
            [1, 0, 0, 0] => BatchKind::Records,
            [2, 0, 0, 0] => BatchKind::Schemas,
            _ => {
                let found = bytes[56].into();
                return Err(FormatError::Value { what: "batch kind", found, allowed: "1 or 2" });
            }
        };
        let header = Self {
            nonce,
            payload_bytes: u32_at(bytes, 8),
            count: u32_at(bytes, 12),
            first: Sequence(u64_at(bytes, 16)),
            durable: Sequence(u64_at(bytes, 24)),
            schema_mask: u64_at(bytes, 32),
            stamp_us: u64_at(bytes, 40).cast_signed(),
            payload_checksum: u32_at(bytes, 48),
            previous: u32_at(bytes, 52),
            kind,
        };
        header.check_bounds()?;
        Ok((header, found))
    }

    fn check_bounds(&self) -> Result<(), FormatError> {
        let payload = u64::from(self.payload_bytes);
        if payload > BATCH_BYTES_MAX as u64 {
            return Err(FormatError::Value {
                what: "payload bytes",
                found: payload,
                allowed: "0 to 16777216",
            });
        }
        let records = u64::from(self.count);
        if records == 0 || records > payload / FRAME_BYTES as u64 {
            let allowed = "at least 1, at most one for each 8 bytes of the payload";
            return Err(FormatError::Value { what: "record count", found: records, allowed });
        }
        if !self.first.is_possible() || !self.first.after(records).is_possible() {
            let allowed = "1 to 2^56 - 1 for each record of the batch";
            return Err(FormatError::Value { what: "first sequence number", found: self.first.0, allowed });
        }
        if self.durable >= self.first {
            let allowed = "less than the first sequence number of the batch";
            return Err(FormatError::Value {
                what: "durable sequence number",
                found: self.durable.0,
                allowed,
            });
        }
        Ok(())
    }
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut array = [0; 8];
    array.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(array)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut array = [0; 4];
    array.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BatchHeader {
        BatchHeader {
            nonce: 0x1122_3344_5566_7788,
            payload_bytes: 29,
            count: 3,
            first: Sequence(41),
            durable: Sequence(40),
            schema_mask: 5,
            stamp_us: -7,
            payload_checksum: 9,
            previous: 8,
            kind: BatchKind::Records,
        }
    }

    #[test]
    fn a_header_reads_as_it_was_written() {
        let (bytes, checksum) = header().encode();
        assert_eq!(BatchHeader::decode(&bytes, header().nonce), Ok((header(), checksum)));
        assert_eq!(header().last(), Sequence(43));
        assert_eq!(header().batch_bytes(), 64 + 32);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let (bytes, _) = header().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(BatchHeader::decode(&damaged, header().nonce).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn another_segments_header_does_not_count() {
        let (bytes, _) = header().encode();
        assert_eq!(BatchHeader::decode(&bytes, 1), Err(FormatError::Nonce));
    }

    #[test]
    fn lengths_and_counts_are_bounded_before_anything_is_read() {
        for wrong in [
            BatchHeader { payload_bytes: BATCH_BYTES_MAX as u32 + 1, ..header() },
            BatchHeader { count: 0, ..header() },
            BatchHeader { first: Sequence(0), ..header() },
            BatchHeader { count: u32::MAX, ..header() },
            BatchHeader { count: 4, ..header() },
            BatchHeader { first: Sequence(u64::MAX), ..header() },
            BatchHeader { first: Sequence(Sequence::MAX.0 - 2), ..header() },
            BatchHeader { durable: Sequence(41), ..header() },
            BatchHeader { durable: Sequence(u64::MAX), ..header() },
        ] {
            let (bytes, _) = wrong.encode();
            let result = BatchHeader::decode(&bytes, wrong.nonce);
            assert!(matches!(result, Err(FormatError::Value { .. })), "{wrong:?}");
        }
    }
}
