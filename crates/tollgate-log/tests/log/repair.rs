//! Tests of repairs by command: a repair makes the same decisions as a start, and loses no byte.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tollgate_log::{
    Log, LogOptions, RecoveryReport, RepairError, RepairMode, RepairReport, SegmentDigestAlgorithm, Storage,
    Treatment, repair,
};

use crate::every_workload::{after_every_crash, workloads};
use crate::recovery::{Row, TABLE, of_a_later_version};
use crate::sim::{Call, EIO, Sim};
use crate::workload::Step::{Close, Seal, Sync, Write};
use crate::workload::{Driver, RUNWAYS, dead_log, dir, names_of, read, schema, segment_path};

fn run(sim: &Sim, mode: RepairMode) -> RepairReport {
    repair(&sim.storage(), &dir(), SegmentDigestAlgorithm::Sha256, mode).unwrap()
}

fn treatments(report: &RepairReport) -> Vec<&Treatment> {
    report.segments.iter().map(|segment| &segment.treatment).collect()
}

/// Returns the bytes of all files, without the footers that sealing adds.
fn total(files: &BTreeMap<PathBuf, Vec<u8>>) -> usize {
    let content = |bytes: &Vec<u8>| {
        let footer = bytes.windows(8).position(|window| window == b"TGSEALED");
        footer.unwrap_or(bytes.len())
    };
    files.values().map(content).sum()
}

#[test]
fn each_row_of_the_recovery_table_is_mended_by_hand_as_by_a_start_and_none_deleted() {
    TABLE.iter().filter(|row| !row.name.is_empty()).for_each(check_row);
}

fn check_row(row: &Row) {
    let name = row.name;
    let (sim, log) = (row.disk)();
    let before = sim.files();
    let said = run(&sim, RepairMode::DryRun);
    assert!(sim.files() == before, "{name}: a dry run changes nothing");
    assert!(!sim.list(&dir()).unwrap().iter().any(|one| one == "lock"), "{name}: a dry run makes no lock");
    let done = run(&sim, RepairMode::Mend);
    assert!(done.failed.is_empty(), "{name}: {:?}", done.failed);
    assert_eq!(treatments(&said), treatments(&done), "{name}: it does what it said");
    let names: Vec<_> =
        names_of(&sim, log).iter().map(|name| name.trim_start_matches('0').to_owned()).collect();
    assert_eq!(names, row.names, "{name}");
    let found = read(&sim, log);
    assert_eq!((found.numbers.as_slice(), found.missing().as_slice()), (row.found, row.missing), "{name}");
    let files = sim.files();
    if !name.starts_with("footer") {
        assert_eq!(total(&files), total(&before), "{name}: no byte is lost");
    }
    check_nothing_is_left(&sim, name);
    assert!(sim.files() == files, "{name}: a second repair");
}

fn check_nothing_is_left(sim: &Sim, context: &str) {
    let again = run(sim, RepairMode::Mend);
    assert!(again.failed.is_empty(), "{context}: {:?}", again.failed);
    assert!(treatments(&again).iter().all(|treatment| treatment.is_nothing()), "{context}: {again:?}");
}

#[test]
fn a_torn_tail_is_kept_beside_its_segment_and_says_where_it_was() {
    let (sim, law) = dead_log(&[Write(2), Sync, Write(2)]);
    let path = segment_path(&sim, law.log, 0);
    let whole = sim.files()[&path].clone();
    sim.edit(&path, |bytes| bytes.truncate(whole.len() - 9));
    let report = run(&sim, RepairMode::Mend);
    let [Treatment::Cut { at, bytes, kept }] = treatments(&report)[..] else { panic!("{report:?}") };
    assert_eq!(sim.files()[kept], whole[*at as usize..whole.len() - 9]);
    assert_eq!(*bytes as usize, whole.len() - 9 - *at as usize);
    assert_eq!(kept.file_name().unwrap(), "00000000000000000001.torn");
    let cut = sim.power_cut(0);
    assert!(cut.files() == sim.files(), "all of it is on disk");
}

