//! Samples of the last minute, for rates and quantiles: one each second, and one of each route every ten
//! seconds.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_meter::Observed;
use tollgate_server::{RouteName, RouteStatus};

use super::seen::Seen;

/// Time span of rates and quantiles.
pub(super) const RATE_WINDOW: Duration = Duration::from_secs(10);
pub(super) const LATENCY_WINDOW: Duration = Duration::from_secs(60);
const SAMPLES_MAX: usize = 62;

/// Counts at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) replies: u64,
    /// Number of replies with a 5xx status.
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
    /// Adds the events that a source counted since the last sample. If the count of a source is smaller than
    /// before, no events are added, because the source restarted or its workers end one by one.
    fn add_since(&mut self, now: &Self, before: &Self) {
        if now.replies < before.replies || now.rows < before.rows {
            return;
        }
        self.replies += now.replies - before.replies;
        self.failures += now.failures.saturating_sub(before.failures);
        self.rows += now.rows - before.rows;
        self.took.add(&now.took.since(&before.took));
    }

    /// Adds the counts of the server as a whole and of the log. No reload and no end of a loader removes
    /// these counts.
    fn add_whole(&mut self, seen: &Seen) {
        if let Some(server) = &seen.server {
            self.replies += server.unrouted.iter().sum::<u64>();
            self.failures += server.unrouted[4];
            self.refusals = server.refusals.iter().map(|(_, count)| count).sum();
            self.accepted = server.accepted;
            (self.received_bytes, self.sent_bytes) = (server.received_bytes, server.sent_bytes);
        }
        if let Some(log) = &seen.log {
            (self.records, self.log_bytes, self.syncs) = (log.records, log.bytes, log.syncs);
        }
    }
}

/// A route or a loader, with separate counts. A reload adds or removes routes. A process adds or removes
/// loaders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum CountSource {
    Route(RouteName),
    /// A sink, by its name, and the process that loads it.
    Loader(String, u64),
}

type CountsBySource = BTreeMap<CountSource, Counts>;

fn counts_by_source(seen: &Seen) -> CountsBySource {
    let of_route = |route: &RouteStatus| {
        let replies = route.replies.iter().sum();
        let counts = Counts { replies, failures: route.replies[4], took: route.took, ..Counts::default() };
        (CountSource::Route(route.name.clone()), counts)
    };
    let of_loader = |report: &Value| {
        let source = CountSource::Loader(report["sink"].as_str()?.to_owned(), report["process"].as_u64()?);
        Some((source, Counts { rows: report["rows"].as_u64()?, ..Counts::default() }))
    };
    let routes = seen.server.iter().flat_map(|server| &server.routes).map(of_route);
    routes.chain(seen.sinks.iter().filter_map(of_loader)).collect()
}

/// The sums over all sources, including removed sources. The sums never become less.
#[derive(Default)]
struct Tally {
    total: Counts,
    /// The counts of the last sample.
    last: CountsBySource,
}

impl Tally {
    /// Returns the sums with the counts since the last sample.
    fn with(&self, counts: &CountsBySource) -> Counts {
        let mut total = self.total;
        for (source, now) in counts {
            match (self.last.get(source), source) {
                (Some(before), _) => total.add_since(now, before),
                (None, CountSource::Route(_)) => total.add_since(now, &Counts::default()),
                // A loader counts from the start of its process, which may have been long before its first
                // report.
                (None, CountSource::Loader(..)) => {}
            }
        }
        total
    }

    fn look(&mut self, counts: CountsBySource) {
        self.total = self.with(&counts);
        self.last = counts;
    }
}

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
pub(super) struct History {
    tally: Tally,
    samples: VecDeque<(Instant, Counts)>,
    /// The last two samples of the routes.
    routes: [Option<(Instant, Vec<RouteCounts>)>; 2],
}

impl History {
    /// Takes a sample.
    pub(super) fn note(&mut self, at: Instant, seen: &Seen) {
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((at, self.counts(seen)));
        self.tally.look(counts_by_source(seen));
        let is_due = |(last, _): &(Instant, _)| at.saturating_duration_since(*last) >= RATE_WINDOW;
        if let Some(server) = &seen.server
            && self.routes[1].as_ref().is_none_or(is_due)
        {
            self.routes.swap(0, 1);
            self.routes[1] = Some((at, server.routes.iter().map(RouteCounts::of).collect()));
        }
    }

    /// Returns the counts at this moment, which never become less.
    pub(super) fn counts(&self, seen: &Seen) -> Counts {
        let mut counts = self.tally.with(&counts_by_source(seen));
        counts.add_whole(seen);
        counts
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

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str, replies: u64, failures: u64) -> (CountSource, Counts) {
        let name = RouteName { path: path.to_owned(), host: None, methods: None };
        (CountSource::Route(name), Counts { replies, failures, ..Counts::default() })
    }

    fn loader(process: u64, rows: u64) -> (CountSource, Counts) {
        (CountSource::Loader("main".to_owned(), process), Counts { rows, ..Counts::default() })
    }

    /// Returns the total replies, failures and rows after each sample.
    fn totals<const LOOKS: usize>(looks: [&[(CountSource, Counts)]; LOOKS]) -> [[u64; 3]; LOOKS] {
        let mut tally = Tally::default();
        looks.map(|parts| {
            tally.look(parts.iter().cloned().collect());
            [tally.total.replies, tally.total.failures, tally.total.rows]
        })
    }

    #[test]
    fn a_route_that_goes_takes_nothing_away_and_adds_nothing() {
        let found = totals([
            &[route("/a", 20_000, 500), route("/b", 10_000, 9)],
            // The first of two workers serves without the route.
            &[route("/a", 9_000, 200), route("/b", 10_000, 9)],
            &[route("/b", 10_000, 9)],
            &[route("/a", 3, 1), route("/b", 10_001, 9)],
        ]);
        assert_eq!(found, [[30_000, 509, 0], [30_000, 509, 0], [30_000, 509, 0], [30_004, 510, 0]]);
    }

    #[test]
    fn rows_of_a_loader_before_it_was_seen_are_no_rows_of_now() {
        let found = totals([
            &[loader(1, 1_000_000)],
            &[loader(1, 1_000_010)],
            &[],
            &[loader(1, 1_000_020)],
            &[loader(1, 1_000_025), loader(2, 7)],
        ]);
        assert_eq!(found.map(|[.., rows]| rows), [0, 10, 10, 10, 15]);
    }
}
