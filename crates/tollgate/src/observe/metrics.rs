//! The metrics for Prometheus, each with its name, unit and help in one place. docs/reference/metrics.md has
//! the same names, and a test compares the two.
//!
//! The number of label values is bounded. A label names a route, sink or worker of the configuration, or a
//! reason in the code. A label is never a path, a client or an error text.

mod acme;
mod backends;
mod certificates;
mod fetching;
mod number;
mod ships;

use std::time::Duration;

use serde_json::Value;
use tollgate_log::{LogStatus, RoomState};
use tollgate_meter::{Exposition, Kind};
use tollgate_server::{RouteName, ServerStatus};

use super::health::{Code, Health, Severity};
use super::memory;
use super::process::Usage;
use super::seen::{Phase, Seen};

use crate::wall;
use Kind::{Counter, Gauge, Histogram};
use number::Number;

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A gauge in seconds, as its name, help and value.
type Seconds<T> = (&'static str, &'static str, fn(&T) -> Duration);

/// Returns all metrics at one moment, as text.
pub(crate) fn expose(seen: &Seen, health: &Health) -> String {
    let mut out = Exposition::default();
    health_of(&mut out, seen, health);
    requests(&mut out, seen.server.as_ref());
    workers(&mut out, seen.server.as_ref());
    backends::expose(&mut out, seen.server.as_ref());
    log(&mut out, seen.log.as_ref(), seen.damaged.segments);
    sinks(&mut out, &seen.sinks);
    topics(&mut out, &seen.sinks);
    ships::expose(&mut out, &seen.ships);
    acme::expose(&mut out, seen.acme.as_ref());
    if let Some(fetch) = &seen.fetch {
        fetching::expose(&mut out, fetch);
    }
    certificates::expose(&mut out, &seen.certificates, wall::now());
    reloads(&mut out, seen);
    process(&mut out, &seen.process);
    let text = "1 while the old process of an upgrade drains, 0 otherwise.";
    out.family("tollgate_upgrading", Gauge, text).count(&[], seen.old_process.is_some().into());
    let text = "Upgrades that were refused. The process served on.";
    out.family("tollgate_upgrades_refused_total", Counter, text).count(&[], seen.upgrades_refused);
    let text = "Memory by kind: resident memory of the process, its counted parts, and their bounds (_max).";
    let mut family = out.family("tollgate_memory_bytes", Gauge, text);
    for (kind, bytes) in memory::kinds(seen) {
        family.count(&[("kind", kind)], bytes);
    }
    let text = "Log lines that were dropped, because stderr was not read fast enough.";
    out.family("tollgate_lines_left_out_total", Counter, text).count(&[], seen.lines_left_out);
    let text = "Lines of the access log that were written.";
    out.family("tollgate_access_log_lines_total", Counter, text).count(&[], seen.access_log.written);
    let text = "Lines of the access log that were lost, because its file was too slow or a write failed.";
    out.family("tollgate_access_log_lost_total", Counter, text).count(&[], seen.access_log.lost);
    let text = "Spans that the collector of [otlp] took.";
    out.family("tollgate_spans_sent_total", Counter, text).count(&[], seen.spans.written);
    let text = "Spans that were lost, because the collector of [otlp] was away, too slow, or refused them.";
    out.family("tollgate_spans_lost_total", Counter, text).count(&[], seen.spans.lost);
    out.finish()
}

fn health_of(out: &mut Exposition, seen: &Seen, health: &Health) {
    let text = "1 while the server can serve requests. 0 while there is a finding of severity reason.";
    out.family("tollgate_ready", Gauge, text).count(&[], health.is_ready().into());
    let text = "1 while this finding is true, 0 otherwise.";
    let mut family = out.family("tollgate_finding", Gauge, text);
    for code in Code::ALL {
        let severity = match code.severity() {
            Severity::Reason => "reason",
            Severity::Warning => "warning",
        };
        family.count(&[("code", code.name()), ("severity", severity)], health.has(code).into());
    }
    let text = "1 for the current phase of the process: starting, serving, loading, draining.";
    let mut family = out.family("tollgate_phase", Gauge, text);
    for phase in [Phase::Starting, Phase::Serving, Phase::Loading, Phase::Draining] {
        family.count(&[("phase", phase.name())], (phase == seen.phase).into());
    }
}

