//! Limits one route over all workers: the number of requests that run at once, and the rate of requests. A
//! rate applies to each client, to each key, or to all requests together.
//!
//! The limits are checked when the head of a request is complete, before any other work. A reload keeps the
//! counts while the route and the rule are unchanged.

mod bucket;
mod failed_logins;
mod keys;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tollgate_http::{RequestHead, StatusCode};

use crate::observe::{Refusal, RouteName};
use crate::options::stream::{Source, named};
use crate::options::{RateKey, RateSpec, RouteLimits, RouteSpec};
use crate::reply::Reply;
use bucket::Bucket;
pub(crate) use failed_logins::FailedLogins;
use keys::Keys;
use tollgate_meter::OncePerPause;

/// The limits of one route.
#[derive(Debug)]
pub(crate) struct Throttle {
    name: RouteName,
    concurrency_max: u32,
    running: Arc<AtomicU32>,
    rates: Vec<Arc<Rate>>,
}

/// One rate rule, and its counts.
#[derive(Debug)]
struct Rate {
    spec: RateSpec,
    bucket: Bucket,
    keys: Keys,
    begun: Instant,
}

/// Permit that counts one running request of a route, until the permit is dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit(Arc<AtomicU32>);

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reason why a request exceeds the limits of its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// The maximum number of requests already runs.
    Concurrency,
    /// The rate is exceeded. The next request may come after `wait_s` seconds.
    Rate { wait_s: u64 },
}

/// Sender of a request that exceeds a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender<'a> {
    /// The address of the client. `None` for a Unix socket.
    Client(Option<IpAddr>),
    /// The name of the caller, whose credentials were checked.
    Caller(&'a str),
}

/// Minimum time between two log lines for one route.
const LINE_PAUSE: Duration = Duration::from_secs(10);

/// Logs that a route refuses requests, at most once in [`LINE_PAUSE`].
pub(crate) struct ThrottleLines(OncePerPause);

impl ThrottleLines {
    pub(crate) fn new() -> Self {
        Self(OncePerPause::new(LINE_PAUSE))
    }

    pub(crate) fn note(
        &self,
        route: &str,
        throttle: &Throttle,
        excess: Excess,
        sender: Sender<'_>,
        now: Instant,
    ) {
        self.0.note();
        if let Some(refused) = self.0.due(now) {
            let (reason, limit) = (excess.refusal().name(), throttle.limit(excess));
            let (client, caller) = match sender {
                Sender::Client(client) => (client.map(tracing::field::display), None),
                Sender::Caller(name) => (None, Some(name)),
            };
            tracing::warn!(
                route,
                reason,
                limit,
                refused,
                client,
                caller,
                "requests exceed a limit of the route: the route refuses them"
            );
        }
    }
}

impl Excess {
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::Concurrency => Refusal::Concurrency,
            Self::Rate { .. } => Refusal::Rate,
        }
    }

    pub(crate) fn reply(self) -> Reply {
        let (status, content, wait_s) = match self {
            Self::Concurrency => (StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_AT_ONCE, 1),
            Self::Rate { wait_s } => (StatusCode::TOO_MANY_REQUESTS, TOO_MANY, wait_s),
        };
        let mut reply = Reply::empty(status);
        reply.lines = Bytes::from_static(REFUSED_LINES);
        reply.content = Bytes::from_static(content);
        reply.with("Retry-After", wait_s.to_string())
    }
}

/// The lines of [`Reply::refused`], already encoded, because a refusal has to be cheap.
const REFUSED_LINES: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\nTollgate-Outcome: refused\r\n";
const TOO_MANY_AT_ONCE: &[u8] = b"too many requests of this route run at once: nothing was recorded\n";
const TOO_MANY: &[u8] = b"too many requests: nothing was recorded\n";

