//! The counts of a server at one moment. A reload or the end of a loader takes nothing away from them.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_meter::Observed;
use tollgate_server::{RouteName, RouteStatus};

use super::seen::Seen;

/// Counts at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) replies: u64,
    /// Number of replies with a 5xx status.
    pub(super) failures: u64,
    /// Number of replies with a 4xx status.
    pub(super) client_errors: u64,
    pub(super) refusals: u64,
    pub(super) accepted: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) records: u64,
    pub(super) log_bytes: u64,
    pub(super) rows: u64,
    pub(super) rejects: u64,
    /// Processor time of the process in milliseconds.
    pub(super) cpu_ms: u64,
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
        self.client_errors += now.client_errors.saturating_sub(before.client_errors);
        self.rows += now.rows - before.rows;
        self.rejects += now.rejects.saturating_sub(before.rejects);
        self.took.add(&now.took.since(&before.took));
    }

    /// Adds the counts of the server as a whole and of the log. No reload and no end of a loader removes
    /// these counts.
    fn add_whole(&mut self, seen: &Seen) {
        self.cpu_ms = (seen.process.cpu_seconds * 1000.0).round() as u64;
        if let Some(server) = &seen.server {
            self.replies += server.unrouted.iter().sum::<u64>();
            self.failures += server.unrouted[4];
            self.client_errors += server.unrouted[3];
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
        let [.., client_errors, failures] = route.replies;
        let counts = Counts { replies, failures, client_errors, took: route.took, ..Counts::default() };
        (CountSource::Route(route.name.clone()), counts)
    };
    let of_loader = |report: &Value| {
        let source = CountSource::Loader(report["sink"].as_str()?.to_owned(), report["process"].as_u64()?);
        let (rows, rejects) = (report["rows"].as_u64()?, report["rejects"].as_u64()?);
        Some((source, Counts { rows, rejects, ..Counts::default() }))
    };
    let routes = seen.server.iter().flat_map(|server| &server.routes).map(of_route);
    routes.chain(seen.sinks.iter().filter_map(of_loader)).collect()
}

/// The sums over all sources, including removed sources. The sums never become less.
#[derive(Default)]
pub(super) struct Tally {
    total: Counts,
    /// The counts of the last sample.
    last: CountsBySource,
}

impl Tally {
    /// Returns the counts at this moment, which never become less.
    pub(super) fn counts(&self, seen: &Seen) -> Counts {
        let mut counts = self.with(&counts_by_source(seen));
        counts.add_whole(seen);
        counts
    }

    /// Takes a sample.
    pub(super) fn look(&mut self, seen: &Seen) {
        self.add(counts_by_source(seen));
    }

    /// Returns the sums with the counts since the last sample.
    fn with(&self, counts: &CountsBySource) -> Counts {
        let mut total = self.total;
        for (source, now) in counts {
            match (self.last.get(source), source) {
                (Some(before), _) => total.add_since(now, before),
                (None, CountSource::Route(_)) => total.add_since(now, &Counts::default()),
                (None, CountSource::Loader(_, process)) if *process == u64::from(std::process::id()) => {
                    total.add_since(now, &Counts::default());
                }
                // The loader of another process may have counted for long before its first report.
                (None, CountSource::Loader(..)) => {}
            }
        }
        total
    }

    fn add(&mut self, counts: CountsBySource) {
        self.total = self.with(&counts);
        self.last = counts;
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
            tally.add(parts.iter().cloned().collect());
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
