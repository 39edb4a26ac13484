//! The troubles of a process that loads from a store. All are warnings: the records are in the store, or on
//! the machines that wrote them.

use std::time::Duration;

use serde_json::Value;

use super::code::Code;
use crate::print::counted;

/// A fetcher that has failed for longer than this is a finding.
const FAILING_MAX: Duration = Duration::from_secs(10);
/// Maximum number of machines or logs that are named in the findings of one code.
const SHOWN_MAX: usize = 5;

/// Returns the troubles of a fetcher, each with its text.
pub(super) fn troubles_of(fetch: &Value) -> Vec<(Code, String)> {
    let mut troubles = Vec::new();
    let store = fetch["store"].as_str().unwrap_or_default();
    for (what, seconds, error) in [
        (format!("nothing was fetched from {store}"), "failing_seconds", "last_error"),
        ("no leases of logs were taken or renewed".to_owned(), "lease_failing_seconds", "lease_error"),
    ] {
        let failing = fetch[seconds].as_f64().unwrap_or_default();
        if failing > FAILING_MAX.as_secs_f64() {
            let because = fetch[error].as_str().map(|error| format!(": {error}")).unwrap_or_default();
            let limit = FAILING_MAX.as_secs();
            let text = format!("{what} for {failing:.0} s, limit {limit} s{because}");
            troubles.push((Code::FetchFailing, text));
        }
    }
    for (kind, trouble, count) in [
        ("missing", Code::FetchSegmentMissing, "missing_logs"),
        ("damaged", Code::FetchSegmentDamaged, "damaged_logs"),
    ] {
        let logs = fetch["logs"].as_array().into_iter().flatten().filter(|log| log["fault_kind"] == kind);
        let texts = logs.map(|log| {
            let part = |key: &str| log[key].as_str().unwrap_or_default().to_owned();
            format!("log {} of machine {}: {}", part("log"), part("node"), part("fault"))
        });
        push_first(&mut troubles, trouble, texts, fetch[count].as_u64(), "further log");
    }
    let nodes = fetch["nodes"].as_array().into_iter().flatten().filter(|node| node["is_silent"] == true);
    let texts = nodes.map(|node| {
        let name = node["node"].as_str().unwrap_or_default();
        format!("machine {name} does not report to the store any more")
    });
    let count = fetch["silent_nodes"].as_u64();
    push_first(&mut troubles, Code::NodeSilent, texts, count, "further machine");
    troubles
}

/// Adds the first `SHOWN_MAX` texts, and the number of the others.
fn push_first(
    troubles: &mut Vec<(Code, String)>,
    trouble: Code,
    texts: impl Iterator<Item = String>,
    count: Option<u64>,
    other: &str,
) {
    troubles.extend(texts.take(SHOWN_MAX).map(|text| (trouble, text)));
    let more = count.unwrap_or_default().saturating_sub(SHOWN_MAX as u64);
    if more > 0 {
        troubles.push((trouble, counted(more, other)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_trouble_of_a_fetcher_is_found_by_itself() {
        let check = |fetch: Value, expected: &[Code]| {
            let found: Vec<_> = troubles_of(&fetch).into_iter().map(|(trouble, _)| trouble).collect();
            assert_eq!(found, expected, "{fetch}");
        };
        check(json!({ "state": "caught up", "failing_seconds": 0.0, "logs": [], "nodes": [] }), &[]);
        check(json!({ "failing_seconds": 9.9 }), &[]);
        check(json!({ "failing_seconds": 10.1, "last_error": "away" }), &[Code::FetchFailing]);
        check(json!({ "lease_failing_seconds": 10.1 }), &[Code::FetchFailing]);
        let log = |kind: &str| json!({ "logs": [{ "fault_kind": kind, "fault": "it" }] });
        check(log("missing"), &[Code::FetchSegmentMissing]);
        check(log("damaged"), &[Code::FetchSegmentDamaged]);
        let node = |is_silent| json!({ "nodes": [{ "node": "web-1", "is_silent": is_silent }] });
        check(node(true), &[Code::NodeSilent]);
        check(node(false), &[]);
    }

    #[test]
    fn many_silent_machines_are_counted() {
        let node = |at: usize| json!({ "node": format!("web-{at}"), "is_silent": true });
        let nodes: Vec<_> = (0..7).map(node).collect();
        let troubles = troubles_of(&json!({ "nodes": nodes, "silent_nodes": 7 }));
        assert_eq!(troubles.len(), SHOWN_MAX + 1);
        assert_eq!(troubles[SHOWN_MAX].1, "2 further machines");
    }
}
