//! Tests of the topics that a sink makes or finds.

use std::time::Duration;

use tollgate_faults::kafka::KafkaOptions as BrokerSettings;
use tollgate_load::{
    SentAccount, SinkKind, SinkOptions, TopicLoadOptions, TopicLoader, audit_topics, topic_reports,
};
use tollgate_queue::{Client, Guarantee, NewTopic, QueueError, QueueRecord, ReadTo};

use crate::site::{Broker, Site, broker, eventually};

/// Topic of the positions of the sinks.
const POSITIONS: &str = "__tollgate_positions";

#[test]
fn a_missing_topic_is_made_with_its_partitions_and_described() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write_visits(0..3);
    site.load();
    let SinkKind::Kafka(options) = &site.options.kind else { unreachable!() };
    let reports = topic_reports(options, ["visits", "others"].into_iter()).unwrap();
    let of = |name: &str| reports.iter().find(|report| report.topic == name).unwrap().copies;
    let copies = of(&site.topic()).unwrap();
    assert_eq!((copies.partitions, copies.replicas, copies.min_insync), (3, 1, 1));
    assert_eq!(of(&format!("{}.others", site.name)), None);
    assert_eq!(of("__tollgate_positions").unwrap().partitions, 8);
}

#[test]
fn a_missing_topic_that_the_sink_may_not_make_stops_the_sink() {
    let broker = broker();
    // The topics of the positions and of the rejects exist.
    let other = Site::new(&broker);
    other.write_visits(0..1);
    other.load();
    let mut site = Site::new(&broker);
    site.kafka().makes_topics = false;
    site.write_visits(0..3);
    let reason = site.load_until_stopped();
    assert!(reason.contains(&format!("topic {:?} does not exist", site.topic())), "{reason}");
}

#[test]
fn a_topic_that_cannot_be_created_is_named_with_the_answer_of_the_broker() {
    let broker = broker();
    let site = Site::new(&broker);
    let SinkKind::Kafka(options) = &site.options.kind else { unreachable!() };
    let mut topics = Client::of_sinks().unwrap().topics(&options.broker).unwrap().unwrap();
    let name = format!("{}.copies", site.name);
    let made = NewTopic { name: name.clone(), partitions: 1, replication: Some(3), settings: Vec::new() };
    let error = topics.create(&[made]).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, QueueError::NotNow { .. }), "more brokers may come: {text}");
    let expected = format!("answered with an error: topic {name:?} cannot be created: InvalidReplication");
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn a_transaction_timeout_above_the_limit_of_the_broker_is_named_with_the_limit() {
    let broker = broker();
    let mut site = Site::new(&broker);
    site.kafka().broker.transaction_timeout = Duration::from_secs(3_600);
    site.write_visits(0..1);
    let reason = site.load_until_stopped();
    let expected = "transaction_timeout is 3600000 ms, above the limit transaction.max.timeout.ms = 900000";
    assert!(reason.contains(expected), "{reason}");
}

