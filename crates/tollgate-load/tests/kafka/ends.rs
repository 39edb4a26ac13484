//! Tests of transactions whose end the cluster lost after the coordinator noted the result. A killed broker
//! loses an end only if its coordinator starts before its partitions have a leader. In these tests the link
//! loses it, so the same state comes each time.

use std::collections::BTreeSet;

use tempfile::TempDir;
use tollgate_faults::kafka::{Kafka, KafkaOptions as BrokerSettings, SecureListener, certificates};
use tollgate_load::SinkKind;
use tollgate_queue::{
    Client, Guarantee, NewTopic, Producer, QueueError, QueueRecord, ReadTo, Reader, Sasl, Security, Tls,
    Topics,
};

use crate::site::{Site, broker};

/// A topic with a record in a transaction without an end.
struct Lost {
    site: Site,
    topic: String,
    id: String,
}

impl Lost {
    /// Ends a transaction by `end`. The broker does not get its markers.
    fn new(kafka: &Kafka, end: fn(&mut dyn Producer)) -> Self {
        let site = Site::at(kafka);
        let (topic, id) = (format!("{}.t", site.name), format!("tollgate/{}/0", site.name));
        let made = NewTopic { name: topic.clone(), partitions: 1, replication: None, settings: Vec::new() };
        topics(&site).create(&[made]).unwrap();
        let mut producer = open(&site, &id);
        producer.begin().unwrap();
        producer.send(&[&record(&topic)]).unwrap();
        kafka.link().answer_markers(|| end(&mut *producer));
        assert_eq!(readable(&site, &topic), 0, "the transaction has no end in its partition");
        Self { site, topic, id }
    }

    fn end_lost(&self) -> bool {
        topics(&self.site).end_lost(&self.id, &BTreeSet::from([self.topic.clone()]), &|_| false).unwrap()
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        topics(&self.site).table(&self.topic, ReadTo::End).unwrap().into_keys().collect()
    }
}

fn options(site: &Site) -> &tollgate_queue::BrokerOptions {
    let SinkKind::Kafka(options) = &site.options.kind else { unreachable!() };
    &options.broker
}

fn topics(site: &Site) -> Box<dyn Topics> {
    Client::of_sinks().unwrap().topics(options(site)).unwrap().unwrap()
}

fn open(site: &Site, id: &str) -> Box<dyn Producer> {
    Client::of_sinks().unwrap().open(options(site), &Guarantee::Transactions { id: id.to_owned() }).unwrap()
}

fn record(topic: &str) -> QueueRecord {
    QueueRecord {
        topic: topic.into(),
        partition: Some(0),
        key: Some(b"key"[..].into()),
        value: Some(b"value"[..].into()),
        headers: Vec::new(),
    }
}

/// Returns the number of offsets before the first open transaction.
fn readable(site: &Site, topic: &str) -> u64 {
    let mut reader: Box<dyn Reader> = Client::of_sinks().unwrap().reader(options(site)).unwrap().unwrap();
    reader.partitions(topic).unwrap().unwrap().partitions[0].end
}

fn commit(producer: &mut dyn Producer) {
    producer.commit().unwrap();
}

fn abort(producer: &mut dyn Producer) {
    producer.abort().unwrap();
}

#[test]
fn a_committed_transaction_that_lost_its_end_becomes_visible() {
    let broker = broker();
    let lost = Lost::new(&broker.kafka, commit);
    assert!(!lost.end_lost(), "the transaction has ended");
    assert_eq!(readable(&lost.site, &lost.topic), 2, "a record and its marker");
    assert_eq!(lost.keys(), [b"key"]);
}

#[test]
fn a_read_to_the_end_writes_a_lost_end_of_any_writer() {
    let broker = broker();
    let lost = Lost::new(&broker.kafka, commit);
    assert_eq!(lost.keys(), [b"key"]);
}

#[test]
fn an_aborted_transaction_that_lost_its_end_stays_invisible() {
    let broker = broker();
    let lost = Lost::new(&broker.kafka, abort);
    assert!(!lost.end_lost(), "the transaction has ended");
    assert_eq!(readable(&lost.site, &lost.topic), 2, "a record and its marker");
    assert_eq!(lost.keys(), [] as [Vec<u8>; 0]);
}

