//! The circuit breaker of one address. The breaker is closed, open or half-open, and all workers share it
//! without a lock.
//!
//! - Closed: it counts requests and failures in a sliding window of ten buckets. The breaker opens when
//!   enough requests were counted and too large a share of them failed.
//! - Open: it refuses requests for a time, and is then half-open.
//! - Half-open: a few requests probe the address. The number of concurrent probes is at most the number that
//!   has to succeed. The breaker closes when that many probes succeeded, and opens again at the first
//!   failure.
//!
//! The result of a request counts only in the state in which the request began.
//!
//! Metrics and status show a half-open breaker as failing, until the probes have succeeded. If no request
//! probes an address for a minute, its condition is unknown, and the state is called untried.
//!
//! The whole state is one word, so a change is one compare-and-swap. The caller passes the time of a
//! monotonic clock in milliseconds. The clock may have any origin.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::BreakerOptions;
use crate::reachability::KNOWN_MS;

const BUCKETS: usize = 10;
/// Bits of each count in a bucket. A bucket is one word: its epoch (the number of the tenth of a window), the
/// requests and the failures.
const COUNT_BITS: u32 = 20;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const EPOCH_MAX: u64 = (1 << (64 - 2 * COUNT_BITS)) - 1;

/// State of the breaker of an address. The best state comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    /// The address gets requests.
    Closed,
    /// The breaker was open, and no request has probed the address for a minute.
    Untried,
    /// The breaker was open. A few requests probe the address, or the next requests will.
    HalfOpen,
    /// The address gets no requests.
    Open,
}

impl BreakerState {
    /// All states of a breaker.
    pub const ALL: [Self; 4] = [Self::Closed, Self::Untried, Self::HalfOpen, Self::Open];

    /// Returns the name in metrics and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Untried => "untried",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }

    /// Returns whether the address counts as failing: open or half-open.
    pub const fn is_failing(self) -> bool {
        matches!(self, Self::HalfOpen | Self::Open)
    }
}

/// The decoded state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// Requests are refused until `until_ms`.
    Open {
        until_ms: u64,
    },
    /// `since_ms` is the time when this state began, or when the last probe ended. `trying` and `succeeded`
    /// count probes.
    HalfOpen {
        since_ms: u64,
        trying: u64,
        succeeded: u64,
    },
}

const TAG_BITS: u32 = 2;
const PROBE_BITS: u32 = 12;
const PROBES_MAX: u64 = (1 << PROBE_BITS) - 1;
/// Maximum time in a word, in milliseconds: about eight years.
const TIME_MAX: u64 = (1 << (64 - TAG_BITS - 2 * PROBE_BITS)) - 1;

impl State {
    fn of(word: u64) -> Self {
        let time = word >> (TAG_BITS + 2 * PROBE_BITS);
        match word & 3 {
            0 => Self::Closed,
            1 => Self::Open { until_ms: time },
            _ => Self::HalfOpen {
                since_ms: time,
                trying: word >> (TAG_BITS + PROBE_BITS) & PROBES_MAX,
                succeeded: word >> TAG_BITS & PROBES_MAX,
            },
        }
    }

    fn word(self) -> u64 {
        let time = |ms: u64| ms.min(TIME_MAX) << (TAG_BITS + 2 * PROBE_BITS);
        match self {
            Self::Closed => 0,
            Self::Open { until_ms } => time(until_ms) | 1,
            Self::HalfOpen { since_ms, trying, succeeded } => {
                time(since_ms) | trying << (TAG_BITS + PROBE_BITS) | succeeded << TAG_BITS | 2
            }
        }
    }
}

/// Permission to send a request to an address. The kind of permission decides how the result of the request
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerPermit {
    /// The request is a normal one.
    Usual,
    /// The request is a probe. The half-open state began at `since_ms`.
    Probe { since_ms: u64 },
    /// The request already counted as a success while its content was arriving.
    Counted,
}

