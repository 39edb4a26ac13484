//! Tests of group commit: a sync releases the replies of the records that it covers, and a failure releases
//! no reply.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use tollgate_log::{AppendError, AppendedRecords, Appender, Level, Log, LogEvent, LogOptions, Sequence};

use crate::sim::{Call, EIO, ENOSPC, PATIENCE, Sim};
use crate::workload::{Law, append, dir, mend, names_of, only_log, read, schema, segment_path};

/// A log with one worker, and the receiver of its wake-ups.
struct Site {
    sim: Sim,
    log: Log,
    appender: Appender,
    woken: Receiver<()>,
    failures: Arc<Mutex<Vec<String>>>,
    law: Law,
}

impl Site {
    fn new(change: impl FnOnce(&mut LogOptions)) -> Self {
        let sim = Sim::new();
        let mut options = LogOptions::new(&dir());
        change(&mut options);
        let failures = Arc::new(Mutex::new(Vec::new()));
        let told = failures.clone();
        let on_event = move |event: &LogEvent| {
            let LogEvent::Failed(reason) = event else { panic!("{event:?}") };
            told.lock().unwrap().push(reason.clone());
        };
        let (log, _) = Log::open(sim.storage(), options, vec![schema()], on_event).unwrap();
        let (wake, woken) = channel();
        let appender = log.appender(move || {
            // A finished test has dropped the receiver.
            let _ = wake.send(());
        });
        let law = Law::new(log.id());
        Self { sim, log, appender, woken, failures, law }
    }

    /// Appends the next record and hands it over.
    fn append(&mut self, level: Level) -> Result<AppendedRecords, AppendError> {
        let n = self.law.attempted + 1;
        let appended = append(&mut self.appender, level, n..=n)?;
        self.law.attempt(1);
        assert!(self.appender.hand_over());
        Ok(appended)
    }

    /// Waits as a worker does: checks, sleeps until the log wakes it, and checks again.
    fn wait(&self, appended: AppendedRecords, level: Level) -> Result<(), AppendError> {
        loop {
            if let Some(result) = self.appender.reached(appended, level) {
                return result;
            }
            self.woken.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("never woken for {level:?}"));
        }
    }

    fn is_reached(&self, appended: AppendedRecords, level: Level) -> bool {
        self.appender.reached(appended, level).is_some()
    }

    fn close(self) -> (Sim, Law, Result<(), String>) {
        let Self { sim, log, appender, law, .. } = self;
        drop(appender);
        (sim, law, log.close())
    }
}

#[test]
fn a_waiter_whose_bytes_came_after_the_sync_began_is_released_by_the_next_one() {
    let mut site = Site::new(|_| {});
    site.sim.pause_syncs();
    let first = site.append(Level::Synced).unwrap();
    site.sim.wait_for_paused_sync();
    let second = site.append(Level::Synced).unwrap();
    site.sim.wait_until("the second is written", || site.is_reached(second, Level::Written));
    site.sim.release_one_sync();
    site.wait(first, Level::Synced).unwrap();
    site.sim.wait_for_paused_sync();
    assert!(!site.is_reached(second, Level::Synced));
    assert_eq!(site.log.follower().watermark().synced, Sequence(1));
    site.sim.release_syncs();
    site.wait(second, Level::Synced).unwrap();
    assert_eq!(site.log.follower().watermark().synced, Sequence(2));
    site.close().2.unwrap();
}

#[test]
fn all_who_wait_while_a_sync_runs_share_the_next_one() {
    let mut site = Site::new(|_| {});
    site.sim.pause_syncs();
    site.append(Level::Synced).unwrap();
    site.sim.wait_for_paused_sync();
    let all_appended: Vec<_> = (0..50).map(|_| site.append(Level::Synced).unwrap()).collect();
    let last = *all_appended.last().unwrap();
    site.sim.wait_until("all are written", || site.is_reached(last, Level::Written));
    site.sim.release_syncs();
    site.wait(last, Level::Synced).unwrap();
    assert!(all_appended.iter().all(|appended| site.is_reached(*appended, Level::Synced)));
    assert_eq!(site.sim.count(Call::Sync), 2);
    site.close().2.unwrap();
}

