//! Tests of the recovery table of `docs/reference/log-format.md`, row by row.

use tollgate_log::{Level, Log, LogId, LogOptions, SegmentHeader, Sequence};

use crate::sim::{Call, EIO, Sim};
use crate::workload::Step::{Close, Seal, Sync, Write};
use crate::workload::{
    Driver, Step, append, batches_in, dead_log, dir, file_bytes, mend, names_of, read, schema, segment_path,
    segments_of,
};

/// A disk before recovery, and the expected result.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) disk: fn() -> (Sim, LogId),
    /// First numbers and states of the segments, such as `1.sealed`.
    pub(crate) names: &'static [&'static str],
    sealed: u64,
    is_torn: bool,
    set_aside: usize,
    /// Numbers of the records that can be read. `missing` has the numbers that a gap reports.
    pub(crate) found: &'static [u64],
    pub(crate) missing: &'static [u64],
}

const NOTHING: Row = Row {
    name: "",
    disk: || (Sim::new(), LogId::from_bytes([0; 16])),
    names: &[],
    sealed: 0,
    is_torn: false,
    set_aside: 0,
    found: &[],
    missing: &[],
};

/// Steps after which records 1 to 3 are acknowledged. The batch headers of records 4 to 6 show that.
const HALF_ACKNOWLEDGED: &[Step] = &[Write(2), Sync, Write(2)];