/// Result of an attempt, reduced to its meaning for the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    Success,
    Failure,
    /// The client cancelled the request, or the address was not the cause of the failure.
    None,
}

/// A state change of a breaker, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerChange {
    Opened {
        requests: u64,
        failures: u64,
    },
    /// A probe failed.
    OpenedAgain,
    Closed,
}

#[derive(Debug)]
pub(crate) struct Breaker {
    window_ms: u64,
    requests_min: u64,
    failure_percent: u64,
    open_ms: u64,
    probes: u64,
    state: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Breaker {
    pub(crate) fn new(options: &BreakerOptions) -> Self {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(TIME_MAX).max(1);
        Self {
            window_ms: ms(options.window).max(BUCKETS as u64),
            requests_min: options.requests_min.into(),
            failure_percent: options.failure_percent.into(),
            open_ms: ms(options.open),
            probes: u64::from(options.probes).clamp(1, PROBES_MAX),
            state: AtomicU64::new(State::Closed.word()),
            buckets: Default::default(),
        }
    }

    pub(crate) fn state(&self, now_ms: u64) -> BreakerState {
        match State::of(self.state.load(Ordering::Relaxed)) {
            State::Closed => BreakerState::Closed,
            State::Open { until_ms } if now_ms < until_ms => BreakerState::Open,
            State::Open { until_ms: since_ms } | State::HalfOpen { since_ms, trying: 0, .. }
                if now_ms >= since_ms + KNOWN_MS =>
            {
                BreakerState::Untried
            }
            State::Open { .. } | State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Returns `None` if a request would be admitted now. If the request would be refused, returns the time
    /// until the next check is useful.
    pub(crate) fn refusal(&self, now_ms: u64) -> Option<Duration> {
        match State::of(self.state.load(Ordering::Relaxed)) {
            State::Open { until_ms } if now_ms < until_ms => Some(Duration::from_millis(until_ms - now_ms)),
            State::HalfOpen { trying, succeeded, .. } if trying + succeeded >= self.probes => {
                Some(Duration::ZERO)
            }
            State::Closed | State::Open { .. } | State::HalfOpen { .. } => None,
        }
    }

    /// Admits a request, if the state allows it.
    pub(crate) fn admit(&self, now_ms: u64) -> Option<BreakerPermit> {
        let mut word = self.state.load(Ordering::Relaxed);
        loop {
            let (next, pass) = match State::of(word) {
                State::Closed => return Some(BreakerPermit::Usual),
                State::Open { until_ms } if now_ms < until_ms => return None,
                State::Open { .. } => (
                    State::HalfOpen { since_ms: now_ms, trying: 1, succeeded: 0 },
                    BreakerPermit::Probe { since_ms: now_ms },
                ),
                State::HalfOpen { since_ms, trying, succeeded } => {
                    if trying + succeeded >= self.probes {
                        return None;
                    }
                    let next = State::HalfOpen { since_ms, trying: trying + 1, succeeded };
                    (next, BreakerPermit::Probe { since_ms })
                }
            };
            match self.swap(word, next) {
                Ok(()) => return Some(pass),
                Err(found) => word = found,
            }
        }
    }

    /// Records the result of an admitted request. Call it once for each permit.
    pub(crate) fn conclude(
        &self,
        pass: BreakerPermit,
        result: AttemptResult,
        now_ms: u64,
    ) -> Option<BreakerChange> {
        match pass {
            BreakerPermit::Usual => self.count(1, result, now_ms),
            BreakerPermit::Counted if result == AttemptResult::Failure => self.count(0, result, now_ms),
            BreakerPermit::Counted => None,
            BreakerPermit::Probe { since_ms } => self.conclude_probe(since_ms, result, now_ms),
        }
    }

    fn count(&self, more_requests: u64, result: AttemptResult, now_ms: u64) -> Option<BreakerChange> {
        let more_failures = match result {
            AttemptResult::None => return None,
            AttemptResult::Success => 0,
            AttemptResult::Failure => 1,
        };
        let closed = State::Closed.word();
        if self.state.load(Ordering::Relaxed) != closed {
            return None;
        }
        let epoch = self.epoch(now_ms);
        let bucket = &self.buckets[(now_ms * BUCKETS as u64 / self.window_ms) as usize % BUCKETS];
        let more = |word: u64| {
            let (of, requests, failed) = counts(word);
            let (requests, failed) = if of == epoch { (requests, failed) } else { (0, 0) };
            let (requests, failed) = (requests + more_requests, failed + more_failures);
            Some(packed(epoch, requests.min(COUNT_MAX), failed.min(COUNT_MAX)))
        };
        // The closure never returns `None`, so the update succeeds.
        let _ = bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if more_failures == 0 {
            return None;
        }
        let (requests, failures) = self.sum(epoch);
        if requests < self.requests_min || failures * 100 < self.failure_percent * requests {
            return None;
        }
        let open = State::Open { until_ms: now_ms + self.open_ms };
        self.swap(closed, open).is_ok().then_some(BreakerChange::Opened { requests, failures })
    }

    fn conclude_probe(&self, since_ms: u64, result: AttemptResult, now_ms: u64) -> Option<BreakerChange> {
        let mut word = self.state.load(Ordering::Relaxed);
        loop {
            let State::HalfOpen { since_ms: since, trying, succeeded } = State::of(word) else { return None };
            if since != since_ms.min(TIME_MAX) {
                return None;
            }
            let trying = trying.saturating_sub(1);
            // If no other probe runs, no permit refers to the earlier `since_ms`, so this time may change.
            let since_ms = if trying == 0 { now_ms } else { since_ms };
            let (next, change) = match result {
                AttemptResult::None => (State::HalfOpen { since_ms, trying, succeeded }, None),
                AttemptResult::Failure => {
                    (State::Open { until_ms: now_ms + self.open_ms }, Some(BreakerChange::OpenedAgain))
                }
                AttemptResult::Success if succeeded + 1 >= self.probes => {
                    (State::Closed, Some(BreakerChange::Closed))
                }
                AttemptResult::Success => {
                    (State::HalfOpen { since_ms, trying, succeeded: succeeded + 1 }, None)
                }
            };
            if next == State::Closed {
                // No request is counted while the breaker is not closed.
                self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
            }
            match self.swap(word, next) {
                Ok(()) => return change,
                Err(found) => word = found,
            }
        }
    }

    fn swap(&self, from: u64, to: State) -> Result<(), u64> {
        let swapped = self.state.compare_exchange(from, to.word(), Ordering::AcqRel, Ordering::Relaxed);
        swapped.map(drop)
    }

    /// Returns the epoch: the number of the current tenth of a window.
    fn epoch(&self, now_ms: u64) -> u64 {
        // Epochs begin at 1, so that an empty bucket belongs to no epoch.
        now_ms * BUCKETS as u64 / self.window_ms % EPOCH_MAX + 1
    }

    fn sum(&self, epoch: u64) -> (u64, u64) {
        let words = self.buckets.iter().map(|bucket| counts(bucket.load(Ordering::Relaxed)));
        let recent = words.filter(|(of, ..)| epoch >= *of && epoch - *of < BUCKETS as u64);
        recent.fold((0, 0), |(requests, failures), (_, more, failed)| (requests + more, failures + failed))
    }
}

fn counts(word: u64) -> (u64, u64, u64) {
    (word >> (2 * COUNT_BITS), word >> COUNT_BITS & COUNT_MAX, word & COUNT_MAX)
}

fn packed(epoch: u64, requests: u64, failures: u64) -> u64 {
    epoch << (2 * COUNT_BITS) | requests << COUNT_BITS | failures
}

#[cfg(test)]
mod tests;
