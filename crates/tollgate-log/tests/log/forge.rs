//! Splits a segment into parts, so that a test can change any number and recompute every checksum, chain and
//! digest.
//!
//! This file follows `docs/reference/log-format.md`, and does not use the code under test. The tests of the
//! loader and of the program use it too.

#![allow(dead_code, reason = "each crate whose tests use it needs another part of it")]

use sha2::{Digest as _, Sha256};

pub(crate) const HEADER_BYTES: usize = 128;
pub(crate) const BATCH_HEADER_BYTES: usize = 64;
const FOOTER_MAGIC: &[u8; 8] = b"TGSEALED";

/// A segment, split into parts.
#[derive(Clone)]
pub(crate) struct Forged {
    /// The segment header. [`Self::bytes`] computes its checksum.
    pub(crate) header: Vec<u8>,
    pub(crate) batches: Vec<ForgedBatch>,
    pub(crate) footer: Option<ForgedFooter>,
    /// Bytes after the footer, or after the last batch.
    pub(crate) rest: Vec<u8>,
}

/// A batch. Fields that are `None` are computed.
#[derive(Clone)]
pub(crate) struct ForgedBatch {
    pub(crate) nonce: Option<u64>,
    pub(crate) payload_bytes: Option<u32>,
    pub(crate) count: u32,
    pub(crate) first: u64,
    pub(crate) durable: u64,
    pub(crate) mask: u64,
    pub(crate) stamp: u64,
    pub(crate) previous: Option<u32>,
    pub(crate) kind: u8,
    pub(crate) payload: Vec<u8>,
}

/// A footer. Fields that are `None` are computed.
#[derive(Clone)]
pub(crate) struct ForgedFooter {
    pub(crate) nonce: Option<u64>,
    pub(crate) batches: u64,
    pub(crate) records: u64,
    pub(crate) last: u64,
    pub(crate) content_bytes: Option<u64>,
    pub(crate) chain: Option<u32>,
    pub(crate) digest_number: u8,
    pub(crate) digest: Option<[u8; 64]>,
    pub(crate) digest_before: [u8; 64],
    /// Schema number, rows and rejects of each count.
    pub(crate) counts: Vec<(u16, u64, u64)>,
}

impl Forged {
    /// Splits an intact segment.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut forged = Self {
            header: bytes[..HEADER_BYTES].to_vec(),
            batches: Vec::new(),
            footer: None,
            rest: Vec::new(),
        };
        let mut at = HEADER_BYTES;
        while at + BATCH_HEADER_BYTES <= bytes.len() && bytes[at..at + 8] == bytes[48..56] {
            let payload_bytes = u32_at(bytes, at + 8) as usize;
            let payload = at + BATCH_HEADER_BYTES;
            forged.batches.push(ForgedBatch {
                nonce: None,
                payload_bytes: None,
                count: u32_at(bytes, at + 12),
                first: u64_at(bytes, at + 16),
                durable: u64_at(bytes, at + 24),
                mask: u64_at(bytes, at + 32),
                stamp: u64_at(bytes, at + 40),
                previous: None,
                kind: bytes[at + 56],
                payload: bytes[payload..payload + payload_bytes].to_vec(),
            });
            at = payload + payload_bytes.next_multiple_of(8);
        }
        if bytes[at..].starts_with(FOOTER_MAGIC) {
            let counted = u32_at(bytes, at + 184) as usize;
            let count = |entry: &[u8]| {
                (u16::from_le_bytes([entry[0], entry[1]]), u64_at(entry, 8), u64_at(entry, 16))
            };
            forged.footer = Some(ForgedFooter {
                nonce: None,
                batches: u64_at(bytes, at + 16),
                records: u64_at(bytes, at + 24),
                last: u64_at(bytes, at + 32),
                content_bytes: None,
                chain: None,
                digest_number: bytes[at + 52],
                digest: None,
                digest_before: bytes[at + 120..at + 184].try_into().unwrap(),
                counts: bytes[at + 192..at + 192 + 24 * counted].chunks_exact(24).map(count).collect(),
            });
            at += 200 + 24 * counted;
        }
        forged.rest = bytes[at..].to_vec();
        forged
    }

    pub(crate) fn nonce(&self) -> u64 {
        u64_at(&self.header, 48)
    }

    pub(crate) fn set_nonce(&mut self, nonce: u64) {
        self.header[48..56].copy_from_slice(&nonce.to_le_bytes());
    }

    pub(crate) fn first(&self) -> u64 {
        u64_at(&self.header, 56)
    }

    pub(crate) fn set_first(&mut self, first: u64) {
        self.header[56..64].copy_from_slice(&first.to_le_bytes());
    }

    /// Returns the bytes of the segment.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.clone();
        let mut chain = crc32c::crc32c(&bytes[..124]);
        bytes[124..128].copy_from_slice(&chain.to_le_bytes());
        for batch in &self.batches {
            let header = batch.header(self.nonce(), chain);
            chain = u32_at(&header, 60);
            bytes.extend_from_slice(&header);
            bytes.extend_from_slice(&batch.payload);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        if let Some(footer) = &self.footer {
            bytes.extend_from_slice(&footer.bytes(self.nonce(), chain, &bytes));
        }
        bytes.extend_from_slice(&self.rest);
        bytes
    }
}

