//! The report on a ship target, as JSON.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tollgate_ship::{LogFault, ShipStatus};

/// Logs with faults that are listed, at most.
const LOGS_MAX: usize = 8;

/// The state of a target without a thread.
const NOT_STARTED: &str = "not_started";

/// Returns the report on a target. Counters begin at the start of the process. `None`: it is not started.
pub(crate) fn report(ship: &str, status: Option<&ShipStatus>) -> Value {
    let Some(status) = status else { return json!({ "ship": ship, "state": NOT_STARTED }) };
    let faults = status.faults.iter().take(LOGS_MAX);
    let faults: Map<_, _> = faults.map(|(log, fault)| (log.to_string(), fault_of(fault))).collect();
    let forked = status.faults.values().filter(|fault| matches!(fault, LogFault::Forked { .. })).count();
    json!({
        "ship": ship,
        "state": status.state.name(),
        "segments": status.segments,
        "bytes": status.bytes,
        "present_segments": status.present_segments,
        "wanted_segments": status.wanted_segments,
        "gone_segments": status.gone_segments,
        "unshipped_segments": status.unshipped_segments,
        "unshipped_bytes": status.unshipped_bytes,
        "behind_seconds": seconds_since(status.behind_since),
        "failing_seconds": seconds_since(status.failing_since),
        "silent_seconds": seconds_since(status.active_at),
        "backoff_seconds": status.backoff.as_secs_f64(),
        "errors": status.errors,
        "last_error": status.last_error,
        "forked_logs": forked,
        "kept_logs": status.faults.len() - forked,
        "faults": faults,
        "namesake": status.namesake.map(|log| log.to_string()),
    })
}

fn seconds_since(instant: Option<Instant>) -> f64 {
    instant.map_or(Duration::ZERO, |instant| instant.elapsed()).as_secs_f64()
}

fn fault_of(fault: &LogFault) -> Value {
    match fault {
        LogFault::Forked { first, found } => {
            let text = format!("the store has another segment {first}: {found}");
            json!({ "kind": "forked", "text": text })
        }
        LogFault::TooLarge { first, bytes, limit } => {
            let text = format!("segment {first} has {bytes} bytes, limit of the store is {limit}");
            json!({ "kind": "too_large", "text": text })
        }
        LogFault::Unsound { first } => {
            json!({ "kind": "unsound", "text": format!("segment {first} has no valid footer") })
        }
    }
}
