//! The state of a server's sinks, from the loaders of this process and of other processes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tollgate_load::{LoadStatus, LoadWatch, LostTable};
use tollgate_queue::TopicCopies;

use crate::sinks::Followers;

/// Maximum bytes of the error text in a report. A report is one line.
const ERROR_BYTES_MAX: usize = 1 << 10;
/// Maximum number of stopped logs in a report.
const LOGS_MAX: usize = 8;
/// Maximum number of streams in each list of a report.
const STREAMS_MAX: usize = 8;

/// The present reports on sinks.
#[derive(Clone, Default)]
pub(crate) struct Board(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// The sinks of the configuration.
    sinks: Mutex<Followers>,
    /// The loaders of this process.
    loaders: Mutex<Vec<LoadWatch>>,
    /// The last reports of loaders in other processes, by connection.
    reports: Mutex<BTreeMap<u64, Value>>,
    /// Sinks without a loader, each with the time since which it has no loader.
    absent_since: Mutex<BTreeMap<String, Instant>>,
}

impl Board {
    /// Makes the board of the sinks that segments are kept for.
    pub(crate) fn of(sinks: Followers) -> Self {
        let board = Self::default();
        *locked(&board.0.sinks) = sinks;
        board
    }

    /// Replaces the loaders of this process.
    pub(crate) fn show(&self, loaders: Vec<LoadWatch>) {
        *locked(&self.0.loaders) = loaders;
    }

    /// Stores the report of a loader in another process.
    pub(crate) fn note_report(&self, connection: u64, report: Value) {
        locked(&self.0.reports).insert(connection, report);
    }

    /// Removes the report that arrived over a closed connection.
    pub(crate) fn forget(&self, connection: u64) {
        locked(&self.0.reports).remove(&connection);
    }

    /// Forgets since when each sink has had no loader.
    pub(crate) fn forget_absences(&self) {
        locked(&self.0.absent_since).clear();
    }

    /// Returns a report for each loader in this or another process, and for each sink without a loader.
    pub(crate) fn reports(&self) -> Vec<Value> {
        let own =
            locked(&self.0.loaders).iter().map(|loader| report(loader.name(), &loader.status())).collect();
        let mut reports: Vec<Value> = own;
        reports.extend(locked(&self.0.reports).values().cloned());
        let mut absences = BTreeMap::new();
        let mut absent_since = locked(&self.0.absent_since);
        for sink in locked(&self.0.sinks).names() {
            if !reports.iter().any(|report| report["sink"] == *sink) {
                let since = absent_since.get(&sink).copied().unwrap_or_else(Instant::now);
                reports.push(absent(&sink, since.elapsed()));
                absences.insert(sink, since);
            }
        }
        *absent_since = absences;
        reports
    }
}

/// Locks a value, also after a panic of another thread. The value is consistent after every statement.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the report of a loader on its sink. The counters begin at zero when the loader's process starts.
pub(crate) fn report(sink: &str, status: &LoadStatus) -> Value {
    let stopped = status.stopped_logs.iter().take(LOGS_MAX);
    let stopped_logs: Map<_, _> =
        stopped.map(|(log, reason)| (log.to_string(), Value::from(shortened(reason)))).collect();
    let rejecting = status.rejecting_streams.iter().take(STREAMS_MAX);
    let rejecting_streams: Map<_, _> = rejecting
        .map(|(stream, block)| {
            let seconds = block.time().as_secs();
            (stream.clone(), json!({ "rows": block.good, "rejects": block.bad, "seconds": seconds }))
        })
        .collect();
    json!({
        "sink": sink,
        "process": std::process::id(),
        "state": status.state.name(),
        "lag_seconds": status.lag.as_secs_f64(),
        "lag_records": status.backlog.records,
        "lag_is_bound": status.backlog.is_bound,
        "lag_bytes": status.backlog.bytes,
        "lag_segments": status.backlog.segments,
        "file_age_seconds": status.file_age.as_secs_f64(),
        "rows": status.rows,
        "rejects": status.rejects,
        "duplicates": status.duplicates,
        "missing": status.missing,
        "lost_tables": lost_tables(&status.lost_tables),
        "remade_tables": lost_tables(&status.remade_tables),
        "topics": topics(&status.topics),
        "notes": status.notes,
        "filled": status.filled,
        "in_gaps": status.in_gaps,
        "commits": status.commits,
        "files": status.files,
        "file_bytes": status.file_bytes,
        "bytes": status.bytes,
        "backoff_seconds": status.backoff.as_secs_f64(),
        "waiting_seconds": status.waiting.as_secs_f64(),
        "failing_seconds": status.failing_since.map_or(0.0, |since| since.elapsed().as_secs_f64()),
        "stalled_seconds": status.stalled.as_secs_f64(),
        "restarts": status.restarts,
        "last_error": status.last_error.as_deref().map(shortened),
        "stopped_logs": stopped_logs,
        "rejecting_streams": rejecting_streams,
    })
}

/// Returns the number of rows that were loaded into each lost table, by the name of the table.
fn lost_tables(lost: &BTreeMap<String, LostTable>) -> Map<String, Value> {
    lost.values().take(STREAMS_MAX).map(|lost| (lost.table.clone(), Value::from(lost.rows))).collect()
}

/// Returns the copies of each topic.
fn topics(topics: &BTreeMap<String, TopicCopies>) -> Map<String, Value> {
    let copies = |copies: &TopicCopies| {
        let TopicCopies { partitions, replicas, min_insync } = copies;
        json!({ "partitions": partitions, "replicas": replicas, "min_insync": min_insync })
    };
    topics.iter().take(STREAMS_MAX).map(|(topic, found)| (topic.clone(), copies(found))).collect()
}

/// Returns the report on a sink that has had no loader for `time`.
pub(crate) fn absent(sink: &str, time: Duration) -> Value {
    json!({ "sink": sink, "state": "no loader", "absent_seconds": time.as_secs_f64() })
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(ERROR_BYTES_MAX)]
}
