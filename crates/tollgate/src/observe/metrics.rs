//! The metrics for Prometheus, each with its name, unit and help in one place. docs/reference/metrics.md has
//! the same names, and a test compares the two.
//!
//! The number of label values is bounded. A label names a route, sink or worker of the configuration, or a
//! reason in the code. It is never a path, a client or an error text.

mod backends;
mod number;

use std::time::Duration;

use serde_json::Value;
use tollgate_log::{LogStatus, RoomState};
use tollgate_meter::{Exposition, Kind};
use tollgate_server::{RouteName, ServerStatus};

use super::health::{Code, Health, Severity};
use super::memory;
use super::process::Usage;
use super::seen::{Phase, Seen};

use Kind::{Counter, Gauge, Histogram};
use number::Number;

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A gauge in seconds: its name, its help, its value.
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
    reloads(&mut out, seen);
    process(&mut out, &seen.process);
    let text = "Memory: what the process takes of the system (resident), what is counted of it, and the bounds of that (_max).";
    let mut family = out.family("tollgate_memory_bytes", Gauge, text);
    for (kind, bytes) in memory::kinds(seen) {
        family.count(&[("kind", kind)], bytes);
    }
    let text = "Log lines that were left out: stderr was not read as fast as they came.";
    out.family("tollgate_lines_left_out_total", Counter, text).count(&[], seen.lines_left_out);
    out.finish()
}

fn health_of(out: &mut Exposition, seen: &Seen, health: &Health) {
    let text = "Whether requests should come here: 1, or 0 with a finding of severity reason.";
    out.family("tollgate_ready", Gauge, text).count(&[], health.is_ready().into());
    let text = "Whether this is wrong now: 1 or 0, for everything that can be.";
    let mut family = out.family("tollgate_finding", Gauge, text);
    for code in Code::ALL {
        let severity = match code.severity() {
            Severity::Reason => "reason",
            Severity::Warning => "warning",
        };
        family.count(&[("code", code.name()), ("severity", severity)], health.has(code).into());
    }
    let text = "Where the server is in its life: 1 for the phase that it is in.";
    let mut family = out.family("tollgate_phase", Gauge, text);
    for phase in [Phase::Starting, Phase::Serving, Phase::Draining] {
        family.count(&[("phase", phase.name())], (phase == seen.phase).into());
    }
}