pub(crate) const TABLE: &[Row] = &[
    Row { name: "an empty folder", disk: || (empty_folder(), LogId::from_bytes([7; 16])), ..NOTHING },
    Row {
        name: "created, header not whole",
        disk: || edited(HALF_ACKNOWLEDGED, 0, |bytes| bytes.truncate(60)),
        is_torn: true,
        ..NOTHING
    },
    Row {
        name: "header not whole, intact batches behind it",
        disk: || edited(HALF_ACKNOWLEDGED, 0, |bytes| bytes[..128].fill(0)),
        names: &["1.damaged"],
        set_aside: 1,
        found: &[1, 2, 3, 4, 5, 6],
        ..NOTHING
    },
    Row {
        name: "the nonce in the header is damaged",
        disk: || edited(HALF_ACKNOWLEDGED, 0, |bytes| bytes[50] ^= 1),
        names: &["1.damaged"],
        set_aside: 1,
        found: &[1, 2, 3, 4, 5, 6],
        ..NOTHING
    },
    Row {
        name: "header and schemas lost, intact batches behind them",
        disk: || edited(HALF_ACKNOWLEDGED, 0, |bytes| bytes[..200].fill(0)),
        names: &["1.damaged"],
        set_aside: 1,
        // The nonce is in none of the trusted places, so no batch can be read. The records that are known to
        // be durable are therefore reported as a gap.
        missing: &[1, 2, 3],
        ..NOTHING
    },
    Row {
        name: "header whole, no batch",
        disk: || edited(HALF_ACKNOWLEDGED, 0, |bytes| bytes.truncate(128)),
        is_torn: true,
        ..NOTHING
    },
    Row {
        name: "header and schemas whole, no batch with records",
        disk: || {
            edited(HALF_ACKNOWLEDGED, 0, |bytes| {
                let records = batches_in(bytes)[1].0;
                bytes.truncate(records);
            })
        },
        is_torn: true,
        ..NOTHING
    },
    Row {
        name: "batches whole to the end",
        disk: || edited(HALF_ACKNOWLEDGED, 0, |_| {}),
        names: &["1.sealed"],
        sealed: 1,
        found: &[1, 2, 3, 4, 5, 6],
        ..NOTHING
    },
    Row {
        name: "torn tail",
        disk: || edited(HALF_ACKNOWLEDGED, 0, |bytes| bytes.truncate(bytes.len() - 9)),
        names: &["1.sealed"],
        sealed: 1,
        is_torn: true,
        found: &[1, 2, 3, 4, 5],
        ..NOTHING
    },
    Row {
        name: "damage after what was durable, intact batches behind it",
        disk: || edited(HALF_ACKNOWLEDGED, 0, |bytes| flip_payload(bytes, 3)),
        names: &["1.sealed"],
        sealed: 1,
        is_torn: true,
        found: &[1, 2, 3],
        ..NOTHING
    },
    Row {
        name: "damage before what was durable",
        disk: || edited(HALF_ACKNOWLEDGED, 0, |bytes| flip_payload(bytes, 1)),
        names: &["1.damaged"],
        set_aside: 1,
        found: &[3, 4, 5, 6],
        missing: &[1, 2],
        ..NOTHING
    },
    Row {
        name: "footer whole, not renamed",
        disk: || footer_written(&[Write(2), Sync, Close], |_| {}),
        names: &["1.sealed"],
        sealed: 1,
        found: &[1, 2, 3],
        ..NOTHING
    },
    Row {
        name: "footer not whole",
        disk: || footer_written(&[Write(2), Sync, Close], |bytes| bytes.truncate(bytes.len() - 10)),
        names: &["1.sealed"],
        sealed: 1,
        is_torn: true,
        found: &[1, 2, 3],
        ..NOTHING
    },
    Row {
        name: "footer not whole, the next segment acknowledged and no header that says so",
        disk: || footer_written(&[Write(2), Close, Write(2), Sync], |bytes| bytes.truncate(bytes.len() - 10)),
        names: &["1.sealed", "4.sealed"],
        sealed: 2,
        is_torn: true,
        found: &[1, 2, 3, 4, 5, 6],
        ..NOTHING
    },
    Row {
        name: "footer not whole, the next segment acknowledged and its headers say so",
        disk: || {
            let steps = &[Write(2), Close, Write(2), Sync, Write(1)];
            footer_written(steps, |bytes| bytes.truncate(bytes.len() - 10))
        },
        names: &["1.sealed", "4.sealed"],
        sealed: 2,
        is_torn: true,
        found: &[1, 2, 3, 4, 5, 6, 7, 8],
        ..NOTHING
    },
    Row {
        name: "renamed, no successor",
        disk: || edited(&[Write(2), Sync, Close, Seal], 0, |_| {}),
        names: &["1.sealed"],
        found: &[1, 2, 3],
        ..NOTHING
    },
    Row {
        name: "two unsealed",
        disk: || edited(&[Write(2), Sync, Close, Write(2)], 0, |_| {}),
        names: &["1.sealed", "4.sealed"],
        sealed: 2,
        found: &[1, 2, 3, 4, 5, 6],
        ..NOTHING
    },
    Row {
        name: "five unsealed",
        disk: || {
            let roll = [Write(1), Close, Write(1), Close, Write(1), Close, Write(1), Close, Write(1)];
            edited(&roll, 0, |_| {})
        },
        names: &["1.sealed", "3.sealed", "5.sealed", "7.sealed", "9.sealed"],
        sealed: 5,
        found: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        ..NOTHING
    },
    Row {
        name: "the second of three is torn in its middle",
        disk: || {
            edited(&[Write(2), Sync, Close, Write(2), Close, Write(2)], 1, |bytes| flip_payload(bytes, 2))
        },
        names: &["1.sealed", "4.sealed"],
        sealed: 2,
        is_torn: true,
        found: &[1, 2, 3, 4, 5],
        ..NOTHING
    },
    Row {
        name: "the second of three is torn at its first record",
        disk: || {
            edited(&[Write(2), Sync, Close, Write(2), Close, Write(2)], 1, |bytes| flip_payload(bytes, 1))
        },
        names: &["1.sealed"],
        sealed: 1,
        is_torn: true,
        found: &[1, 2, 3],
        ..NOTHING
    },
    Row {
        name: "cut short between two batches that were durable, as the next segment tells",
        disk: || {
            let steps = [Write(2), Sync, Close, Write(2), Sync, Close, Write(2)];
            edited(&steps, 1, |bytes| {
                let last = batches_in(bytes)[2].0;
                bytes.truncate(last);
            })
        },
        names: &["1.sealed", "4.sealed", "7.damaged"],
        sealed: 2,
        set_aside: 1,
        found: &[1, 2, 3, 4, 5, 7, 8, 9],
        missing: &[6],
        ..NOTHING
    },
    Row {
        name: "cut short before its first batch, which was durable, as the next segment tells",
        disk: || {
            let steps = [Write(2), Sync, Close, Write(2), Sync, Close, Write(2)];
            edited(&steps, 1, |bytes| {
                let first = batches_in(bytes)[1].0;
                bytes.truncate(first);
            })
        },
        names: &["1.sealed", "4.damaged", "7.sealed"],
        sealed: 2,
        set_aside: 1,
        found: &[1, 2, 3, 7, 8, 9],
        missing: &[4, 5, 6],
        ..NOTHING
    },
    Row {
        name: "behind a torn segment one without a header, then a whole one",
        disk: || {
            let steps = [Write(2), Sync, Close, Write(2), Close, Write(2), Close, Write(2)];
            let (sim, log) = edited(&steps, 1, |bytes| flip_payload(bytes, 2));
            sim.edit(&segment_path(&sim, log, 2), |bytes| bytes[..128].fill(0));
            (sim, log)
        },
        names: &["1.sealed", "4.sealed"],
        sealed: 2,
        is_torn: true,
        found: &[1, 2, 3, 4, 5],
        ..NOTHING
    },
    Row {
        name: "a segment that does not continue the one before",
        disk: || edited(&[Write(2), Sync, Close, Write(2)], 1, |bytes| break_chain(bytes)),
        names: &["1.sealed"],
        sealed: 1,
        is_torn: true,
        found: &[1, 2, 3],
        ..NOTHING
    },
    Row {
        name: "a segment of another log",
        disk: || {
            let (sim, log) = edited(&[Write(2), Sync, Close, Write(2)], 0, |_| {});
            let (other, theirs) = edited(&[Write(2), Sync, Close, Write(2)], 0, |_| {});
            let stranger = file_bytes(&other, &segment_path(&other, theirs, 1));
            sim.edit(&segment_path(&sim, log, 1), |bytes| *bytes = stranger);
            (sim, log)
        },
        names: &["1.sealed", "4.damaged"],
        sealed: 1,
        set_aside: 1,
        found: &[1, 2, 3],
        ..NOTHING
    },
];