fn requests(out: &mut Exposition, server: Option<&ServerStatus>) {
    let routes = || server.into_iter().flat_map(|server| &server.routes);
    let text = "Requests whose replies may leave, by route and class of their status.";
    let mut family = out.family("tollgate_http_requests_total", Counter, text);
    for route in routes() {
        for (class, count) in CLASSES.iter().zip(route.replies) {
            let mut labels = labels_of(&route.name);
            labels.push(("class", class));
            family.count(&labels, count);
        }
    }
    let text = "Replies of the server without a route, by class of their status.";
    let mut family = out.family("tollgate_http_unrouted_total", Counter, text);
    if let Some(server) = server {
        for (class, count) in CLASSES.iter().zip(server.unrouted) {
            family.count(&[("class", class)], count);
        }
    }
    let text = "Time from the complete head of a request to the moment when its reply may leave, its records \
                at their ack level.";
    let mut family = out.family("tollgate_http_request_duration_seconds", Histogram, text);
    for route in routes() {
        family.histogram(&labels_of(&route.name), &route.took);
    }
    let text = "Calls of scripts that failed, by route and reason.";
    let mut family = out.family("tollgate_script_failures_total", Counter, text);
    for route in routes() {
        for (reason, count) in &route.script_failures {
            let mut labels = labels_of(&route.name);
            labels.push(("reason", reason));
            family.count(&labels, *count);
        }
    }
    let text = "Requests that lead to a route and were refused, by route and reason.";
    let mut family = out.family("tollgate_http_refused_total", Counter, text);
    for route in routes() {
        for (reason, count) in route.refusals.iter().filter(|(_, count)| *count > 0) {
            let mut labels = labels_of(&route.name);
            labels.push(("reason", reason));
            family.count(&labels, *count);
        }
    }
    let text = "Messages that were validated by a schema of their route, by route, side and verdict.";
    let mut family = out.family("tollgate_xml_messages_total", Counter, text);
    for route in routes().filter(|route| route.has_validated()) {
        for judged in &route.judged {
            let mut labels = labels_of(&route.name);
            labels.extend([("side", judged.side), ("result", judged.result)]);
            family.count(&labels, judged.count);
        }
    }
    let text = "Requests and connections that were refused, by reason. None of them was recorded.";
    let mut family = out.family("tollgate_refusals_total", Counter, text);
    for (reason, count) in server.into_iter().flat_map(|server| &server.refusals) {
        family.count(&[("reason", reason)], *count);
    }
    let text = "Replies whose records did not reach their ack level, by outcome.";
    let mut family = out.family("tollgate_unconfirmed_total", Counter, text);
    for (outcome, count) in server.into_iter().flat_map(|server| &server.unconfirmed) {
        family.count(&[("outcome", outcome)], *count);
    }
    let text = "TLS handshakes of clients, by result.";
    let mut family = out.family("tollgate_tls_handshakes_total", Counter, text);
    for (result, count) in server.into_iter().flat_map(|server| &server.handshakes) {
        family.count(&[("result", result)], *count);
    }
    let text = "Malformed or slow requests, by the status of their reply.";
    let mut family = out.family("tollgate_http_malformed_total", Counter, text);
    for (status, count) in server.into_iter().flat_map(|server| &server.malformed) {
        let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
        family.count(&[("status", &status)], *count);
    }
    let of_server: [Number<ServerStatus>; 9] = [
        ("tollgate_http_requests_in_flight", Gauge, "Complete requests without a reply.", |server| {
            server.in_flight
        }),
        ("tollgate_connections", Gauge, "Connections.", |server| server.connections as u64),
        ("tollgate_connections_max", Gauge, "The bound on connections: connections_max.", |server| {
            server.connections_max as u64
        }),
        ("tollgate_connections_accepted_total", Counter, "Connections accepted.", |server| server.accepted),
        (
            "tollgate_untrusted_proxies_total",
            Counter,
            "Connections of peers outside trusted_proxies whose first request has X-Forwarded-For or \
             Forwarded.",
            |server| server.untrusted_proxies,
        ),
        ("tollgate_received_bytes_total", Counter, "Bytes of requests that were read.", |server| {
            server.received_bytes
        }),
        ("tollgate_sent_bytes_total", Counter, "Bytes of replies that were sent completely.", |server| {
            server.sent_bytes
        }),
        (
            "tollgate_in_flight_bytes",
            Gauge,
            "Bytes of incomplete requests and of replies that clients have not taken, beyond 4 KiB for each \
             connection.",
            |server| server.in_flight_bytes,
        ),
        ("tollgate_in_flight_max_bytes", Gauge, "The bound on these bytes: in_flight_bytes_max.", |server| {
            server.in_flight_bytes_max
        }),
    ];
    for (name, kind, text, value) in of_server {
        let mut family = out.family(name, kind, text);
        if let Some(server) = server {
            family.count(&[], value(server));
        }
    }
}

