//! Tests of the runway. Zeros after the batches of an open segment mark the end of the batches. A sealed
//! segment has no runway.

use std::path::PathBuf;

use tollgate_log::{
    Cursor, Inspector, Level, Log, LogId, LogOptions, SegmentPart, SegmentState, Sequence, read_footer,
    scan_segment, verify_segment,
};

use crate::sim::{Call, Sim};
use crate::workload::Step::{Close, Seal, Sync, Write};
use crate::workload::{
    Step, append, batch, batches_in, dead_log_with_runway, dir, drain, file_bytes, mend, names_of,
    new_writer, read, schema, segment_path, segments_of,
};

const RUNWAY: usize = 4096;

/// Makes a dead run with one open segment: two acknowledged batches and a runway. Returns the offset at which
/// the batches end.
fn open_segment() -> (Sim, LogId, PathBuf, usize) {
    let (sim, law) = dead_log_with_runway(&[Write(2), Sync], RUNWAY);
    let path = segment_path(&sim, law.log, 0);
    let end = scan_segment(&sim, &path).unwrap().end as usize;
    (sim, law.log, path, end)
}

#[test]
fn a_file_grows_by_its_runway_and_later_writes_find_their_place_in_it() {
    let sim = Sim::new();
    let mut writer = new_writer(&sim).with_runway(RUNWAY);
    let mut sizes = Vec::new();
    for n in 1..=40 {
        writer.write(&[batch(n, 1)], Sequence(0), 0).unwrap();
        let bytes = file_bytes(&sim, &segment_path(&sim, writer.log(), 0)).len();
        assert!(bytes as u64 >= writer.active_bytes());
        sizes.push(bytes);
    }
    sizes.dedup();
    assert!((2..10).contains(&sizes.len()), "{sizes:?}");
}

#[test]
fn a_write_that_is_larger_than_half_a_runway_gets_none() {
    let sim = Sim::new();
    let mut writer = new_writer(&sim).with_runway(RUNWAY);
    // Both writes exceed the space of the runway that follows the schemas.
    for n in [1, 51] {
        writer.write(&[batch(n, 50)], Sequence(0), 0).unwrap();
        let bytes = file_bytes(&sim, &segment_path(&sim, writer.log(), 0)).len();
        assert_eq!(bytes as u64, writer.active_bytes());
    }
}

#[test]
fn the_rest_of_a_runway_is_cut_off_before_a_segment_is_called_sealed() {
    let (sim, law) = dead_log_with_runway(&[Write(2), Sync, Close, Seal], RUNWAY);
    let (name, path) = segments_of(&sim, law.log).remove(0);
    assert_eq!(name.state, SegmentState::Sealed);
    let footer = read_footer(&sim, &path).unwrap().unwrap();
    assert_eq!(file_bytes(&sim, &path).len() as u64, footer.file_bytes());
    assert_eq!(verify_segment(&sim, name, &path, None).unwrap().problem, None);
    let calls = sim.calls().len();
    assert!(
        mend(&sim).logs.is_empty()
            && sim.calls().iter().skip(calls).all(|(call, _)| *call == Call::SyncFolder)
    );
}

#[test]
fn zeros_behind_the_last_batch_are_no_torn_tail() {
    let (sim, log, path, end) = open_segment();
    assert!(file_bytes(&sim, &path).len() > end);
    let scan = scan_segment(&sim, &path).unwrap();
    assert_eq!((scan.failure, scan.used_bytes), (None, end as u64));
    let report = mend(&sim);
    assert_eq!((report.logs[0].sealed, report.logs[0].torn_bytes), (1, 0));
    assert_eq!(read(&sim, log).numbers, [1, 2, 3]);
}

#[test]
fn a_write_torn_within_the_runway_counts_only_the_bytes_that_came() {
    let (sim, log, path, end) = open_segment();
    // The header and 3 bytes of the first record reached the disk. The next sector did not, but 8 bytes after
    // it did.
    sim.edit(&path, |bytes| {
        bytes[end + 64..end + 67].fill(7);
        bytes[end + 512..end + 520].fill(9);
    });
    let report = mend(&sim);
    assert_eq!((report.logs[0].sealed, report.logs[0].torn_bytes), (1, 520));
    assert_eq!(read(&sim, log).numbers, [1, 2, 3]);
    assert_eq!(names_of(&sim, log), ["00000000000000000001.sealed"]);
}

#[test]
fn zeros_instead_of_an_acknowledged_batch_are_rot_and_the_bytes_behind_are_read() {
    let (sim, law) = dead_log_with_runway(&[Write(2), Sync, Write(1), Sync, Write(1), Sync], RUNWAY);
    let path = segment_path(&sim, law.log, 0);
    let places = batches_in(&file_bytes(&sim, &path));
    let (from, to) = (places[3].0, places[4].0);
    sim.edit(&path, |bytes| bytes[from..to].fill(0));
    let report = mend(&sim);
    assert_eq!(report.logs[0].set_aside[0].1, "bytes are zero where a batch header should begin");
    let found = read(&sim, law.log);
    assert_eq!((found.missing(), found.numbers), (vec![4], vec![1, 2, 3, 5, 6, 7]));
}

