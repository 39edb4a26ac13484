//! Tests of killed and frozen brokers, cut links, loaders that race, and databases that are away.

use tollgate_faults::kafka::{Flow, KafkaOptions as BrokerSettings};
use tollgate_load::LoadState;

use crate::site::{Broker, PATIENCE, Site, broker, eventually};

#[test]
fn a_log_is_in_its_topic_once_however_often_the_loader_runs() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write_visits(0..500);
    let status = site.load();
    assert_eq!((status.rows, status.rejects, status.missing), (500, 0, 0));
    assert_eq!(site.load().rows, 0);
    site.write_visits(500..700);
    assert_eq!(site.load().rows, 200);
    site.assert_visits(&broker, 0..700);
    let rows = site.audit();
    assert_eq!(rows.iter().map(|row| row.loaded).sum::<u64>(), 700);
    assert_eq!(rows.iter().map(|row| row.pending).sum::<u64>(), 0);
}

#[test]
fn a_broker_killed_during_loads_has_every_row_once() {
    let mut broker = broker();
    let site = Site::new(&broker);
    site.write_visits(0..600);
    let loader = site.start();
    for loaded in [40, 200, 400] {
        eventually("a part is loaded", || loader.status().rows >= loaded);
        broker.kafka.kill();
        eventually("the loader noticed", || {
            loader.status().state == LoadState::Retrying || loader.status().rows == 600
        });
        broker.kafka.run();
    }
    loader.finish(PATIENCE).unwrap();
    site.assert_visits(&broker, 0..600);
    assert_eq!(site.audit()[0].loaded, 600);
}

#[test]
fn a_link_cut_or_frozen_during_loads_doubles_nothing() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write_visits(0..600);
    let loader = site.start();
    for (loaded, flow) in [(40, Flow::Cut), (160, Flow::Frozen), (280, Flow::Cut), (400, Flow::Frozen)] {
        eventually("a part is loaded", || loader.status().rows >= loaded);
        broker.kafka.link().set(flow);
        eventually("the loader noticed", || {
            loader.status().state == LoadState::Retrying || loader.status().rows == 600
        });
        broker.kafka.link().set(Flow::Open);
    }
    loader.finish(PATIENCE).unwrap();
    site.assert_visits(&broker, 0..600);
}

#[test]
fn a_frozen_broker_delays_a_load_and_doubles_nothing() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write_visits(0..300);
    let loader = site.start();
    eventually("a part is loaded", || loader.status().rows >= 40);
    broker.kafka.freeze();
    eventually("the loader noticed", || {
        loader.status().state == LoadState::Retrying || loader.status().rows == 300
    });
    broker.kafka.thaw();
    loader.finish(PATIENCE).unwrap();
    site.assert_visits(&broker, 0..300);
}

#[test]
fn two_loaders_of_one_log_fence_each_other_and_double_nothing() {
    let broker = broker();
    let site = Site::new(&broker);
    site.write_visits(0..800);
    let loaders = [site.start(), site.start()];
    for loader in loaders {
        loader.finish(PATIENCE).unwrap();
    }
    site.assert_visits(&broker, 0..800);
    assert_eq!(site.audit()[0].loaded, 800);
}

#[test]
fn without_transactions_an_undisturbed_load_is_in_the_topic_once() {
    let broker = broker();
    let mut site = Site::new(&broker);
    site.kafka().exactly_once = false;
    site.write_visits(0..300);
    assert_eq!(site.load().rows, 300);
    assert_eq!(site.load().rows, 0);
    site.assert_visits(&broker, 0..300);
    // A loader of topics must not take a late row for a repeated row.
    let read = broker.kafka.read(&site.topic());
    assert!(read.iter().all(|row| row.headers.contains_key("tollgate-late")));
}

#[test]
fn a_cluster_with_the_oldest_transactions_is_told_what_to_raise() {
    let broker = Broker::start(&BrokerSettings { transaction_version: Some(0), ..BrokerSettings::default() });
    let mut site = Site::new(&broker);
    site.write_visits(0..100);
    let loader = site.start();
    eventually("the reason is known", || {
        let told = loader.status().last_error;
        told.is_some_and(|told| {
            told.contains("lacks the level 2 of `transaction.version`") && told.contains("kafka-features.sh")
        })
    });
    loader.leave();
    site.kafka().exactly_once = false;
    assert_eq!(site.load().rows, 100);
    site.assert_visits(&broker, 0..100);
}
