//! Readiness of the server, and findings: the faults, each with its remedy.
//!
//! A *reason* makes the server not ready: a load balancer should send requests elsewhere. A *warning* leaves
//! the server ready: the server works, but an operator should look at the cause. A late load is only a
//! warning, because the records are on disk.
//!
//! This file asks each group of findings. [`code`] lists all findings, and [`advice`] has their remedies.

mod acme;
mod advice;
mod backends;
mod certificates;
mod code;
mod fetching;
mod finding;
mod log;
mod report;
mod routes;
mod server;
mod ships;
mod sinks;

use std::time::{Duration, Instant};

use tollgate_server::AccessReport;

use super::observer::{Observer, locked};
use super::reloads::Reloads;
use super::seen::{OldProcess, Phase, Seen};
use crate::print::counted;
use crate::wall;
use backends::{look_at_backend, look_at_token_keys};
pub(crate) use code::{Code, Severity};
pub(crate) use finding::Health;
use log::{look_at_damaged, look_at_log};
pub(crate) use report::{json_of, text_of};
use routes::look_at_routes;
use server::{look_at_descriptors, look_at_server};
use sinks::{lag_limit, look_at_sink};

/// Time without an accepted span, after which a collector is a finding.
const COLLECTOR_PATIENCE: Duration = Duration::from_secs(10);
/// Time without a lost line of the access log, after which the finding ends.
const LOSSES_CALM: Duration = Duration::from_secs(60);

impl Observer {
    /// Finds the faults in the present state.
    pub(crate) fn health(&self, seen: &Seen) -> Health {
        let mut health = Health::default();
        match seen.phase {
            Phase::Starting => health.add(Code::Starting, "the server is starting"),
            Phase::Draining => health.add(Code::Draining, "the server is stopping"),
            Phase::Serving | Phase::Loading => {}
        }
        if let Some(old) = seen.old_process.filter(|old| old.age > self.0.old_process_age_max) {
            health.add(Code::OldProcessStays, stays(old));
        }
        if let Some(log) = &seen.log {
            look_at_log(&mut health, log, seen.records);
        }
        if let Some(server) = &seen.server {
            look_at_server(&mut health, server, self.0.worker_stall_max);
            server.backends.iter().for_each(|backend| look_at_backend(&mut health, backend));
            server.token_keys.iter().for_each(|keys| look_at_token_keys(&mut health, keys));
        }
        look_at_routes(&mut health, &locked(&self.0.route_failures).failing(Instant::now()));
        for sink in &seen.sinks {
            let lag_max = lag_limit(sink, self.0.lag_max, self.0.segment_age_max);
            look_at_sink(&mut health, sink, seen.phase, lag_max);
        }
        health.add_all(seen.ships.iter().flat_map(ships::troubles_of));
        health.add_all(seen.fetch.iter().flat_map(fetching::troubles_of));
        health.add_all(certificates::troubles_of(&seen.certificates, wall::now()));
        health.add_all(seen.acme.iter().flat_map(acme::troubles_of));
        look_at_damaged(&mut health, &seen.damaged);
        look_at_descriptors(&mut health, seen.server.as_ref(), seen.process);
        look_at_reloads(&mut health, &seen.reloads);
        look_at_access_log(&mut health, seen.access_log);
        look_at_spans(&mut health, seen);
        if let Some(fault) = seen.clock {
            health.add(Code::ClockOff, fault.text());
        }
        health.sort();
        health
    }
}

fn stays(old: OldProcess) -> String {
    let connections = old.connections.map(|count| format!(" with {}", counted(count, "connection")));
    format!(
        "process {} of the upgrade before still runs{}, {} s after it began to drain",
        old.process,
        connections.unwrap_or_default(),
        old.age.as_secs()
    )
}

fn look_at_reloads(health: &mut Health, reloads: &Reloads) {
    if let Some((at, reason)) = &reloads.refusal {
        let version = reloads.version;
        let text = format!("the reload at {at:.0} was refused, version {version} still serves: {reason}");
        health.add(Code::ReloadRefused, text);
    }
}

/// Finds lines of the access log that were lost a short time ago.
fn look_at_access_log(health: &mut Health, lines: AccessReport) {
    if lines.lost_ago.is_some_and(|ago| ago < LOSSES_CALM) {
        let lost = counted(lines.lost, "line");
        health.add(Code::AccessLogLosing, format!("{lost} of the access log were lost since the start"));
    }
}

/// Finds a collector that has taken no spans for `COLLECTOR_PATIENCE`.
fn look_at_spans(health: &mut Health, seen: &Seen) {
    let failure = seen.span_failure.as_ref().filter(|(time, _)| *time >= COLLECTOR_PATIENCE);
    if let Some((time, reason)) = failure {
        let (seconds, lost) = (time.as_secs(), counted(seen.spans.lost, "span"));
        let text = format!(
            "the collector of [otlp] has taken no spans for {seconds} s: {reason}. {lost} were lost since \
             the start"
        );
        health.add(Code::SpansFailing, text);
    }
}

#[cfg(test)]
mod tests;
