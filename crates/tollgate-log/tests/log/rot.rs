//! Tests of damaged segments: damage is found, named, and read around.

use std::ops::Range;

use tollgate_log::{
    Cursor, CursorStep, Gap, LogId, Position, SegmentDigestAlgorithm, SegmentProblem, Sequence, Storage,
    read_footer, recover, scan_segment, verify_segment,
};

use crate::sim::{Random, Sim};
use crate::workload::Step::{Close, Seal, Sync, Write};
use crate::workload::{
    Driver, Step, batches_in, dead_log, dir, drain, file_bytes, mend, names_of, read, read_from,
    segment_path, segments_of,
};

const THREE_SEALED: &[Step] =
    &[Write(2), Sync, Close, Seal, Write(2), Write(1), Sync, Close, Seal, Write(2), Sync, Close, Seal];
const RECORDS: u64 = 11;

/// Returns the parts of a segment. Each has the range of its bytes, and the records that are lost if these
/// bytes are damaged.
fn parts(bytes: &[u8], next_segment: u64) -> Vec<(Range<usize>, Range<u64>)> {
    let batches = batches_in(bytes);
    let last = batches.last().unwrap().0;
    let payload = u32::from_le_bytes(bytes[last + 8..last + 12].try_into().unwrap()) as usize;
    let content = last + 64 + payload.next_multiple_of(8);
    let ends = batches.iter().skip(1).copied().chain([(content, next_segment)]);
    let of_batches = batches.iter().zip(ends).map(|(start, end)| (start.0..end.0, start.1..end.1));
    let header = (0..128, 0..0);
    [header].into_iter().chain(of_batches).chain([(content..bytes.len(), 0..0)]).collect()
}

fn problem_of(sim: &Sim, log: LogId, index: usize) -> Option<SegmentProblem> {
    let (name, path) = segments_of(sim, log)[index].clone();
    verify_segment(sim, name, &path, None).unwrap().problem
}

#[test]
fn a_flipped_bit_anywhere_is_named_and_costs_no_more_than_its_batch() {
    let (sim, law) = dead_log(THREE_SEALED);
    let path = segment_path(&sim, law.log, 1);
    let whole = file_bytes(&sim, &path);
    let parts = parts(&whole, 9);
    assert_eq!(problem_of(&sim, law.log, 1), None);
    for offset in 0..whole.len() {
        sim.edit(&path, |bytes| bytes[offset] ^= 1 << (offset % 8));
        let (place, lost) = parts.iter().find(|(place, _)| place.contains(&offset)).unwrap();
        let problem = problem_of(&sim, law.log, 1).unwrap_or_else(|| panic!("byte {offset} is not found"));
        assert_eq!(problem.offset, place.start as u64, "byte {offset}: {problem:?}");
        let is_named =
            lost.is_empty() || problem.first.0 <= lost.start && problem.last.unwrap().0 >= lost.end - 1;
        assert!(is_named, "byte {offset}: {problem:?}, lost {lost:?}");
        check_read_around(&sim, law.log, lost, &format!("byte {offset}"));
        sim.edit(&path, |bytes| *bytes = whole.clone());
    }
}

/// Checks that the result does not depend on the cursor's first position.
fn check_read_around(sim: &Sim, log: LogId, lost: &Range<u64>, context: &str) {
    for behind in [None, Some(3), Some(6), Some(8)] {
        let position = behind.map(|last| Position { last: Sequence(last), chain: None });
        let first = behind.unwrap_or(0) + 1;
        let found = read_from(sim, log, position);
        let is_lost = |number: &u64| lost.contains(number);
        let (missing, intact): (Vec<_>, Vec<_>) = (first..=RECORDS).partition(is_lost);
        assert_eq!(found.numbers, intact, "{context}, behind {behind:?}");
        assert_eq!(found.missing(), missing, "{context}, behind {behind:?}");
    }
}

#[test]
fn a_segment_cut_anywhere_is_found_and_what_is_left_is_read() {
    let (sim, law) = dead_log(THREE_SEALED);
    let path = segment_path(&sim, law.log, 1);
    let whole = file_bytes(&sim, &path);
    let parts = parts(&whole, 9);
    for size in 0..whole.len() {
        sim.edit(&path, |bytes| bytes.truncate(size));
        assert!(problem_of(&sim, law.log, 1).is_some(), "cut to {size}");
        let lost = parts.iter().find(|(place, lost)| place.end > size && !lost.is_empty());
        let lost = lost.map_or(9..9, |(_, lost)| lost.start..9);
        check_read_around(&sim, law.log, &lost, &format!("cut to {size}"));
        sim.edit(&path, |bytes| *bytes = whole.clone());
    }
}