/// Returns the labels of a route. A part that the configuration does not set is no label.
fn labels_of(name: &RouteName) -> Vec<(&str, &str)> {
    let mut labels = vec![("route", name.path.as_str())];
    labels.extend(name.host.as_deref().map(|host| ("host", host)));
    labels.extend(name.methods.as_deref().map(|methods| ("methods", methods)));
    labels
}

fn workers(out: &mut Exposition, server: Option<&ServerStatus>) {
    let workers = || {
        let workers = server.into_iter().flat_map(|server| &server.workers);
        workers.enumerate().map(|(index, worker)| (index.to_string(), worker))
    };
    let text = "How long ready connections wait for their turn, measured four times a second.";
    let mut family = out.family("tollgate_worker_turn_seconds", Histogram, text);
    for (index, worker) in workers() {
        family.histogram(&[("worker", &index)], &worker.turn);
    }
    let text = "Time since the worker last reported a pass over its connections. Up to 0.25 is normal.";
    let mut family = out.family("tollgate_worker_silence_seconds", Gauge, text);
    for (index, worker) in workers() {
        family.sample(&[("worker", &index)], worker.silence.as_secs_f64());
    }
    let mut family = out.family("tollgate_worker_connections", Gauge, "Connections of the worker.");
    for (index, worker) in workers() {
        family.count(&[("worker", &index)], worker.connections as u64);
    }
    let text = "Share of requests that the worker refuses because it is behind, from 0 to 1.";
    let mut family = out.family("tollgate_worker_refused_ratio", Gauge, text);
    for (index, worker) in workers() {
        family.sample(&[("worker", &index)], worker.refused_share);
    }
    let text = "Connections and streams with a script in the script queue. It runs, waits for its next slice \
                of 2 ms, or waits to begin.";
    let mut family = out.family("tollgate_worker_scripts_queued", Gauge, text);
    for (index, worker) in workers() {
        family.count(&[("worker", &index)], worker.scripts_queued);
    }
    let text = "Time since the last eight slices of the first script in the queue.";
    let mut family = out.family("tollgate_worker_script_queue_age_seconds", Gauge, text);
    for (index, worker) in workers() {
        family.sample(&[("worker", &index)], worker.script_queue_age.as_secs_f64());
    }
    let text = "Memory of the worker's Luau VMs.";
    let mut family = out.family("tollgate_worker_script_memory_bytes", Gauge, text);
    for (index, worker) in workers() {
        family.count(&[("worker", &index)], worker.script_bytes);
    }
    let text = "Luau VMs of the worker that were replaced because their scripts kept too much memory.";
    let mut family = out.family("tollgate_worker_script_vms_replaced_total", Counter, text);
    for (index, worker) in workers() {
        family.count(&[("worker", &index)], worker.script_vms_replaced);
    }
}

