//! Tests of the inspector: every byte belongs to one part, and damage is reported at its place.

use std::path::Path;

use tollgate_log::{Inspector, RecordContent, SegmentPart};

use crate::sim::{Random, Sim};
use crate::workload::Step::{Close, Seal, Sync, Write};
use crate::workload::{batches_in, dead_log, file_bytes, segment_path};

const SEALED: &[crate::workload::Step] = &[Write(2), Sync, Write(3), Sync, Close, Seal];

fn parts(sim: &Sim, path: &Path) -> Vec<SegmentPart> {
    let mut inspector = Inspector::open(sim, path).unwrap();
    let mut parts = Vec::new();
    while let Some(part) = inspector.next_part().unwrap() {
        parts.push(part);
    }
    parts
}

/// Returns the offset of a part, its bytes, and the count of its problems.
fn place(part: &SegmentPart) -> (u64, u64, usize) {
    match part {
        SegmentPart::Header { problem, .. } => (0, 128, problem.iter().count()),
        SegmentPart::Batch(batch) => {
            let unreadable =
                |record: &&tollgate_log::RecordPart| matches!(record.content, RecordContent::Unreadable(_));
            let unreadable = batch.records.iter().filter(unreadable).count();
            (batch.offset, batch.header.batch_bytes(), batch.problems.len() + unreadable)
        }
        SegmentPart::Damage { offset, bytes, .. } => (*offset, *bytes, 1),
        SegmentPart::Runway { offset, bytes } => (*offset, *bytes, 0),
        SegmentPart::Footer(footer) => {
            let broken = footer.problems.len() + usize::from(footer.footer.is_err());
            (footer.offset, footer.bytes, broken)
        }
    }
}

/// Checks that the parts cover the whole file without gaps.
fn check_covers(parts: &[SegmentPart], file_bytes: u64, context: &str) {
    let mut at = 0;
    for part in parts {
        let (offset, bytes, _) = place(part);
        assert_eq!(offset, at, "{context}");
        at = (at + bytes).min(file_bytes);
    }
    assert_eq!(at, file_bytes, "{context}");
}

#[test]
fn a_whole_segment_is_all_parts_and_no_problem() {
    let (sim, law) = dead_log(SEALED);
    let path = segment_path(&sim, law.log, 0);
    let parts = parts(&sim, &path);
    check_covers(&parts, file_bytes(&sim, &path).len() as u64, "whole");
    assert!(parts.iter().all(|part| place(part).2 == 0), "{parts:?}");
    let SegmentPart::Header { header: Some(header), .. } = &parts[0] else { panic!("{parts:?}") };
    assert_eq!((header.log, header.node.as_str()), (law.log, "node"));
    let numbers: Vec<_> = parts
        .iter()
        .filter_map(|part| if let SegmentPart::Batch(batch) = part { Some(batch) } else { None })
        .flat_map(|batch| batch.records.iter().filter_map(|record| record.sequence))
        .map(|sequence| sequence.0)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    assert!(matches!(parts.last(), Some(SegmentPart::Footer(footer)) if footer.footer.is_ok()));
}

#[test]
fn a_flipped_byte_shows_in_the_part_that_it_is_in() {
    let (sim, law) = dead_log(SEALED);
    let path = segment_path(&sim, law.log, 0);
    let whole = file_bytes(&sim, &path);
    let places: Vec<_> = parts(&sim, &path).iter().map(place).collect();
    for at in 0..whole.len() {
        sim.edit(&path, |bytes| bytes[at] ^= 0x10);
        let parts = parts(&sim, &path);
        check_covers(&parts, whole.len() as u64, &format!("byte {at}"));
        let (offset, ..) = places.iter().rev().find(|(offset, ..)| *offset <= at as u64).unwrap();
        let told = parts.iter().map(place).find(|(one, ..)| one == offset);
        assert!(told.is_some_and(|(.., problems)| problems > 0), "byte {at}: {parts:?}");
        sim.edit(&path, |bytes| bytes[at] ^= 0x10);
    }
}

#[test]
fn inspection_goes_on_at_the_next_intact_header_behind_damage() {
    let (sim, law) = dead_log(SEALED);
    let path = segment_path(&sim, law.log, 0);
    let batches = batches_in(&file_bytes(&sim, &path));
    sim.edit(&path, |bytes| bytes[batches[1].0 + 8] ^= 1);
    let found: Vec<_> = parts(&sim, &path).iter().map(place).collect();
    let lost = (batches[2].0 - batches[1].0) as u64;
    assert_eq!(found[2], (batches[1].0 as u64, lost, 1));
    assert_eq!(found[3].0, batches[2].0 as u64);
    assert_eq!(found[3].2, 0, "what lies behind is intact");
}

#[test]
fn no_bytes_make_it_panic_or_stop_before_the_end() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let (sim, law) = dead_log(SEALED);
        let path = segment_path(&sim, law.log, 0);
        sim.edit(&path, |bytes| {
            bytes.truncate(random.below(bytes.len() + 1));
            for _ in 0..random.below(40) {
                let at = random.below(bytes.len().max(1));
                bytes
                    .iter_mut()
                    .skip(at)
                    .take(1 + (seed % 9) as usize)
                    .for_each(|byte| *byte = random.next() as u8);
            }
        });
        let bytes = file_bytes(&sim, &path).len() as u64;
        let parts = parts(&sim, &path);
        let is_unknown = matches!(parts[0], SegmentPart::Header { header: None, .. });
        if !is_unknown {
            check_covers(&parts, bytes, &format!("seed {seed}"));
        }
    }
}