fn empty_folder() -> Sim {
    let sim = Sim::new();
    sim.put(&dir().join(LogId::from_bytes([7; 16]).to_string()).join("lock"), b"");
    sim
}

/// Makes a dead log and changes one of its segments.
fn edited(steps: &[Step], index: usize, edit: fn(&mut Vec<u8>)) -> (Sim, LogId) {
    let (sim, law) = dead_log(steps);
    sim.edit(&segment_path(&sim, law.log, index), edit);
    (sim, law.log)
}

/// Makes a dead log whose first segment has its footer, but not its sealed name.
fn footer_written(steps: &[Step], edit: fn(&mut Vec<u8>)) -> (Sim, LogId) {
    let sim = Sim::new();
    let mut driver = Driver::new(&sim);
    driver.run(steps).unwrap();
    sim.fail(Call::Rename, 0, EIO);
    driver.step(Seal).unwrap_err();
    let (sim, log) = (sim.restart(), driver.law.log);
    sim.edit(&segment_path(&sim, log, 0), edit);
    (sim, log)
}

/// Sets a chain that differs from the end of the previous segment, and recomputes the header's checksum.
fn break_chain(bytes: &mut [u8]) {
    let (mut header, _) = SegmentHeader::decode(bytes[..128].try_into().unwrap()).unwrap();
    header.chain ^= 1;
    bytes[..128].copy_from_slice(&header.encode().0);
}

/// Damages the payload of a batch. The batch of the schemas counts as 0.
fn flip_payload(bytes: &mut [u8], index: usize) {
    let (at, _) = batches_in(bytes)[index];
    bytes[at + 64 + 20] ^= 4;
}

#[test]
fn every_row_of_the_table_is_decided_as_it_says() {
    for row in TABLE {
        check(row);
    }
}

fn check(row: &Row) {
    let name = row.name;
    let (sim, log) = (row.disk)();
    let report = mend(&sim);
    assert!(report.failed.is_empty(), "{name}: {:?}", report.failed);
    let names: Vec<_> =
        names_of(&sim, log).iter().map(|name| name.trim_start_matches('0').to_owned()).collect();
    assert_eq!(names, row.names, "{name}");
    let found = read(&sim, log);
    assert_eq!(found.numbers, row.found, "{name}");
    assert_eq!(found.missing(), row.missing, "{name}");
    let sealed: u64 = report.logs.iter().map(|log| log.sealed).sum();
    let torn_bytes: u64 = report.logs.iter().map(|log| log.torn_bytes).sum();
    let set_aside: usize = report.logs.iter().map(|log| log.set_aside.len()).sum();
    assert_eq!((sealed, torn_bytes > 0, set_aside), (row.sealed, row.is_torn, row.set_aside), "{name}");
    let files = sim.files();
    assert!(mend(&sim).logs.is_empty(), "{name}: a second recovery");
    assert!(sim.files() == files, "{name}: a second recovery");
}

