//! Tests of replies that wait for the broker.

use std::sync::Arc;

use tollgate_load::Loader;
use tollgate_log::{DiskStorage, Level, Mishap, SchemaId, Settled, SinkPlace, Transaction, Value};

use crate::logs::{self, eventually, hand_over};
use crate::site::{Site, broker, visits};

const MAIN: SinkPlace = SinkPlace(0);
const REJECTS: &str = "__tollgate_rejects";

#[test]
fn a_reply_about_a_reject_waits_for_no_transaction_of_another_writer() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write_visits(0..1);
    assert_eq!(site.load().rows, 1);
    let mut other = site.open_transaction(REJECTS, 8);
    let log = logs::open(&site.dir(), 64 << 20, &[visits()]);
    let follower = log.sink_followers(1).remove(0);
    let mut appender = log.appender(|| {});
    let loader = Loader::start(site.load_options(), Arc::new(DiskStorage), Some(follower)).unwrap();
    let fill = |transaction: &mut Transaction<'_>| {
        let row = transaction.row(SchemaId(0), |row| {
            row.push(Value::Int(1))?;
            row.push(Value::Text("/"))
        });
        row.unwrap();
        transaction.reject(SchemaId(0), "n is a text", b"ten");
    };
    let (appended, ()) = appender.append_awaited(MAIN, fill).unwrap();
    hand_over(&mut appender);
    let appended = appended.unwrap();
    let mut found = None;
    eventually("the reply is released", || {
        let told = appender.take_settled();
        let of_ticket = |settled: &Settled| {
            settled.mishaps_of(appended).map(|(place, mishap)| (place, mishap.clone())).collect::<Vec<_>>()
        };
        found = told.iter().find(|settled| settled.covers(appended)).map(of_ticket);
        found.is_some()
    });
    assert_eq!(found.unwrap(), [(1, Mishap::Rejected("n is a text".to_owned()))]);
    assert!(appender.reached(appended, Level::Synced).is_some());
    other.commit().unwrap();
    drop(loader);
}