#[test]
fn written_is_reached_while_a_sync_is_held() {
    let mut site = Site::new(|_| {});
    site.sim.pause_syncs();
    site.append(Level::Synced).unwrap();
    site.sim.wait_for_paused_sync();
    let appended = site.append(Level::Written).unwrap();
    site.wait(appended, Level::Written).unwrap();
    assert!(!site.is_reached(appended, Level::Synced));
    site.sim.release_syncs();
    site.close().2.unwrap();
}

/// The failures. Each row has the call that fails, its index among such calls since the first record, the
/// error number, and the reported text.
const FAILURES: &[(Call, usize, i32, &str)] = &[
    (Call::Create, 0, ENOSPC, "cannot create"),
    (Call::Write, 0, ENOSPC, "cannot write"),
    (Call::Write, 1, EIO, "cannot write"),
    (Call::Write, 2, ENOSPC, "cannot write"),
    (Call::Sync, 0, EIO, "cannot sync"),
    (Call::SyncFolder, 1, EIO, "cannot sync"),
    (Call::SyncFolder, 2, EIO, "cannot sync"),
];

#[test]
fn a_failure_ends_all_acknowledgements_and_a_restart_is_clean() {
    for (call, nth, errno, told) in FAILURES {
        let context = format!("{call:?} {nth} fails by {errno}");
        let mut site = Site::new(|_| {});
        site.sim.fail(*call, *nth, *errno);
        let appended = site.append(Level::Synced).unwrap();
        let error = site.wait(appended, Level::Synced).expect_err(&context);
        assert!(
            matches!(&error, AppendError::Stopped(reason) if reason.starts_with(told)),
            "{context}: {error}"
        );
        check_stopped(site, appended, &context);
    }
}

#[test]
fn a_disk_failure_says_that_a_restart_keeps_synced_records_and_damage_does_not() {
    const KEPT: &str = "; a restart keeps every record that was acknowledged as synced";
    let mut site = Site::new(|_| {});
    site.sim.fail(Call::Sync, 0, EIO);
    let appended = site.append(Level::Synced).unwrap();
    site.wait(appended, Level::Synced).unwrap_err();
    let reason = site.close().2.unwrap_err();
    assert!(reason.ends_with(KEPT), "{reason}");

    let mut site = Site::new(|_| {});
    let appended = site.append(Level::Synced).unwrap();
    site.wait(appended, Level::Synced).unwrap();
    let path = segment_path(&site.sim, site.law.log, 0);
    site.sim.edit(&path, |bytes| bytes[128 + 70] ^= 1);
    // The sealer reads the segment back.
    let reason = site.close().2.unwrap_err();
    assert!(reason.contains("is damaged at byte") && reason.contains("`tollgate log verify`"), "{reason}");
    assert!(!reason.contains("keeps"), "{reason}");
}

/// Checks that the log accepts no more records and reported the failure once. Then checks that a restart
/// finds a log that obeys the [`Law`].
fn check_stopped(mut site: Site, appended: AppendedRecords, context: &str) {
    let refused = site.append(Level::Received).expect_err(context);
    assert!(matches!(refused, AppendError::Stopped(_)), "{context}: {refused}");
    let (failures, follower) = (site.failures.clone(), site.log.follower());
    assert!(matches!(site.appender.reached(appended, Level::Synced), Some(Err(_))), "{context}");
    let (sim, law, closed) = site.close();
    assert_eq!(Some(&closed.expect_err(context)), failures.lock().unwrap().first(), "{context}");
    assert_eq!(failures.lock().unwrap().len(), 1, "{context}");
    assert_eq!(follower.watermark().synced.0, law.acknowledged, "{context}");
    let disks = (0..6).map(|seed| sim.power_cut(seed)).chain([sim.restart()]);
    for (index, disk) in disks.enumerate() {
        law.check(&disk, &mend(&disk), &format!("{context}, disk {index}"));
        let (log, _) = Log::open(disk.storage(), LogOptions::new(&dir()), vec![schema()], |_| {}).unwrap();
        log.close().unwrap();
    }
}

#[test]
fn a_file_whose_sync_failed_is_never_synced_again() {
    let mut site = Site::new(|options| options.segment_bytes_max = 1);
    let first = site.append(Level::Synced).unwrap();
    site.wait(first, Level::Synced).unwrap();
    site.law.acknowledged = 1;
    let id = site.log.id();
    site.sim.wait_until("the first is sealed", || names_of(&site.sim, id) == ["00000000000000000001.sealed"]);
    site.sim.fail(Call::Sync, 0, EIO);
    let second = site.append(Level::Synced).unwrap();
    site.wait(second, Level::Synced).unwrap_err();
    let sim = site.sim.clone();
    check_stopped(site, second, "the second segment");
    let calls = sim.calls();
    let syncs = calls
        .iter()
        .filter(|(call, path)| *call == Call::Sync && path.ends_with("00000000000000000002.open"));
    assert_eq!(syncs.count(), 1);
}

