//! How the server did up to a minute ago, for rates and quantiles: a sample each second, and of each route every ten.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tollgate_meter::Observed;
use tollgate_server::{RouteName, RouteStatus, ServerStatus};

use super::Seen;

/// What is looked back at for rates, and for quantiles.
pub(super) const RATE_WINDOW: Duration = Duration::from_secs(10);
pub(super) const LATENCY_WINDOW: Duration = Duration::from_secs(60);
const SAMPLES_MAX: usize = 62;

/// Counts of a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) replies: u64,
    /// Of these, those with 5xx.
    pub(super) failures: u64,
    pub(super) refusals: u64,
    pub(super) accepted: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) records: u64,
    pub(super) log_bytes: u64,
    pub(super) rows: u64,
    pub(super) took: Observed,
    pub(super) syncs: Observed,
}

impl Counts {
    pub(super) fn of(seen: &Seen) -> Self {
        let mut counts = Self::default();
        if let Some(server) = &seen.server {
            counts.add_server(server);
        }
        if let Some(log) = &seen.log {
            (counts.records, counts.log_bytes, counts.syncs) = (log.records, log.bytes, log.syncs);
        }
        counts.rows = seen.sinks.iter().filter_map(|sink| sink["rows"].as_u64()).sum();
        counts
    }

    fn add_server(&mut self, server: &ServerStatus) {
        for route in &server.routes {
            self.replies += route.replies.iter().sum::<u64>();
            self.failures += route.replies[4];
            self.took.add(&route.took);
        }
        self.replies += server.unrouted.iter().sum::<u64>();
        self.failures += server.unrouted[4];
        self.refusals = server.refusals.iter().map(|(_, count)| count).sum();
        self.accepted = server.accepted;
        (self.received_bytes, self.sent_bytes) = (server.received_bytes, server.sent_bytes);
    }
}

/// What happened between two moments.
pub(super) struct Span {
    pub(super) seconds: f64,
    pub(super) before: Counts,
}

impl Span {
    /// How many a second.
    pub(super) fn rate(&self, now: u64, before: impl Fn(&Counts) -> u64) -> f64 {
        // What became less began anew.
        let more = now.checked_sub(before(&self.before)).unwrap_or(now);
        if self.seconds > 0.0 { more as f64 / self.seconds } else { 0.0 }
    }
}

/// What a route had counted at a moment.
type RouteCounts = (RouteName, u64, Observed);

#[derive(Default)]
pub(super) struct History {
    samples: VecDeque<(Instant, Counts)>,
    /// The last two looks at the routes.
    routes: [Option<(Instant, Vec<RouteCounts>)>; 2],
}

impl History {
    /// Notes how it is now.
    pub(super) fn note(&mut self, at: Instant, seen: &Seen) {
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((at, Counts::of(seen)));
        let is_due = |(last, _): &(Instant, _)| at.saturating_duration_since(*last) >= RATE_WINDOW;
        if let Some(server) = &seen.server
            && self.routes[1].as_ref().is_none_or(is_due)
        {
            self.routes.swap(0, 1);
            self.routes[1] = Some((at, server.routes.iter().map(counts_of).collect()));
        }
    }

    /// What happened within a window; less, while the server is younger.
    pub(super) fn span(&self, now: Instant, window: Duration) -> Span {
        let is_recent = |(at, _): &&(Instant, Counts)| now.saturating_duration_since(*at) <= window;
        match self.samples.iter().find(is_recent) {
            Some((at, before)) => {
                Span { seconds: now.saturating_duration_since(*at).as_secs_f64(), before: *before }
            }
            None => Span { seconds: 0.0, before: Counts::default() },
        }
    }

    /// What a route did since ten to twenty seconds ago: requests a second, and how long they took.
    pub(super) fn of_route(&self, now: Instant, route: &RouteStatus) -> (f64, Observed) {
        let Some((at, before)) = self.routes.iter().flatten().next() else {
            return (0.0, Observed::default());
        };
        let seconds = now.saturating_duration_since(*at).as_secs_f64();
        let (_, replies, took) = counts_of(route);
        let known = before.iter().find(|(name, ..)| *name == route.name);
        let (replies_before, took_before) =
            known.map_or((0, Observed::default()), |(_, replies, took)| (*replies, *took));
        let more = replies.checked_sub(replies_before).unwrap_or(replies);
        (if seconds > 0.0 { more as f64 / seconds } else { 0.0 }, took.since(&took_before))
    }
}

fn counts_of(route: &RouteStatus) -> RouteCounts {
    (route.name.clone(), route.replies.iter().sum(), route.took)
}
