//! The report on a process that only loads: its source, and for a store its fetcher, its leases, and the
//! machines that ship.

use std::time::Instant;

use serde_json::{Value, json};
use tollgate_load::{LeaseStatus, LeaseWatch};
use tollgate_log::LogId;
use tollgate_ship::{FetchFault, FetchState, FetchStatus, FetchWatch, LogFetch, NodeFetch, NodeName};

/// Maximum number of logs in a report: logs with a fault first, then the logs that are behind for longest.
const LOGS_MAX: usize = 100;
/// Maximum number of machines in a report: silent machines first.
const NODES_MAX: usize = 100;

/// What a process that serves no requests loads.
#[derive(Clone)]
pub(crate) enum LoadSource {
    /// Segments from a store.
    Store(Fetching),
    /// Topics of the Kafka cluster with these brokers.
    Topics(String),
}

impl LoadSource {
    /// Returns the report on the fetcher. `None`: there is none.
    pub(super) fn fetch_report(&self) -> Option<Value> {
        match self {
            Self::Store(fetching) => Some(fetching.report()),
            Self::Topics(_) => None,
        }
    }

    /// Returns the brokers of the topics.
    pub(super) fn brokers(&self) -> Option<&str> {
        match self {
            Self::Store(_) => None,
            Self::Topics(brokers) => Some(brokers),
        }
    }
}

/// The parts of a process that loads from a store.
#[derive(Clone)]
pub(crate) struct Fetching {
    /// The store, as the command names it.
    pub(crate) store: String,
    pub(crate) fetch: FetchWatch,
    pub(crate) leases: LeaseWatch,
}

impl Fetching {
    /// Returns the report. Counters begin with the process.
    pub(super) fn report(&self) -> Value {
        let (fetch, leases) = (self.fetch.status(), self.leases.status());
        let logs: Vec<_> = fetch.logs.iter().filter(|(_, log)| is_open(log)).collect();
        let count = |is_it: fn(&FetchFault) -> bool| {
            logs.iter().filter(|(_, log)| log.fault.as_ref().is_some_and(is_it)).count()
        };
        let behind = logs.iter().filter(|(_, log)| log.is_fetched_here).map(|(_, log)| behind_seconds(log));
        json!({
            "store": self.store,
            "state": state_name(fetch.state),
            "failing_seconds": seconds_since(fetch.failing_since),
            "errors": fetch.errors,
            "last_error": fetch.last_error,
            "segments": fetch.segments,
            "bytes": fetch.bytes,
            "deleted_segments": fetch.deleted_segments,
            "spool_bytes": fetch.spool_bytes,
            "spool_bytes_max": fetch.spool_bytes_max,
            "log_count": logs.len(),
            "leases": leases.logs.len(),
            "loaders": leases.loaders,
            "deletes": leases.deletes,
            "lease_error": leases.last_error,
            "lease_failing_seconds": seconds_since(leases.failing_since),
            "behind_seconds": behind.fold(0.0, f64::max),
            "missing_logs": count(|fault| matches!(fault, FetchFault::Missing { .. })),
            "damaged_logs": count(|fault| matches!(fault, FetchFault::Damaged { .. })),
            "logs": logs_of(logs, &leases),
            "node_count": fetch.nodes.len(),
            "silent_nodes": fetch.nodes.values().filter(|node| node.is_silent).count(),
            "unshipped_bytes": fetch.nodes.values().map(|node| node.answer.unshipped_bytes).sum::<u64>(),
            "nodes": nodes_of(&fetch),
        })
    }
}

/// Returns whether the log may get further records, or has records that a sink lacks.
fn is_open(log: &LogFetch) -> bool {
    log.end.is_none_or(|end| log.loaded < end) || log.fault.is_some()
}

const fn state_name(state: FetchState) -> &'static str {
    match state {
        FetchState::Fetching => "fetching",
        FetchState::CaughtUp => "caught up",
        FetchState::Full => "spool full",
        FetchState::Retrying => "retrying",
        FetchState::Ended => "ended",
    }
}

fn logs_of(mut logs: Vec<(&LogId, &LogFetch)>, leases: &LeaseStatus) -> Vec<Value> {
    logs.sort_by(|(_, one), (_, other)| {
        let by_fault = other.fault.is_some().cmp(&one.fault.is_some());
        by_fault.then(behind_seconds(other).total_cmp(&behind_seconds(one)))
    });
    let shown = |(id, log): (&LogId, &LogFetch)| {
        json!({
            "log": id.to_string(),
            "node": node_name(&log.node),
            "loader": if leases.logs.contains(id) { Some("this") } else { leases.taken.get(id).map(|id| &**id) },
            "loaded": log.loaded.0,
            "fetched": log.fetched.0,
            "end": log.end.map(|end| end.0),
            "behind_seconds": behind_seconds(log),
            "fault": log.fault.as_ref().map(ToString::to_string),
            "fault_kind": log.fault.as_ref().map(kind_of),
        })
    };
    logs.into_iter().take(LOGS_MAX).map(shown).collect()
}

fn nodes_of(fetch: &FetchStatus) -> Vec<Value> {
    let mut nodes: Vec<_> = fetch.nodes.iter().collect();
    nodes.sort_by_key(|(_, node)| !node.is_silent);
    let shown = |(name, node): &(&NodeName, &NodeFetch)| {
        json!({
            "node": node_name(name),
            "is_silent": node.is_silent,
            "unshipped_segments": node.answer.unshipped_segments,
            "unshipped_bytes": node.answer.unshipped_bytes,
        })
    };
    nodes.iter().take(NODES_MAX).map(shown).collect()
}

const fn kind_of(fault: &FetchFault) -> &'static str {
    match fault {
        FetchFault::Missing { .. } => "missing",
        FetchFault::Damaged { .. } => "damaged",
    }
}

fn node_name(node: &NodeName) -> String {
    node.decode().unwrap_or_else(|| node.as_str().to_owned())
}

fn behind_seconds(log: &LogFetch) -> f64 {
    seconds_since(log.behind_since)
}

fn seconds_since(since: Option<Instant>) -> f64 {
    since.map_or(0.0, |since| since.elapsed().as_secs_f64())
}
