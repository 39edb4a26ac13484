//! Finds routes whose last requests nearly all failed, whatever the cause.
//!
//! A request fails if its reply is 5xx, or if the server refuses it before the handler: for its method,
//! content type, credentials or preflight, or because the server cannot take it. A refusal by a limit of the
//! configuration is no failure, because the limit does its work. A 404 of a handler is no failure either.
//!
//! The watcher adds the counts of all routes once a second. No request does any work for this.

use std::collections::BTreeMap;
use std::time::Instant;

use tollgate_meter::{OutcomeBlock, RecentOutcomes};
use tollgate_server::{RouteName, RouteStatus};

/// A route is failing if this share of its last requests failed, in percent.
const FAILED_PERCENT_MIN: u64 = 90;
/// Refusals by limits that the configuration sets for each client or route.
const LIMITS: [&str; 4] = ["rate", "concurrency", "client_connections", "failed_logins"];
/// The cause of a 5xx reply that neither a refusal nor a script explains.
const STATUS: &str = "status 5xx";

/// A route that is failing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailingRoute {
    pub(super) name: RouteName,
    pub(super) requests: OutcomeBlock,
    /// The most frequent cause of the last failures.
    pub(super) cause: &'static str,
}

/// The recent requests of all routes.
#[derive(Default)]
pub(super) struct RouteFailures(BTreeMap<RouteName, RecentRequests>);

struct RecentRequests {
    outcomes: RecentOutcomes,
    before: RequestCounts,
    cause: &'static str,
}

/// The requests of a route since its start.
#[derive(Debug, Default)]
struct RequestCounts {
    answered: u64,
    status_5xx: u64,
    /// Refusals and failures of scripts, by reason.
    refusals: Vec<(&'static str, u64)>,
    script_failures: Vec<(&'static str, u64)>,
}

impl RouteFailures {
    /// Adds the requests since the last call. Forgets routes that the configuration no longer has.
    pub(super) fn note(&mut self, now: Instant, routes: &[RouteStatus]) {
        let mut before = std::mem::take(&mut self.0);
        for route in routes {
            let counts = RequestCounts::of(route);
            let known = before.remove_entry(&route.name);
            let (name, mut recent) = known.unwrap_or_else(|| (route.name.clone(), RecentRequests::new()));
            recent.note(now, counts);
            self.0.insert(name, recent);
        }
    }

    /// Returns the failing routes, the one with the most failures first.
    pub(super) fn failing(&self, now: Instant) -> Vec<FailingRoute> {
        let failing = |(name, recent): (&RouteName, &RecentRequests)| {
            let requests = recent.outcomes.latest(now)?;
            let is_failing = requests.bad * 100 >= requests.all() * FAILED_PERCENT_MIN;
            is_failing.then(|| FailingRoute { name: name.clone(), requests, cause: recent.cause })
        };
        let mut routes: Vec<_> = self.0.iter().filter_map(failing).collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.requests.bad));
        routes
    }
}

impl RecentRequests {
    fn new() -> Self {
        Self { outcomes: RecentOutcomes::default(), before: RequestCounts::default(), cause: STATUS }
    }

    fn note(&mut self, now: Instant, counts: RequestCounts) {
        let before = &self.before;
        let answered = counts.answered.saturating_sub(before.answered);
        let status_5xx = counts.status_5xx.saturating_sub(before.status_5xx);
        let refusals = increases(&counts.refusals, &before.refusals);
        let refused: u64 = refusals.iter().map(|(_, count)| count).sum();
        let by_scripts = increases(&counts.script_failures, &before.script_failures);
        let explained: u64 = by_scripts.iter().map(|(_, count)| count).sum();
        let unexplained = (STATUS, status_5xx.saturating_sub(explained));
        let causes = refusals.into_iter().chain(by_scripts).chain([unexplained]);
        if let Some((cause, 1..)) = causes.max_by_key(|(_, count)| *count) {
            self.cause = cause;
        }
        self.outcomes.add(now, answered.saturating_sub(status_5xx), status_5xx + refused);
        self.before = counts;
    }
}

