//! `ack = "queued"`: when a reply reports success, its records are committed by a real Kafka broker, and
//! librdkafka reads them. Any other reply has the outcome `refused`, `unknown` or `rejected`.

mod changes;
mod crash;
mod security;
mod site;
mod topics;

use std::collections::BTreeMap;

use crate::admin::get;
use crate::program::{eventually, printed};
use site::{LogOnFailure, Site, item, outcome};

#[test]
fn a_record_is_committed_in_its_topic_when_its_reply_comes() {
    let site = Site::new("20s", "");
    let (server, mut client) = site.start();
    let shown = LogOnFailure(&server);
    for n in 0..100 {
        let reply = client.post("/a", &item(n)).unwrap();
        assert!(reply.is_success(), "{reply:?}");
        assert_eq!(reply.field("tollgate-ack"), None);
    }
    drop(shown);
    server.kill();
    let expected: BTreeMap<_, _> = (0..100).map(|n| (n, 1)).collect();
    assert_eq!(site.numbers(), expected);
}

#[test]
fn status_and_metrics_have_the_copies_of_each_topic_and_a_finding_names_few() {
    let site = Site::new("20s", "");
    let (server, _client) = site.start();
    let shown = LogOnFailure(&server);
    let copies = || {
        let status: serde_json::Value = site.app.succeed(&["status", "--json"]).parse().ok()?;
        let topic = &status["sinks"][0]["topics"]["tg.a"];
        (topic["partitions"] == 3).then(|| status.to_string())
    };
    let status = eventually("the copies are known", copies);
    assert!(status.contains(r#""min_insync":1"#) && status.contains(r#""replicas":1"#), "{status}");
    assert!(status.contains("topic_copies_few"), "{status}");
    let metrics = get(&site.app, "/metrics").content;
    let sample = "tollgate_topic_min_insync_replicas{sink=\"bus\",topic=\"tg.a\"} 1\n";
    assert!(
        metrics.contains(sample) && metrics.contains("tollgate_topic_replicas{sink=\"bus\""),
        "{metrics}"
    );
    let text = printed(&site.app.run(&["status"]));
    assert!(text.contains("a reply promises 1 copy"), "{text}");
    drop(shown);
    server.kill();
    let server = site.app.start();
    eventually("the copies are known before the first row", copies);
    server.kill();
}

#[test]
fn a_broker_that_goes_away_makes_replies_unknown_or_refused_and_recovers() {
    let mut site = Site::new("1s", "");
    let (server, mut client) = site.start();
    let shown = LogOnFailure(&server);
    assert!(client.post("/a", &item(0)).unwrap().is_success());
    site.kafka.kill();
    let (mut unknown, mut refused, mut next) = (Vec::new(), Vec::new(), 1..);
    eventually("the breaker is open", || {
        let n = next.next().unwrap();
        let reply = client.post("/a", &item(n)).unwrap();
        match outcome(&reply) {
            "refused" => refused.push(n),
            "unknown" => unknown.push(n),
            _ => panic!("{reply:?}"),
        }
        (!refused.is_empty()).then_some(())
    });
    assert!(!unknown.is_empty());
    assert!(client.post("/b", &item(1)).unwrap().is_success(), "other streams go on");
    site.kafka.run();
    let taken = eventually("a record is taken again", || {
        let n = next.next().unwrap();
        let reply = client.post("/a", &item(n)).unwrap();
        match outcome(&reply) {
            _ if reply.is_success() => return Some(n),
            "refused" => refused.push(n),
            "unknown" => unknown.push(n),
            _ => panic!("{reply:?}"),
        }
        None
    });
    drop(shown);
    let (status, log) = server.stop();
    assert!(status.success());
    let of_client = log.lines().find(|line| line.contains("WARN") && line.contains("\"target\":\"krafka"));
    assert_eq!(of_client, None, "the sink reports failures, so the client does not");
    let found = site.numbers();
    assert_eq!(found.get(&0), Some(&1));
    assert_eq!(found.get(&taken), Some(&1));
    unknown.iter().for_each(|n| assert_eq!(found.get(n), Some(&1), "{n} is in the log, so it is handed on"));
    refused.iter().for_each(|n| assert_eq!(found.get(n), None, "{n} was never recorded"));
}

#[test]
fn with_when_away_a_reply_waits_for_the_disk_and_says_so() {
    let mut site = Site::new("1s", "when_away = \"synced\"");
    let (server, mut client) = site.start();
    let shown = LogOnFailure(&server);
    site.kafka.kill();
    let (mut sent, mut next) = (Vec::new(), 0..);
    let synced = eventually("a reply waits for the disk", || {
        let n = next.next().unwrap();
        let reply = client.post("/a", &item(n)).unwrap();
        sent.push(n);
        match reply.field("tollgate-ack") {
            Some(level) => Some((reply.status, level.to_owned())),
            None => {
                assert_eq!(outcome(&reply), "unknown", "{reply:?}");
                None
            }
        }
    });
    assert_eq!(synced, (200, "synced".to_owned()));
    site.kafka.run();
    eventually("replies wait for the queue again", || {
        let n = next.next().unwrap();
        let reply = client.post("/a", &item(n)).unwrap();
        assert!(reply.is_success(), "{reply:?}");
        sent.push(n);
        reply.field("tollgate-ack").is_none().then_some(())
    });
    drop(shown);
    assert!(server.stop().0.success());
    let expected: BTreeMap<_, _> = sent.into_iter().map(|n| (n, 1)).collect();
    assert_eq!(site.numbers(), expected, "records that waited for the disk are handed on, in order");
}

#[test]
fn a_server_that_was_killed_in_a_transaction_queues_soon_after_its_restart() {
    let site = Site::new("60s", "");
    let config = site.app.config().replace("transaction_timeout = \"10s\"", "transaction_timeout = \"10m\"");
    site.app.write("tollgate.toml", &config);
    // Each round leaves a transaction open: the frozen broker gets its records after the end of the server.
    // One of eight logs has its positions in the partition of the log before.
    for n in 0..3 {
        let (server, mut client) = site.start();
        let shown = LogOnFailure(&server);
        site.kafka.freeze();
        let waiting = std::thread::spawn(move || client.post("/a", &item(n)));
        eventually("the record is in the log", || {
            let status: serde_json::Value = site.app.succeed(&["status", "--json"]).parse().ok()?;
            (status["sinks"][0]["lag_records"].as_u64()? > 0).then_some(())
        });
        drop(shown);
        server.kill();
        site.kafka.thaw();
        assert!(waiting.join().unwrap().is_none(), "the server ended before its reply");
    }
    let (server, _client) = site.start();
    let found: Vec<_> = site.numbers().into_iter().collect();
    assert_eq!(found, [(0, 1), (1, 1), (2, 1)]);
    drop(server);
}

#[test]
fn a_record_that_the_broker_refuses_for_its_size_gets_422_and_is_kept() {
    let site = Site::new("20s", "");
    let (server, mut client) = site.start();
    let shown = LogOnFailure(&server);
    let large = format!("[{},{{\"n\":2,\"t\":\"{}\"}}]", item(1), "x".repeat(1_500_000));
    let reply = client.post("/a", &large).unwrap();
    assert_eq!((reply.status, outcome(&reply)), (422, "rejected"), "{reply:?}");
    let content: serde_json::Value = serde_json::from_str(&reply.content).unwrap();
    assert_eq!((&content["recorded"], &content["rejected"][0]["index"]), (&1.into(), &1.into()));
    drop(shown);
    assert!(server.stop().0.success());
    assert_eq!(site.numbers(), BTreeMap::from([(1, 1)]));
    let rejects = site.kafka.read("__tollgate_rejects");
    assert!(rejects.iter().any(|part| part.value.contains("refuses the record for its size")));
    let pieces: usize =
        rejects.iter().filter(|part| part.value.contains("xxx")).map(|part| part.value.len()).sum();
    assert!(pieces > 1_500_000, "the copy has {pieces} bytes");
}
