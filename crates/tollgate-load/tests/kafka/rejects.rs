//! Tests of records that the broker refuses for their size.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tollgate_faults::kafka::Read;
use tollgate_load::{ItemRow, Loader, Retried, RowFormat};
use tollgate_log::{ColumnType, DiskStorage, Level, Schema, SchemaId, Transaction, Value};

use crate::logs::{self, add, hand_over};
use crate::site::{Broker, PATIENCE, Site, broker, column, eventually, number, row, unread, visit, visits};

/// Sets the largest batch that the topic takes.
fn set_limit(broker: &Broker, site: &Site, bytes: u32) {
    configure(broker, &site.topic(), &format!("max.message.bytes={bytes}"));
}

/// Changes a setting of a topic.
fn configure(broker: &Broker, topic: &str, change: &str) {
    broker.configure(&["--topic", topic, "--add-config", change]);
}

/// Makes a site with a topic whose limit is 100 kB, and with two larger records among 60.
fn with_large(broker: &Broker, rejects_max: u64) -> Site {
    let mut site = Site::new(broker);
    site.options.rejects_max = rejects_max;
    site.write_visits(0..1);
    assert_eq!(site.load().rows, 1);
    set_limit(broker, &site, 100_000);
    // The limit of rejects counts those of one segment.
    site.write_in(8 << 20, &[visits()], |appender| {
        for n in 1..60 {
            if n == 20 || n == 40 {
                let large = "x".repeat(150_000);
                row(appender, &[Value::Int(1_000 + n), Value::Text(&large)]);
            }
            visit(appender, n);
        }
    });
    site
}

#[test]
fn a_record_that_is_too_large_becomes_a_reject_and_later_a_row() {
    let broker = broker();
    let site = with_large(&broker, 10);
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (59, 2));
    site.assert_visits(&broker, 0..60);
    let rejected: u64 = site.audit().iter().map(|row| row.rejected).sum();
    assert_eq!(rejected, 2);
    assert_eq!(
        site.options.retry_rejects(&unread).unwrap(),
        Retried { loaded: 0, duplicates: 0, kept: 2 },
        "they are still too large"
    );
    set_limit(&broker, &site, 1_000_000);
    let retried = site.options.retry_rejects(&unread).unwrap();
    assert_eq!(retried, Retried { loaded: 2, duplicates: 0, kept: 0 });
    assert_eq!(broker.kafka.read(&site.topic()).len(), 62);
    let rejected: u64 = site.audit().iter().map(|row| row.rejected).sum();
    assert_eq!(rejected, 0);
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried::default());
}

#[test]
fn a_reject_is_an_object_and_becomes_a_row_of_the_format_that_is_set() {
    let broker = broker();
    let mut site = with_large(&broker, 10);
    site.kafka().format = RowFormat::Row;
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (59, 2));
    set_limit(&broker, &site, 1_000_000);
    let retried = site.options.retry_rejects(&unread).unwrap();
    assert_eq!(retried, Retried { loaded: 2, duplicates: 0, kept: 0 });
    let read = broker.kafka.read(&site.topic());
    let count = |header: &str, value: &str| {
        read.iter().filter(|record| record.headers.get(header).is_some_and(|found| found == value)).count()
    };
    // The first row is older than the change of the format.
    assert_eq!((read.len(), count("tollgate-format", "row"), count("tollgate-late", "1")), (62, 61, 2));
    let late = read.iter().find(|record| record.headers.contains_key("tollgate-late")).unwrap();
    // Bits for both columns, the number 1,020 or 1,040, the length of the text, and the text.
    let (bits, rest) = late.value.split_at(2);
    let (number, text) = rest.split_at(16);
    assert!(bits == "03" && ["fc03", "1004"].contains(&number.trim_end_matches('0')), "{bits} {number}");
    assert_eq!(text, format!("f0490200{}", "78".repeat(150_000)));
}