#[test]
fn a_sealed_segment_that_rotted_is_set_aside_and_read_around() {
    let (sim, law) =
        dead_log(&[Write(2), Sync, Close, Seal, Write(2), Sync, Close, Seal, Write(2), Sync, Close, Seal]);
    let path = segment_path(&sim, law.log, 1);
    sim.edit(&path, |bytes| bytes[128 + 80] ^= 1);
    let before = read(&sim, law.log);
    let report = run(&sim, RepairMode::Mend);
    let [Treatment::Whole, Treatment::SetAside { reason, .. }, Treatment::Whole] = treatments(&report)[..]
    else {
        panic!("{report:?}")
    };
    assert!(reason.starts_with("payload checksum is "), "{reason}");
    assert_eq!(names_of(&sim, law.log)[1], "00000000000000000004.damaged");
    assert_eq!(read(&sim, law.log), before, "a reader finds what it found before");
    check_nothing_is_left(&sim, "rot");
}

#[test]
fn a_segment_behind_a_missing_one_is_not_to_blame() {
    let (sim, law) =
        dead_log(&[Write(2), Sync, Close, Seal, Write(2), Sync, Close, Seal, Write(1), Sync, Close, Seal]);
    Storage::remove(&sim, &segment_path(&sim, law.log, 1)).unwrap();
    assert_eq!(treatments(&run(&sim, RepairMode::Mend)), [&Treatment::Whole; 2]);
}

#[test]
fn a_later_format_version_is_named_and_left() {
    let (sim, _) = of_a_later_version();
    let files = sim.files();
    assert_eq!(treatments(&run(&sim, RepairMode::Mend)), [&Treatment::Left]);
    assert!(sim.files() == files);
}

#[test]
fn a_repair_is_refused_while_a_server_has_the_folder() {
    let (sim, _) = dead_log(&[Write(2), Sync]);
    let (log, _) = Log::open(sim.storage(), LogOptions::new(&dir()), vec![schema()], |_| {}).unwrap();
    for mode in [RepairMode::Mend, RepairMode::DryRun] {
        let error = repair(&sim.storage(), &dir(), SegmentDigestAlgorithm::Sha256, mode).unwrap_err();
        assert!(matches!(error, RepairError::Locked(_)), "{error}");
    }
    log.close().unwrap();
    run(&sim, RepairMode::Mend);
}

#[test]
fn a_log_that_is_written_is_left_to_its_writer() {
    let sim = Sim::new();
    let mut driver = Driver::new(&sim);
    driver.run(&[Write(2), Sync, Write(1)]).unwrap();
    let files = sim.files();
    let report = run(&sim, RepairMode::Mend);
    assert_eq!((report.held.as_slice(), report.segments.len()), ([driver.law.log].as_slice(), 0));
    assert!(sim.files() == files);
}

#[test]
fn an_error_of_the_disk_is_told_and_a_later_repair_goes_on() {
    for call in [Call::Create, Call::Write, Call::Truncate, Call::Sync, Call::Rename] {
        let (sim, law) = dead_log(&[Write(2), Sync, Write(2)]);
        let path = segment_path(&sim, law.log, 0);
        sim.edit(&path, |bytes| bytes.truncate(bytes.len() - 9));
        sim.fail(call, 0, EIO);
        let report = run(&sim, RepairMode::Mend);
        assert_eq!(report.failed.len(), 1, "{call:?}");
        assert!(run(&sim, RepairMode::Mend).failed.is_empty(), "{call:?}");
        assert_eq!(read(&sim, law.log).numbers, [1, 2, 3, 4, 5], "{call:?}");
    }
}

#[test]
fn a_repair_that_crashes_at_any_operation_leaves_the_law_to_the_next() {
    after_every_crash(&workloads(2), &RUNWAYS[1..], |sim, law, context| {
        // If the folder of all logs does not exist, there is nothing to repair.
        if !sim.is_folder(&dir()) {
            return;
        }
        let whole = sim.restart();
        run(&whole, RepairMode::Mend);
        for count in 0..whole.calls().len() {
            let sim = sim.restart();
            sim.crash_after(count);
            let _ = repair(&sim.storage(), &dir(), SegmentDigestAlgorithm::Sha256, RepairMode::Mend);
            for disk in sim.every_power_cut().into_iter().chain([sim.restart()]) {
                if !disk.is_folder(&dir()) {
                    assert_eq!(law.acknowledged, 0, "{context}");
                    continue;
                }
                let report = run(&disk, RepairMode::Mend);
                assert!(report.failed.is_empty(), "{context}, then {count} of repair: {:?}", report.failed);
                law.check(&disk, &RecoveryReport::default(), &format!("{context}, then {count} of repair"));
            }
        }
    });
}
