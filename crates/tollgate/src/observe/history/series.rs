//! The numbers of a cell.

use std::array;
use std::time::Duration;

use super::super::counts::Counts;
use super::super::health::{Health, Severity};
use super::super::seen::Seen;

/// The numbers of one step, in the order of [`SERIES`]. `NaN`: unknown.
pub(super) type Numbers = [f32; SERIES.len()];

/// The series, by name. Series without a unit in their name count events per second, except `in_flight`. The
/// [`GAUGES`] come last.
pub(super) const SERIES: [&str; 24] = [
    "requests",
    "failures",
    "client_errors",
    "refusals",
    "received_bytes",
    "sent_bytes",
    "records",
    "log_bytes",
    "rows",
    "rejects",
    "p50_seconds",
    "p99_seconds",
    "sync_p99_seconds",
    "cpu_share",
    "connections_now",
    "in_flight",
    "pending_records",
    "lag_seconds",
    "unsynced_seconds",
    "script_queue_seconds",
    "resident_bytes",
    "findings_reasons",
    "findings_warnings",
    "free_bytes",
];
const GAUGES: usize = 10;
/// Index of the series of free bytes.
pub(super) const FREE_BYTES: usize = SERIES.len() - 1;

/// The state at one moment, as the history needs it.
pub(in crate::observe) struct Sample {
    pub(super) counts: Counts,
    pub(super) gauges: [f32; GAUGES],
}

impl Sample {
    /// Takes the numbers of a state. `counts` are its counts, which never become less.
    pub(in crate::observe) fn of(seen: &Seen, counts: Counts, health: &Health) -> Self {
        let sinks = |key: &'static str| seen.sinks.iter().filter_map(move |sink| sink[key].as_f64());
        let findings =
            |severity| health.0.iter().filter(|finding| finding.code.severity() == severity).count();
        let server = |value: fn(&tollgate_server::ServerStatus) -> f64| seen.server.as_ref().map(value);
        let log = |value: fn(&tollgate_log::LogStatus) -> f64| seen.log.as_ref().map(value);
        let values = [
            server(|server| server.connections as f64),
            server(|server| server.in_flight as f64),
            (!seen.sinks.is_empty()).then(|| sinks("lag_records").sum()),
            sinks("lag_seconds").reduce(f64::max),
            log(|log| log.unsynced_age.as_secs_f64()),
            server(|server| {
                let ages = server.workers.iter().map(|worker| worker.script_queue_age.as_secs_f64());
                ages.fold(0.0, f64::max)
            }),
            Some(seen.process.resident_bytes as f64),
            Some(findings(Severity::Reason) as f64),
            Some(findings(Severity::Warning) as f64),
            log(|log| log.free_bytes as f64),
        ];
        Self { counts, gauges: values.map(|value| value.map_or(f32::NAN, |value| value as f32)) }
    }
}

/// The gauges of the samples of one step: the greatest values, and the fewest free bytes. A short fault is
/// therefore visible in a long step.
pub(super) struct Gauges([f32; GAUGES]);

impl Default for Gauges {
    fn default() -> Self {
        Self([f32::NAN; GAUGES])
    }
}

impl Gauges {
    /// Adds a sample. `f32::max` and `f32::min` ignore an unknown value.
    pub(super) fn merge(&mut self, gauges: &[f32; GAUGES]) {
        let [most @ .., free_bytes] = &mut self.0;
        let [more @ .., now_free] = gauges;
        for (value, more) in most.iter_mut().zip(more) {
            *value = value.max(*more);
        }
        *free_bytes = free_bytes.min(*now_free);
    }
}

/// Returns the cell between two counts that are `took` apart.
pub(super) fn cell(before: &Counts, now: &Counts, took: Duration, gauges: &Gauges) -> Numbers {
    let seconds = took.as_secs_f64();
    let rate = |value: fn(&Counts) -> u64| {
        let more = value(now).saturating_sub(value(before));
        if seconds > 0.0 { (more as f64 / seconds) as f32 } else { f32::NAN }
    };
    let (took, syncs) = (now.took.since(&before.took), now.syncs.since(&before.syncs));
    let quantile = |observed: &tollgate_meter::Observed, share| {
        observed.quantile(share).map_or(f32::NAN, |took| took.as_secs_f32())
    };
    let spans = [
        rate(|counts| counts.replies),
        rate(|counts| counts.failures),
        rate(|counts| counts.client_errors),
        rate(|counts| counts.refusals),
        rate(|counts| counts.received_bytes),
        rate(|counts| counts.sent_bytes),
        rate(|counts| counts.records),
        rate(|counts| counts.log_bytes),
        rate(|counts| counts.rows),
        rate(|counts| counts.rejects),
        quantile(&took, 0.5),
        quantile(&took, 0.99),
        quantile(&syncs, 0.99),
        rate(|counts| counts.cpu_ms) / 1000.0,
    ];
    let mut values = spans.into_iter().chain(gauges.0);
    array::from_fn(|_| values.next().unwrap_or(f32::NAN))
}