#[test]
fn a_reject_that_is_tried_in_vain_has_the_reason_of_this_time() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write_in(8 << 20, &[visits()], |appender| {
        for n in 0..10 {
            visit(appender, n);
        }
        let reject =
            |transaction: &mut Transaction<'_>| transaction.reject(SchemaId(0), "n is a text", b"ten");
        appender.append(Level::Written, reject).unwrap();
        hand_over(appender);
    });
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (10, 1));
    let start = |record: &&Read| record.key.starts_with(&format!("{}/", site.options.name));
    let reasons = || {
        let read = broker.kafka.read("__tollgate_rejects");
        let of = |record: &Read| {
            let head: serde_json::Value = serde_json::from_str(&record.value).ok()?;
            head["reason"].as_str().map(str::to_owned)
        };
        read.iter().filter(start).filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(reasons(), ["n is a text"]);
    // The second try has the same result, so it writes nothing.
    for _ in 0..2 {
        let retried = site.options.retry_rejects(&unread).unwrap();
        assert_eq!(retried, Retried { loaded: 0, duplicates: 0, kept: 1 });
        assert_eq!(reasons(), ["n is a text", "an item of visits is read"]);
    }
    let fits = |_: &str, item: &[u8]| {
        assert_eq!(item, b"ten", "the item is kept");
        let mut row = ItemRow::default();
        row.push("n", &Value::Int(10));
        Ok(row)
    };
    assert_eq!(site.options.retry_rejects(&fits).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 0 });
    site.assert_visits(&broker, 0..11);
}

#[test]
fn more_rejects_than_allowed_stop_the_sink() {
    let broker = broker();
    let site = with_large(&broker, 1);
    let reason = site.load_until_stopped();
    assert!(reason.contains("refused 2 rows"), "{reason}");
}

#[test]
fn without_transactions_a_large_record_is_rejected_and_no_other_is_doubled() {
    let broker = broker();
    let mut site = with_large(&broker, 10);
    site.kafka().exactly_once = false;
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (59, 2));
    site.assert_visits(&broker, 0..60);
}

#[test]
fn without_transactions_the_position_follows_the_rejects() {
    let broker = broker();
    let mut site = with_large(&broker, 10);
    site.kafka().exactly_once = false;
    configure(&broker, "__tollgate_rejects", "max.message.bytes=100");
    let reason = site.load_until_stopped();
    configure(&broker, "__tollgate_rejects", "max.message.bytes=1048576");
    assert!(reason.contains("because of their size"), "{reason}");
    assert_eq!(site.load().rejects, 2);
    set_limit(&broker, &site, 1_000_000);
    let retried = site.options.retry_rejects(&unread).unwrap();
    assert_eq!(retried, Retried { loaded: 2, duplicates: 0, kept: 0 });
}

#[test]
fn a_retry_and_the_loader_of_a_live_log_both_go_on() {
    let broker = broker();
    let mut site = Site::new(&broker);
    site.kafka().broker.transaction_timeout = Duration::from_secs(60);
    let log = logs::open(&site.dir(), 64 << 20, &[visits()]);
    let follower = log.sink_followers(1).remove(0);
    let mut appender = log.appender(|| {});
    for n in 0..10 {
        let reject =
            |transaction: &mut Transaction<'_>| transaction.reject(SchemaId(0), "n is a text", b"ten");
        appender.append(Level::Written, reject).unwrap();
        visit(&mut appender, n);
    }
    let loader = Loader::start(site.load_options(), Arc::new(DiskStorage), Some(follower)).unwrap();
    eventually("the rejects are there", || loader.status().rejects == 10);
    let next = AtomicI64::new(10);
    let is_over = AtomicBool::new(false);
    let retried = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                visit(&mut appender, next.fetch_add(1, Ordering::SeqCst));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let late = AtomicI64::new(1_000_000);
        let fits = |_: &str, _: &[u8]| {
            let mut row = ItemRow::default();
            row.push("n", &Value::Int(late.fetch_add(1, Ordering::SeqCst)));
            Ok(row)
        };
        let retried = site.options.retry_rejects(&fits);
        is_over.store(true, Ordering::SeqCst);
        retried.unwrap()
    });
    assert_eq!(retried, Retried { loaded: 10, duplicates: 0, kept: 0 });
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
    let rows = next.load(Ordering::SeqCst);
    let mut numbers: Vec<_> = broker.kafka.read(&site.topic()).iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers[..numbers.len() - 10], (0..rows).collect::<Vec<_>>());
    assert!(numbers[numbers.len() - 10] >= 1_000_000);
    assert_eq!(site.audit().iter().map(|row| row.loaded).sum::<u64>().cast_signed(), rows + 10);
}

