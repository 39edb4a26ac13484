//! Tests of retention: which segments are deleted and in which order, and that readers can read deleted
//! segments to their end.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tollgate_log::{
    AppendError, Appender, Cursor, CursorStep, DeleteReason, Deleted, Follower, Level, Log, LogEvent, LogId,
    LogOptions, Position, Sequence, Storage,
};

use crate::sim::{Call, EIO, PATIENCE, Sim};
use crate::workload::Step::{self, Close, Seal, Sync, Write};
use crate::workload::{Found, append, dead_log, dir, drain, names_of, read, read_from, schema, segment_path};

/// Three sealed segments of three records each.
const THREE: &[Step] =
    &[Write(2), Sync, Close, Seal, Write(2), Sync, Close, Seal, Write(2), Sync, Close, Seal];

/// A running log among logs of dead runs, and one sink.
struct Site {
    sim: Sim,
    log: Log,
    sink: Follower,
    events: Receiver<String>,
}

impl Site {
    fn open(sim: &Sim, change: impl FnOnce(&mut LogOptions)) -> Self {
        let mut options = LogOptions::new(&dir());
        options.retain = Duration::ZERO;
        change(&mut options);
        let (sender, events) = channel();
        let on_event = move |event: &LogEvent| drop(sender.send(describe(event)));
        let (log, _) = Log::open(sim.storage(), options, vec![schema()], on_event).unwrap();
        let sink = log.sink_followers(1).remove(0);
        Self { sim: sim.clone(), log, sink, events }
    }

    fn wait_for_names(&self, log: LogId, names: &[&str]) {
        self.sim.wait_until(&format!("{names:?} are left"), || names_of(&self.sim, log) == names);
    }

    fn check_nothing_goes(&self, log: LogId, names: &[&str]) {
        wait_for_whole_pass(&self.sim, &self.log);
        assert_eq!(names_of(&self.sim, log), names);
    }

    fn next_event(&self) -> String {
        self.events.recv_timeout(PATIENCE).unwrap()
    }
}

/// Waits until the retainer has begun and ended a pass after this call. The current pass does not count,
/// because it may have begun before the call.
fn wait_for_whole_pass(sim: &Sim, log: &Log) {
    let watch = log.watch();
    let before = watch.status().retain_passes;
    sim.wait_until("two passes ended", || watch.status().retain_passes >= before + 2);
}

fn describe(event: &LogEvent) -> String {
    match event {
        LogEvent::Failed(reason) => format!("failed: {reason}"),
        LogEvent::Deleted { segment, reason, .. } => format!("{segment} by {}", reason.name()),
        LogEvent::Room { state, .. } => format!("room: {state:?}"),
        LogEvent::Queue { state, .. } => format!("queue: {state:?}"),
        LogEvent::Mended(report) => format!("mended: {}", report.logs.len()),
        LogEvent::NotDeleted(error) => format!("not deleted: {error}"),
        LogEvent::Unsound { reason, .. } => format!("unsound: {reason}"),
    }
}

fn folder(log: LogId) -> PathBuf {
    dir().join(log.to_string())
}

const SEALED: [&str; 3] =
    ["00000000000000000001.sealed", "00000000000000000004.sealed", "00000000000000000007.sealed"];

#[test]
fn only_segments_whose_last_record_is_confirmed_go_and_the_folder_with_the_last() {
    let (sim, law) = dead_log(THREE);
    let site = Site::open(&sim, |_| {});
    site.check_nothing_goes(law.log, &SEALED);
    site.sink.confirm(law.log, Sequence(5));
    site.wait_for_names(law.log, &SEALED[1..]);
    assert_eq!(site.next_event(), format!("{} by retain", SEALED[0]));
    site.check_nothing_goes(law.log, &SEALED[1..]);
    site.sink.confirm(law.log, Sequence(9));
    sim.wait_until("the folder is gone", || !sim.is_folder(&folder(law.log)));
    site.log.close().unwrap();
    assert_eq!(sim.files().into_keys().collect::<Vec<_>>(), [dir().join("deleted")]);
}

/// Returns the content of the file `deleted`.
fn deleted(sim: &Sim) -> Vec<(LogId, u64)> {
    Deleted::read(&*sim.storage(), &dir()).unwrap().iter().map(|(log, last)| (log, last.0)).collect()
}

