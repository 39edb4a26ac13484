//! Tests of replies that wait until a sink has records. The log reports each record once, in order, and in
//! bounded memory.

use tollgate_log::{
    AppendedRecords, Appender, Exception, Follower, Log, LogOptions, Mishap, SchemaId, Sequence, SinkPlace,
    Value,
};

use crate::sim::Sim;
use crate::workload::{dir, schema};

struct Site {
    log: Log,
    appender: Appender,
    followers: Vec<Follower>,
}

impl Site {
    fn new() -> Self {
        let options = LogOptions::new(&dir());
        let (log, _) = Log::open(Sim::new().storage(), options, vec![schema()], |_| {}).unwrap();
        let followers = log.sink_followers(2);
        let appender = log.appender(|| {});
        Self { log, appender, followers }
    }

    /// Appends a transaction whose reply waits for a sink.
    fn append(&mut self, sink: usize, records: usize) -> AppendedRecords {
        let fill = |transaction: &mut tollgate_log::Transaction<'_>| {
            for _ in 0..records {
                transaction.row(SchemaId(0), |row| row.push(Value::Int(1))).unwrap();
            }
        };
        self.appender.append_awaited(SinkPlace(sink), fill).unwrap().0.unwrap()
    }

    fn hand_over(&mut self) {
        while !self.appender.hand_over() {
            std::thread::yield_now();
        }
    }

    /// Waits until a record is synced.
    fn sync(&mut self, last: u64) {
        self.hand_over();
        let synced = || self.followers[0].watermark().synced;
        while synced() < Sequence(last) {
            self.followers[0].wait_beyond(synced(), std::time::Duration::from_millis(50));
        }
    }

    fn settle(&self, sink: usize, last: u64, exceptions: &[(u64, u64, &str)]) {
        let exception = |(first, last, reason): &(u64, u64, &str)| Exception {
            first: Sequence(*first),
            last: Sequence(*last),
            mishap: if reason.is_empty() { Mishap::Missing } else { Mishap::Rejected((*reason).to_owned()) },
        };
        let exceptions: Vec<_> = exceptions.iter().map(exception).collect();
        self.followers[sink].settle(self.log.id(), Sequence(last), &exceptions);
    }
}

#[test]
fn each_transaction_is_told_what_became_of_its_own_records() {
    let mut site = Site::new();
    // The first batch has the records 1 to 3, 4, and 5 to 6. The next batch has 7 to 8.
    let (a, c, b) = (site.append(0, 3), site.append(1, 1), site.append(0, 2));
    site.hand_over();
    let d = site.append(0, 2);
    site.sync(8);
    site.settle(0, 8, &[(2, 2, "two"), (3, 5, ""), (8, 8, "eight")]);
    let told = site.appender.take_settled();
    let [told] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(told.sink(), SinkPlace(0));
    let mishaps = |appended: AppendedRecords| {
        assert!(told.covers(appended));
        told.mishaps_of(appended).map(|(place, mishap)| (place, mishap.clone())).collect::<Vec<_>>()
    };
    let rejected = |place: usize, reason: &str| (place, Mishap::Rejected(reason.to_owned()));
    assert_eq!(mishaps(a), [rejected(1, "two"), (2, Mishap::Missing)]);
    assert_eq!(mishaps(b), [(0, Mishap::Missing)]);
    assert_eq!(mishaps(d), [rejected(1, "eight")]);
    assert_eq!(mishaps(c), []);
    assert!(site.appender.take_settled().is_empty(), "told twice");
}

#[test]
fn a_sink_that_is_behind_tells_nobody_behind_it() {
    let mut site = Site::new();
    let a = site.append(0, 1);
    site.hand_over();
    let b = site.append(0, 1);
    site.sync(2);
    site.settle(1, 2, &[]);
    assert!(site.appender.take_settled().is_empty(), "another sink");
    site.settle(0, 1, &[]);
    let told = site.appender.take_settled();
    assert!(told.iter().any(|told| told.covers(a) && !told.covers(b)), "{told:?}");
    assert!(site.followers[0].is_awaited());
    site.settle(0, 2, &[]);
    assert!(site.appender.take_settled().iter().any(|told| told.covers(b)));
    assert!(!site.followers[0].is_awaited());
}

#[test]
fn records_that_nobody_waits_for_any_more_are_forgotten() {
    let mut site = Site::new();
    let awaited_from = |site: &Site, last| site.followers[0].awaited_from(site.log.id(), Sequence(last));
    for n in 1..=100 {
        site.append(0, 1);
        site.sync(n);
    }
    assert_eq!(awaited_from(&site, 100), Some(Sequence(1)));
    site.appender.wait_from(None);
    let last = site.append(0, 1);
    site.sync(101);
    assert_eq!(awaited_from(&site, 101), Some(Sequence(101)));
    site.settle(0, 101, &[]);
    assert!(site.appender.take_settled().iter().any(|told| told.covers(last)));
}

#[test]
fn records_that_nobody_waits_for_are_not_there() {
    let mut site = Site::new();
    let fill = |transaction: &mut tollgate_log::Transaction<'_>| {
        transaction.row(SchemaId(0), |row| row.push(Value::Int(1))).unwrap();
    };
    site.appender.append(tollgate_log::Level::Synced, fill).unwrap();
    site.sync(1);
    assert!(!site.followers[0].is_awaited());
    site.settle(0, 1, &[(1, 1, "nobody asks")]);
    assert!(site.appender.take_settled().is_empty());
}