#[test]
fn two_retries_at_once_make_one_row_of_each_reject() {
    let broker = broker();
    let site = with_large(&broker, 10);
    assert_eq!(site.load().rejects, 2);
    set_limit(&broker, &site, 1_000_000);
    site.write_in(8 << 20, &[visits()], |appender| {
        let reject =
            |transaction: &mut Transaction<'_>| transaction.reject(SchemaId(0), "n is a text", b"sixty");
        appender.append(Level::Written, reject).unwrap();
        hand_over(appender);
    });
    assert_eq!(site.load().rejects, 1);
    let fits = |_: &str, _: &[u8]| {
        let mut row = ItemRow::default();
        row.push("n", &Value::Int(60));
        Ok(row)
    };
    let inner = OnceCell::new();
    // The other retry runs while this one reads its first item.
    let slow = |stream: &str, item: &[u8]| {
        inner.get_or_init(|| site.options.retry_rejects(&fits).unwrap());
        fits(stream, item)
    };
    let outer = site.options.retry_rejects(&slow).unwrap();
    assert_eq!(inner.get().unwrap().loaded + outer.loaded, 3);
    assert_eq!(broker.kafka.read(&site.topic()).len(), 63);
    let audited = site.audit();
    assert_eq!(audited.iter().map(|row| row.loaded).sum::<u64>(), 63);
}

#[test]
fn without_transactions_a_large_record_hides_no_other_failure_of_its_load() {
    let broker = broker();
    let mut site = Site::new(&broker);
    site.kafka().exactly_once = false;
    let orders = Schema::new("orders", vec![column("n", ColumnType::Int)]).unwrap();
    let topic = format!("{}.orders", site.name);
    let write = |site: &Site, numbers: std::ops::Range<i64>, large: &str| {
        site.write_in(8 << 20, &[visits(), orders.clone()], |appender| {
            for n in numbers {
                add(appender, SchemaId(0), &[Value::Int(n), Value::Text("/")]);
                add(appender, SchemaId(1), &[Value::Int(n)]);
            }
            if !large.is_empty() {
                add(appender, SchemaId(0), &[Value::Int(-1), Value::Text(large)]);
            }
            hand_over(appender);
        })
    };
    write(&site, 0..1, "");
    assert_eq!(site.load().rows, 2);
    set_limit(&broker, &site, 100_000);
    // The topic refuses records without a key.
    configure(&broker, &topic, "cleanup.policy=compact");
    write(&site, 1..10, &"x".repeat(150_000));
    let reason = site.load_until_stopped();
    assert!(reason.contains(&format!("refuses a call: topic {topic:?}: InvalidRecord")), "{reason}");
    configure(&broker, &topic, "cleanup.policy=delete");
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (18, 1));
    let mut found: Vec<_> = broker.kafka.read(&topic).iter().map(number).collect();
    found.sort_unstable();
    assert_eq!(found, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_topic_that_takes_no_batch_is_named_with_the_limit_it_needs() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write_visits(0..1);
    assert_eq!(site.load().rows, 1);
    set_limit(&broker, &site, 20_000);
    site.write_in(8 << 20, &[visits()], |appender| {
        let path = "x".repeat(2_000);
        for n in 1..40 {
            add(appender, SchemaId(0), &[Value::Int(n), Value::Text(&path)]);
        }
        hand_over(appender);
    });
    let reason = site.load_until_stopped();
    let expected = format!(
        "topic {:?} refuses a batch of 65536 bytes or fewer for its size: raise its max.message.bytes to \
         131072 or more",
        site.topic()
    );
    assert!(reason.contains(&expected), "{reason}");
    set_limit(&broker, &site, 131_072);
    assert_eq!(site.load().rows, 39);
    site.assert_visits(&broker, 0..40);
}