impl Throttle {
    /// Creates the limits of a route, with the counts of the same route in `before`. Returns `None` if the
    /// route has no limits.
    pub(crate) fn new(spec: &RouteSpec, before: &[Option<Arc<Self>>]) -> Option<Arc<Self>> {
        let RouteLimits { concurrency_max, rates } = &spec.limits;
        if concurrency_max.is_none() && rates.is_empty() {
            return None;
        }
        let name = RouteName::of(spec);
        let before = before.iter().flatten().find(|before| before.name == name);
        let known = |spec: &RateSpec| before?.rates.iter().find(|rate| rate.spec == *spec).cloned();
        let rate = |spec| known(spec).unwrap_or_else(|| Arc::new(Rate::new(spec)));
        Some(Arc::new(Self {
            concurrency_max: concurrency_max.unwrap_or(u32::MAX),
            running: before.map_or_else(Arc::default, |before| before.running.clone()),
            rates: rates.iter().map(rate).collect(),
            name,
        }))
    }

    /// Returns the exceeded limit as text for log lines.
    fn limit(&self, excess: Excess) -> String {
        match excess {
            Excess::Concurrency => format!("{} at once", self.concurrency_max),
            Excess::Rate { .. } => {
                let one =
                    |rate: &Arc<Rate>| format!("{} in {} s", rate.spec.count, rate.spec.period.as_secs());
                self.rates.iter().map(one).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Admits a request, or returns the exceeded limit. A rule also counts requests that a later rule
    /// refuses.
    pub(crate) fn admit(
        &self,
        head: &RequestHead,
        client: impl Fn() -> Option<IpAddr>,
        now: Instant,
    ) -> Result<RequestPermit, Excess> {
        for rate in self.rates.iter().filter(|rate| !rate.is_by_caller()) {
            rate.take(head, &client, now).map_err(|wait_s| Excess::Rate { wait_s })?;
        }
        if self.running.fetch_add(1, Ordering::Relaxed) >= self.concurrency_max {
            self.running.fetch_sub(1, Ordering::Relaxed);
            return Err(Excess::Concurrency);
        }
        Ok(RequestPermit(self.running.clone()))
    }

    /// Admits a request whose caller is known, or returns the exceeded limit. This call checks the rules that
    /// count by the name of the caller.
    pub(crate) fn admit_caller(&self, name: &str, now: Instant) -> Result<(), Excess> {
        for rate in self.rates.iter().filter(|rate| rate.is_by_caller()) {
            rate.take_of_caller(name, now).map_err(|wait_s| Excess::Rate { wait_s })?;
        }
        Ok(())
    }
}

impl Rate {
    fn new(spec: &RateSpec) -> Self {
        Self {
            bucket: Bucket::new(spec.count, spec.period, spec.burst),
            keys: Keys::new(if spec.by == RateKey::Route { 1 } else { spec.keys_max }),
            begun: Instant::now(),
            spec: spec.clone(),
        }
    }

    /// Returns whether the rule counts by the name of the caller, which is known only after its credentials
    /// were checked.
    fn is_by_caller(&self) -> bool {
        self.spec.by == RateKey::Named(Source::RequestAuthName)
    }

    /// Removes a token of a caller, or returns the seconds until a token is available.
    fn take_of_caller(&self, name: &str, now: Instant) -> Result<(), u64> {
        let taken = self.keys.take_of_key(name.as_bytes(), &self.bucket, self.now_ns(now));
        taken.map_err(whole_seconds)
    }

    fn now_ns(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.begun).as_nanos() as u64
    }

    /// Removes a token, or returns the seconds until a token is available.
    fn take(&self, head: &RequestHead, client: impl Fn() -> Option<IpAddr>, now: Instant) -> Result<(), u64> {
        let now_ns = self.now_ns(now);
        let taken = match &self.spec.by {
            RateKey::Route => self.keys.take_of_all(&self.bucket, now_ns),
            RateKey::Client => self.keys.take_of_client(client(), &self.bucket, now_ns),
            RateKey::Named(source) => match named(head, source) {
                Some(key) => self.keys.take_of_key(&key, &self.bucket, now_ns),
                None => self.keys.take_of_client(client(), &self.bucket, now_ns),
            },
        };
        taken.map_err(whole_seconds)
    }
}

/// Rounds a time up to whole seconds, for `Retry-After`.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests;