impl ForgedBatch {
    fn header(&self, nonce: u64, chain: u32) -> Vec<u8> {
        let mut header = Vec::new();
        header.extend_from_slice(&self.nonce.unwrap_or(nonce).to_le_bytes());
        header.extend_from_slice(&self.payload_bytes.unwrap_or(self.payload.len() as u32).to_le_bytes());
        header.extend_from_slice(&self.count.to_le_bytes());
        for number in [self.first, self.durable, self.mask, self.stamp] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        header.extend_from_slice(&crc32c::crc32c(&self.payload).to_le_bytes());
        header.extend_from_slice(&self.previous.unwrap_or(chain).to_le_bytes());
        header.extend_from_slice(&[self.kind, 0, 0, 0]);
        header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        header
    }
}

impl ForgedFooter {
    fn bytes(&self, nonce: u64, chain: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = FOOTER_MAGIC.to_vec();
        let content_bytes = self.content_bytes.unwrap_or(content.len() as u64);
        for number in [self.nonce.unwrap_or(nonce), self.batches, self.records, self.last, content_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.chain.unwrap_or(chain).to_le_bytes());
        bytes.extend_from_slice(&[self.digest_number, 0, 0, 0]);
        bytes.extend_from_slice(&self.digest.unwrap_or_else(|| digest_of(self.digest_number, content)));
        bytes.extend_from_slice(&self.digest_before);
        bytes.extend_from_slice(&(self.counts.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for (schema, rows, rejects) in &self.counts {
            bytes.extend_from_slice(&schema.to_le_bytes());
            bytes.extend_from_slice(&[0; 6]);
            bytes.extend_from_slice(&rows.to_le_bytes());
            bytes.extend_from_slice(&rejects.to_le_bytes());
        }
        bytes.extend_from_slice(&(bytes.len() as u32 + 8).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }
}

/// Returns the SHA-256 of the content, because the tests use only this algorithm. The digest of any other
/// algorithm is zeros.
fn digest_of(number: u8, content: &[u8]) -> [u8; 64] {
    let mut digest = [0; 64];
    if number == 2 {
        digest[..32].copy_from_slice(&Sha256::digest(content));
    }
    digest
}

/// Returns a record with the schema of one column of type int.
pub(crate) fn schema_record(id: u16, stream: &str, column: &str) -> Vec<u8> {
    let mut body = 1_u16.to_le_bytes().to_vec();
    body.push(stream.len() as u8);
    body.extend_from_slice(stream.as_bytes());
    body.extend_from_slice(&[2, 0, column.len() as u8]);
    body.extend_from_slice(column.as_bytes());
    record(id, 2, &body)
}

/// Returns a row of one column of type int.
pub(crate) fn int_row(id: u16, value: i64) -> Vec<u8> {
    let mut body = vec![1];
    body.extend_from_slice(&value.to_le_bytes());
    record(id, 0, &body)
}

fn record(id: u16, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut record = (body.len() as u32).to_le_bytes().to_vec();
    record.extend_from_slice(&id.to_le_bytes());
    record.extend_from_slice(&[kind, 0]);
    record.extend_from_slice(body);
    record
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}
