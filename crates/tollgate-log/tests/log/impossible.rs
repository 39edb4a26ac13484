//! Tests of segments with correct checksums and impossible numbers. Each read ends, and no count exceeds the
//! number of records that fit into the bytes.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;

use tollgate_log::{
    Cursor, CursorStep, Deleted, Inspector, LogId, SegmentName, SegmentState, Sequence, Storage, read_footer,
    scan_segment, verify_segment,
};

use crate::forge::{Forged, ForgedFooter};
use crate::sim::{PATIENCE, Sim};
use crate::workload::Step::{Close, Seal, Sync, Write};
use crate::workload::{Law, Step, dead_log, dir, file_bytes, mend, segment_path, segments_of};

/// Three segments with the records 1 to 3, 4 to 6 and 7 to 9.
const THREE_SEALED: &[Step] =
    &[Write(2), Sync, Close, Seal, Write(2), Sync, Close, Seal, Write(2), Sync, Close, Seal];
const EXTREMES: [u64; 8] =
    [0, 1 << 56, (1 << 63) - 2, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];

/// Changes a segment and recomputes its checksums.
fn forge(sim: &Sim, law: &Law, index: usize, change: impl FnOnce(&mut Forged)) {
    let path = segment_path(sim, law.log, index);
    let mut forged = Forged::parse(&file_bytes(sim, &path));
    change(&mut forged);
    sim.edit(&path, |bytes| *bytes = forged.bytes());
}

/// Result of a cursor: records, missing records, and the error at the end.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Read {
    records: u64,
    missing: u64,
    error: Option<String>,
}

/// Reads a log to its end. Fails if the read does not end.
fn read_to_end(sim: &Sim, log: LogId) -> Read {
    let (sender, receiver) = channel();
    let storage = sim.storage();
    thread::spawn(move || {
        let mut cursor = Cursor::new(storage, &dir(), log, None);
        let mut read = Read { records: 0, missing: 0, error: None };
        loop {
            match cursor.step(None) {
                Ok(CursorStep::CaughtUp) => break,
                Ok(CursorStep::Batch(batch)) => read.records += batch.first().count_to(batch.end().last),
                Ok(CursorStep::Gap(gap)) => read.missing += gap.first.count_to(gap.last),
                Err(error) => {
                    read.error = Some(tollgate_log::join_chain(&error));
                    break;
                }
            }
        }
        let _ = sender.send(read);
    });
    receiver.recv_timeout(PATIENCE).expect("the reading ends")
}

fn read_whole(records: u64, missing: u64) -> Read {
    Read { records, missing, error: None }
}

fn is_bad(sim: &Sim, log: LogId, index: usize) -> bool {
    let (name, path) = segments_of(sim, log)[index].clone();
    verify_segment(sim, name, &path, None).unwrap().problem.is_some()
}

#[test]
fn sequence_numbers_count_without_overflow() {
    let count = |first, last| Sequence(first).count_to(Sequence(last));
    assert_eq!(count(1, 1), 1);
    assert_eq!(count(5, 4), 0);
    assert_eq!(count(0, u64::MAX), u64::MAX);
    assert_eq!(count(u64::MAX, u64::MAX), 0, "no record has that number");
    assert!(!Sequence(0).is_possible() && Sequence(1).is_possible() && Sequence::MAX.is_possible());
    assert!(!Sequence::MAX.after(1).is_possible());
}

