//! Samples of the last minute, for rates and quantiles: one each second, and one of each route every ten
//! seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tollgate_meter::Observed;
use tollgate_server::{RouteName, RouteStatus};

use super::counts::{Counts, Tally};
use super::seen::Seen;

/// Time span of rates and quantiles.
pub(super) const RATE_WINDOW: Duration = Duration::from_secs(10);
pub(super) const LATENCY_WINDOW: Duration = Duration::from_secs(60);
const SAMPLES_MAX: usize = 62;

/// The events between two moments.
pub(super) struct RateSpan {
    pub(super) seconds: f64,
    pub(super) before: Counts,
}

impl RateSpan {
    /// Returns the count per second.
    pub(super) fn rate(&self, now: u64, before: impl Fn(&Counts) -> u64) -> f64 {
        let more = now.saturating_sub(before(&self.before));
        if self.seconds > 0.0 { more as f64 / self.seconds } else { 0.0 }
    }
}

/// The counts of a route at one moment.
struct RouteCounts {
    name: RouteName,
    /// Requests with a reply of the handler, and requests that were refused before it.
    requests: u64,
    failures: u64,
    took: Observed,
}

impl RouteCounts {
    fn of(route: &RouteStatus) -> Self {
        let requests = route.replies.iter().sum::<u64>() + route.refused();
        Self { name: route.name.clone(), requests, failures: route.failures(), took: route.took }
    }
}

/// The rates and latencies of a route.
#[derive(Default)]
pub(super) struct RouteRates {
    pub(super) requests: f64,
    pub(super) failures: f64,
    pub(super) took: Observed,
}

#[derive(Default)]
pub(super) struct Samples {
    tally: Tally,
    samples: VecDeque<(Instant, Counts)>,
    /// The last two samples of the routes.
    routes: [Option<(Instant, Vec<RouteCounts>)>; 2],
}

impl Samples {
    /// Takes a sample. Returns its counts.
    pub(super) fn note(&mut self, at: Instant, seen: &Seen) -> Counts {
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        let counts = self.counts(seen);
        self.samples.push_back((at, counts));
        self.tally.look(seen);
        let is_due = |(last, _): &(Instant, _)| at.saturating_duration_since(*last) >= RATE_WINDOW;
        if let Some(server) = &seen.server
            && self.routes[1].as_ref().is_none_or(is_due)
        {
            self.routes.swap(0, 1);
            self.routes[1] = Some((at, server.routes.iter().map(RouteCounts::of).collect()));
        }
        counts
    }

    /// Returns the counts at this moment, which never become less.
    pub(super) fn counts(&self, seen: &Seen) -> Counts {
        self.tally.counts(seen)
    }

    /// Returns the events within the last `window`, or since the start of the server if the server is younger
    /// than `window`.
    pub(super) fn span(&self, now: Instant, window: Duration) -> RateSpan {
        let is_recent = |(at, _): &&(Instant, Counts)| now.saturating_duration_since(*at) <= window;
        match self.samples.iter().find(is_recent) {
            Some((at, before)) => {
                RateSpan { seconds: now.saturating_duration_since(*at).as_secs_f64(), before: *before }
            }
            None => RateSpan { seconds: 0.0, before: Counts::default() },
        }
    }

    /// Returns the rates and latencies of a route, over the last ten to twenty seconds.
    pub(super) fn of_route(&self, now: Instant, route: &RouteStatus) -> RouteRates {
        let Some((at, before)) = self.routes.iter().flatten().next() else { return RouteRates::default() };
        let seconds = now.saturating_duration_since(*at).as_secs_f64();
        let counts = RouteCounts::of(route);
        let known = before.iter().find(|known| known.name == route.name);
        let (requests, failures, took) =
            known.map_or_else(Default::default, |known| (known.requests, known.failures, known.took));
        let rate = |now: u64, before| {
            let more = now.checked_sub(before).unwrap_or(now);
            if seconds > 0.0 { more as f64 / seconds } else { 0.0 }
        };
        RouteRates {
            requests: rate(counts.requests, requests),
            failures: rate(counts.failures, failures),
            took: counts.took.since(&took),
        }
    }
}