#[test]
fn an_aborted_transaction_stays_invisible_after_the_next_one_of_its_id() {
    let broker = broker();
    let lost = Lost::new(&broker.kafka, abort);
    // The coordinator forgets the result.
    let mut next = open(&lost.site, &lost.id);
    assert!(!lost.end_lost(), "the transaction has ended");
    next.begin().unwrap();
    let mut other = record(&lost.topic);
    other.key = Some(b"next"[..].into());
    next.send(&[&other]).unwrap();
    assert!(lost.end_lost(), "the next transaction is open");
    next.commit().unwrap();
    assert_eq!(lost.keys(), [b"next"]);
}

#[test]
fn a_user_without_cluster_action_is_told_which_end_is_missing() {
    let folder = TempDir::new().unwrap();
    certificates(folder.path());
    let (user, password) = ("alice".to_owned(), "open-sesame".to_owned());
    let pem = folder.path().join("broker.pem");
    let secure = SecureListener { pem, user: user.clone(), password: password.clone() };
    let lines = [
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
    ];
    let settings = BrokerSettings {
        lines: lines.map(str::to_owned).to_vec(),
        secure: Some(secure),
        ..BrokerSettings::default()
    };
    let kafka = Kafka::start(&folder.path().join("kafka"), &settings);
    let mut lost = Lost::new(&kafka, commit);
    let Lost { topic, id, .. } = &lost;
    for resource in [["--topic", topic], ["--transactional-id", id]] {
        let operations = ["--operation", "Describe", "--operation", "Write", "--operation", "Read"];
        // No operation `Read` exists for a transactional id.
        let count = if resource[0] == "--topic" { operations.len() } else { 4 };
        kafka.allow(&user, &[&operations[..count], &resource].concat());
    }
    let broker = &mut lost.site.kafka().broker;
    broker.brokers = kafka.secure_address();
    let tls = Tls { ca: Some(folder.path().join("ca.crt")), identity: None };
    broker.security =
        Security { tls: Some(tls), sasl: Some(Sasl::ScramSha256 { user: user.clone(), password }) };
    let known = BTreeSet::from([lost.topic.clone()]);
    let told = topics(&lost.site).end_lost(&lost.id, &known, &|_| false).unwrap_err();
    assert!(matches!(told, QueueError::Denied { .. }), "{told}");
    let expected = format!("committed, topic {:?}, partition 0, offset 0", lost.topic);
    let text = told.to_string();
    assert!(text.contains(&expected) && text.contains("operation ClusterAction"), "{text}");
    let text = topics(&lost.site).copies("secret").unwrap_err().to_string();
    assert!(text.contains("denies access: topic \"secret\": TopicAuthorizationFailed"), "{text}");
    let SinkKind::Kafka(options) = &lost.site.options.kind else { unreachable!() };
    let guarantee = Guarantee::Transactions { id: "other".to_owned() };
    let Err(error) = Client::of_sinks().unwrap().open(&options.broker, &guarantee) else { unreachable!() };
    let text = error.to_string();
    assert!(text.contains("denies access: transactional id \"other\": Transactional"), "{text}");
    kafka.allow(&user, &["--operation", "ClusterAction", "--cluster"]);
    assert!(!lost.end_lost());
    assert_eq!(readable(&lost.site, &lost.topic), 2, "a record and its marker");
}

#[test]
fn a_producer_knows_that_a_connection_ended_after_its_commit() {
    let mut broker = broker();
    let site = Site::new(&broker);
    let topic = format!("{}.t", site.name);
    let made = NewTopic { name: topic.clone(), partitions: 1, replication: None, settings: Vec::new() };
    topics(&site).create(&[made]).unwrap();
    let mut producer = open(&site, &format!("tollgate/{}/0", site.name));
    producer.begin().unwrap();
    producer.send(&[&record(&topic)]).unwrap();
    producer.commit().unwrap();
    assert!(!producer.has_lost_connection());
    broker.kafka.kill();
    broker.kafka.run();
    assert!(producer.has_lost_connection());
}
