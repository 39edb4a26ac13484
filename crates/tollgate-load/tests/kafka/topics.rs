//! Tests of the topics that a sink makes or finds.

use tollgate_load::{SinkKind, topic_reports};

use crate::site::{Site, broker};

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
    let mut site = Site::new(&broker);
    site.kafka().makes_topics = false;
    site.write_visits(0..3);
    let reason = site.load_until_stopped();
    assert!(reason.contains(&format!("topic {:?} does not exist", site.topic())), "{reason}");
}