#[test]
fn schemas_that_all_segments_before_lost_are_taken_from_a_later_one() {
    let (sim, law) = dead_log(THREE_SEALED);
    for index in [0, 1] {
        sim.edit(&segment_path(&sim, law.log, index), |bytes| bytes[128 + 70] ^= 1);
    }
    check_read_around(&sim, law.log, &(0..0), "two of three");
    sim.edit(&segment_path(&sim, law.log, 2), |bytes| bytes[128 + 70] ^= 1);
    let found = read(&sim, law.log);
    assert_eq!(found.numbers, [0; 0]);
    assert_eq!(found.missing(), (1..=RECORDS).collect::<Vec<_>>());
}

#[test]
fn a_position_between_two_damaged_batches_loses_the_second_by_name() {
    let (sim, law) = dead_log(THREE_SEALED);
    sim.edit(&segment_path(&sim, law.log, 1), |bytes| {
        for (at, _) in batches_in(bytes).into_iter().skip(1).take(2) {
            bytes[at + 80] ^= 1;
        }
    });
    // The batches with the records 4 to 5 and 6 are damaged. The reader has already passed 4 and 5.
    let found = read_from(&sim, law.log, Some(Position { last: Sequence(5), chain: None }));
    assert_eq!((found.missing(), found.numbers), (vec![6], vec![7, 8, 9, 10, 11]));
}

#[test]
fn a_damaged_end_of_a_log_is_a_gap_wherever_the_reader_stands() {
    let (sim, law) = dead_log(THREE_SEALED);
    sim.edit(&segment_path(&sim, law.log, 2), |bytes| {
        for (at, _) in batches_in(bytes).into_iter().skip(1) {
            bytes[at + 80] ^= 1;
        }
    });
    for last in [8, 10] {
        let found = read_from(&sim, law.log, Some(Position { last: Sequence(last), chain: None }));
        assert_eq!(found.missing(), (last + 1..=RECORDS).collect::<Vec<_>>(), "behind {last}");
    }
}

#[test]
fn a_missing_segment_is_a_gap() {
    let (sim, law) = dead_log(THREE_SEALED);
    Storage::remove(&sim, &segment_path(&sim, law.log, 1)).unwrap();
    let found = read(&sim, law.log);
    assert_eq!(found.missing(), [4, 5, 6, 7, 8]);
    assert_eq!(found.gaps[0].reason, "segment is missing");
}

#[test]
fn a_segment_unlinked_behind_a_reader_is_no_gap_and_its_records_do_not_come_again() {
    let (sim, law) = dead_log(THREE_SEALED);
    let path = segment_path(&sim, law.log, 1);
    Storage::remove(&sim, &path).unwrap();
    let position = Some(Position { last: Sequence(8), chain: None });
    for disk in [sim.restart(), sim.power_cut(0)] {
        let is_back = disk.files().contains_key(&path);
        mend(&disk);
        let found = read_from(&disk, law.log, position);
        assert_eq!((found.numbers, found.gaps.len()), (vec![9, 10, 11], 0), "the file is back: {is_back}");
    }
    assert!(sim.power_cut(0).files().contains_key(&path), "an unlink that was not synced");
}

/// Makes a live log whose records 1 to 3 are synced and 4 to 6 only written. The batches that begin with
/// `firsts` are damaged.
fn live_with_damage(firsts: &[u64]) -> (Sim, Driver) {
    let sim = Sim::new();
    let mut driver = Driver::new(&sim);
    driver.run(&[Write(2), Sync, Write(2)]).unwrap();
    sim.edit(&segment_path(&sim, driver.law.log, 0), |bytes| {
        for (at, first) in batches_in(bytes) {
            if firsts.contains(&first) && bytes[at + 56] == 1 {
                bytes[at + 80] ^= 1;
            }
        }
    });
    (sim, driver)
}

#[test]
fn a_gap_of_a_live_log_never_passes_the_watermark() {
    let (sim, driver) = live_with_damage(&[3, 4]);
    let mut cursor = Cursor::new(sim.storage(), &dir(), driver.law.log, None);
    let found = drain(&mut cursor, Some(Sequence(3)));
    assert_eq!((found.numbers.as_slice(), found.missing()), ([1, 2].as_slice(), vec![3]));
    let found = drain(&mut cursor, Some(Sequence(6)));
    assert_eq!((found.numbers.as_slice(), found.missing()), ([6].as_slice(), vec![4, 5]));
}