#[test]
fn a_read_waits_only_for_open_transactions_of_the_named_partitions() {
    let broker = broker();
    let site = Site::new(&broker);
    let SinkKind::Kafka(options) = &site.options.kind else { unreachable!() };
    let (client, topic) = (Client::of_sinks().unwrap(), format!("{}.table", site.name));
    let mut topics = client.topics(&options.broker).unwrap().unwrap();
    let made = NewTopic { name: topic.clone(), partitions: 2, replication: None, settings: Vec::new() };
    topics.create(&[made]).unwrap();
    let record = |partition: i32| QueueRecord {
        topic: (*topic).into(),
        partition: Some(partition),
        key: Some(vec![b'0' + partition as u8].into()),
        value: Some(b"value"[..].into()),
        headers: Vec::new(),
    };
    let open = |id: &str| {
        client.open(&options.broker, &Guarantee::Transactions { id: format!("{}/{id}", site.name) }).unwrap()
    };
    let (mut first, mut second) = (open("first"), open("second"));
    second.begin().unwrap();
    second.send(&[&record(1)]).unwrap();
    first.begin().unwrap();
    first.send(&[&record(0)]).unwrap();
    first.commit().unwrap();
    let mut keys = |to: ReadTo<'_>| topics.table(&topic, to).unwrap().into_keys().collect::<Vec<_>>();
    assert_eq!(keys(ReadTo::EndOf(&[0])), [b"0"], "the transaction of partition 1 is open");
    let mut other = client.topics(&options.broker).unwrap().unwrap();
    let mut keys_of = |partition: i32, is_kept: &dyn Fn(&[u8]) -> bool| {
        other.table_of(&topic, partition, is_kept).unwrap().into_keys().collect::<Vec<_>>()
    };
    assert_eq!(keys_of(0, &|_| true), [b"0"], "the transaction of partition 1 is open");
    assert_eq!(keys_of(0, &|key| key != b"0"), [] as [Vec<u8>; 0]);
    second.commit().unwrap();
    assert_eq!(keys(ReadTo::EndOf(&[1])), [b"0", b"1"]);
}

#[test]
fn an_audit_tells_rows_behind_an_open_transaction_from_missing_ones() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write_visits(0..1);
    assert_eq!(site.load().rows, 1);
    let mut other = site.open_transaction(&site.topic(), 3);
    site.write_visits(1..5);
    assert_eq!(site.load().rows, 4);
    let SinkKind::Kafka(options) = &site.options.kind else { unreachable!() };
    // Returns the numbers of rows that are found, missing and hidden.
    let count = |wait: Duration| {
        let mut broker = options.broker.clone();
        broker.transaction_timeout = wait;
        let audit = audit_topics(&broker, &[]).unwrap();
        let of_site: Vec<_> = audit.sent.iter().filter(|row| row.sink == site.name).collect();
        let sum = |of: fn(&SentAccount) -> u64| of_site.iter().map(|row| of(row)).sum::<u64>();
        [sum(|row| row.found), sum(SentAccount::missing), sum(SentAccount::hidden)]
    };
    assert_eq!(count(Duration::from_secs(1)), [1, 0, 4]);
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| count(Duration::from_secs(300)));
        other.commit().unwrap();
        waiting.join().unwrap()
    });
    assert_eq!(waited, [5, 0, 0]);
}

#[test]
fn a_single_run_reads_what_an_open_transaction_hid_at_its_start() {
    // The loader reads the topics of all sinks of a broker.
    let broker = Broker::start(&BrokerSettings::default());
    let site = Site::new(&broker);
    site.write_visits(0..1);
    assert_eq!(site.load().rows, 1);
    let mut of_rows = site.open_transaction(&site.topic(), 3);
    site.write_visits(1..5);
    assert_eq!(site.load().rows, 4);
    let mut of_schemas = site.open_transaction(POSITIONS, 8);
    let SinkKind::Kafka(options) = &site.options.kind else { unreachable!() };
    let sink = SinkOptions::new("main", SinkKind::Sqlite { path: site.dir().with_file_name("app.db") });
    let options = TopicLoadOptions { broker: options.broker.clone(), sink, is_once: true };
    let mut loader = TopicLoader::open(&options).unwrap();
    let mut load_until = |topic: Option<&str>| {
        eventually("the loader reads what it can", || {
            loader.step().unwrap();
            let unread = loader.unread().map(|(place, _)| place.topic);
            loader.left() == 0 && unread.as_deref() == topic
        });
        let counts = loader.counts();
        (counts.rows, counts.rejects)
    };
    assert_eq!(load_until(Some(&site.topic())), (1, 0));
    of_rows.commit().unwrap();
    // The records of the other writer are rejects.
    assert_eq!(load_until(Some(POSITIONS)), (5, 3));
    of_schemas.abort().unwrap();
    assert_eq!(load_until(None), (5, 3));
}