#[test]
fn the_end_of_a_deletion_is_noted_before_each_unlink_and_survives_the_log() {
    let (sim, law) = dead_log(THREE);
    let site = Site::open(&sim, |_| {});
    site.sink.confirm(law.log, Sequence(6));
    site.wait_for_names(law.log, &SEALED[2..]);
    assert_eq!(deleted(&sim), [(law.log, 6)]);
    site.sink.confirm(law.log, Sequence(9));
    sim.wait_until("the folder is gone", || !sim.is_folder(&folder(law.log)));
    site.log.close().unwrap();
    for sim in [&sim, &sim.restart(), &sim.power_cut(1)] {
        assert_eq!(deleted(sim), [(law.log, 9)]);
    }
    let calls = sim.calls();
    let noted = |call: &(Call, PathBuf)| *call == (Call::Rename, dir().join("deleted.new"));
    let unlinked = |call: &(Call, PathBuf)| {
        call.0 == Call::Remove && call.1.extension().is_some_and(|end| end == "sealed")
    };
    let steps: String = calls
        .iter()
        .filter_map(|call| if noted(call) { Some('n') } else { unlinked(call).then_some('u') })
        .collect();
    assert_eq!(steps, "nununu");
}

#[test]
fn unreadable_lines_of_the_note_are_passed_and_the_oldest_of_too_many_logs_go() {
    let (sim, law) = dead_log(THREE);
    let id = |n: u16| LogId::from_bytes([[0; 14].as_slice(), &n.to_be_bytes()].concat().try_into().unwrap());
    let lines: String = (0..4096).map(|n| format!("{} 7\n", id(n))).collect();
    sim.put(&dir().join("deleted"), format!("nonsense\n{} x\n{lines}{} 1", law.log, law.log).as_bytes());
    assert_eq!(deleted(&sim).len(), 4097);
    let site = Site::open(&sim, |_| {});
    site.sink.confirm(law.log, Sequence(9));
    sim.wait_until("the folder is gone", || !sim.is_folder(&folder(law.log)));
    site.log.close().unwrap();
    let deleted = deleted(&sim);
    assert_eq!((deleted.len(), deleted[0], deleted[4095]), (4096, (id(1), 7), (law.log, 9)));
}

#[test]
fn nothing_is_deleted_without_a_sink() {
    let (sim, law) = dead_log(THREE);
    let mut options = LogOptions::new(&dir());
    (options.retain, options.retain_bytes_max) = (Duration::ZERO, 0);
    let (log, _) = Log::open(sim.storage(), options, vec![schema()], |_| {}).unwrap();
    log.follower().confirm(law.log, Sequence(9));
    wait_for_whole_pass(&sim, &log);
    assert_eq!(names_of(&sim, law.log), SEALED);
    log.close().unwrap();
}

#[test]
fn segments_above_retain_bytes_max_go_before_retain_is_over() {
    let (sim, law) = dead_log(THREE);
    let bytes = sim.files().values().map(Vec::len).sum::<usize>() as u64;
    let site = Site::open(&sim, |options| {
        options.retain = Duration::from_hours(1);
        options.retain_bytes_max = bytes - 1;
    });
    site.sink.confirm(law.log, Sequence(9));
    assert_eq!(site.next_event(), format!("{} by {}", SEALED[0], DeleteReason::Size.name()));
    site.check_nothing_goes(law.log, &SEALED[1..]);
    site.log.close().unwrap();
}

#[test]
fn each_unlink_is_synced_before_the_next() {
    let (sim, law) = dead_log(THREE);
    let site = Site::open(&sim, |_| {});
    site.sink.confirm(law.log, Sequence(9));
    sim.wait_until("the folder is gone", || !sim.is_folder(&folder(law.log)));
    site.log.close().unwrap();
    let calls: Vec<_> =
        sim.calls().into_iter().filter(|(_, path)| path.starts_with(folder(law.log))).collect();
    let from = calls.iter().position(|(call, _)| *call == Call::Remove).unwrap();
    let calls: Vec<_> = calls[from..].iter().map(|(call, _)| *call).collect();
    let pair = [Call::Remove, Call::SyncFolder];
    let removal = [Call::Lock, Call::Remove, Call::RemoveFolder];
    assert_eq!(calls, [&pair[..], &pair, &pair, &removal].concat());
    assert_eq!(sim.calls().last().unwrap(), &(Call::SyncFolder, dir()));
}