#[test]
fn a_missing_segment_of_a_live_log_is_a_gap_up_to_the_watermark_only() {
    let sim = Sim::new();
    let mut driver = Driver::new(&sim);
    driver.run(&[Write(2), Sync, Close, Write(3), Close, Write(1)]).unwrap();
    Storage::remove(&sim, &segment_path(&sim, driver.law.log, 1)).unwrap();
    let mut cursor = Cursor::new(sim.storage(), &dir(), driver.law.log, None);
    assert_eq!(drain(&mut cursor, Some(Sequence(4))).missing(), [4]);
    assert_eq!(drain(&mut cursor, Some(Sequence(9))).missing(), [5, 6, 7]);
}

#[test]
fn damage_before_a_batch_that_is_being_written_is_told_when_the_batch_is_whole() {
    let (sim, driver) = live_with_damage(&[3]);
    let path = segment_path(&sim, driver.law.log, 0);
    let whole = file_bytes(&sim, &path);
    let being_written = batches_in(&whole)[3].0;
    sim.edit(&path, |bytes| bytes.truncate(being_written + 70));
    let mut cursor = Cursor::new(sim.storage(), &dir(), driver.law.log, None);
    let found = drain(&mut cursor, Some(Sequence(3)));
    assert_eq!((found.numbers.as_slice(), found.has_damaged_end), ([1, 2].as_slice(), true));
    sim.edit(&path, |bytes| *bytes = whole);
    let found = drain(&mut cursor, Some(Sequence(6)));
    assert_eq!((found.missing(), found.numbers), (vec![3], vec![4, 5, 6]));
}

#[test]
fn a_batch_that_is_being_written_is_no_damage() {
    let (sim, driver) = live_with_damage(&[]);
    let path = segment_path(&sim, driver.law.log, 0);
    let being_written = batches_in(&file_bytes(&sim, &path))[3].0;
    sim.edit(&path, |bytes| bytes.truncate(being_written + 70));
    let mut cursor = Cursor::new(sim.storage(), &dir(), driver.law.log, None);
    for limit in [Some(Sequence(3)), None] {
        let found = drain(&mut cursor, limit);
        assert!(!found.has_damaged_end && found.gaps.is_empty(), "{found:?}");
    }
}

#[test]
fn a_position_of_another_copy_of_the_log_is_refused() {
    let (sim, law) = dead_log(THREE_SEALED);
    for last in [2, 3, 5] {
        let position = Position { last: Sequence(last), chain: Some(1) };
        let mut cursor = Cursor::new(sim.storage(), &dir(), law.log, Some(position));
        let error = cursor.step(None).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("does not continue the chain"), "behind {last}: {source}");
    }
}

#[test]
fn a_damaged_header_names_the_whole_segment() {
    let (sim, law) = dead_log(THREE_SEALED);
    sim.edit(&segment_path(&sim, law.log, 1), |bytes| bytes[0] = 0);
    let problem = problem_of(&sim, law.log, 1).unwrap();
    assert_eq!((problem.offset, problem.first, problem.last), (0, Sequence(4), Some(Sequence(8))));
}

#[test]
fn a_whole_segment_in_the_place_of_another_is_told() {
    let (sim, law) = dead_log(THREE_SEALED);
    let bytes = file_bytes(&sim, &segment_path(&sim, law.log, 1));
    let other = LogId::from_bytes([9; 16]);
    for (log, number) in [(other, 4), (law.log, 40)] {
        sim.put(&dir().join(log.to_string()).join(format!("{number:020}.sealed")), &bytes);
    }
    let problem = problem_of(&sim, other, 0).unwrap();
    assert_eq!(problem.reason, format!("the segment belongs to log {}", law.log));
    let problem = problem_of(&sim, law.log, 3).unwrap();
    assert_eq!(problem.reason, "the segment begins with record 4, its file name says another");
}

#[test]
fn a_digest_that_is_not_of_these_bytes_is_told() {
    let (sim, law) = dead_log(THREE_SEALED);
    let path = segment_path(&sim, law.log, 1);
    let content = read_footer(&sim, &path).unwrap().unwrap().content_bytes as usize;
    sim.edit(&path, |bytes| {
        bytes[content + 56] ^= 1;
        let end = bytes.len() - 4;
        let checksum = crc32c::crc32c(&bytes[content..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    });
    let problem = problem_of(&sim, law.log, 1).unwrap();
    assert_eq!((problem.offset, problem.first, problem.last), (0, Sequence(4), Some(Sequence(8))));
    assert!(problem.reason.starts_with("the segment has digest sha256:"), "{}", problem.reason);
}

/// Damages a segment at random: single bytes, ranges, its end, or all of it.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    match random.below(5) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => {
            let at = random.below(bytes.len());
            let end = (at + 1 + random.below(600)).min(bytes.len());
            bytes[at..end].fill(random.next() as u8);
        }
        2 => bytes.extend((0..random.below(900)).map(|n| n as u8)),
        3 => {
            // Moves the last part of the segment to another offset, so that bytes are repeated or missing.
            let (from, to) = (random.below(bytes.len()) / 8 * 8, random.below(bytes.len()) / 8 * 8);
            let piece = bytes[from..].to_vec();
            bytes.truncate(to);
            bytes.extend(piece);
        }
        _ => {
            for _ in 0..=random.below(8) {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
        }
    }
}