fn requests(out: &mut Exposition, server: Option<&ServerStatus>) {
    let routes = || server.into_iter().flat_map(|server| &server.routes);
    let text = "Requests whose replies may leave, by route and class of status.";
    let mut family = out.family("tollgate_http_requests_total", Counter, text);
    for route in routes() {
        for (class, count) in CLASSES.iter().zip(route.replies) {
            let mut labels = labels_of(&route.name);
            labels.push(("class", class));
            family.count(&labels, count);
        }
    }
    let text = "Replies that the server gave by itself, without a route, by class of status.";
    let mut family = out.family("tollgate_http_unrouted_total", Counter, text);
    if let Some(server) = server {
        for (class, count) in CLASSES.iter().zip(server.unrouted) {
            family.count(&[("class", class)], count);
        }
    }
    let text = "From the complete head of a request to the moment when its reply may leave: its records are where their stream wants them.";
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
    let text =
        "Requests that lead to a route and were not taken on, by route and reason, once there was one.";
    let mut family = out.family("tollgate_http_refused_total", Counter, text);
    for route in routes() {
        for (reason, count) in route.refusals.iter().filter(|(_, count)| *count > 0) {
            let mut labels = labels_of(&route.name);
            labels.push(("reason", reason));
            family.count(&labels, *count);
        }
    }
    let text = "Requests and connections that were not taken on, by reason: nothing of them was recorded.";
    let mut family = out.family("tollgate_refusals_total", Counter, text);
    for (reason, count) in server.into_iter().flat_map(|server| &server.refusals) {
        family.count(&[("reason", reason)], *count);
    }
    let text = "Replies whose records did not get where their stream wants them, by what became of these.";
    let mut family = out.family("tollgate_unconfirmed_total", Counter, text);
    for (outcome, count) in server.into_iter().flat_map(|server| &server.unconfirmed) {
        family.count(&[("outcome", outcome)], *count);
    }
    let text = "What came and was no request, or came too slowly, by the status that it was answered with.";
    let mut family = out.family("tollgate_http_malformed_total", Counter, text);
    for (status, count) in server.into_iter().flat_map(|server| &server.malformed) {
        let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
        family.count(&[("status", &status)], *count);
    }
    let of_server: [Number<ServerStatus>; 8] = [
        (
            "tollgate_http_requests_in_flight",
            Gauge,
            "Requests that are complete and not answered.",
            |server| server.in_flight,
        ),
        ("tollgate_connections", Gauge, "Connections.", |server| server.connections as u64),
        ("tollgate_connections_max", Gauge, "Connections that may be: connections_max.", |server| {
            server.connections_max as u64
        }),
        ("tollgate_connections_accepted_total", Counter, "Connections accepted.", |server| server.accepted),
        ("tollgate_received_bytes_total", Counter, "Bytes of requests that were read.", |server| {
            server.received_bytes
        }),
        ("tollgate_sent_bytes_total", Counter, "Bytes of replies that were sent whole.", |server| {
            server.sent_bytes
        }),
        (
            "tollgate_in_flight_bytes",
            Gauge,
            "Bytes of requests that are not complete and of replies that are not taken, beyond 4 KiB for each connection.",
            |server| server.in_flight_bytes,
        ),
        ("tollgate_in_flight_max_bytes", Gauge, "How many may be: in_flight_bytes_max.", |server| {
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
    let text = "How long what is ready waits for its turn, looked at four times a second.";
    let mut family = out.family("tollgate_worker_turn_seconds", Histogram, text);
    for (index, worker) in workers() {
        family.histogram(&[("worker", &index)], &worker.turn);
    }
    let text = "How long the worker has not told that it turns; up to 0.25 is as it should be.";
    let mut family = out.family("tollgate_worker_silence_seconds", Gauge, text);
    for (index, worker) in workers() {
        family.sample(&[("worker", &index)], worker.silence.as_secs_f64());
    }
    let mut family = out.family("tollgate_worker_connections", Gauge, "Connections of the worker.");
    for (index, worker) in workers() {
        family.count(&[("worker", &index)], worker.connections as u64);
    }
    let text = "The share of requests that the worker refuses because it is behind, from 0 to 1.";
    let mut family = out.family("tollgate_worker_refused_ratio", Gauge, text);
    for (index, worker) in workers() {
        family.sample(&[("worker", &index)], worker.refused_share);
    }
    let text = "Connections and streams with scripts that were not done within a slice of 2 ms, or may not begin before others, and run or wait for their next one.";
    let mut family = out.family("tollgate_worker_scripts_queued", Gauge, text);
    for (index, worker) in workers() {
        family.count(&[("worker", &index)], worker.scripts_queued);
    }
    let text = "How long the script that is first among these has been there since its last eight slices.";
    let mut family = out.family("tollgate_worker_script_queue_age_seconds", Gauge, text);
    for (index, worker) in workers() {
        family.sample(&[("worker", &index)], worker.script_queue_age.as_secs_f64());
    }
    let text = "Memory of the scripts of the worker: its Luau VM.";
    let mut family = out.family("tollgate_worker_script_memory_bytes", Gauge, text);
    for (index, worker) in workers() {
        family.count(&[("worker", &index)], worker.script_bytes);
    }
    let text = "How often a VM of the worker was replaced because its scripts kept too much.";
    let mut family = out.family("tollgate_worker_script_vms_replaced_total", Counter, text);
    for (index, worker) in workers() {
        family.count(&[("worker", &index)], worker.script_vms_replaced);
    }
}

fn log(out: &mut Exposition, log: Option<&LogStatus>, damaged: u64) {
    let of_log: [Number<LogStatus>; 17] = [
        ("tollgate_log_failed", Gauge, "1 if the log failed: nothing is recorded any more.", |log| {
            log.failure.is_some().into()
        }),
        (
            "tollgate_log_short_of_room",
            Gauge,
            "1 while records are refused because the disk is nearly full.",
            |log| (log.room == RoomState::Short).into(),
        ),
        ("tollgate_log_free_bytes", Gauge, "Free bytes of the disk of the log.", |log| log.free_bytes),
        ("tollgate_log_reserve_bytes", Gauge, "Bytes that stay free: reserve.", |log| log.reserve_bytes),
        ("tollgate_log_queue_bytes", Gauge, "Bytes of records that wait for the writer.", |log| {
            log.queued_bytes
        }),
        ("tollgate_log_queue_max_bytes", Gauge, "How many may: queue_bytes_max.", |log| log.queue_bytes_max),
        ("tollgate_log_records_total", Counter, "Records written.", |log| log.records),
        ("tollgate_log_batches_total", Counter, "Batches of records written.", |log| log.batches),
        ("tollgate_log_written_bytes_total", Counter, "Bytes of records written.", |log| log.bytes),
        (
            "tollgate_log_synced_records_total",
            Counter,
            "Records of the log of this run that are on disk.",
            |log| log.watermark.synced.0,
        ),
        (
            "tollgate_log_unsealed_segments",
            Gauge,
            "Segments that are closed and not sealed; at four the writer waits.",
            |log| log.unsealed_segments as u64,
        ),
        ("tollgate_log_segments", Gauge, "Sealed segments that are kept.", |log| log.kept_segments),
        ("tollgate_log_segments_bytes", Gauge, "Bytes of sealed segments that are kept.", |log| {
            log.kept_bytes
        }),
        (
            "tollgate_log_segments_deleted_total",
            Counter,
            "Segments deleted because every sink has them.",
            |log| log.deleted_segments,
        ),
        (
            "tollgate_log_retain_passes_total",
            Counter,
            "Looks for segments that may be deleted, and for room.",
            |log| log.retain_passes,
        ),
        ("tollgate_log_writes_total", Counter, "Writes, each of the batches that waited.", |log| {
            log.writes.count()
        }),
        (
            "tollgate_log_worker_writes_total",
            Counter,
            "Writes that workers did themselves, because the disk was quick.",
            |log| log.worker_writes,
        ),
    ];
    for (name, kind, text, value) in of_log {
        let mut family = out.family(name, kind, text);
        if let Some(log) = log {
            family.count(&[], value(log));
        }
    }
    let text = "Segments of earlier runs that the start found damaged.";
    out.family("tollgate_log_damaged_segments", Gauge, text).count(&[], damaged);
    let seconds: [Seconds<LogStatus>; 3] = [
        (
            "tollgate_log_unsynced_seconds",
            "Age of the oldest record that was written, or is being written, and is not on disk.",
            |log| log.unsynced_age,
        ),
        (
            "tollgate_log_queue_age_seconds",
            "How long the oldest record has waited whose reply waits for the disk.",
            |log| log.queue_age,
        ),
        ("tollgate_log_queue_age_max_seconds", "How long it may: queue_age_max.", |log| log.queue_age_max),
    ];
    for (name, text, value) in seconds {
        let mut family = out.family(name, Gauge, text);
        if let Some(log) = log {
            family.sample(&[], value(log).as_secs_f64());
        }
    }
    let mut family = out.family("tollgate_log_write_seconds", Histogram, "How long writes took.");
    if let Some(log) = log {
        family.histogram(&[], &log.writes);
    }
    let mut family = out.family("tollgate_log_sync_seconds", Histogram, "How long syncs took (fdatasync).");
    if let Some(log) = log {
        family.histogram(&[], &log.syncs);
    }
}

fn sinks(out: &mut Exposition, sinks: &[Value]) {
    let text =
        "1 while the loader of the sink works, 0 while it waits after an error, is stopped, or is not there.";
    let mut family = out.family("tollgate_load_up", Gauge, text);
    for sink in sinks {
        let is_up = matches!(sink["state"].as_str(), Some("loading" | "caught up" | "opening"));
        family.count(&[("sink", name_of(sink))], is_up.into());
    }
    let of_sink: [(&str, Kind, &str, &str); 15] = [
        ("tollgate_load_lag_seconds", Gauge, "Age of the oldest record that is not loaded.", "lag_seconds"),
        ("tollgate_load_lag_records", Gauge, "Records that are not loaded.", "lag_records"),
        ("tollgate_load_lag_bytes", Gauge, "Bytes of segments that are not loaded whole.", "lag_bytes"),
        ("tollgate_load_lag_segments", Gauge, "Segments that are not loaded whole.", "lag_segments"),
        ("tollgate_load_rows_total", Counter, "Rows loaded.", "rows"),
        ("tollgate_load_rejects_total", Counter, "Rejects loaded.", "rejects"),
        (
            "tollgate_load_duplicates_total",
            Counter,
            "Records whose key another one has: counted, not loaded.",
            "duplicates",
        ),
        (
            "tollgate_load_missing_records_total",
            Counter,
            "Records in gaps that the position passed.",
            "missing",
        ),
        (
            "tollgate_load_filled_records_total",
            Counter,
            "Records of gaps that were found after all.",
            "filled",
        ),
        (
            "tollgate_load_gap_records",
            Gauge,
            "Records in gaps that are there now, also of earlier runs, but for those given up by command.",
            "in_gaps",
        ),
        ("tollgate_load_commits_total", Counter, "Commits.", "commits"),
        ("tollgate_load_records_bytes_total", Counter, "Bytes of the records that were loaded.", "bytes"),
        (
            "tollgate_load_backoff_seconds",
            Gauge,
            "The present wait after errors; 0 while the sink works.",
            "backoff_seconds",
        ),
        (
            "tollgate_load_restarts_total",
            Counter,
            "How often the loader was started again after a panic.",
            "restarts",
        ),
        ("tollgate_load_stopped_logs", Gauge, "Logs that are not loaded any further.", "stopped_logs"),
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

fn name_of(sink: &Value) -> &str {
    sink["sink"].as_str().unwrap_or_default()
}

fn reloads(out: &mut Exposition, seen: &Seen) {
    let reloads = &seen.reloads;
    let text = "Version of the configuration that serves, from 1, the one of the start.";
    out.family("tollgate_config_version", Gauge, text).count(&[], reloads.version);
    let text = "When it was loaded, in seconds since 1970.";
    let loaded_at = reloads.loaded_at.as_millisecond() as f64 / 1e3;
    out.family("tollgate_config_loaded_timestamp_seconds", Gauge, text).sample(&[], loaded_at);
    let text = "1 unless a reload was refused since the last one that was done.";
    out.family("tollgate_config_last_reload_successful", Gauge, text)
        .count(&[], reloads.refusal.is_none().into());
    out.family("tollgate_reloads_total", Counter, "Reloads, by what became of them.")
        .count(&[("result", "done")], reloads.done)
        .count(&[("result", "refused")], reloads.refused);
    out.family("tollgate_build_info", Gauge, "Always 1; the version is a label.")
        .count(&[("version", env!("CARGO_PKG_VERSION"))], 1);
}

fn process(out: &mut Exposition, usage: &Usage) {
    let of_process: [(&str, Kind, &str, f64); 7] = [
        ("process_resident_memory_bytes", Gauge, "Resident memory.", usage.resident_bytes as f64),
        ("process_virtual_memory_bytes", Gauge, "Virtual memory.", usage.virtual_bytes as f64),
        ("process_cpu_seconds_total", Counter, "Processor time, of user and system.", usage.cpu_seconds),
        ("process_threads", Gauge, "Threads.", usage.threads as f64),
        ("process_open_fds", Gauge, "Descriptors that are open.", usage.descriptors as f64),
        ("process_max_fds", Gauge, "Descriptors that may be open.", usage.descriptors_max as f64),
        (
            "process_start_time_seconds",
            Gauge,
            "When the process began, in seconds since 1970.",
            usage.started_at,
        ),
    ];
    for (name, kind, text, value) in of_process {
        out.family(name, kind, text).sample(&[], value);
    }
}
