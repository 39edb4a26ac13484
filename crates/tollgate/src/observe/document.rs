//! The whole state as one JSON document, for `/status` and `tollgate status`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_acme::CertificateReport;
use tollgate_log::{LogStatus, QueueState, RoomState};
use tollgate_meter::Observed;
use tollgate_server::{BackendSnapshot, RouteStatus, ServerStatus};

use super::health::{Health, json_of};
use super::memory;
use super::observer::{Observer, locked};
use super::samples::{LATENCY_WINDOW, RATE_WINDOW, RouteRates, Samples};
use super::seen::Seen;
use crate::tracing_lines::{self, RecentLine};
use crate::wall::rfc3339;

/// Maximum number of routes that are listed: failing routes first, then the busiest.
const ROUTES_MAX: usize = 100;

impl Observer {
    /// Returns the whole state at one moment.
    pub(crate) fn document(&self, seen: &Seen, health: &Health) -> Value {
        let (now, samples) = (Instant::now(), locked(&self.0.samples));
        let mut document = json_of(health);
        document["version"] = env!("CARGO_PKG_VERSION").into();
        document["process_id"] = std::process::id().into();
        document["phase"] = seen.phase.name().into();
        if let Some(old) = seen.old_process {
            document["upgrade"] = json!({
                "old_process_id": old.process,
                "connections": old.connections,
                "draining_seconds": old.age.as_secs_f64(),
            });
        }
        document["uptime_seconds"] = seen.uptime.as_secs_f64().into();
        document["config"] = self.config_of(seen);
        document["rates"] = rates(&samples, now, seen);
        document["latency"] = latency(&samples, now, seen);
        document["sinks"] = seen.sinks.clone().into();
        document["ships"] = seen.ships.clone().into();
        if let Some(acme) = &seen.acme {
            document["certificates"] = acme.certificates.iter().map(certificate_of).collect();
        }
        if let Some(fetch) = &seen.fetch {
            document["fetch"] = fetch.clone();
        }
        if let Some(brokers) = &seen.brokers {
            document["topics"] = json!({ "brokers": brokers });
        }
        document["recent_lines"] = tracing_lines::recent().iter().map(line_of).collect();
        document["process"] = process(seen);
        document["memory"] = memory_of(seen);
        if let Some(server) = &seen.server {
            document["requests"] = requests(server);
            document["connections"] = json!({
                "now": server.connections,
                "max": server.connections_max,
                "accepted": server.accepted,
                "in_flight_bytes": server.in_flight_bytes,
                "in_flight_bytes_max": server.in_flight_bytes_max,
            });
            document["refusals"] = named(&server.refusals);
            document["unconfirmed"] = named(&server.unconfirmed);
            document["workers"] = workers(server);
            document["backends"] = server.backends.iter().map(backend_of).collect();
            document["routes"] = routes(&samples, now, &server.routes);
            document["route_count"] = server.routes.len().into();
        }
        if let Some(log) = &seen.log {
            let mut told = log_of(log, seen);
            let reached = locked(&self.0.history).reserve_reached(log.free_bytes, log.reserve_bytes);
            told["reserve_reached_seconds"] = reached.as_ref().map(Duration::as_secs_f64).into();
            document["log"] = told;
        }
        document
    }

    fn config_of(&self, seen: &Seen) -> Value {
        let reloads = &seen.reloads;
        json!({
            "source": self.0.source.display().to_string(),
            "version": reloads.version,
            "loaded_at": reloads.loaded_at.to_string(),
            "digest": reloads.digest,
            "apps": reloads.apps,
            "sink_count": reloads.sinks,
            "reloads_done": reloads.done,
            "reloads_refused": reloads.refused,
        })
    }
}

fn rates(samples: &Samples, now: Instant, seen: &Seen) -> Value {
    let (counts, span) = (samples.counts(seen), samples.span(now, RATE_WINDOW));
    json!({
        "window_seconds": span.seconds,
        "requests": span.rate(counts.replies, |before| before.replies),
        "failures": span.rate(counts.failures, |before| before.failures),
        "refusals": span.rate(counts.refusals, |before| before.refusals),
        "connections": span.rate(counts.accepted, |before| before.accepted),
        "received_bytes": span.rate(counts.received_bytes, |before| before.received_bytes),
        "sent_bytes": span.rate(counts.sent_bytes, |before| before.sent_bytes),
        "records": span.rate(counts.records, |before| before.records),
        "log_bytes": span.rate(counts.log_bytes, |before| before.log_bytes),
        "rows": span.rate(counts.rows, |before| before.rows),
    })
}