#[test]
fn a_crash_at_any_call_of_a_deletion_leaves_the_end_of_the_log_whole() {
    for count in 0..32 {
        for seed in 0..4 {
            let (sim, law) = dead_log(THREE);
            let site = Site::open(&sim, |_| {});
            sim.crash_after(count);
            site.sink.confirm(law.log, Sequence(9));
            let is_over = || sim.list(&dir()).is_err() || !sim.is_folder(&folder(law.log));
            sim.wait_until("it crashed, or all is deleted", is_over);
            drop(site.log.close());
            let found = read_from_oldest(&sim.power_cut(seed), law.log);
            let whole: Vec<_> = (1..=9).skip(9 - found.len()).collect();
            assert_eq!(found, whole, "crash after {count}, seed {seed}");
        }
    }
}

/// Returns the remaining numbers, and checks that there is no gap among them.
fn read_from_oldest(sim: &Sim, log: LogId) -> Vec<u64> {
    let found = read(sim, log);
    assert!(found.gaps.is_empty(), "{found:?}");
    found.numbers
}

#[test]
fn the_log_of_this_run_loses_sealed_segments_and_keeps_its_folder() {
    let sim = Sim::new();
    let site = Site::open(&sim, |options| options.segment_bytes_max = 1);
    let mut appender = site.log.appender(|| {});
    for n in 1..=3 {
        let appended = append(&mut appender, Level::Written, n..=n).unwrap();
        assert!(appender.hand_over());
        sim.wait_until("it is written", || appender.reached(appended, Level::Written).is_some());
    }
    let log = site.log.id();
    site.sink.confirm(log, Sequence(3));
    site.wait_for_names(log, &[]);
    assert!(sim.is_folder(&folder(log)));
    append(&mut appender, Level::Written, 4..=4).unwrap();
    assert!(appender.hand_over());
    drop(appender);
    site.log.close().unwrap();
    assert_eq!(read(&sim, log).numbers, [4]);
    assert_eq!(names_of(&sim, log), ["00000000000000000004.sealed"]);
}

#[test]
fn segments_that_are_damaged_or_of_another_run_stay_and_so_does_their_folder() {
    let (sim, law) = dead_log(THREE);
    let [first, second, _] = [0, 1, 2].map(|index| segment_path(&sim, law.log, index));
    sim.rename(&first, &first.with_extension("damaged")).unwrap();
    // Without a footer, the last record of the segment is unknown.
    sim.edit(&second, |bytes| bytes.truncate(bytes.len() - 1));
    let site = Site::open(&sim, |_| {});
    site.sink.confirm(law.log, Sequence(9));
    let left = ["00000000000000000001.damaged", "00000000000000000004.sealed"];
    site.wait_for_names(law.log, &left);
    site.check_nothing_goes(law.log, &left);
    site.log.close().unwrap();
}

#[test]
fn a_folder_whose_lock_is_held_is_removed_when_the_lock_is_free() {
    let (sim, law) = dead_log(THREE);
    let held = sim.try_lock(&folder(law.log).join("lock")).unwrap().unwrap();
    let site = Site::open(&sim, |_| {});
    site.sink.confirm(law.log, Sequence(9));
    site.wait_for_names(law.log, &[]);
    wait_for_whole_pass(&sim, &site.log);
    assert!(sim.is_folder(&folder(law.log)));
    drop(held);
    sim.wait_until("the folder is gone", || !sim.is_folder(&folder(law.log)));
    site.log.close().unwrap();
}

#[test]
fn a_segment_that_cannot_be_unlinked_is_told_once_and_the_log_goes_on() {
    let (sim, law) = dead_log(THREE);
    let site = Site::open(&sim, |_| {});
    sim.fail(Call::Remove, 0, EIO);
    site.sink.confirm(law.log, Sequence(9));
    let path = segment_path(&sim, law.log, 0);
    assert_eq!(site.next_event(), format!("not deleted: cannot delete {}", path.display()));
    site.check_nothing_goes(law.log, &SEALED);
    assert!(site.events.try_recv().is_err());
    site.log.close().unwrap();
}

