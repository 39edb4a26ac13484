//! The metrics of a process that loads from a store.

use serde_json::Value;
use tollgate_meter::{Exposition, Kind};

use Kind::{Counter, Gauge};

/// Adds the metrics.
pub(super) fn expose(out: &mut Exposition, fetch: &Value) {
    let text = "1 while the loader fetches from its store. 0 while it waits after an error.";
    let is_up = !matches!(fetch["state"].as_str(), Some("retrying" | "ended") | None);
    out.family("tollgate_fetch_up", Gauge, text).count(&[], is_up.into());
    let numbers: [(&str, Kind, &str, &str); 16] = [
        ("tollgate_fetch_segments_total", Counter, "Segments that were fetched.", "segments"),
        ("tollgate_fetch_bytes_total", Counter, "Bytes of these segments.", "bytes"),
        ("tollgate_fetch_errors_total", Counter, "Passes that failed.", "errors"),
        (
            "tollgate_fetch_failing_seconds",
            Gauge,
            "Time since the last pass that worked. 0 if the last one did.",
            "failing_seconds",
        ),
        (
            "tollgate_fetch_deleted_segments_total",
            Counter,
            "Segments that this loader deleted from the store.",
            "deleted_segments",
        ),
        (
            "tollgate_fetch_spool_bytes",
            Gauge,
            "Bytes of fetched segments that are not loaded.",
            "spool_bytes",
        ),
        ("tollgate_fetch_spool_max_bytes", Gauge, "The bound on these bytes.", "spool_bytes_max"),
        ("tollgate_fetch_logs", Gauge, "Logs in the store that are not loaded to their end.", "log_count"),
        ("tollgate_fetch_leases", Gauge, "Logs that this loader has a lease for.", "leases"),
        ("tollgate_fetch_loaders", Gauge, "Loaders that share the store, with this one.", "loaders"),
        (
            "tollgate_fetch_behind_seconds",
            Gauge,
            "How long a log of this loader has had records that a sink lacks. The longest of all its logs.",
            "behind_seconds",
        ),
        (
            "tollgate_fetch_missing_logs",
            Gauge,
            "Logs that wait because a segment is missing in the store.",
            "missing_logs",
        ),
        (
            "tollgate_fetch_damaged_logs",
            Gauge,
            "Logs that wait because a segment is damaged in the store.",
            "damaged_logs",
        ),
        ("tollgate_fetch_nodes", Gauge, "Machines that reported to the store.", "node_count"),
        ("tollgate_fetch_silent_nodes", Gauge, "Machines that do not report any more.", "silent_nodes"),
        (
            "tollgate_fetch_unshipped_bytes",
            Gauge,
            "Bytes of sealed segments on these machines that the store lacks, as they reported.",
            "unshipped_bytes",
        ),
    ];
    for (name, kind, text, field) in numbers {
        out.family(name, kind, text).sample(&[], fetch[field].as_f64().unwrap_or_default());
    }
}
