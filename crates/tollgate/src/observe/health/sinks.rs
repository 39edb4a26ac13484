//! The findings of sinks and of their loaders. All are warnings, because the records are on disk.

use std::time::Duration;

use serde_json::Value;
use tollgate_load::STALLED_MIN;

use super::code::Code;
use super::finding::Health;
use crate::observe::seen::Phase;
use crate::print::counted;

/// Time that a sink may be without a loader. A loader in another process needs this time for its own restart,
/// or to connect to a new server.
const LOADER_PATIENCE: Duration = Duration::from_secs(5);

/// Number of replicas of a topic, and of those that have a record before its reply. With fewer, the loss of
/// one broker loses records, or stops the topic.
const REPLICAS_MIN: u64 = 3;
const INSYNC_MIN: u64 = 2;

/// Returns the lag from which a sink is behind. A sink of whole segments waits for the end of a segment and
/// for more segments, as it is configured.
pub(super) fn lag_limit(sink: &Value, lag_max: Duration, segment_age_max: Duration) -> Duration {
    let file_age = Duration::try_from_secs_f64(sink["file_age_seconds"].as_f64().unwrap_or_default());
    match file_age.unwrap_or_default() {
        Duration::ZERO => lag_max,
        file_age => lag_max + segment_age_max + file_age,
    }
}

/// Finds the faults of a sink in its report.
pub(super) fn look_at_sink(health: &mut Health, sink: &Value, phase: Phase, lag_max: Duration) {
    let name = sink["sink"].as_str().unwrap_or_default();
    let because = sink["last_error"].as_str().map(|error| format!(": {error}")).unwrap_or_default();
    match sink["state"].as_str().unwrap_or_default() {
        "stopped" => health.add(Code::SinkStopped, format!("sink {name} stopped{because}")),
        "retrying" => health.add(Code::SinkFailing, format!("sink {name} takes no rows{because}")),
        "no loader" => {
            let absent_seconds = sink["absent_seconds"].as_f64().unwrap_or_default();
            let is_late = phase != Phase::Starting && absent_seconds >= LOADER_PATIENCE.as_secs_f64();
            if is_late {
                let limit = LOADER_PATIENCE.as_secs();
                let text =
                    format!("sink {name} has had no loader for {absent_seconds:.0} s, limit {limit} s");
                health.add(Code::SinkUnattended, text);
            }
        }
        _ => {}
    }
    let waiting = sink["waiting_seconds"].as_f64().unwrap_or_default();
    let stalled = sink["stalled_seconds"].as_f64().unwrap_or_default();
    let records = unloaded(sink);
    if waiting > 0.0 {
        let text = format!("sink {name} has waited for an answer for {waiting:.0} s, {records} to load");
        health.add(Code::SinkWaiting, text);
    } else if stalled > 0.0 {
        let limit = STALLED_MIN.as_secs();
        let text =
            format!("the loader of sink {name} has made no progress for {stalled:.0} s, limit {limit} s");
        health.add(Code::SinkStalled, text);
    }
    for (stream, recent) in sink["rejecting_streams"].as_object().into_iter().flatten() {
        let [rows, rejects, seconds] = ["rows", "rejects", "seconds"].map(|key| recent[key].as_u64());
        let [rows, rejects, seconds] = [rows, rejects, seconds].map(Option::unwrap_or_default);
        let (rejects, rows) = (counted(rejects, "reject"), counted(rows, "row"));
        let text = format!("sink {name} has {rejects} and {rows} of stream {stream} within {seconds} s");
        health.add(Code::SinkRejecting, text);
    }
    look_at_tables(health, sink, name);
    look_at_topics(health, sink, name);
    let lag = sink["lag_seconds"].as_f64().unwrap_or_default();
    if lag > lag_max.as_secs_f64() {
        let limit = lag_max.as_secs();
        let text = format!("sink {name} is {lag:.0} s behind, {records}, limit {limit} s");
        health.add(Code::SinkBehind, text);
    }
    for (log, reason) in sink["stopped_logs"].as_object().into_iter().flatten() {
        let reason = reason.as_str().unwrap_or_default();
        health.add(Code::LogStopped, format!("sink {name} stopped loading log {log}: {reason}"));
    }
    let missing = sink["in_gaps"].as_u64().unwrap_or_default();
    if missing > 0 {
        health.add(
            Code::RecordsMissing,
            format!("sink {name} is missing {} of the log", counted(missing, "record")),
        );
    }
}

/// Finds the tables of streams that somebody dropped.
fn look_at_tables(health: &mut Health, sink: &Value, name: &str) {
    let tables = |key: &str| sink[key].as_object().into_iter().flatten();
    let rows = |rows: &Value| counted(rows.as_u64().unwrap_or_default(), "row");
    for (table, count) in tables("lost_tables") {
        let text = format!("table {table} of sink {name} is missing: it had {}", rows(count));
        health.add(Code::TableMissing, text);
    }
    for (table, count) in tables("remade_tables") {
        let rows = rows(count);
        let text =
            format!("table {table} of sink {name} was missing: it is created again without its {rows}");
        health.add(Code::TableMissing, text);
    }
}

/// Finds topics whose records are lost with one broker. One finding names all of them.
fn look_at_topics(health: &mut Health, sink: &Value, name: &str) {
    let copies = |topic: &Value, key: &str| topic[key].as_u64().unwrap_or_default();
    let few: Vec<_> = sink["topics"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(topic, found)| (topic, copies(found, "replicas"), copies(found, "min_insync")))
        .filter(|(_, replicas, min_insync)| *replicas < REPLICAS_MIN || *min_insync < INSYNC_MIN)
        .map(|(topic, replicas, min_insync)| {
            let kept = min_insync.min(replicas);
            format!(
                "topic {topic} has {} and min.insync.replicas {min_insync}: a reply promises {}",
                counted(replicas, "replica"),
                if kept == 1 { "1 copy".to_owned() } else { format!("{kept} copies") }
            )
        })
        .collect();
    if !few.is_empty() {
        health.add(Code::TopicCopiesFew, format!("sink {name}: {}", few.join("; ")));
    }
}

/// Returns the number of records to load. The number is an upper bound until the database has answered.
fn unloaded(sink: &Value) -> String {
    let records = counted(sink["lag_records"].as_u64().unwrap_or_default(), "record");
    if sink["lag_is_bound"] == true { format!("up to {records}") } else { records }
}