#[test]
fn no_bytes_make_a_reader_panic_or_read_a_row_that_was_not_written() {
    for seed in 0..1500 {
        let mut random = Random(seed);
        let (steps, index) = if seed % 2 == 0 { (THREE_SEALED, 1) } else { (&THREE_SEALED[..7], 1) };
        let (sim, law) = dead_log(steps);
        let path = segment_path(&sim, law.log, index);
        sim.edit(&path, |bytes| damage(bytes, &mut random));
        if seed % 10 == 0 {
            sim.edit(&path, |bytes| bytes.iter_mut().skip(128).for_each(|byte| *byte = random.next() as u8));
        }
        check_never_wrong(&sim, law.log, &format!("seed {seed}"));
        let _ = recover(&sim.storage(), &dir(), SegmentDigestAlgorithm::Sha256).unwrap();
        check_never_wrong(&sim, law.log, &format!("seed {seed}, recovered"));
    }
}

/// Checks that reads never return wrong rows, that the record numbers increase, and that gaps have the
/// missing numbers.
fn check_never_wrong(sim: &Sim, log: LogId, context: &str) {
    for (name, path) in segments_of(sim, log) {
        scan_segment(sim, &path).unwrap();
        verify_segment(sim, name, &path, None).unwrap();
    }
    let mut cursor = Cursor::new(sim.storage(), &dir(), log, None);
    let mut next = 1;
    loop {
        match cursor.step(None) {
            Err(_) | Ok(CursorStep::CaughtUp) => return,
            Ok(CursorStep::Gap(Gap { first, last, .. })) => {
                assert!(first.0 == next && first <= last, "{context}: gap {first}-{last} at {next}");
                next = last.0 + 1;
            }
            Ok(CursorStep::Batch(batch)) => {
                assert_eq!(batch.first().0, next, "{context}");
                next = batch.end().last.0 + 1;
                assert!(batch.records().all(|record| record.is_ok()), "{context}");
            }
        }
    }
}

#[test]
fn a_long_segment_that_is_damaged_at_its_start_is_searched_in_one_pass() {
    const BATCHES: usize = 3_000;
    let mut steps = vec![Write(2), Sync];
    steps.extend([Write(1); BATCHES]);
    let (sim, law) = dead_log(&steps);
    let path = segment_path(&sim, law.log, 0);
    sim.edit(&path, |bytes| {
        let at = batches_in(bytes)[1].0;
        bytes[at + 80] ^= 1;
    });
    let before = sim.bytes_read();
    let scan = scan_segment(&sim, &path).unwrap();
    assert_eq!(scan.headers_behind, 2 * BATCHES as u64 + 2);
    assert!(
        sim.bytes_read() - before < 2 * scan.file_bytes + (1 << 20),
        "{} bytes",
        sim.bytes_read() - before
    );
    mend(&sim);
    assert_eq!(names_of(&sim, law.log), ["00000000000000000001.damaged"]);
}

#[test]
fn a_segment_of_another_log_is_never_read_as_this_one() {
    for steps in [&[Write(2), Sync][..], &[Write(2), Sync, Close, Seal]] {
        let (other, stranger) = dead_log(steps);
        let bytes = file_bytes(&other, &segment_path(&other, stranger.log, 0));
        let (sim, law) = dead_log(steps);
        sim.edit(&segment_path(&sim, law.log, 0), |own| *own = bytes.clone());
        mend(&sim);
        let found = read(&sim, law.log);
        assert_eq!(found.numbers, [0; 0], "{steps:?}");
        assert_eq!(file_bytes(&sim, &segment_path(&sim, law.log, 0)), bytes, "left as it was");
        // Only a footer shows which records the segment had.
        match &found.gaps[..] {
            [] => assert_eq!(names_of(&sim, law.log), ["00000000000000000001.damaged"]),
            [gap] => assert!(gap.reason.contains(&stranger.log.to_string()), "{gap:?}"),
            gaps => panic!("{gaps:?}"),
        }
    }
}
