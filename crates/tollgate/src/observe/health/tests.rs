//! Tests of the findings and their texts.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_server::{AddressSnapshot, AddressState, BackendSnapshot, BreakerState};

use super::*;

#[test]
fn every_code_is_listed_once_by_its_own_name() {
    let mut names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Code::ALL.len());
}

#[test]
fn a_sink_is_a_warning_by_each_of_its_troubles_and_never_a_reason() {
    let check = |sink: Value, codes: &[Code]| {
        let mut health = Health::default();
        look_at_sink(&mut health, &sink, Phase::Serving, Duration::from_secs(60));
        let found: Vec<_> = health.0.iter().map(|finding| finding.code).collect();
        assert_eq!(found, codes, "{sink}");
        assert!(health.is_ready());
    };
    check(json!({ "sink": "a", "state": "caught up", "missing": 2, "filled": 2, "in_gaps": 0 }), &[]);
    check(
        json!({ "sink": "a", "state": "stopped", "in_gaps": 1 }),
        &[Code::SinkStopped, Code::RecordsMissing],
    );
    check(
        json!({ "sink": "a", "state": "retrying", "lag_seconds": 61.0 }),
        &[Code::SinkFailing, Code::SinkBehind],
    );
    check(json!({ "sink": "a", "state": "caught up", "stalled_seconds": 0.0 }), &[]);
    check(json!({ "sink": "a", "state": "caught up", "stalled_seconds": 7.5 }), &[Code::SinkStalled]);
    let waiting = json!({ "sink": "a", "state": "loading", "waiting_seconds": 7.5, "lag_records": 3 });
    check(waiting, &[Code::SinkWaiting]);
    check(json!({ "sink": "a", "state": "no loader", "absent_seconds": 5.0 }), &[Code::SinkUnattended]);
    check(json!({ "sink": "a", "state": "no loader", "absent_seconds": 4.9 }), &[]);
    let dropped = json!({ "sink": "a", "state": "caught up", "lost_tables": { "\"t\"": 3 } });
    check(dropped, &[Code::TableMissing]);
    let remade = json!({ "sink": "a", "state": "caught up", "lost_tables": {}, "remade_tables": { "t": 3 } });
    check(remade, &[Code::TableMissing]);
    let topics = |replicas: u32, min_insync: u32| {
        let topic = json!({ "partitions": 1, "replicas": replicas, "min_insync": min_insync });
        json!({ "sink": "a", "state": "caught up", "topics": { "tg.a": topic } })
    };
    check(topics(3, 2), &[]);
    check(topics(3, 1), &[Code::TopicCopiesFew]);
    check(topics(2, 2), &[Code::TopicCopiesFew]);
    check(json!({ "sink": "a", "state": "loading", "stopped_logs": { "x": "y" } }), &[Code::LogStopped]);
}

#[test]
fn a_sink_of_whole_segments_is_behind_after_its_waits() {
    let seconds = Duration::from_secs;
    let limit = |sink: Value| lag_limit(&sink, seconds(60), seconds(30));
    assert_eq!(limit(json!({ "sink": "a", "file_age_seconds": 0.0 })), seconds(60));
    assert_eq!(limit(json!({ "sink": "a", "file_age_seconds": 300.0 })), seconds(390));
    assert_eq!(limit(json!({ "sink": "a" })), seconds(60));
}

#[test]
fn a_sink_without_a_loader_is_no_finding_before_the_server_serves() {
    let sink = json!({ "sink": "a", "state": "no loader", "absent_seconds": 60.0 });
    for (phase, count) in [(Phase::Starting, 0), (Phase::Serving, 1), (Phase::Draining, 1)] {
        let mut health = Health::default();
        look_at_sink(&mut health, &sink, phase, Duration::from_secs(60));
        assert_eq!(health.0.len(), count, "{phase:?}");
    }
}

#[test]
fn reasons_come_first_and_each_says_what_to_do() {
    let mut health = Health::default();
    health.add(Code::DiskTight, "little");
    health.add(Code::LogFailed, "gone");
    health.sort();
    let text = text_of(&health);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "not ready");
    assert!(lines[1].starts_with("reason: log_failed: gone (check the disk"), "{text}");
    assert!(lines[2].starts_with("warning: disk_tight: little (free disk space"), "{text}");
}

#[test]
fn a_backend_of_which_some_addresses_or_names_fail_is_a_warning_that_lists_them() {
    use AddressState::{Closed, HalfOpen, Open, Unreachable, Untried};
    let address = |number: usize, state: AddressState| AddressSnapshot {
        address: format!("10.0.0.{number}:1"),
        breaker: match state {
            Open => BreakerState::Open,
            HalfOpen => BreakerState::HalfOpen,
            Untried => BreakerState::Untried,
            Closed | Unreachable => BreakerState::Closed,
        },
        is_lost: state == Unreachable,
        outstanding: 0,
        idle: 0,
    };
    let check = |states: &[AddressState], missing_names: &[&str], expect: &[(Code, &str)]| {
        let addresses: Vec<_> =
            states.iter().enumerate().map(|(number, state)| address(number, *state)).collect();
        let backend = BackendSnapshot {
            name: "app".to_owned(),
            breaker: addresses.iter().map(|address| address.breaker).min().unwrap_or(BreakerState::Closed),
            in_flight: 0,
            queued: 0,
            requests: 0,
            failures: 0,
            refusals: 0,
            retries: 0,
            resends: 0,
            connects: 0,
            handshake_failures: [("untrusted", 0); 8],
            addresses,
            missing_names: missing_names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let mut health = Health::default();
        look_at_backend(&mut health, &backend);
        let found: Vec<_> = health.0.iter().map(|finding| (finding.code, finding.text.as_str())).collect();
        assert_eq!(found, expect);
        assert!(health.is_ready());
    };
    let down = |text| [(Code::BackendDown, text)];
    check(&[Open, Open], &["a"], &down("the breaker of backend app is open"));
    // A half-open breaker counts as down: the request that tests the address may last long, and all other
    // requests are refused until it ends.
    check(&[Open, HalfOpen], &[], &down("the breaker of backend app is half-open"));
    check(&[Untried], &[], &[]);
    check(&[Untried, Closed], &[], &[]);
    let impaired = |text| [(Code::BackendImpaired, text)];
    check(&[Closed, HalfOpen], &[], &impaired("backend app: 10.0.0.1:1 is half-open"));
    check(&[Untried, Open], &[], &impaired("backend app: 10.0.0.1:1 is open"));
    check(
        &[Closed, Open, Unreachable],
        &["a.test"],
        &impaired("backend app: 10.0.0.1:1 is open, 10.0.0.2:1 is unreachable, name a.test is not found"),
    );
    check(&[Unreachable], &[], &impaired("backend app: 10.0.0.0:1 is unreachable"));
    let listed = "backend app: 10.0.0.0:1 is open, 10.0.0.1:1 is open, 10.0.0.2:1 is open, 10.0.0.3:1 is open, \
                  10.0.0.4:1 is open, and 2 more";
    check(&[Open, Open, Open, Open, Open, Open, Closed], &["b"], &impaired(listed));
    check(
        &[],
        &["b"],
        &[(Code::BackendUnresolved, "backend app has no address: no name in its urls was found")],
    );
}
