//! Tests of a fetcher that shares a store with others.

use std::collections::BTreeSet;

use super::*;

/// The logs that a fetcher may fetch, and what it offered.
#[derive(Clone, Default)]
struct Shares(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    held: BTreeSet<LogId>,
    may_delete: bool,
    offered: BTreeMap<LogId, OfferedLog>,
    pauses: u64,
}

impl Shares {
    fn give(&self, log: LogId) {
        self.0.lock().unwrap().held.insert(log);
    }

    fn take(&self, log: LogId) {
        self.0.lock().unwrap().held.remove(&log);
    }

    fn offered(&self) -> BTreeMap<LogId, OfferedLog> {
        self.0.lock().unwrap().offered.clone()
    }
}

impl Allotment for Shares {
    fn offer(&mut self, logs: &BTreeMap<LogId, OfferedLog>) {
        self.0.lock().unwrap().offered.clone_from(logs);
    }

    fn holds(&self, log: LogId) -> bool {
        self.0.lock().unwrap().held.contains(&log)
    }

    fn may_fetch(&self, log: LogId) -> bool {
        self.holds(log)
    }

    fn may_delete(&self) -> bool {
        self.0.lock().unwrap().may_delete
    }

    fn pause(&mut self) {
        self.0.lock().unwrap().pauses += 1;
    }
}

fn is_answered(site: &Site, log: LogId) -> bool {
    let name = ObjectName::Position { sink: "one".to_owned(), log }.to_string();
    site.store().text(&name, 1_000).unwrap().is_some()
}

#[test]
fn a_log_of_another_fetcher_is_not_fetched_and_counts_until_it_is_loaded() {
    let (site, shares) = (Site::new(), Shares::default());
    let (own, other) = (site.shipped(60), site.shipped(60));
    shares.give(own);
    let fetcher = site.start_sharing(shares.clone());
    let is_all_loaded = || fetcher.watch().status().is_all_loaded();
    eventually("the own log is here", || site.fetched(own) == site.local(own));
    site.loaded_by_all(own, 60);
    eventually("the own log is answered", || is_answered(&site, own));
    let (first, last) = *site.bounds(other).last().unwrap();
    assert!(last > first, "the last segment has several records");
    for loaded in [0, 7, first] {
        site.loaded_by_all(other, loaded);
        let segments = fetcher.watch().status().logs.len();
        eventually("it has looked", || fetcher.watch().status().logs[&other].loaded.0 == loaded);
        assert!(!is_all_loaded() && segments == 2, "up to {loaded}");
    }
    site.loaded_by_all(other, 60);
    eventually("all is loaded", is_all_loaded);
    assert!(site.fetched(other).is_empty() && !is_answered(&site, other));
    assert_eq!(fetcher.watch().status().segments, site.bounds(own).len() as u64);
}

#[test]
fn a_log_that_a_fetcher_gets_later_is_fetched_from_the_middle_of_a_segment_at_once() {
    let (mut site, shares) = (Site::new(), Shares::default());
    site.list = Duration::from_hours(1);
    let log = site.shipped(60);
    let (first, last) = site.bounds(log)[2];
    assert!(last > first, "the segment has several records");
    site.loaded_by_all(log, first);
    let fetcher = site.start_sharing(shares.clone());
    eventually("it has looked", || fetcher.watch().status().logs.contains_key(&log));
    assert!(shares.offered().contains_key(&log) && site.fetched(log).is_empty());
    shares.give(log);
    fetcher.waker().wake();
    eventually("the rest is here", || site.fetched(log).len() == site.local(log).len() - 2);
    fetcher.waker().wake();
    eventually("it has unloaded segments", || shares.offered()[&log] == OfferedLog::Busy);
    site.loaded_by_all(log, 60);
    // A log that is left to another fetcher is listed once an hour here. So it is left when the fetcher knows
    // the positions.
    eventually("it knows the positions", || fetcher.watch().status().logs[&log].loaded.0 == 60);
    shares.take(log);
    eventually("all is loaded", || fetcher.watch().status().is_all_loaded());
}

#[test]
fn an_ended_log_is_offered_until_the_store_has_the_last_position_of_each_sink() {
    let (site, shares) = (Site::new(), Shares::default());
    let log = site.shipped(60);
    let end = EndAnswer { node: NodeName::encode("web 1").unwrap(), last: Sequence(60) };
    site.store().put_text(&ObjectName::End(log).to_string(), &end.to_text()).unwrap();
    site.loaded_by_all(log, 60);
    let fetcher = site.start_sharing(shares.clone());
    eventually("it is loaded", || fetcher.watch().status().is_all_loaded());
    assert!(shares.offered().contains_key(&log), "its positions are not in the store");
    shares.give(log);
    eventually("it is offered no more", || shares.offered().is_empty());
    assert!(is_answered(&site, log));
    drop(fetcher);
    let shares = Shares::default();
    let fetcher = site.start_sharing(shares.clone());
    eventually("another fetcher has looked", || fetcher.watch().status().is_all_loaded());
    eventually("it reads the answer", || shares.offered().is_empty());
}

#[test]
fn only_a_fetcher_that_may_delete_deletes() {
    let (mut site, shares) = (Site::new(), Shares::default());
    site.retain = StoreRetain { age: Some(Duration::ZERO), sinks: None };
    let log = site.shipped(60);
    shares.give(log);
    site.loaded_by_all(log, 60);
    let fetcher = site.start_sharing(shares.clone());
    eventually("it is answered", || is_answered(&site, log));
    let passes = Instant::now();
    eventually("it has looked again", || passes.elapsed() > Duration::from_millis(50));
    assert_eq!(fetcher.watch().status().deleted_segments, 0);
    shares.0.lock().unwrap().may_delete = true;
    eventually("it deletes", || {
        fetcher.watch().status().deleted_segments == site.bounds(log).len() as u64 - 1
    });
}