/// Makes a dead log of a later format version.
pub(crate) fn of_a_later_version() -> (Sim, LogId) {
    edited(HALF_ACKNOWLEDGED, 0, |bytes| {
        bytes[8] = 3;
        let checksum = crc32c::crc32c(&bytes[..124]);
        bytes[124..128].copy_from_slice(&checksum.to_le_bytes());
    })
}

#[test]
fn a_later_format_version_does_not_stop_a_start() {
    let (sim, later) = of_a_later_version();
    let path = segment_path(&sim, later, 0);
    let untouched = file_bytes(&sim, &path);
    let (log, report) = Log::open(sim.storage(), LogOptions::new(&dir()), vec![schema()], |_| {}).unwrap();
    assert_eq!((report.logs[0].log, report.logs[0].unknown.as_slice()), (later, [path.clone()].as_slice()));
    let mut appender = log.appender(|| {});
    append(&mut appender, Level::Synced, 1..=2).unwrap();
    assert!(appender.hand_over());
    let id = log.id();
    drop(appender);
    log.close().unwrap();
    assert_eq!(read(&sim, id).numbers, [1, 2]);
    assert!(file_bytes(&sim, &path) == untouched);
}

#[test]
fn a_later_format_version_is_named_and_left_untouched() {
    let (sim, log) = of_a_later_version();
    let files = sim.files();
    for _ in 0..2 {
        let report = mend(&sim);
        assert_eq!(report.logs[0].unknown, [segment_path(&sim, log, 0)]);
        assert!(sim.files() == files);
    }
}

#[test]
fn a_log_whose_lock_is_held_is_left_to_its_owner() {
    let sim = Sim::new();
    let mut driver = Driver::new(&sim);
    driver.run(HALF_ACKNOWLEDGED).unwrap();
    let files = sim.files();
    let report = mend(&sim);
    assert!(report.logs.is_empty() && report.failed.is_empty());
    assert!(sim.files() == files);
}

#[test]
fn a_write_or_rename_that_fails_leaves_the_log_to_a_later_start() {
    for call in [Call::Write, Call::Rename, Call::Sync, Call::Truncate] {
        let (sim, log) = edited(HALF_ACKNOWLEDGED, 0, |bytes| flip_payload(bytes, 3));
        sim.fail(call, 0, EIO);
        let report = mend(&sim);
        assert_eq!(report.failed.len(), 1, "{call:?}");
        assert_eq!(names_of(&sim, log).len(), 1, "{call:?}");
        assert!(mend(&sim).failed.is_empty(), "{call:?}");
        assert_eq!(read(&sim, log).numbers, [1, 2, 3], "{call:?}");
    }
}

#[test]
fn records_that_a_failed_sync_lost_are_not_sealed_after_a_restart() {
    let sim = Sim::new();
    let mut driver = Driver::new(&sim);
    driver.run(HALF_ACKNOWLEDGED).unwrap();
    sim.fail(Call::Sync, 0, EIO);
    driver.step(Sync).unwrap_err();
    // The page cache still has records 4 to 6, but they are never written to the disk.
    let (sim, law) = (sim.restart(), driver.law.clone());
    law.check(&sim, &mend(&sim), "after the restart");
    assert_eq!(read(&sim, law.log).numbers, [1, 2, 3]);
    let cut = sim.power_cut(0);
    assert_eq!(read(&cut, law.log).numbers, [1, 2, 3]);
}

#[test]
fn each_footer_repeats_the_digest_of_the_one_before() {
    let (sim, law) = dead_log(&[Write(2), Sync, Close, Seal, Write(1), Close, Write(1)]);
    mend(&sim);
    let mut before = [0; 64];
    for (name, path) in segments_of(&sim, law.log) {
        let footer = tollgate_log::read_footer(&sim, &path).unwrap().unwrap();
        assert_eq!(footer.digest_before, before, "{name}");
        before = footer.digest_bytes();
    }
}

#[test]
fn each_segment_continues_the_one_before_by_number_and_chain() {
    let (sim, law) = dead_log(&[Write(2), Sync, Close, Write(1), Close, Write(1)]);
    mend(&sim);
    let mut expected = (Sequence::FIRST, 0);
    for (name, path) in segments_of(&sim, law.log) {
        let bytes = file_bytes(&sim, &path);
        let (header, _) = SegmentHeader::decode(bytes.first_chunk().unwrap()).unwrap();
        assert_eq!((header.first, header.chain), expected, "{name}");
        let footer = tollgate_log::read_footer(&sim, &path).unwrap().unwrap();
        expected = (footer.last.after(1), footer.chain);
    }
}
