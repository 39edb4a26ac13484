//! Tests of a crash after every operation of the log and of its recovery. Each case then checks the [`Law`].

use std::thread;

use tollgate_log::{AppendedRecords, Appender, Level, Log, LogId, LogOptions, Sequence};

use crate::sim::{Call, EIO, PATIENCE, Sim};
use crate::workload::Step::{Close, Seal, Sync, Take, Write};
use crate::workload::{Driver, Law, RUNWAYS, Step, append, dir, mend, read, schema, try_mend};

/// Returns the number of outcomes to try for each crash point. `TOLLGATE_CRASH_SEEDS` sets another number.
fn seeds() -> u64 {
    std::env::var("TOLLGATE_CRASH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Workloads that reach every row of the table in `docs/reference/log-format.md`.
const WORKLOADS: &[&[Step]] = &[
    &[Write(2), Sync, Write(3), Write(1), Sync],
    &[Write(2), Sync, Close, Seal, Write(3), Sync, Close, Seal],
    // The seal is late: records of the next segment are acknowledged, and no header shows that yet.
    &[Write(2), Close, Write(3), Sync, Seal, Close, Seal],
    // Records are written while a sync runs.
    &[Write(1), Take, Write(2), Close, Write(1), Sync, Write(2), Sync, Seal],
    // Five segments are unsealed.
    &[
        Write(2),
        Close,
        Write(1),
        Sync,
        Close,
        Write(8),
        Close,
        Write(1),
        Sync,
        Close,
        Write(2),
        Seal,
        Seal,
        Sync,
        Seal,
    ],
    // Several segments are closed before the first sync.
    &[Write(1), Close, Write(2), Close, Write(1), Sync, Write(1), Seal, Seal],
];

pub(crate) fn operations(steps: &[Step], runway: usize) -> usize {
    let sim = Sim::new();
    Driver::with_runway(&sim, runway).run(steps).unwrap();
    sim.calls().len()
}

/// Returns the disks that a crash after `count` operations may leave, each with a name.
fn crashed(steps: &[Step], runway: usize, count: usize) -> (Vec<(String, Sim)>, Law) {
    let sim = Sim::new();
    let mut driver = Driver::with_runway(&sim, runway);
    sim.crash_after(count);
    let _ = driver.run(steps);
    let law = driver.law.clone();
    drop(driver);
    (disks_after(&sim, &format!("{steps:?}, runway {runway}, {count} operations")), law)
}

fn disks_after(sim: &Sim, context: &str) -> Vec<(String, Sim)> {
    let cuts = (0..seeds()).map(|seed| (format!("{context}, seed {seed}"), sim.power_cut(seed)));
    cuts.chain([(format!("{context}, process ended"), sim.restart())]).collect()
}

/// Calls `check` with disks that a crash after each operation of each workload may leave.
fn after_every_crash(check: impl Fn(&Sim, &Law, &str)) {
    for (steps, runway) in WORKLOADS.iter().flat_map(|steps| RUNWAYS.map(|runway| (steps, runway))) {
        for count in 0..=operations(steps, runway) {
            let (disks, law) = crashed(steps, runway, count);
            disks.iter().for_each(|(context, sim)| check(sim, &law, context));
        }
    }
}

fn check_mended(sim: &Sim, law: &Law, context: &str) {
    let report = mend(sim);
    let last = law.check(sim, &report, context);
    let cut = sim.power_cut(0);
    mend(&cut);
    let files = sim.files();
    assert!(cut.files() == files, "{context}: recovery is on disk when it returns");
    assert!(mend(sim).logs.is_empty(), "{context}: recovery of the recovered");
    assert!(sim.files() == files, "{context}: recovery of the recovered changes nothing");
    let second = write_second_log(sim, context);
    let cut = sim.power_cut(0);
    second.check(&cut, &mend(&cut), context);
    assert_eq!(read(&cut, law.log).last(), last, "{context}: the second log takes nothing from the first");
}

fn write_second_log(sim: &Sim, context: &str) -> Law {
    let mut driver = Driver::new(sim);
    driver.run(&[Write(2), Sync]).unwrap_or_else(|error| panic!("{context}: {error}"));
    driver.law.clone()
}

#[test]
fn a_crash_at_any_operation_leaves_a_gap_free_prefix_with_all_acknowledged_records() {
    after_every_crash(check_mended);
}

#[test]
fn a_recovery_that_crashes_at_any_operation_leaves_the_same_law_to_the_next() {
    after_every_crash(crash_recovery_everywhere);
}

fn crash_recovery_everywhere(disk: &Sim, law: &Law, context: &str) {
    let whole = disk.restart();
    mend(&whole);
    for count in 0..whole.calls().len() {
        let sim = disk.restart();
        sim.crash_after(count);
        let _ = try_mend(&sim);
        for (context, sim) in
            disks_after(&sim, &format!("{context}, then {count} of recovery")).into_iter().rev().take(3)
        {
            law.check(&sim, &mend(&sim), &context);
        }
    }
}

#[test]
fn a_failed_sync_of_recovery_leaves_the_log_as_it_is_and_a_later_start_mends_it() {
    let (disks, law) = crashed(&[Write(2), Sync, Write(2)], RUNWAYS[1], usize::MAX >> 1);
    for (context, sim) in disks {
        sim.fail(Call::Sync, 0, EIO);
        let before = sim.files();
        let report = mend(&sim);
        assert_eq!(report.failed.len(), 1, "{context}");
        assert!(sim.files() == before, "{context}");
        let later = sim.restart();
        law.check(&later, &mend(&later), &context);
    }
}

/// Runs a whole log with its threads until the system crashes after `count` operations.
fn threaded(count: usize) -> (Sim, Law) {
    let sim = Sim::new();
    sim.crash_after(count);
    let mut options = LogOptions::new(&dir());
    options.segment_bytes_max = 700;
    let Ok((log, _)) = Log::open(sim.storage(), options, vec![schema()], |_| {}) else {
        return (sim, Law::new(LogId::from_bytes([0; 16])));
    };
    let mut law = Law::new(log.id());
    append_transactions(&log, &mut law);
    if log.close().is_ok() {
        law.acknowledged = law.attempted;
    }
    (sim, law)
}

/// Appends transactions. Waits only for every second one, so that two transactions can share a sync.
fn append_transactions(log: &Log, law: &mut Law) {
    let this = thread::current();
    let mut appender = log.appender(move || this.unpark());
    for round in 0..14_u64 {
        let (first, count) = (law.attempted + 1, round % 3 + 1);
        let Ok(appended) = append(&mut appender, Level::Synced, first..=law.attempted + count) else {
            return;
        };
        law.attempt(count as u32);
        appender.hand_over();
        if round % 2 == 0 {
            if !is_synced(&appender, appended) {
                return;
            }
            law.acknowledged = law.attempted;
        }
    }
}

/// Waits for a transaction. Returns false if the log stopped.
fn is_synced(appender: &Appender, appended: AppendedRecords) -> bool {
    loop {
        match appender.reached(appended, Level::Synced) {
            Some(result) => return result.is_ok(),
            None => thread::park_timeout(PATIENCE),
        }
    }
}

#[test]
fn a_log_with_its_threads_keeps_the_law_whenever_the_system_goes() {
    let mut count = 0;
    loop {
        let (sim, law) = threaded(count);
        let is_whole = law.attempted > 0 && law.acknowledged == law.attempted && sim.calls().len() < count;
        for (context, sim) in disks_after(&sim, &format!("threads, {count} operations")) {
            check_mended(&sim, &law, &context);
        }
        if is_whole {
            return;
        }
        assert!(count < 400, "the workload never ends");
        count += 1;
    }
}

#[test]
fn a_log_opened_on_the_disk_of_a_dead_one_names_it_and_leaves_it_alone() {
    let (sim, law) = {
        let sim = Sim::new();
        let mut driver = Driver::new(&sim);
        driver.run(&[Write(2), Sync, Close, Write(1), Sync]).unwrap();
        (sim.restart(), driver.law.clone())
    };
    let (log, report) = Log::open(sim.storage(), LogOptions::new(&dir()), vec![schema()], |_| {}).unwrap();
    assert_eq!(report.newest, Some(law.log));
    assert_eq!(report.logs[0].sealed, 2);
    assert_eq!(read(&sim, law.log).last(), law.acknowledged);
    assert_eq!(log.follower().watermark().synced, Sequence(0));
    log.close().unwrap();
}
