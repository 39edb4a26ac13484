//! Flips every single bit of a sealed segment of 64 KiB, and cuts the segment at every length. Checks that
//! each change is detected.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use tollgate_log::{
    Handover, SchemaId, SegmentDigestAlgorithm, SegmentName, SegmentState, SegmentWriter, Sequence,
    check_digest, verify_segment,
};

use crate::sim::Sim;
use crate::workload::{dir, file_bytes, schema, segments_of};

const SEGMENT_BYTES: usize = 64 << 10;
/// Bytes of a footer that counts one schema.
const FOOTER_BYTES: usize = 224;
const BATCH_BYTES: usize = 2 << 10;
/// Bytes of a row before its text: the frame, the bitmap, the number, and the length of the text.
const ROW_BYTES: usize = 8 + 1 + 8 + 4;

/// Makes a batch of exactly `bytes` bytes, with its header and three bytes of padding. `bytes` is a multiple
/// of eight.
fn batch_of(bytes: usize) -> Handover {
    const ROWS: usize = 4;
    let text_bytes = bytes - 64 - 3 - ROWS * ROW_BYTES;
    let mut payload = Vec::new();
    for row in 0..ROWS {
        let text_bytes = text_bytes / ROWS + if row == 0 { text_bytes % ROWS } else { 0 };
        payload.extend_from_slice(&((ROW_BYTES - 8 + text_bytes) as u32).to_le_bytes());
        payload.extend_from_slice(&[0, 0, 0, 0, 0b11]);
        payload.extend_from_slice(&(row as u64).to_le_bytes());
        payload.extend_from_slice(&(text_bytes as u32).to_le_bytes());
        payload.extend((0..text_bytes).map(|at| b'a' + (at % 26) as u8));
    }
    let payload_checksum = crc32c::crc32c(&payload);
    Handover { payload, count: ROWS as u32, schema_mask: SchemaId(0).mask(), payload_checksum }
}

/// Makes a disk with one sealed segment of exactly 64 KiB.
fn sealed() -> (Sim, SegmentName, PathBuf) {
    let sim = Sim::new();
    let schemas = vec![(SchemaId(0), Arc::new(schema()))];
    let mut writer = SegmentWriter::new(sim.storage(), &dir(), None, "node", schemas);
    let content = SEGMENT_BYTES - FOOTER_BYTES;
    writer.write(&[batch_of(BATCH_BYTES)], Sequence(0), 0).unwrap();
    loop {
        let left = content - writer.active_bytes() as usize;
        let bytes = if left < 2 * BATCH_BYTES { left } else { BATCH_BYTES };
        writer.write(&[batch_of(bytes)], Sequence(0), 0).unwrap();
        if bytes == left {
            break;
        }
    }
    writer.take_sync_work().run(&sim).unwrap();
    writer.close_segment().unwrap().seal(&sim, SegmentDigestAlgorithm::Sha256, [0; 64]).unwrap();
    let (name, path) = segments_of(&sim, writer.log()).remove(0);
    assert_eq!(file_bytes(&sim, &path).len(), SEGMENT_BYTES);
    assert_eq!(name.state, SegmentState::Sealed);
    (sim, name, path)
}

/// Runs `check` for all cases. Each thread has its own segment.
fn in_threads(cases: usize, check: impl Fn(&Sim, SegmentName, &Path, usize) + Sync) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for thread in 0..threads {
            let check = &check;
            scope.spawn(move || {
                let (sim, name, path) = sealed();
                (thread..cases).step_by(threads).for_each(|case| check(&sim, name, &path, case));
            });
        }
    });
}

fn is_whole(sim: &Sim, name: SegmentName, path: &Path) -> bool {
    verify_segment(sim, name, path, None).unwrap().problem.is_none()
}

#[test]
fn the_segment_itself_is_whole() {
    let (sim, name, path) = sealed();
    assert!(is_whole(&sim, name, &path));
    assert_eq!(check_digest(&sim, name, &path).unwrap().map(|checked| checked.header.first), Ok(name.first));
}

#[test]
fn every_flipped_bit_of_a_sealed_segment_is_detected() {
    in_threads(8 * SEGMENT_BYTES, |sim, name, path, bit| {
        let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
        sim.edit(path, flip);
        assert!(!is_whole(sim, name, path), "bit {bit}");
        sim.edit(path, flip);
    });
}

#[test]
fn every_truncation_of_a_sealed_segment_is_detected() {
    in_threads(SEGMENT_BYTES, |sim, name, path, size| {
        let whole = file_bytes(sim, path);
        sim.edit(path, |bytes| bytes.truncate(size));
        assert!(!is_whole(sim, name, path), "cut to {size}");
        sim.edit(path, |bytes| *bytes = whole);
    });
}

#[test]
fn the_digest_alone_detects_a_flipped_bit_of_each_byte_and_every_truncation() {
    in_threads(SEGMENT_BYTES, |sim, name, path, at| {
        let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << (at % 8);
        sim.edit(path, flip);
        assert!(check_digest(sim, name, path).unwrap().is_err(), "byte {at}");
        sim.edit(path, flip);
        let whole = file_bytes(sim, path);
        sim.edit(path, |bytes| bytes.truncate(at));
        assert!(check_digest(sim, name, path).unwrap().is_err(), "cut to {at}");
        sim.edit(path, |bytes| *bytes = whole);
    });
}