fn latency(samples: &Samples, now: Instant, seen: &Seen) -> Value {
    let (counts, span) = (samples.counts(seen), samples.span(now, LATENCY_WINDOW));
    let (took, syncs) = (counts.took.since(&span.before.took), counts.syncs.since(&span.before.syncs));
    let mut latency = quantiles(&took);
    latency["window_seconds"] = span.seconds.into();
    latency["sync"] = quantiles(&syncs);
    latency
}

fn quantiles(observed: &Observed) -> Value {
    let seconds = |share| observed.quantile(share).as_ref().map(Duration::as_secs_f64);
    json!({ "p50_seconds": seconds(0.5), "p99_seconds": seconds(0.99), "p999_seconds": seconds(0.999) })
}

fn process(seen: &Seen) -> Value {
    let usage = seen.process;
    json!({
        "resident_bytes": usage.resident_bytes,
        "cpu_seconds": usage.cpu_seconds,
        "threads": usage.threads,
        "descriptors": usage.descriptors,
        "descriptors_max": usage.descriptors_max,
    })
}

fn memory_of(seen: &Seen) -> Value {
    let kinds = memory::kinds(seen).into_iter();
    kinds.map(|(kind, bytes)| (format!("{kind}_bytes"), Value::from(bytes))).collect()
}

fn requests(server: &ServerStatus) -> Value {
    let class = |class: usize| {
        server.routes.iter().map(|route| route.replies[class]).sum::<u64>() + server.unrouted[class]
    };
    json!({
        "in_flight": server.in_flight,
        "1xx": class(0), "2xx": class(1), "3xx": class(2), "4xx": class(3), "5xx": class(4),
        "malformed": server.malformed.iter().map(|(_, count)| count).sum::<u64>(),
    })
}

fn line_of(line: &RecentLine) -> Value {
    json!({ "at": line.at.to_string(), "level": line.level, "text": line.text })
}

fn certificate_of(certificate: &CertificateReport) -> Value {
    let facts = certificate.facts.as_ref();
    json!({
        "name": certificate.name,
        "source": "acme",
        "state": certificate.state.name(),
        "issuer": facts.map(|facts| &facts.issuer),
        "expires_at": facts.map(|facts| rfc3339(facts.not_after)),
        "next_order_at": rfc3339(certificate.next_order),
        "requested": certificate.is_requested,
        "failures": certificate.failures,
        "reason": certificate.reason,
    })
}

fn backend_of(backend: &BackendSnapshot) -> Value {
    json!({
        "backend": backend.name,
        "breaker": backend.breaker.name(),
        "in_flight": backend.in_flight,
        "queued": backend.queued,
        "requests": backend.requests,
        "failures": backend.failures,
        "refusals": backend.refusals,
        "retries": backend.retries,
        "resends": backend.resends,
        "connects": backend.connects,
        "handshake_failures": named(&backend.handshake_failures),
        "missing_names": backend.missing_names,
        "addresses": backend.addresses.iter().map(|address| json!({
            "address": address.address,
            "breaker": address.breaker.name(),
            "state": address.state().name(),
            "outstanding": address.outstanding,
            "idle": address.idle,
        })).collect::<Vec<_>>(),
    })
}