#[test]
fn a_footer_with_zeros_behind_it_is_whole_and_the_zeros_go() {
    let (sim, law) = dead_log_with_runway(&[Write(2), Sync, Close, Seal], RUNWAY);
    let (name, path) = segments_of(&sim, law.log).remove(0);
    let sealed = file_bytes(&sim, &path);
    let open = name.with_state(SegmentState::Open).path(path.parent().unwrap());
    sim.put(&open, &[sealed.as_slice(), &[0; 100]].concat());
    tollgate_log::Storage::remove(&sim, &path).unwrap();
    let report = mend(&sim);
    assert_eq!((report.logs[0].sealed, report.logs[0].torn_bytes), (1, 0));
    assert_eq!(file_bytes(&sim, &path), sealed);
}

#[test]
fn a_sealed_segment_with_zeros_behind_its_footer_is_damaged() {
    let (sim, law) = dead_log_with_runway(&[Write(2), Sync, Close, Seal], RUNWAY);
    let (name, path) = segments_of(&sim, law.log).remove(0);
    sim.edit(&path, |bytes| bytes.push(0));
    let problem = verify_segment(&sim, name, &path, None).unwrap().problem.unwrap();
    assert_eq!(problem.reason, "bytes follow the footer");
}

#[test]
fn a_reader_that_saw_zeros_sees_the_batch_that_is_written_there_later() {
    let sim = Sim::new();
    let mut writer = new_writer(&sim).with_runway(RUNWAY);
    writer.write(&[batch(1, 2)], Sequence(0), 0).unwrap();
    let mut cursor = Cursor::new(sim.storage(), &dir(), writer.log(), None);
    assert_eq!(drain(&mut cursor, None).numbers, [1, 2]);
    for (n, limit) in [(3, None), (4, Some(Sequence(4))), (5, None)] {
        assert!(drain(&mut cursor, limit.map(Sequence::before)).numbers.is_empty());
        writer.write(&[batch(n, 1)], Sequence(0), 0).unwrap();
        let found = drain(&mut cursor, limit);
        assert_eq!((found.numbers, found.gaps), (vec![n], vec![]));
    }
}

#[test]
fn a_batch_of_which_a_reader_saw_a_half_is_read_again_when_it_is_whole() {
    let (sim, log, path, _) = open_segment();
    let whole = file_bytes(&sim, &path);
    let last = batches_in(&whole).last().unwrap().0;
    sim.edit(&path, |bytes| bytes[last + 64..].fill(0));
    let mut cursor = Cursor::new(sim.storage(), &dir(), log, None);
    assert_eq!(drain(&mut cursor, Some(Sequence(2))).numbers, [1, 2]);
    sim.edit(&path, |bytes| bytes.clone_from(&whole));
    let found = drain(&mut cursor, None);
    assert_eq!((found.numbers, found.gaps), (vec![3], vec![]));
}

#[test]
fn a_person_is_shown_the_runway_as_what_it_is() {
    let (sim, _, path, end) = open_segment();
    let mut inspector = Inspector::open(&sim, &path).unwrap();
    let mut last = None;
    while let Some(part) = inspector.next_part().unwrap() {
        last = Some(part);
    }
    let left = (file_bytes(&sim, &path).len() - end) as u64;
    assert!(
        matches!(last, Some(SegmentPart::Runway { offset, bytes }) if (offset, bytes) == (end as u64, left)),
        "{last:?}"
    );
}

#[test]
fn a_log_grows_its_segments_by_runways_where_the_file_system_gains_by_them() {
    for is_in_place in [true, false] {
        let sim = Sim::new();
        sim.set_in_place(is_in_place);
        let (log, _) = Log::open(sim.storage(), LogOptions::new(&dir()), vec![schema()], |_| {}).unwrap();
        let mut appender = log.appender(|| {});
        let appended = append(&mut appender, Level::Written, 1..=1).unwrap();
        assert!(appender.hand_over());
        sim.wait_until("it is written", || appender.reached(appended, Level::Written).is_some());
        let path = segment_path(&sim, log.id(), 0);
        assert_eq!(file_bytes(&sim, &path).len() > 128 << 10, is_in_place);
        drop(appender);
        log.close().unwrap();
    }
}

#[test]
fn steps_of_runs_with_and_without_a_runway_leave_the_same_sealed_bytes() {
    const STEPS: &[Step] = &[Write(2), Sync, Write(3), Sync, Close, Seal];
    let sealed = |runway| {
        let (sim, law) = dead_log_with_runway(STEPS, runway);
        file_bytes(&sim, &segment_path(&sim, law.log, 0)).len()
    };
    assert_eq!(sealed(0), sealed(RUNWAY));
}
