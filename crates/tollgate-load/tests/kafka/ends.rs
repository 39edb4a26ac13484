//! Tests of transactions whose end the cluster lost, because its only broker was killed after the coordinator
//! noted the result.

use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use tollgate_load::SinkKind;
use tollgate_queue::{Client, Guarantee, NewTopic, Producer, QueueRecord, ReadTo, Reader, Topics};

use crate::site::{Broker, Site, broker};

/// Maximum tries to kill the broker before it writes the markers of a transaction. Most tries succeed.
const TRIES_MAX: usize = 12;
/// Time in which a broker that started knows what is readable.
const RECOVERY: Duration = Duration::from_secs(2);

/// A topic with a record in a transaction without an end.
struct Lost {
    site: Site,
    topic: String,
    id: String,
    _broker: MutexGuard<'static, Broker>,
}

impl Lost {
    /// Ends a transaction by `end`, and kills the broker at once.
    fn new(end: fn(&mut dyn Producer)) -> Self {
        let mut broker = broker();
        let site = Site::new(&broker);
        for number in 0..TRIES_MAX {
            let (topic, id) =
                (format!("{}.t{number}", site.name), format!("tollgate/{}/{number}", site.name));
            let made =
                NewTopic { name: topic.clone(), partitions: 1, replication: None, settings: Vec::new() };
            topics(&site).create(&[made]).unwrap();
            let mut producer = open(&site, &id);
            producer.begin().unwrap();
            producer.send(&[&record(&topic)]).unwrap();
            end(&mut *producer);
            broker.kafka.kill();
            broker.kafka.run();
            drop(producer);
            if is_lost(&site, &topic) {
                return Self { site, topic, id, _broker: broker };
            }
        }
        panic!("no end was lost in {TRIES_MAX} tries");
    }

    fn end_lost(&self) -> bool {
        topics(&self.site).end_lost(&self.id, &|topic| topic == self.topic).unwrap()
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

/// Returns whether the record stays unreadable. A broker that starts needs a moment to find the end of what
/// is readable.
fn is_lost(site: &Site, topic: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < RECOVERY {
        if readable(site, topic) > 0 {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    true
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
    let lost = Lost::new(commit);
    assert!(!lost.end_lost(), "the transaction has ended");
    assert_eq!(readable(&lost.site, &lost.topic), 2, "a record and its marker");
    assert_eq!(lost.keys(), [b"key"]);
}

#[test]
fn a_read_to_the_end_writes_a_lost_end_of_any_writer() {
    let lost = Lost::new(commit);
    assert_eq!(lost.keys(), [b"key"]);
}

#[test]
fn an_aborted_transaction_that_lost_its_end_stays_invisible() {
    let lost = Lost::new(abort);
    assert!(!lost.end_lost(), "the transaction has ended");
    assert_eq!(readable(&lost.site, &lost.topic), 2, "a record and its marker");
    assert_eq!(lost.keys(), [] as [Vec<u8>; 0]);
}

#[test]
fn an_aborted_transaction_stays_invisible_after_the_next_one_of_its_id() {
    let lost = Lost::new(abort);
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