fn named(counts: &[(&'static str, u64)]) -> Value {
    counts.iter().map(|(name, count)| ((*name).to_owned(), Value::from(*count))).collect()
}

fn workers(server: &ServerStatus) -> Value {
    let worker = |worker: &tollgate_server::WorkerStatus| {
        json!({
            "silence_seconds": worker.silence.as_secs_f64(),
            "turn_p99_seconds": worker.turn.quantile(0.99).as_ref().map(Duration::as_secs_f64),
            "connections": worker.connections,
            "script_bytes": worker.script_bytes,
            "script_vms_replaced": worker.script_vms_replaced,
            "refused_share": worker.refused_share,
            "scripts_queued": worker.scripts_queued,
            "script_queue_age_seconds": worker.script_queue_age.as_secs_f64(),
        })
    };
    server.workers.iter().map(worker).collect()
}

/// Lists the failing routes first, then the busiest.
fn routes(samples: &Samples, now: Instant, routes: &[RouteStatus]) -> Value {
    let mut routes: Vec<_> = routes.iter().map(|route| (samples.of_route(now, route), route)).collect();
    routes.sort_by(|(one, one_route), (other, other_route)| {
        is_failing(other_route).cmp(&is_failing(one_route)).then(other.requests.total_cmp(&one.requests))
    });
    routes.iter().take(ROUTES_MAX).map(|(rates, route)| route_of(rates, route)).collect()
}

/// Returns whether a route answers most requests with 5xx, or refuses most of them. Such a route is listed
/// even with few requests.
fn is_failing(route: &RouteStatus) -> bool {
    let [_, well @ .., _] = route.replies;
    route.failures() > well.iter().sum()
}

fn route_of(rates: &RouteRates, route: &RouteStatus) -> Value {
    let mut told = quantiles(&rates.took);
    told["path"] = route.name.path.as_str().into();
    told["host"] = route.name.host.as_deref().into();
    told["methods"] = route.name.methods.as_deref().into();
    told["requests_per_second"] = rates.requests.into();
    told["failures_per_second"] = rates.failures.into();
    for (class, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(route.replies) {
        told[class] = count.into();
    }
    told["refused"] = route.refused().into();
    for side in ["request", "reply"].into_iter().filter(|_| route.has_validated()) {
        told[format!("invalid_{side}s")] = route.invalid(side).into();
    }
    told["script_failures"] = route.script_failures.iter().map(|(_, count)| count).sum::<u64>().into();
    told
}

fn log_of(log: &LogStatus, seen: &Seen) -> Value {
    json!({
        "id": log.watermark.log.to_string(),
        "synced": log.watermark.synced.0,
        "failure": log.failure,
        "unsynced_seconds": log.unsynced_age.as_secs_f64(),
        "queued_bytes": log.queued_bytes,
        "queue_bytes_max": log.queue_bytes_max,
        "queue_age_seconds": log.queue_age.as_secs_f64(),
        "queue_age_max_seconds": log.queue_age_max.as_secs_f64(),
        "is_behind": log.queue == QueueState::Behind,
        "is_short_of_room": log.room == RoomState::Short,
        "free_bytes": log.free_bytes,
        "reserve_bytes": log.reserve_bytes,
        "records": log.records,
        "segments": log.kept_segments,
        "segments_bytes": log.kept_bytes,
        "segments_unsealed": log.unsealed_segments,
        "segments_deleted": log.deleted_segments,
        "segments_damaged": seen.damaged.segments,
    })
}

#[cfg(test)]
mod tests {
    use tollgate_server::RouteName;

    use super::*;

    fn route(path: usize, replies: [u64; 5], refused: u64) -> RouteStatus {
        let name = RouteName { path: format!("/{path}"), host: None, methods: None };
        let refusals = vec![("behind", refused)];
        RouteStatus {
            name,
            replies,
            took: Observed::default(),
            script_failures: Vec::new(),
            refusals,
            judged: Vec::new(),
        }
    }

    #[test]
    fn failing_routes_are_shown_among_many_however_few_their_requests_are() {
        let mut many: Vec<_> = (0..250).map(|path| route(path, [0, 2, 0, 0, 1], 0)).collect();
        many[120] = route(120, [0, 1, 0, 0, 0], 2);
        many[249] = route(249, [0, 0, 0, 0, 1], 0);
        let told = routes(&Samples::default(), Instant::now(), &many);
        let told = told.as_array().unwrap();
        let first: Vec<_> = told[..3].iter().map(|route| route["path"].as_str().unwrap()).collect();
        assert_eq!((told.len(), &first[..]), (ROUTES_MAX, &["/120", "/249", "/0"][..]));
    }
}
