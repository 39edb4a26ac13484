//! Sends requests: picks the address, and decides about retries.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_http::StatusCode;

use crate::attempt::{Attempt, KeptConnection};
use crate::backend::count;
use crate::breaker::AttemptResult;
use crate::exchange::ReceivedHead;
use crate::incoming::{Content, Incoming, Lease};
use crate::outgoing::Outgoing;
use crate::target::Target;
use crate::upstream::Upstream;
use crate::{Failure, FailureKind, Phase};

impl Upstream {
    /// Sends a request and waits for the head of its reply. `timeout` further limits the total time.
    ///
    /// # Errors
    /// The request failed, and no byte of a reply was passed on.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request and closes its connection.
    pub async fn send(
        self: Rc<Self>,
        request: Outgoing,
        timeout: Option<Duration>,
    ) -> Result<Incoming, Failure> {
        count(&self.shared.counters.requests);
        let sent = self.send_within(&request, timeout).await;
        if let Err(failure) = &sent
            && !failure.is_of_client()
        {
            count(&self.shared.counters.failures);
            if failure.is_refusal() {
                count(&self.shared.counters.refusals);
            }
        }
        sent
    }

    async fn send_within(
        self: &Rc<Self>,
        request: &Outgoing,
        timeout: Option<Duration>,
    ) -> Result<Incoming, Failure> {
        let options = &self.shared.options;
        let total = timeout.map_or(options.timeouts.total, |timeout| timeout.min(options.timeouts.total));
        let mut now = Instant::now();
        let end = now + total;
        let entered = match self.shared.limit.try_enter() {
            Some(place) => Ok(place),
            // The future is on the heap, so that the future of a request that need not wait stays small.
            None => Box::pin(self.shared.limit.enter()).await,
        };
        let place = entered.map_err(|kind| self.failure(None, Phase::Admission, kind))?;
        self.shared.budget.deposit();
        let mut tried: Vec<Arc<Target>> = Vec::new();
        let mut resent = 0;
        let mut kept = KeptConnection::MayServe;
        let mut last = None;
        loop {
            let attempt = match (self.pick(&tried, now), last) {
                (Ok(attempt), None) => attempt,
                (Ok(attempt), Some(_)) => {
                    count(&self.shared.counters.retries);
                    attempt
                }
                // No other address can be tried.
                (Err(_), Some(failure)) => return Err(failure),
                (Err(kind), None) => return Err(self.failure(None, Phase::Admission, kind)),
            };
            let target = attempt.target.clone();
            match attempt.run(request, &mut kept, now, end, total).await {
                Ok((mut attempt, ReceivedHead { head, interim, is_sent })) => {
                    now = Instant::now();
                    // A reply with any other status counts as a success only after its content is complete.
                    if head.status().is_some_and(is_of_a_failing_backend) {
                        attempt.conclude(AttemptResult::Failure, now);
                    }
                    let is_reusable = is_sent && head.is_persistent();
                    let lease = Lease { attempt, is_reusable, _place: place };
                    let content =
                        Content::new(lease, head.framing(), request.trailers, &self.limits, now, end);
                    return Ok(Incoming { head, interim, content });
                }
                Err((failure, is_untouched)) => {
                    tried.push(target);
                    now = Instant::now();
                    let may_retry = (request.is_repeatable() || is_untouched)
                        && !matches!(failure.phase, Phase::Head)
                        && failure.kind.blames_backend()
                        && now < end;
                    if !may_retry || !self.may_go_on(&tried, is_untouched, &mut resent, now) {
                        return Err(failure);
                    }
                    tracing::debug!("the request is sent again: {failure}");
                    last = Some(failure);
                }
            }
        }
    }

    /// Returns whether the request may be sent to another address.
    ///
    /// If no byte of the request was sent, the retry limits do not apply, because no backend does the work
    /// twice. This exception needs another address that is likely to work. Without that condition, each
    /// request would try every address of a backend that is down.
    fn may_go_on(&self, tried: &[Arc<Target>], is_untouched: bool, resent: &mut u32, now: Instant) -> bool {
        let (targets, now_ms) = (self.targets(), self.shared.ms(now));
        let is_promising = |target: &Arc<Target>| {
            !is_among(tried, target)
                && !target.reach.is_pausing(now_ms)
                && target.breaker.refusal(now_ms).is_none()
        };
        if is_untouched && targets.iter().any(is_promising) {
            return true;
        }
        let is_within = *resent < self.shared.options.retries.max
            && tried.len() < targets.len()
            && self.shared.budget.withdraw();
        *resent += u32::from(is_within);
        is_within
    }

    /// Picks one of the addresses that admit requests.
    fn pick(self: &Rc<Self>, tried: &[Arc<Target>], now: Instant) -> Result<Attempt, FailureKind> {
        let targets = self.targets();
        let now_ms = self.shared.ms(now);
        // If another worker uses the last probe of an address first, the loop looks for another address.
        for _ in 0..targets.len().max(1) {
            let place = best(&targets, self.next.get(), tried, now_ms)?;
            if let Some(pass) = targets[place].admit(now_ms) {
                self.next.set(place + 1);
                return Ok(Attempt::new(self, &targets[place], pass));
            }
        }
        Err(FailureKind::Open { retry_after: Duration::ZERO })
    }
}

/// Returns the index of the address to use. The search begins at `from`.
///
/// Reachable addresses have priority. Among equals, the address with the fewest outstanding requests is
/// chosen.
fn best(
    targets: &[Arc<Target>],
    from: usize,
    tried: &[Arc<Target>],
    now_ms: u64,
) -> Result<usize, FailureKind> {
    let mut refused: Option<Duration> = None;
    let mut best = None;
    for place in (0..targets.len()).map(|offset| (from + offset) % targets.len()) {
        let target = &targets[place];
        if is_among(tried, target) {
            continue;
        }
        if let Some(wait) = target.breaker.refusal(now_ms) {
            refused = Some(refused.map_or(wait, |least| least.min(wait)));
            continue;
        }
        let rank = (target.reach.is_pausing(now_ms), target.outstanding());
        if best.is_none_or(|(least, _)| rank < least) {
            best = Some((rank, place));
        }
    }
    match (best, refused) {
        (Some((_, place)), _) => Ok(place),
        (None, Some(retry_after)) => Err(FailureKind::Open { retry_after }),
        (None, None) => Err(FailureKind::Unresolved),
    }
}

fn is_among(targets: &[Arc<Target>], target: &Arc<Target>) -> bool {
    targets.iter().any(|one| Arc::ptr_eq(one, target))
}

/// Returns whether the status means that the backend is failing, rather than that the request is wrong.
fn is_of_a_failing_backend(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

#[cfg(test)]
mod tests;