#[test]
fn a_footer_whose_numbers_cannot_be_is_none_and_its_records_are_read() {
    let fields: [fn(&mut ForgedFooter, u64); 5] = [
        |footer, number| footer.last = number,
        |footer, number| footer.records = number,
        |footer, number| footer.batches = number,
        |footer, number| footer.content_bytes = Some(number),
        |footer, number| footer.counts[0].1 = number,
    ];
    for (place, set) in fields.iter().enumerate() {
        for number in EXTREMES {
            // Only its footer shows at which record the last segment ends.
            for index in [0, 2] {
                let (sim, law) = dead_log(THREE_SEALED);
                let mut is_same = false;
                forge(&sim, &law, index, |forged| {
                    let footer = forged.footer.as_mut().unwrap();
                    let before = footer.clone();
                    set(footer, number);
                    is_same = footer.batches == before.batches && place == 2;
                });
                let context = format!("field {place} is {number}, segment {index}");
                let path = segment_path(&sim, law.log, index);
                // Only a count of the batches shows that the number of batches in the footer is too low.
                let is_within_bytes = place == 2 && number == 0;
                assert!(read_footer(&sim, &path).unwrap().is_none() || is_within_bytes, "{context}");
                assert_eq!(read_to_end(&sim, law.log), read_whole(9, 0), "{context}");
                assert!(is_bad(&sim, law.log, index) || is_same, "{context}");
            }
        }
    }
}

#[test]
fn a_footer_that_counts_other_records_of_a_schema_than_there_are_is_found() {
    let (sim, law) = dead_log(THREE_SEALED);
    forge(&sim, &law, 1, |forged| {
        let counts = &mut forged.footer.as_mut().unwrap().counts;
        counts[0].1 -= 1;
        counts.push((7, 1, 0));
    });
    assert!(is_bad(&sim, law.log, 1));
    assert_eq!(read_to_end(&sim, law.log), read_whole(9, 0));
}

#[test]
fn a_durable_number_that_cannot_be_costs_its_batch_and_no_more() {
    for number in EXTREMES.into_iter().filter(|number| *number > 0) {
        for index in [0, 2] {
            let (sim, law) = dead_log(THREE_SEALED);
            forge(&sim, &law, index, |forged| {
                forged.batches.last_mut().unwrap().durable = number;
                forged.footer = None;
            });
            let read = read_to_end(&sim, law.log);
            let last = if index == 2 { 0 } else { 1 };
            assert_eq!(read, read_whole(8, last), "durable {number} in segment {index}");
        }
    }
}

#[test]
fn a_batch_that_jumps_to_where_so_few_bytes_cannot_reach_is_damage() {
    for number in [1 << 40, (1 << 56) - 1, 1 << 56, 1 << 63, u64::MAX] {
        let (sim, law) = dead_log(THREE_SEALED);
        forge(&sim, &law, 2, |forged| {
            let batch = forged.batches.last_mut().unwrap();
            (batch.first, batch.durable) = (number, number - 1);
            forged.footer.as_mut().unwrap().last = number;
        });
        assert_eq!(read_to_end(&sim, law.log), read_whole(8, 0), "{number}");
        assert!(is_bad(&sim, law.log, 2));
    }
}

#[test]
fn a_segment_that_begins_with_another_number_than_its_name_is_a_gap() {
    for number in [0, 1, 5, 1 << 40, 1 << 63, u64::MAX] {
        let (sim, law) = dead_log(THREE_SEALED);
        forge(&sim, &law, 1, |forged| {
            let shift = number.wrapping_sub(forged.first());
            forged.set_first(number);
            for batch in &mut forged.batches {
                batch.first = batch.first.wrapping_add(shift);
                batch.durable = batch.first.wrapping_sub(1);
            }
            let footer = forged.footer.as_mut().unwrap();
            footer.last = footer.last.wrapping_add(shift);
        });
        assert_eq!(read_to_end(&sim, law.log), read_whole(6, 3), "{number}");
        assert!(is_bad(&sim, law.log, 1), "{number}");
    }
}

#[test]
fn an_open_segment_that_begins_with_another_number_than_its_name_is_set_aside() {
    let (sim, law) = dead_log(&[Write(2), Sync, Write(1), Sync]);
    let path = segment_path(&sim, law.log, 0);
    let name = SegmentName { first: Sequence(4), state: SegmentState::Open };
    let other = name.path(path.parent().unwrap());
    sim.put(&other, &file_bytes(&sim, &path));
    sim.remove(&path).unwrap();
    let report = mend(&sim);
    assert_eq!(report.logs[0].set_aside.len(), 1, "{report:?}");
    assert!(report.logs[0].set_aside[0].1.contains("its file name says record 4"), "{report:?}");
    assert_eq!(read_to_end(&sim, law.log).records, 0);
}