impl RequestCounts {
    fn of(route: &RouteStatus) -> Self {
        let is_failure = |(reason, count): &&(&str, u64)| *count > 0 && !LIMITS.contains(reason);
        Self {
            answered: route.replies.iter().sum(),
            status_5xx: route.replies[4],
            refusals: route.refusals.iter().filter(is_failure).copied().collect(),
            script_failures: route.script_failures.iter().filter(|(_, count)| *count > 0).copied().collect(),
        }
    }
}

/// Returns the increase of each count. A reload may begin the counts of a route anew, and that is no
/// increase.
fn increases(now: &[(&'static str, u64)], before: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
    let before_of = |name| before.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
    now.iter().map(|(name, count)| (*name, count.saturating_sub(before_of(*name)))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_meter::Observed;

    use super::*;

    /// The counts of a route: 2xx, 4xx and 5xx replies, refusals and failures of scripts by reason.
    type Counts = ([u64; 3], (&'static str, u64), (&'static str, u64));

    fn route((replies, refused, script): Counts) -> RouteStatus {
        let name = RouteName { path: "/a".to_owned(), host: None, methods: None };
        let [ok, client, server] = replies;
        let replies = [0, ok, 0, client, server];
        let (refusals, script_failures) = (vec![refused], vec![script]);
        RouteStatus {
            name,
            replies,
            took: Observed::default(),
            script_failures,
            refusals,
            judged: Vec::new(),
        }
    }

    /// Returns the failed requests, all requests and the cause after counts that were seen every second.
    fn found(counts: &[Counts], seconds: u64) -> Option<(u64, u64, &'static str)> {
        let (begun, mut failures) = (Instant::now(), RouteFailures::default());
        for (second, counts) in (0..).zip(counts) {
            failures.note(begun + Duration::from_secs(second), &[route(*counts)]);
        }
        let failing = failures.failing(begun + Duration::from_secs(seconds));
        failing.first().map(|route| (route.requests.bad, route.requests.all(), route.cause))
    }

    #[test]
    fn a_route_is_failing_by_each_cause_and_not_by_few_requests_or_by_limits() {
        let (no, none) = (("method", 0), ("error", 0));
        let check = |counts: Counts, expected| assert_eq!(found(&[counts], 6), expected, "{counts:?}");
        check(([0, 0, 9], no, none), None);
        check(([0, 0, 10], no, none), Some((10, 10, STATUS)));
        check(([0, 0, 10], no, ("cpu_budget", 10)), Some((10, 10, "cpu_budget")));
        for reason in ["method", "content_type", "credentials", "preflight", "disk"] {
            check(([0, 0, 0], (reason, 20), none), Some((20, 20, reason)));
            check(([2, 0, 0], (reason, 18), none), Some((18, 20, reason)));
            check(([3, 0, 0], (reason, 17), none), None);
        }
        check(([0, 100, 0], no, none), None);
        for limit in LIMITS {
            check(([0, 0, 0], (limit, 100), none), None);
        }
    }

    #[test]
    fn a_route_that_works_again_is_no_longer_failing() {
        let (no, none) = (("method", 0), ("error", 0));
        let counts = |ok, failed| ([ok, 0, failed], no, none);
        let mut all = vec![counts(100, 0), counts(100, 10)];
        assert_eq!(found(&all, 5), None, "the first block has the good requests too");
        all.extend((0..6).map(|_| counts(100, 10)).chain([counts(100, 30), counts(100, 30)]));
        assert_eq!(found(&all, 14), Some((20, 20, STATUS)));
        all.extend((0..10).map(|second| counts(105 + 5 * second, 30)));
        assert_eq!(found(&all, 22), None);
    }

    #[test]
    fn a_reload_that_begins_the_counts_anew_adds_nothing() {
        let (no, none) = (("method", 0), ("error", 0));
        let counts = |failed| ([0, 0, failed], no, none);
        assert_eq!(found(&[counts(9), counts(3), counts(3)], 6), None);
        assert_eq!(found(&[counts(9), counts(3), counts(4)], 6), Some((10, 10, STATUS)));
    }
}
