//! Tests of the records of a topic: key, partition, headers, value.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use tollgate_log::{Column, ColumnOrigin, ColumnType, Schema, Value};
use tollgate_queue::Compression;

use crate::site::{Broker, PATIENCE, Site, broker, column, eventually, row, visit, visits};

fn keyed() -> Schema {
    let origin = ColumnOrigin::Key { window_ms: 60_000 };
    let key = Column { name: "key".to_owned(), kind: ColumnType::Bytes, origin };
    Schema::new("visits", vec![column("n", ColumnType::Int), key]).unwrap()
}

#[test]
fn a_record_has_its_log_number_stream_and_columns() {
    let broker = broker();
    let site = Site::new(&broker);
    let log = site.write(&[visits()], |appender| {
        visit(appender, 7);
    });
    site.load();
    let read = broker.kafka.read(&site.topic());
    assert_eq!(read.len(), 1);
    let record = &read[0];
    assert_eq!(record.headers["tollgate-log"], log.to_string());
    assert_eq!(record.headers["tollgate-seq"], "1");
    assert_eq!(record.headers["tollgate-stream"], "visits");
    assert_eq!(record.headers["tollgate-schema"].len(), 16);
    assert_eq!(record.key, "null");
    assert_eq!(record.value, r#"{"n":7,"path":"/path/000007"}"#);
}

#[test]
fn the_partition_of_a_key_is_the_one_of_javas_producer() {
    let broker = broker();
    let site = Site::new(&broker);
    let keys: Vec<String> = (0..60).map(|n| format!("customer-{n}")).collect();
    site.write(&[keyed()], |appender| {
        for (n, key) in (0..).zip(&keys) {
            row(appender, &[Value::Int(n), Value::Bytes(key.as_bytes())]);
        }
    });
    site.load();
    let ours = broker.kafka.read(&site.topic());
    let by_key = |read: &[tollgate_faults::kafka::Read]| -> BTreeMap<String, u32> {
        read.iter().map(|record| (record.key.clone(), record.partition)).collect()
    };
    let expected = by_key(&ours);
    assert_eq!(expected.len(), keys.len());
    // Java's producer sends the same keys to the same topic.
    let mut java = broker
        .kafka
        .java(&["org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", &broker.kafka.address()])
        .args(["--topic", &site.topic()])
        .args(["--reader-property", "parse.key=true", "--reader-property", "key.separator=="])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines: String = keys.iter().map(|key| format!("{key}=java\n")).collect();
    java.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(java.wait().unwrap().success());
    let all = broker.kafka.read(&site.topic());
    let javas: Vec<_> = all.into_iter().filter(|record| record.value == "java").collect();
    assert_eq!(javas.len(), keys.len());
    assert_eq!(by_key(&javas), expected);
}

#[test]
fn rows_with_the_same_key_are_all_in_the_topic() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write(&[keyed()], |appender| {
        for n in 0..3 {
            row(appender, &[Value::Int(n), Value::Bytes(b"same")]);
        }
    });
    let status = site.load();
    assert_eq!((status.rows, status.duplicates), (3, 0));
    assert_eq!(broker.kafka.read(&site.topic()).len(), 3);
}

#[test]
fn compressed_batches_are_read_by_kafkas_consumer() {
    let broker = broker();
    for compression in Compression::ALL {
        let mut site = Site::new(&broker);
        site.kafka().broker.compression = compression;
        site.write_visits(0..50);
        assert_eq!(site.load().rows, 50);
        site.assert_visits(&broker, 0..50);
    }
}

/// Limits the bytes per second that the broker takes from the clients of sinks, until it is dropped.
struct Quota<'a> {
    broker: &'a Broker,
}

impl<'a> Quota<'a> {
    fn set(broker: &'a Broker, bytes_per_second: u32) -> Self {
        Self::change(broker, &["--add-config", &format!("producer_byte_rate={bytes_per_second}")]);
        Self { broker }
    }

    fn change(broker: &Broker, change: &[&str]) {
        let client = ["--entity-type", "clients", "--entity-name", "tollgate"];
        broker.configure(&[&client[..], change].concat());
    }
}

impl Drop for Quota<'_> {
    fn drop(&mut self) {
        Self::change(self.broker, &["--delete-config", "producer_byte_rate"]);
    }
}

#[test]
fn a_quota_of_the_broker_makes_loads_smaller_until_they_arrive() {
    let broker = broker();
    let mut site = Site::new(&broker);
    let options = &mut site.kafka().broker;
    options.compression = Compression::None;
    options.connect_timeout = Duration::from_secs(1);
    options.request_timeout = Duration::from_secs(1);
    options.delivery_timeout = Duration::from_secs(2);
    site.write_visits(0..1);
    site.load();
    let large = "x".repeat(25_000);
    site.write(&[visits()], |appender| {
        for n in 1..13 {
            row(appender, &[Value::Int(n), Value::Text(&large)]);
        }
    });
    let quota = Quota::set(&broker, 45_000);
    let loader = site.start();
    eventually("the load is too slow", || {
        loader.status().last_error.is_some_and(|error| error.contains("look for a quota of the broker"))
    });
    loader.finish(PATIENCE).unwrap();
    drop(quota);
    site.assert_visits(&broker, 0..13);
}