#[test]
fn a_segment_whose_name_no_record_can_have_ends_its_log_with_an_error() {
    for number in [1 << 56, (1 << 63) - 1, 1 << 63, u64::MAX] {
        for state in [SegmentState::Open, SegmentState::Sealed, SegmentState::Damaged] {
            let (sim, law) = dead_log(THREE_SEALED);
            let whole = file_bytes(&sim, &segment_path(&sim, law.log, 2));
            let mut forged = Forged::parse(&whole);
            forged.set_first(number);
            let name = SegmentName { first: Sequence(number), state };
            let path: PathBuf = name.path(&dir().join(law.log.to_string()));
            sim.put(&path, &forged.bytes());
            let read = read_to_end(&sim, law.log);
            assert_eq!((read.records, read.missing), (9, 0), "{name}");
            let error = read.error.unwrap_or_default();
            assert!(
                error.contains(&name.to_string()) && error.contains("sequence number in its file name"),
                "{error}"
            );
            mend(&sim);
            assert_eq!(read_to_end(&sim, law.log).records, 9, "{name} after a start");
        }
    }
}

#[test]
fn a_nonce_that_is_the_magic_of_a_footer_or_zeros_is_damage_and_every_read_ends() {
    for nonce in [u64::from_le_bytes(*b"TGSEALED"), 0] {
        for state in [SegmentState::Sealed, SegmentState::Open, SegmentState::Damaged] {
            let (sim, law) = dead_log(THREE_SEALED);
            forge(&sim, &law, 2, |forged| forged.set_nonce(nonce));
            let path = segment_path(&sim, law.log, 2);
            let name = SegmentName { first: Sequence(7), state };
            let renamed = name.path(path.parent().unwrap());
            if renamed != path {
                sim.put(&renamed, &file_bytes(&sim, &path));
                sim.remove(&path).unwrap();
            }
            let read = read_to_end(&sim, law.log);
            assert_eq!((read.records, read.error), (6, None), "{name}, nonce {nonce}");
            scan_segment(&sim, &renamed).unwrap();
            let mut inspector = Inspector::open(&sim, &renamed).unwrap();
            while inspector.next_part().unwrap().is_some() {}
            mend(&sim);
            assert_eq!(read_to_end(&sim, law.log).records, 6, "{name}, nonce {nonce}, after a start");
        }
    }
}

#[test]
fn a_line_of_deleted_whose_number_no_record_can_have_is_passed_and_named() {
    let sim = Sim::new();
    let (possible, impossible) = (LogId::random(), LogId::random());
    let text = format!("{possible} 12\n{impossible} {}\n{impossible} 0\n", u64::MAX);
    sim.put(&dir().join("deleted"), text.as_bytes());
    let deleted = Deleted::read(&sim, &dir()).unwrap();
    assert_eq!(deleted.iter().collect::<Vec<_>>(), [(possible, Sequence(12))]);
    assert_eq!(deleted.impossible(), [(impossible, u64::MAX), (impossible, 0)]);
}

#[test]
fn headers_that_claim_more_than_the_file_has_make_no_search_long() {
    let (sim, law) = dead_log(THREE_SEALED);
    forge(&sim, &law, 2, |forged| {
        let mut lie = forged.batches.last().unwrap().clone();
        (lie.payload, lie.payload_bytes) = (Vec::new(), Some(16 << 20));
        // Enough bytes follow the forged headers to make the payload length in each header possible.
        let lies = vec![lie; 20_000];
        forged.batches.truncate(1);
        forged.batches.extend(lies);
        (forged.footer, forged.rest) = (None, vec![7; 17 << 20]);
    });
    let before = sim.bytes_read();
    assert_eq!(read_to_end(&sim, law.log).records, 6);
    let read = sim.bytes_read() - before;
    assert!(read < 1 << 30, "{read} bytes were read");
}
