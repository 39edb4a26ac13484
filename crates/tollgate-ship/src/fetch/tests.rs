//! Tests with real logs and a folder as the store. The folder of the loader gets only valid segments, in
//! order.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tempfile::TempDir;
use tollgate_log::{DiskStorage, Position, SegmentName, SegmentState, read_footer, segments};

use super::*;
use crate::answer::{EndAnswer, PositionAnswer, WantAnswer};
use crate::folder::FolderStore;
use crate::name::NodeName;
use crate::pace::Pacer;
use crate::shipper::ship_once;
use crate::testing::{eventually, files, write_log};

mod sharing;

/// A machine that wrote logs, a folder as the store, and a machine that loads them.
struct Site {
    folder: TempDir,
    /// Positions of the two sinks.
    positions: Arc<Mutex<SinkPositions>>,
    spool_bytes_max: u64,
    gap_patience: Duration,
    list: Duration,
    retain: StoreRetain,
}

impl Site {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("store")).unwrap();
        let sinks = ["one", "two"].map(|sink| (sink.to_owned(), BTreeMap::new()));
        let positions = Arc::new(Mutex::new(sinks.into_iter().collect()));
        let retain = StoreRetain { age: None, sinks: None };
        let gap_patience = Duration::from_millis(20);
        let list = Duration::from_millis(2);
        Self { folder, positions, spool_bytes_max: u64::MAX, gap_patience, list, retain }
    }

    fn store(&self) -> FolderStore {
        FolderStore::new(self.folder.path().join("store"), Arc::new(Pacer::new(None)))
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn ship(&self) {
        let node = NodeName::encode("web 1").unwrap();
        ship_once(&DiskStorage, &self.dir(), &node, &self.store(), false, |_| {}).unwrap();
    }

    /// Writes a log and ships it.
    fn shipped(&self, rows: i64) -> LogId {
        let log = write_log(&self.dir(), "web 1", rows);
        self.ship();
        log
    }

    fn start(&self) -> Fetcher {
        self.start_sharing(AllLogs)
    }

    fn start_sharing(&self, allotment: impl Allotment + 'static) -> Fetcher {
        let tuning = FetchTuning {
            poll: Duration::from_millis(2),
            list: self.list,
            gap_patience: self.gap_patience,
            answer: Duration::from_millis(2),
            retain: Duration::from_millis(2),
            backoff_min: Duration::from_millis(1),
            backoff_max: Duration::from_millis(10),
        };
        let options = FetchOptions {
            spool: self.folder.path().join("spool"),
            spool_bytes_max: self.spool_bytes_max,
            segment_bytes_max: 1 << 20,
            retain: self.retain.clone(),
            tuning,
        };
        let positions = self.positions.clone();
        let read = Box::new(move || Ok(positions.lock().unwrap().clone()));
        let (storage, store) = (Arc::new(DiskStorage), Arc::new(self.store()));
        Fetcher::start_sharing(options, storage, store, read, Box::new(allotment)).unwrap()
    }

    fn loaded(&self, sink: &str, log: LogId, last: u64) {
        let position = Position { last: Sequence(last), chain: None };
        self.positions.lock().unwrap().get_mut(sink).unwrap().insert(log, position);
    }

    fn loaded_by_all(&self, log: LogId, last: u64) {
        ["one", "two"].into_iter().for_each(|sink| self.loaded(sink, log, last));
    }

    /// Returns the fetched segments in the folder that the loader reads.
    fn fetched(&self, log: LogId) -> BTreeMap<String, Vec<u8>> {
        files(&self.folder.path().join(format!("spool/{log}")), "sealed")
    }

    fn local(&self, log: LogId) -> BTreeMap<String, Vec<u8>> {
        files(&self.dir().join(log.to_string()), "sealed")
    }

    /// Returns the first and the last record of each segment of the log.
    fn bounds(&self, log: LogId) -> Vec<(u64, u64)> {
        let paths = segments(&DiskStorage, &self.dir(), log).unwrap();
        let footers = paths.iter().map(|(name, path)| (name.first, read_footer(&DiskStorage, path).unwrap()));
        footers.map(|(first, footer)| (first.0, footer.unwrap().last.0)).collect()
    }

    fn object(&self, log: LogId, first: u64) -> PathBuf {
        self.folder.path().join(format!("store/v1/seg/web%201/{log}/{first:020}.seg"))
    }

    fn want(&self, log: LogId, first: u64) -> Option<WantAnswer> {
        let name = ObjectName::Want { log, first: Sequence(first) }.to_string();
        self.store().text(&name, 100).unwrap().as_deref().and_then(WantAnswer::parse)
    }

    fn answer(&self, log: LogId, first: u64, answer: Option<WantAnswer>) {
        let name = ObjectName::Want { log, first: Sequence(first) }.to_string();
        match answer {
            Some(answer) => self.store().put_text(&name, answer.to_text()).unwrap(),
            None => self.store().remove(&name).unwrap(),
        }
    }
}