#[test]
fn nothing_is_unlinked_that_could_not_be_noted() {
    for call in [Call::Create, Call::Rename, Call::SyncFolder] {
        let (sim, law) = dead_log(THREE);
        let site = Site::open(&sim, |_| {});
        sim.fail(call, 0, EIO);
        site.sink.confirm(law.log, Sequence(9));
        assert!(site.next_event().starts_with("not deleted: cannot "), "{call:?}");
        site.check_nothing_goes(law.log, &SEALED);
        site.log.close().unwrap();
    }
}

#[test]
fn a_note_that_a_run_left_unfinished_is_written_anew() {
    let (sim, law) = dead_log(THREE);
    sim.put(&dir().join("deleted.new"), b"half a li");
    let site = Site::open(&sim, |_| {});
    site.sink.confirm(law.log, Sequence(9));
    sim.wait_until("the folder is gone", || !sim.is_folder(&folder(law.log)));
    site.log.close().unwrap();
    assert_eq!(deleted(&sim), [(law.log, 9)]);
}

#[test]
fn a_folder_that_cannot_be_synced_after_an_unlink_stops_the_log() {
    let (sim, law) = dead_log(THREE);
    let site = Site::open(&sim, |_| {});
    // The sync with index 0 is the sync of the note.
    sim.fail(Call::SyncFolder, 1, EIO);
    site.sink.confirm(law.log, Sequence(9));
    assert!(site.next_event().starts_with(&format!("failed: cannot sync {}", folder(law.log).display())));
    site.log.close().unwrap_err();
    assert_eq!(names_of(&sim, law.log), SEALED[1..], "nothing more is unlinked");
}

fn remove(sim: &Sim, path: &Path) {
    sim.remove(path).unwrap();
}

#[test]
fn a_reader_with_an_open_segment_reads_it_to_its_end() {
    let (sim, law) = dead_log(THREE);
    let mut cursor = Cursor::new(sim.storage(), &dir(), law.log, None);
    assert!(matches!(cursor.step(None).unwrap(), CursorStep::Batch(_)));
    let paths = [0, 1, 2].map(|index| segment_path(&sim, law.log, index));
    paths.iter().for_each(|path| remove(&sim, path));
    remove(&sim, &folder(law.log).join("lock"));
    sim.remove_folder(&folder(law.log)).unwrap();
    // The first batch had two records.
    let rest = drain(&mut cursor, None);
    assert_eq!((rest.numbers, rest.gaps), (vec![3], vec![]));
}

/// Reads two records, deletes this segment and the next, and returns what the cursor still reads.
fn read_over_deletion(new: impl FnOnce(&Sim, LogId) -> Cursor) -> Found {
    let (sim, law) = dead_log(THREE);
    let mut cursor = new(&sim, law.log);
    assert!(matches!(cursor.step(None).unwrap(), CursorStep::Batch(_)));
    for index in [1, 0] {
        remove(&sim, &segment_path(&sim, law.log, index));
    }
    drain(&mut cursor, None)
}

#[test]
fn a_command_passes_over_records_deleted_meanwhile_and_a_sink_misses_them() {
    let found = read_over_deletion(|sim, log| Cursor::over_kept(sim.storage(), &dir(), log, None));
    assert_eq!((found.numbers, found.gaps), (vec![3, 7, 8, 9], vec![]));
    let found = read_over_deletion(|sim, log| Cursor::new(sim.storage(), &dir(), log, None));
    assert_eq!((found.missing(), found.numbers), (vec![4, 5, 6], vec![3, 7, 8, 9]));
}

#[test]
fn a_segment_that_is_deleted_between_its_listing_and_its_opening_is_no_damage() {
    for (position, missing) in [(None, vec![]), (Some(2), vec![3])] {
        let (sim, law) = dead_log(THREE);
        sim.delete_before_open(&segment_path(&sim, law.log, 0));
        let position = position.map(|last| Position { last: Sequence(last), chain: None });
        let found = read_from(&sim, law.log, position);
        assert_eq!(found.missing(), missing, "only what a sink has not is missing to it");
        assert_eq!(found.numbers, (4..=9).collect::<Vec<_>>());
    }
}

#[test]
fn a_reader_at_the_end_is_caught_up_if_the_last_segment_is_deleted_as_it_opens_it() {
    let (sim, law) = dead_log(THREE);
    [0, 0].iter().for_each(|index| remove(&sim, &segment_path(&sim, law.log, *index)));
    sim.delete_before_open(&segment_path(&sim, law.log, 0));
    let found = read_from(&sim, law.log, Some(Position { last: Sequence(9), chain: None }));
    assert_eq!(found, Found::default());
}