/// Makes a write fail while a sync runs. The sync ends after the failure.
fn check_write_that_fails_beside_a_sync(mut site: Site, context: &str) {
    site.sim.pause_syncs();
    let first = site.append(Level::Synced).unwrap();
    site.sim.wait_for_paused_sync();
    site.sim.fail(Call::Write, 0, ENOSPC);
    let second = site.append(Level::Written).unwrap();
    site.wait(second, Level::Written).expect_err(context);
    site.sim.release_syncs();
    check_stopped(site, first, context);
}

#[test]
fn a_write_that_fails_while_a_sync_runs_leaves_its_waiters_unknown() {
    check_write_that_fails_beside_a_sync(Site::new(|_| {}), "a write beside a sync");
}

#[test]
fn two_threads_that_fail_tell_the_owner_once() {
    let site = Site::new(|_| {});
    site.sim.fail(Call::Sync, 0, EIO);
    check_write_that_fails_beside_a_sync(site, "a write, then a sync");
}

#[test]
fn a_seal_that_fails_stops_the_log() {
    for call in [Call::Rename, Call::Write] {
        let mut site = Site::new(|options| options.segment_bytes_max = 1);
        // The writes are the segment header, the schemas, the record, and then the footer.
        site.sim.fail(call, if call == Call::Write { 3 } else { 0 }, EIO);
        let appended = site.append(Level::Synced).unwrap();
        // The sealer may fail before the worker learns of the sync.
        if site.wait(appended, Level::Synced).is_ok() {
            site.law.acknowledged = 1;
        }
        let failures = site.failures.clone();
        site.sim.wait_until("the owner is told", || !failures.lock().unwrap().is_empty());
        assert!(matches!(site.append(Level::Received), Err(AppendError::Stopped(_))), "{call:?}");
        let (sim, law, closed) = site.close();
        closed.unwrap_err();
        for seed in 0..6 {
            let disk = sim.power_cut(seed);
            law.check(&disk, &mend(&disk), &format!("{call:?}, seed {seed}"));
        }
    }
}

#[test]
fn the_folder_stays_locked_until_the_last_segment_is_sealed() {
    let mut site = Site::new(|_| {});
    let appended = site.append(Level::Synced).unwrap();
    site.wait(appended, Level::Synced).unwrap();
    let Site { sim, log, appender, .. } = site;
    sim.pause_syncs();
    drop((appender, log));
    sim.wait_for_paused_sync();
    let second = Log::open(sim.storage(), LogOptions::new(&dir()), vec![schema()], |_| {});
    assert!(second.is_err());
    sim.release_syncs();
    let mut report = None;
    sim.wait_until("the lock is free", || {
        report = Log::open(sim.storage(), LogOptions::new(&dir()), vec![schema()], |_| {}).ok();
        report.is_some()
    });
    let (log, report) = report.unwrap();
    assert!(report.logs.is_empty());
    log.close().unwrap();
    assert_eq!(read(&sim, only_log(&sim)).numbers, [1]);
}

#[test]
fn the_writer_waits_while_four_segments_are_closed_and_not_sealed() {
    let mut site = Site::new(|options| options.segment_bytes_max = 1);
    let id = site.log.id();
    site.sim.pause_syncs();
    let open = |sim: &Sim| names_of(sim, id).len();
    for count in 1..=4 {
        let appended = site.append(Level::Written).unwrap();
        site.wait(appended, Level::Written).unwrap();
        assert_eq!(open(&site.sim), count);
    }
    let fifth = site.append(Level::Synced).unwrap();
    site.sim.wait_for_paused_sync();
    assert!(!site.is_reached(fifth, Level::Written));
    // Each segment has a header, schemas and a record. No footer is written before the sync.
    assert_eq!(site.sim.count(Call::Write), 4 * 3);
    site.sim.release_syncs();
    site.wait(fifth, Level::Synced).unwrap();
    site.close().2.unwrap();
}
