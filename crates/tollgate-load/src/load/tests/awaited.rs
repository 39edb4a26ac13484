//! Tests of replies that wait for the sink. Replies are released after the commit and never before, with the
//! results of the records that are no rows.

use tollgate_log::{Follower, Mishap, Settled, SinkBreaker, SinkPlace};

use super::kills::{KILLS, Kill, killed_sink};
use super::*;

const MAIN: SinkPlace = SinkPlace(0);

/// A live log with one worker whose replies wait for the sink.
struct Awaiting {
    site: Site,
    log: Log,
    appender: Appender,
    follower: Follower,
}

impl Awaiting {
    fn new() -> Self {
        Self::at(Site::new())
    }

    fn at(site: Site) -> Self {
        let log = site.open_log(vec![visits()], 64 << 20);
        let follower = log.sink_followers(1).remove(0);
        let appender = log.appender(|| {});
        Self { site, log, appender, follower }
    }

    /// Appends a transaction with one row for each number. A negative number becomes a reject.
    fn append(&mut self, numbers: &[i64]) -> AppendedRecords {
        let fill = |transaction: &mut tollgate_log::Transaction<'_>| {
            for n in numbers {
                if *n < 0 {
                    transaction.reject(SchemaId(0), "negative", b"{}");
                } else {
                    transaction.row(SchemaId(0), |row| row.push(Value::Int(*n))).unwrap();
                }
            }
        };
        let (appended, ()) = self.appender.append_awaited(MAIN, fill).unwrap();
        hand_over(&mut self.appender);
        appended.unwrap()
    }

    fn loader(&self, kills: Vec<(Kill, usize, bool)>) -> Loader {
        let (_, open) = killed_sink(kills);
        let live = Some(Arc::new(self.follower.clone()) as Arc<dyn LiveLog>);
        Loader::start_with(self.site.options(), self.site.storage.clone(), live, open).unwrap()
    }

    /// Waits until the worker gets the result of a transaction. Returns the places and results of the records
    /// that are no rows.
    fn settled(&self, appended: AppendedRecords) -> Vec<(usize, Mishap)> {
        let mut found = None;
        eventually("the worker is told", || {
            let told = self.appender.take_settled();
            let of_ticket = |settled: &Settled| {
                settled.mishaps_of(appended).map(|(place, mishap)| (place, mishap.clone())).collect()
            };
            found = told.iter().find(|settled| settled.covers(appended)).map(of_ticket);
            found.is_some()
        });
        found.unwrap()
    }
}

fn rejected(place: usize) -> (usize, Mishap) {
    (place, Mishap::Rejected("negative".to_owned()))
}

#[test]
fn a_worker_is_told_when_the_rows_are_there_and_which_records_are_none() {
    let mut awaiting = Awaiting::new();
    let _loader = awaiting.loader(Vec::new());
    for n in 0..30 {
        let numbers = [3 * n, -1, 3 * n + 1, 3 * n + 2];
        let appended = awaiting.append(if n % 2 == 0 { &numbers } else { &numbers[2..] });
        let mishaps = awaiting.settled(appended);
        assert_eq!(mishaps, if n % 2 == 0 { vec![rejected(1)] } else { Vec::new() });
        assert_eq!(
            awaiting.site.ask::<i64>(&format!("SELECT count(*) FROM visits WHERE n = {}", 3 * n + 2)),
            1
        );
    }
}

#[test]
fn the_worker_is_told_the_same_when_the_loader_fails_or_panics_at_any_point() {
    for kill in KILLS {
        for is_panic in [false, true] {
            let mut awaiting = Awaiting::new();
            let _loader = awaiting.loader(vec![(kill, 0, is_panic)]);
            let appended = awaiting.append(&[1, -1, 2]);
            assert_eq!(awaiting.settled(appended), [rejected(1)], "{kill:?}, panic {is_panic}");
            assert_eq!(awaiting.site.numbers(), [1, 2], "{kill:?}, panic {is_panic}");
        }
    }
}

#[test]
fn the_breaker_is_open_while_the_sink_fails_and_closes_when_it_works_again() {
    let mut awaiting = Awaiting::new();
    assert_eq!(awaiting.appender.breaker(MAIN), SinkBreaker::Closed);
    assert_eq!(awaiting.appender.breaker(SinkPlace(1)), SinkBreaker::Open, "nobody loads into it");
    let lock = awaiting.site.connect();
    lock.execute_batch("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE").unwrap();
    let _loader = awaiting.loader(Vec::new());
    eventually("it opens", || awaiting.appender.breaker(MAIN) == SinkBreaker::Open);
    let appended = awaiting.append(&[1]);
    assert!(awaiting.appender.take_settled().is_empty());
    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(awaiting.settled(appended), []);
    eventually("it closes", || awaiting.appender.breaker(MAIN) == SinkBreaker::Closed);
    assert_eq!(awaiting.site.numbers(), [1]);
}

#[test]
fn records_that_are_waited_for_do_not_wait_for_the_logs_of_earlier_runs() {
    let earlier = Site::new();
    earlier.write_visits(0..4000);
    let mut awaiting = Awaiting::at(earlier);
    let appended = awaiting.append(&[5000]);
    eventually("it is synced", || awaiting.follower.is_awaited());
    let mut options = awaiting.site.options();
    options.tuning.chunk_rows_max = 1;
    let live = Some(Arc::new(awaiting.follower.clone()) as Arc<dyn LiveLog>);
    let loader = Loader::start_beside(options, awaiting.site.storage.clone(), live).unwrap();
    assert_eq!(awaiting.settled(appended), []);
    assert!(loader.status().rows < 4000, "{:?}", loader.status());
}

#[test]
fn a_log_that_closes_has_told_all_when_its_loader_is_done() {
    let mut awaiting = Awaiting::new();
    let loader = awaiting.loader(Vec::new());
    let appended = awaiting.append(&[1]);
    assert_eq!(awaiting.settled(appended), []);
    let Awaiting { log, appender, .. } = awaiting;
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
}

#[test]
fn rows_that_another_loader_brought_are_confirmed_with_their_rejects() {
    let mut awaiting = Awaiting::new();
    let (options, storage) = (awaiting.site.options(), awaiting.site.storage.clone());
    let other = Loader::start(options, storage, Some(awaiting.log.follower())).unwrap();
    let appended = awaiting.append(&[1, -1]);
    eventually("the other one has it", || other.status().rows == 1);
    assert!(awaiting.appender.take_settled().is_empty());
    let _own = awaiting.loader(Vec::new());
    assert_eq!(awaiting.settled(appended), [rejected(1)]);
    assert_eq!(awaiting.site.numbers(), [1]);
}

#[test]
fn a_sink_is_not_waited_for_before_it_knows_where_it_begins() {
    let awaiting = Awaiting::new();
    let mut options = awaiting.site.options();
    options.sink.from = LoadFrom::Now;
    drop(awaiting.site.sink().open().unwrap());
    let lock = awaiting.site.connect();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let live = Some(Arc::new(awaiting.follower.clone()) as Arc<dyn LiveLog>);
    let _loader = Loader::start_beside(options, awaiting.site.storage.clone(), live).unwrap();
    assert_eq!(awaiting.appender.breaker(MAIN), SinkBreaker::Open);
    lock.execute_batch("ROLLBACK").unwrap();
    eventually("it begins", || awaiting.appender.breaker(MAIN) == SinkBreaker::Closed);
}