/// Appends single records until one is refused. Counts the accepted records in `taken`.
fn fill(site: &Site, appender: &mut Appender, taken: &mut u64) {
    while let Ok(appended) = append(appender, Level::Synced, *taken + 1..=*taken + 1) {
        assert!(appender.hand_over());
        *taken += 1;
        site.sim
            .wait_until("it is synced", || matches!(appender.reached(appended, Level::Synced), Some(Ok(()))));
        assert!(*taken < 10_000, "never refused");
    }
}

const RESERVE_BYTES: u64 = 100_000;

/// Opens a log on a disk that is soon nearly full.
fn on_small_disk() -> (Site, Appender) {
    let sim = Sim::new();
    sim.set_capacity(300_000);
    let site = Site::open(&sim, |options| {
        options.segment_bytes_max = 10_000;
        options.retain = Duration::from_hours(1);
        options.reserve_bytes = RESERVE_BYTES;
    });
    let appender = site.log.appender(|| {});
    (site, appender)
}

#[test]
fn records_are_refused_while_less_than_the_reserve_is_free_and_then_taken_again() {
    let (site, mut appender) = on_small_disk();
    let mut taken = 0;
    fill(&site, &mut appender, &mut taken);
    assert_eq!(append(&mut appender, Level::Received, 1..=1), Err(AppendError::NoRoom));
    assert_eq!(site.next_event(), "room: Short");
    let files = site.sim.files().values().map(|bytes| bytes.len() as u64).sum::<u64>();
    assert!((190_000..=220_000).contains(&files), "{files}");
    // The full segment is sealed, so that it can be loaded and deleted.
    site.sink.confirm(site.log.id(), Sequence(taken));
    site.sim.wait_until("records are taken", || {
        append(&mut appender, Level::Received, taken + 1..=taken + 1).is_ok()
    });
    let events: Vec<_> = site.events.try_iter().collect();
    assert_eq!(events.iter().filter(|event| *event == "room: Enough").count(), 1, "{events:?}");
    assert!(events.iter().any(|event| event.ends_with("by room")), "{events:?}");
    assert!(appender.hand_over());
    let log = site.log.id();
    drop(appender);
    site.log.close().unwrap();
    assert_eq!(read(&site.sim, log).last(), taken + 1);
}

#[test]
fn room_is_made_before_records_are_refused_however_long_they_are_to_be_retained() {
    let (site, mut appender) = on_small_disk();
    for n in 1..=2000 {
        let appended = append(&mut appender, Level::Synced, n..=n).unwrap();
        assert!(appender.hand_over());
        site.sim.wait_until("it is synced", || appender.reached(appended, Level::Synced).is_some());
        site.sink.confirm(site.log.id(), Sequence(n));
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(appender);
    site.log.close().unwrap();
    let events: Vec<_> = site.events.try_iter().collect();
    assert!(!events.is_empty() && events.iter().all(|event| event.ends_with("by room")), "{events:?}");
}

#[test]
fn a_log_that_a_full_disk_left_unmended_is_mended_when_there_is_room() {
    let (sim, law) = dead_log(&[Write(2), Sync]);
    let used = sim.files().values().map(|bytes| bytes.len() as u64).sum::<u64>();
    sim.set_capacity(used);
    let site = Site::open(&sim, |options| options.reserve_bytes = 1000);
    assert_eq!(site.next_event(), "room: Short");
    let mut appender = site.log.appender(|| {});
    assert_eq!(append(&mut appender, Level::Synced, 1..=1), Err(AppendError::NoRoom));
    assert_eq!(names_of(&sim, law.log), ["00000000000000000001.open"]);
    sim.set_capacity(1_000_000);
    assert_eq!([site.next_event(), site.next_event()], ["room: Enough", "mended: 1"]);
    assert_eq!(names_of(&sim, law.log), ["00000000000000000001.sealed"]);
    assert_eq!(read(&sim, law.log).numbers, [1, 2, 3]);
    append(&mut appender, Level::Synced, 1..=1).unwrap();
    drop(appender);
    site.log.close().unwrap();
}