fn fault_of(fetcher: &Fetcher, log: LogId) -> Option<FetchFault> {
    fetcher.watch().status().logs.get(&log)?.fault.clone()
}

fn flip(path: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let (mut byte, at) = ([0], file.metadata().unwrap().len() / 2);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

#[test]
fn every_segment_is_fetched_byte_for_byte_and_removed_once_all_sinks_have_it() {
    let site = Site::new();
    let (older, newer) = (site.shipped(60), site.shipped(5));
    let fetcher = site.start();
    eventually("both logs are here", || {
        site.fetched(older) == site.local(older) && site.fetched(newer) == site.local(newer)
    });
    site.loaded("one", older, 60);
    site.loaded_by_all(newer, 5);
    eventually("the loaded log is removed", || site.fetched(newer).is_empty());
    assert_eq!(site.fetched(older), site.local(older), "one sink lacks it");
    site.loaded("two", older, site.bounds(older)[0].1);
    eventually("its first segment is removed", || site.fetched(older).len() == site.local(older).len() - 1);
    site.loaded("two", older, 60);
    eventually("all is loaded", || fetcher.watch().status().is_all_loaded());
    assert_eq!(fetcher.watch().status().spool_bytes, 0);
}

#[test]
fn the_machine_that_wrote_a_log_can_read_how_far_each_sink_is() {
    let site = Site::new();
    let log = site.shipped(30);
    let _fetcher = site.start();
    site.loaded("one", log, 7);
    site.loaded("two", log, 30);
    for (sink, last) in [("one", 7), ("two", 30)] {
        let name = ObjectName::Position { sink: sink.to_owned(), log }.to_string();
        let answer = || PositionAnswer::parse(&site.store().text(&name, 1_000).unwrap()?);
        eventually("it is answered", || answer().is_some_and(|answer| answer.position.last.0 == last));
    }
}

#[test]
fn a_missing_segment_is_asked_for_and_its_log_goes_on_once_it_is_there() {
    let site = Site::new();
    let (log, other) = (site.shipped(60), site.shipped(5));
    let missing = site.bounds(log)[1].0;
    fs::remove_file(site.object(log, missing)).unwrap();
    let fetcher = site.start();
    eventually("it is asked for", || site.want(log, missing) == Some(WantAnswer::Wanted));
    assert_eq!(site.fetched(log).len(), 1, "no segment after the hole");
    eventually("the other log is here", || site.fetched(other) == site.local(other));
    let fault = FetchFault::Missing { first: Sequence(missing), is_gone: false };
    eventually("it is named", || fault_of(&fetcher, log).as_ref() == Some(&fault));
    site.ship();
    eventually("all is here", || site.fetched(log) == site.local(log));
    eventually("the fault is over", || fault_of(&fetcher, log).is_none());
}

#[test]
fn a_log_whose_segments_are_all_missing_is_found_by_its_end() {
    let site = Site::new();
    let log = site.shipped(30);
    fs::remove_dir_all(site.object(log, 1).parent().unwrap()).unwrap();
    let end = EndAnswer { node: NodeName::encode("web 1").unwrap(), last: Sequence(30) };
    site.store().put_text(&ObjectName::End(log).to_string(), &end.to_text()).unwrap();
    let _fetcher = site.start();
    eventually("its first segment is asked for", || site.want(log, 1) == Some(WantAnswer::Wanted));
    site.ship();
    eventually("all is here", || site.fetched(log) == site.local(log));
}

#[test]
fn a_lost_last_segment_of_a_live_log_is_found_by_the_report_of_its_machine() {
    let site = Site::new();
    let log = site.shipped(60);
    let (last, end) = *site.bounds(log).last().unwrap();
    fs::remove_file(site.object(log, last)).unwrap();
    let fetcher = site.start();
    eventually("the rest is here", || site.fetched(log).len() == site.local(log).len() - 1);
    assert_eq!(fault_of(&fetcher, log), None, "the log may end there");
    let report = NodeAnswer {
        log: Some(log),
        shipped: Some(Sequence(end)),
        at_ms: now_ms(),
        every_ms: 60_000,
        unshipped_segments: 0,
        unshipped_bytes: 0,
    };
    let name = ObjectName::Node(NodeName::encode("web 1").unwrap());
    site.store().put_text(&name.to_string(), &report.to_text()).unwrap();
    eventually("it is asked for", || site.want(log, last) == Some(WantAnswer::Wanted));
    site.ship();
    eventually("all is here", || site.fetched(log) == site.local(log));
}

#[test]
fn later_segments_are_fetched_only_when_the_missing_one_is_gone() {
    let site = Site::new();
    let log = site.shipped(60);
    let (missing, later) = (site.bounds(log)[1].0, site.bounds(log)[2].0);
    fs::remove_file(site.object(log, missing)).unwrap();
    let _fetcher = site.start();
    eventually("it is asked for", || site.want(log, missing) == Some(WantAnswer::Wanted));
    site.answer(log, missing, Some(WantAnswer::Gone));
    let second = format!("{later:020}");
    eventually("the later one is here", || site.fetched(log).contains_key(&second));
    // The loader records the gap, and its position moves to the end of the gap.
    site.loaded_by_all(log, later);
    eventually("the rest is here", || site.fetched(log).len() == site.bounds(log).len() - 2);
}

#[test]
fn a_damaged_segment_is_never_shown_to_the_loader_and_asked_for_again() {
    let site = Site::new();
    let log = site.shipped(60);
    let damaged = site.bounds(log)[1].0;
    flip(&site.object(log, damaged));
    let fetcher = site.start();
    eventually("it is asked for", || site.want(log, damaged) == Some(WantAnswer::Wanted));
    assert_eq!(site.fetched(log).len(), 1);
    eventually("it is named", || matches!(fault_of(&fetcher, log), Some(FetchFault::Damaged { .. })));
    fs::remove_file(site.object(log, damaged)).unwrap();
    site.ship();
    site.answer(log, damaged, None);
    eventually("all is here", || site.fetched(log) == site.local(log));
}

#[test]
fn a_damaged_segment_that_is_gone_is_passed() {
    let site = Site::new();
    let log = site.shipped(60);
    let (damaged, later) = (site.bounds(log)[1].0, site.bounds(log)[2].0);
    flip(&site.object(log, damaged));
    let _fetcher = site.start();
    eventually("it is asked for", || site.want(log, damaged) == Some(WantAnswer::Wanted));
    site.answer(log, damaged, Some(WantAnswer::Gone));
    let later = format!("{later:020}");
    eventually("the later one is here", || site.fetched(log).contains_key(&later));
    assert!(!site.fetched(log).contains_key(&format!("{damaged:020}")));
}

#[test]
fn a_segment_under_the_name_of_another_is_not_taken() {
    let site = Site::new();
    let (log, other) = (site.shipped(60), site.shipped(60));
    let (first, second) = (site.bounds(log)[0].0, site.bounds(log)[1].0);
    fs::copy(site.object(other, first), site.object(log, first)).unwrap();
    fs::copy(site.object(other, first), site.object(other, second)).unwrap();
    let fetcher = site.start();
    let is_damaged = |log| matches!(fault_of(&fetcher, log), Some(FetchFault::Damaged { .. }));
    eventually("both are found", || is_damaged(log) && is_damaged(other));
    assert_eq!((site.fetched(log).len(), site.fetched(other).len()), (0, 1));
}

#[test]
fn a_position_inside_a_segment_needs_that_segment_again() {
    let site = Site::new();
    let log = site.shipped(60);
    let (first, last) = site.bounds(log)[1];
    assert!(last > first, "the segment has several records");
    site.loaded_by_all(log, first);
    let _fetcher = site.start();
    eventually("the rest is here", || site.fetched(log).len() == site.local(log).len() - 1);
    assert!(site.fetched(log).contains_key(&format!("{first:020}")));
}

#[test]
fn a_position_that_another_loader_left_inside_a_segment_is_no_hole() {
    let mut site = Site::new();
    site.spool_bytes_max = 1;
    let log = site.shipped(60);
    let fetcher = site.start();
    eventually("the first segment is here", || fetcher.watch().status().state == FetchState::Full);
    let (first, last) = site.bounds(log)[2];
    assert!(last > first, "the segment has several records");
    site.loaded_by_all(log, first);
    eventually("the segment of the position is here", || {
        site.fetched(log).keys().eq([&format!("{first:020}")])
    });
    assert_eq!((fault_of(&fetcher, log), site.want(log, first + 1)), (None, None));
}

#[test]
fn a_missing_segment_after_a_loaded_one_is_named_before_the_fetcher_is_caught_up() {
    let mut site = Site::new();
    site.list = Duration::from_hours(1);
    let log = site.shipped(60);
    let bounds = site.bounds(log);
    site.loaded_by_all(log, bounds[0].1);
    fs::remove_file(site.object(log, bounds[1].0)).unwrap();
    let fetcher = site.start();
    eventually("the fetcher is caught up", || fetcher.watch().status().state == FetchState::CaughtUp);
    let missing = FetchFault::Missing { first: Sequence(bounds[1].0), is_gone: false };
    assert_eq!(fault_of(&fetcher, log), Some(missing));
}

#[test]
fn a_restored_database_gets_its_segments_again() {
    let site = Site::new();
    let log = site.shipped(60);
    site.loaded_by_all(log, 60);
    let fetcher = site.start();
    eventually("all is loaded", || fetcher.watch().status().is_all_loaded());
    site.loaded_by_all(log, 0);
    eventually("all is here again", || site.fetched(log) == site.local(log));
}

#[test]
fn a_full_folder_waits_for_the_sinks() {
    let mut site = Site::new();
    site.spool_bytes_max = 1;
    let log = site.shipped(60);
    let fetcher = site.start();
    for (_, last) in site.bounds(log) {
        eventually("one segment is here", || {
            fetcher.watch().status().state == FetchState::Full && site.fetched(log).len() == 1
        });
        site.loaded_by_all(log, last);
    }
    eventually("all is loaded", || fetcher.watch().status().is_all_loaded());
}

#[test]
fn what_an_earlier_run_fetched_is_removed_at_the_start() {
    let site = Site::new();
    let log = site.shipped(30);
    let folder = site.folder.path().join(format!("spool/{log}"));
    fs::create_dir_all(&folder).unwrap();
    let name = SegmentName { first: Sequence(7), state: SegmentState::Sealed };
    fs::write(name.path(&folder), "half a segment").unwrap();
    fs::write(site.folder.path().join("spool/notes"), "of somebody else").unwrap();
    let _fetcher = site.start();
    eventually("all is here", || site.fetched(log) == site.local(log));
    assert!(site.folder.path().join("spool/notes").exists());
}

#[test]
fn a_machine_that_no_longer_reports_is_silent() {
    let site = Site::new();
    let report = |at_ms| NodeAnswer {
        log: None,
        shipped: None,
        at_ms,
        every_ms: 60_000,
        unshipped_segments: 0,
        unshipped_bytes: 0,
    };
    for (node, at_ms) in [("fresh", now_ms()), ("old", now_ms() - 200_000)] {
        let name = ObjectName::Node(NodeName::encode(node).unwrap());
        site.store().put_text(&name.to_string(), &report(at_ms).to_text()).unwrap();
    }
    let fetcher = site.start();
    eventually("both are seen", || fetcher.watch().status().nodes.len() == 2);
    let status = fetcher.watch().status();
    let is_silent = |node: &str| status.nodes[&NodeName::encode(node).unwrap()].is_silent;
    assert!(is_silent("old") && !is_silent("fresh"));
}

#[test]
fn the_store_loses_only_segments_that_all_sinks_have_and_that_are_old_enough() {
    let mut site = Site::new();
    site.retain = StoreRetain { age: Some(Duration::ZERO), sinks: None };
    let log = site.shipped(60);
    let bounds = site.bounds(log);
    let stored = || bounds.iter().filter(|(first, _)| site.object(log, *first).exists()).count();
    let fetcher = site.start();
    site.loaded("one", log, 60);
    site.loaded("two", log, bounds[1].1);
    eventually("two segments are deleted", || stored() == bounds.len() - 2);
    assert!(!site.object(log, bounds[0].0).exists() && !site.object(log, bounds[1].0).exists());
    site.loaded("two", log, 60);
    eventually("all but the last are deleted", || stored() == 1);
    let end = EndAnswer { node: NodeName::encode("web 1").unwrap(), last: Sequence(60) };
    let name = ObjectName::End(log).to_string();
    site.store().put_text(&name, &end.to_text()).unwrap();
    eventually("the log is deleted with its end", || {
        stored() == 0 && site.store().text(&name, 100).unwrap().is_none()
    });
    eventually("it is counted", || fetcher.watch().status().deleted_segments == bounds.len() as u64);
    assert_eq!(site.want(log, 1), None, "nothing asks for it");
}

#[test]
fn a_young_segment_and_one_that_another_sink_lacks_stay_in_the_store() {
    for (age, sinks) in [(Duration::from_hours(1), None), (Duration::ZERO, Some(vec!["archive".to_owned()]))]
    {
        let mut site = Site::new();
        site.retain = StoreRetain { age: Some(age), sinks };
        let log = site.shipped(60);
        site.loaded_by_all(log, 60);
        let fetcher = site.start();
        eventually("it has looked", || fetcher.watch().status().is_all_loaded());
        let looked = Instant::now();
        eventually("it has looked for segments to delete", || looked.elapsed() > Duration::from_millis(50));
        assert!(site.bounds(log).iter().all(|(first, _)| site.object(log, *first).exists()));
    }
}

#[test]
fn a_sink_of_another_loader_that_answered_once_keeps_its_segments_in_the_store() {
    let mut site = Site::new();
    site.retain = StoreRetain { age: Some(Duration::ZERO), sinks: None };
    let log = site.shipped(60);
    let bounds = site.bounds(log);
    let answer = PositionAnswer::now(Position { last: Sequence(bounds[0].1), chain: None });
    let name = ObjectName::Position { sink: "other".to_owned(), log };
    site.store().put_text(&name.to_string(), &answer.to_text()).unwrap();
    site.loaded_by_all(log, 60);
    let fetcher = site.start();
    eventually("it has deleted the first one", || fetcher.watch().status().deleted_segments == 1);
    eventually("it has looked again", || fetcher.watch().status().is_all_loaded());
    assert!(bounds[1..].iter().all(|(first, _)| site.object(log, *first).exists()));
}
