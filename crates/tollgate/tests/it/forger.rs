//! A forger changes a sealed segment, and computes its checksums and its digest again.

use sha2::{Digest, Sha256};

const SEGMENT_HEADER_BYTES: usize = 128;
const BATCH_HEADER_BYTES: usize = 64;

/// Flips a bit in the last byte of the first record's batch, then computes every checksum and the digest
/// again.
pub(crate) fn forge(segment: &mut [u8]) {
    let batches = batches_in(segment);
    let (at, payload_bytes) = batches[1];
    segment[at + BATCH_HEADER_BYTES + payload_bytes - 1] ^= 1;
    let mut previous = u32_at(segment, SEGMENT_HEADER_BYTES - 4);
    for (at, payload_bytes) in &batches {
        let payload = at + BATCH_HEADER_BYTES;
        let checksum = crc32c::crc32c(&segment[payload..payload + payload_bytes]);
        put(segment, at + 48, checksum);
        put(segment, at + 52, previous);
        previous = crc32c::crc32c(&segment[*at..at + 60]);
        put(segment, at + 60, previous);
    }
    fit_footer(segment, previous);
}

/// Forges a segment, and chooses the stamp of the changed batch so that its header checksum stays the same.
pub(crate) fn forge_and_solve(segment: &mut [u8]) {
    let (at, payload_bytes) = batches_in(segment)[1];
    let payload = at + BATCH_HEADER_BYTES;
    let wanted = u32_at(segment, at + 60);
    segment[payload + payload_bytes - 1] ^= 1;
    let checksum = crc32c::crc32c(&segment[payload..payload + payload_bytes]);
    put(segment, at + 48, checksum);
    solve(&mut segment[at..at + 60], wanted);
    let previous = batches_in(segment).last().map(|(at, _)| u32_at(segment, at + 60)).unwrap();
    fit_footer(segment, previous);
}

/// Finds the low half of the stamp that gives a header the wanted checksum. This is possible because a CRC is
/// linear in each bit of the header.
fn solve(header: &mut [u8], wanted: u32) {
    const STAMP: usize = 40;
    header[STAMP..STAMP + 4].fill(0);
    let base = crc32c::crc32c(header);
    let effect = |bit: usize| {
        let mut changed = header.to_vec();
        changed[STAMP + bit / 8] ^= 1 << (bit % 8);
        crc32c::crc32c(&changed) ^ base
    };
    // Pairs of an effect on the checksum and the bits of the stamp that cause it. They are reduced so that
    // each effect has a leading bit of its own.
    let mut basis: Vec<(u32, u32)> = Vec::new();
    let reduce = |basis: &[(u32, u32)], mut left: u32| {
        let mut bits = 0;
        for (effect, makes) in basis {
            if left ^ effect < left {
                (left, bits) = (left ^ effect, bits ^ makes);
            }
        }
        (left, bits)
    };
    for bit in 0..32 {
        let (left, bits) = reduce(&basis, effect(bit));
        basis.push((left, bits ^ 1 << bit));
        basis.sort_by(|a, b| b.cmp(a));
    }
    let (left, bits) = reduce(&basis, wanted ^ base);
    assert_eq!(left, 0, "four bytes are enough for any checksum");
    header[STAMP..STAMP + 4].copy_from_slice(&bits.to_le_bytes());
}

/// Returns the offset of each batch, and the length of its payload.
fn batches_in(segment: &[u8]) -> Vec<(usize, usize)> {
    let mut batches = Vec::new();
    let mut at = SEGMENT_HEADER_BYTES;
    while &segment[at..at + 8] != b"TGSEALED" {
        let payload_bytes = u32_at(segment, at + 8) as usize;
        batches.push((at, payload_bytes));
        at += BATCH_HEADER_BYTES + payload_bytes.next_multiple_of(8);
    }
    batches
}

fn fit_footer(segment: &mut [u8], chain: u32) {
    let bytes = segment.len();
    let footer = bytes - u32_at(segment, bytes - 8) as usize;
    put(segment, footer + 48, chain);
    let digest = Sha256::digest(&segment[..footer]);
    segment[footer + 56..footer + 88].copy_from_slice(&digest);
    let checksum = crc32c::crc32c(&segment[footer..bytes - 4]);
    put(segment, bytes - 4, checksum);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}