fn log(out: &mut Exposition, log: Option<&LogStatus>, damaged: u64) {
    let of_log: [Number<LogStatus>; 17] = [
        ("tollgate_log_failed", Gauge, "1 if the log failed. No record is written any more.", |log| {
            log.failure.is_some().into()
        }),
        (
            "tollgate_log_short_of_room",
            Gauge,
            "1 while the server refuses records because the disk is nearly full.",
            |log| (log.room == RoomState::Short).into(),
        ),
        ("tollgate_log_free_bytes", Gauge, "Free bytes on the disk of the log.", |log| log.free_bytes),
        ("tollgate_log_reserve_bytes", Gauge, "Bytes that the log keeps free: reserve.", |log| {
            log.reserve_bytes
        }),
        ("tollgate_log_queue_bytes", Gauge, "Bytes of records that wait for the writer.", |log| {
            log.queued_bytes
        }),
        ("tollgate_log_queue_max_bytes", Gauge, "The bound on these bytes: queue_bytes_max.", |log| {
            log.queue_bytes_max
        }),
        ("tollgate_log_records_total", Counter, "Records written.", |log| log.records),
        ("tollgate_log_batches_total", Counter, "Batches of records written.", |log| log.batches),
        ("tollgate_log_written_bytes_total", Counter, "Bytes of records written.", |log| log.bytes),
        (
            "tollgate_log_synced_records_total",
            Counter,
            "Records of this run that are on disk (synced).",
            |log| log.watermark.synced.0,
        ),
        (
            "tollgate_log_unsealed_segments",
            Gauge,
            "Closed segments that are not sealed. At four, the writer waits.",
            |log| log.unsealed_segments as u64,
        ),
        ("tollgate_log_segments", Gauge, "Sealed segments that the log keeps.", |log| log.kept_segments),
        ("tollgate_log_segments_bytes", Gauge, "Bytes of the sealed segments that the log keeps.", |log| {
            log.kept_bytes
        }),
        (
            "tollgate_log_segments_deleted_total",
            Counter,
            "Segments deleted after every sink had them.",
            |log| log.deleted_segments,
        ),
        (
            "tollgate_log_retain_passes_total",
            Counter,
            "Passes that look for segments to delete and for free space.",
            |log| log.retain_passes,
        ),
        ("tollgate_log_writes_total", Counter, "Writes. Each writes all batches that waited.", |log| {
            log.writes.count()
        }),
        (
            "tollgate_log_worker_writes_total",
            Counter,
            "Writes by workers. A worker writes while the disk is quick.",
            |log| log.worker_writes,
        ),
    ];
    for (name, kind, text, value) in of_log {
        let mut family = out.family(name, kind, text);
        if let Some(log) = log {
            family.count(&[], value(log));
        }
    }
    let text = "Damaged segments that the start found.";
    out.family("tollgate_log_damaged_segments", Gauge, text).count(&[], damaged);
    let seconds: [Seconds<LogStatus>; 3] = [
        (
            "tollgate_log_unsynced_seconds",
            "Age of the oldest record that is written or in a write, and is not synced.",
            |log| log.unsynced_age,
        ),
        (
            "tollgate_log_queue_age_seconds",
            "Age of the oldest record whose reply waits for the disk. 0 if none waits.",
            |log| log.queue_age,
        ),
        ("tollgate_log_queue_age_max_seconds", "The bound on this age: queue_age_max.", |log| {
            log.queue_age_max
        }),
    ];
    for (name, text, value) in seconds {
        let mut family = out.family(name, Gauge, text);
        if let Some(log) = log {
            family.sample(&[], value(log).as_secs_f64());
        }
    }
    let mut family = out.family("tollgate_log_write_seconds", Histogram, "Duration of writes.");
    if let Some(log) = log {
        family.histogram(&[], &log.writes);
    }
    let mut family = out.family("tollgate_log_sync_seconds", Histogram, "Duration of syncs (fdatasync).");
    if let Some(log) = log {
        family.histogram(&[], &log.syncs);
    }
}

fn sinks(out: &mut Exposition, sinks: &[Value]) {
    let text = "1 while the loader of the sink works. 0 from an error until the sink works again, while the \
         database does not answer, and without a loader.";
    let mut family = out.family("tollgate_load_up", Gauge, text);
    for sink in sinks {
        let is_working = matches!(sink["state"].as_str(), Some("loading" | "caught up" | "opening"));
        let is_up = is_working && sink["waiting_seconds"].as_f64().unwrap_or_default() == 0.0;
        family.count(&[("sink", name_of(sink))], is_up.into());
    }
    let of_sink: [(&str, Kind, &str, &str); 18] = [
        (
            "tollgate_load_lag_seconds",
            Gauge,
            "Age of the oldest record that is not loaded yet.",
            "lag_seconds",
        ),
        ("tollgate_load_lag_records", Gauge, "Records that are not loaded yet.", "lag_records"),
        ("tollgate_load_lag_bytes", Gauge, "Bytes of segments that are not loaded completely.", "lag_bytes"),
        ("tollgate_load_lag_segments", Gauge, "Segments that are not loaded completely.", "lag_segments"),
        ("tollgate_load_rows_total", Counter, "Rows loaded.", "rows"),
        ("tollgate_load_rejects_total", Counter, "Rejects loaded.", "rejects"),
        (
            "tollgate_load_duplicates_total",
            Counter,
            "Records with a key that another record has. They are counted, not loaded.",
            "duplicates",
        ),
        (
            "tollgate_load_missing_records_total",
            Counter,
            "Records in gaps that the loader's position passed.",
            "missing",
        ),
        ("tollgate_load_filled_records_total", Counter, "Records of gaps that were found later.", "filled"),
        (
            "tollgate_load_gap_records",
            Gauge,
            "Records in gaps now, also of earlier runs, except gaps that a command gave up.",
            "in_gaps",
        ),
        ("tollgate_load_commits_total", Counter, "Commits.", "commits"),
        ("tollgate_load_files_total", Counter, "Parquet files that commits made.", "files"),
        ("tollgate_load_files_bytes_total", Counter, "Bytes of the Parquet files.", "file_bytes"),
        ("tollgate_load_records_bytes_total", Counter, "Bytes of the records that were loaded.", "bytes"),
        (
            "tollgate_load_backoff_seconds",
            Gauge,
            "Current wait after errors. 0 while the sink works.",
            "backoff_seconds",
        ),
        (
            "tollgate_load_waiting_seconds",
            Gauge,
            "How long the database has not answered, through all tries. 0 before 2 s.",
            "waiting_seconds",
        ),
        ("tollgate_load_restarts_total", Counter, "Restarts of the loader after a panic.", "restarts"),
        ("tollgate_load_stopped_logs", Gauge, "Logs that the loader stopped loading.", "stopped_logs"),
    ];
    for (name, kind, text, field) in of_sink {
        let mut family = out.family(name, kind, text);
        for sink in sinks {
            let value = &sink[field];
            let value = value.as_object().map(|logs| logs.len() as f64).or_else(|| value.as_f64());
            if let Some(value) = value {
                family.sample(&[("sink", name_of(sink))], value);
            }
        }
    }
}

fn topics(out: &mut Exposition, sinks: &[Value]) {
    let of_topic = [
        ("tollgate_topic_replicas", "Replicas of the partition of the topic that has fewest.", "replicas"),
        (
            "tollgate_topic_min_insync_replicas",
            "Replicas that have a record before its reply: min.insync.replicas of the topic.",
            "min_insync",
        ),
    ];
    for (name, text, field) in of_topic {
        let mut family = out.family(name, Gauge, text);
        for sink in sinks {
            for (topic, copies) in sink["topics"].as_object().into_iter().flatten() {
                let labels = [("sink", name_of(sink)), ("topic", topic.as_str())];
                family.count(&labels, copies[field].as_u64().unwrap_or_default());
            }
        }
    }
}

fn name_of(sink: &Value) -> &str {
    sink["sink"].as_str().unwrap_or_default()
}

fn reloads(out: &mut Exposition, seen: &Seen) {
    let reloads = &seen.reloads;
    let text = "Version of the current configuration. The start has version 1.";
    out.family("tollgate_config_version", Gauge, text).count(&[], reloads.version);
    let text = "Time at which the current configuration was loaded, in seconds since 1970.";
    let loaded_at = reloads.loaded_at.as_millisecond() as f64 / 1e3;
    out.family("tollgate_config_loaded_timestamp_seconds", Gauge, text).sample(&[], loaded_at);
    let text = "1, or 0 if a reload was refused after the last successful one.";
    out.family("tollgate_config_last_reload_successful", Gauge, text)
        .count(&[], reloads.refusal.is_none().into());
    out.family("tollgate_reloads_total", Counter, "Reloads by result.")
        .count(&[("result", "done")], reloads.done)
        .count(&[("result", "refused")], reloads.refused);
    out.family("tollgate_build_info", Gauge, "Always 1. The version is a label.")
        .count(&[("version", env!("CARGO_PKG_VERSION"))], 1);
}

fn process(out: &mut Exposition, usage: &Usage) {
    let of_process: [(&str, Kind, &str, f64); 7] = [
        ("process_resident_memory_bytes", Gauge, "Resident memory.", usage.resident_bytes as f64),
        ("process_virtual_memory_bytes", Gauge, "Virtual memory.", usage.virtual_bytes as f64),
        ("process_cpu_seconds_total", Counter, "Processor time, user and system.", usage.cpu_seconds),
        ("process_threads", Gauge, "Threads.", usage.threads as f64),
        ("process_open_fds", Gauge, "Open descriptors.", usage.descriptors as f64),
        ("process_max_fds", Gauge, "The bound on open descriptors.", usage.descriptors_max as f64),
        (
            "process_start_time_seconds",
            Gauge,
            "Start time of the process, in seconds since 1970.",
            usage.started_at,
        ),
    ];
    for (name, kind, text, value) in of_process {
        out.family(name, kind, text).sample(&[], value);
    }
}
