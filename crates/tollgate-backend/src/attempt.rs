//! One attempt of a request at one address, on a kept or new connection. The attempt reports its result to
//! the breaker.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::backend::count;
use crate::breaker::{AttemptResult, BreakerPermit};
use crate::exchange::{ReceivedHead, exchange};
use crate::link::Link;
use crate::outgoing::Outgoing;
use crate::target::Target;
use crate::upstream::Upstream;
use crate::{Failure, FailureKind, Phase};

/// Whether a request may use a kept connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptConnection {
    /// The request may use a kept connection. If that connection was already closed, the request is sent on a
    /// new connection.
    MayServe,
    /// A kept connection was already closed, so all others may be closed, too.
    WasClosed,
}

/// A connection that is being created. After a failure, the result is the phase and the cause of the failure.
type Connecting = Pin<Box<dyn Future<Output = Result<Link, (Phase, FailureKind)>>>>;

/// One attempt of a request at one address.
pub(crate) struct Attempt {
    pub(crate) upstream: Rc<Upstream>,
    pub(crate) target: Arc<Target>,
    pub(crate) link: Option<Link>,
    /// Permit of the breaker. `None` after the breaker got the result.
    pass: Option<BreakerPermit>,
}

impl Attempt {
    pub(crate) fn new(upstream: &Rc<Upstream>, target: &Arc<Target>, pass: BreakerPermit) -> Self {
        target.outstanding.fetch_add(1, Ordering::Relaxed);
        Self { upstream: upstream.clone(), target: target.clone(), link: None, pass: Some(pass) }
    }

    /// Sends the request on a kept or a new connection.
    ///
    /// If the backend had already closed the kept connection, the request is sent once more, on a new
    /// connection. The error has the failure, and a flag: true if no byte of the request was sent.
    pub(crate) async fn run(
        mut self,
        request: &Outgoing,
        kept: &mut KeptConnection,
        now: Instant,
        end: Instant,
        total: Duration,
    ) -> Result<(Self, ReceivedHead), (Failure, bool)> {
        let upstream = self.upstream.clone();
        let was_lost = self.target.reach.is_lost();
        let timeouts = crate::Timeouts { total, ..upstream.shared.options.timeouts };
        let pooled = match kept {
            KeptConnection::MayServe => upstream.pool.borrow_mut().take(&self.target, now),
            KeptConnection::WasClosed => None,
        };
        let mut is_kept = pooled.is_some();
        let mut link = match pooled {
            Some(link) => link,
            None => match self.connect(&timeouts, end).await {
                Ok(link) => link,
                Err((phase, kind)) => return Err((self.fail(phase, kind), true)),
            },
        };
        loop {
            let sent = exchange(&mut link, request, &timeouts, end, &upstream.limits, &upstream.scratch);
            let broken = match sent.await {
                Ok(answered) => {
                    // A reply on a kept connection also shows that the address is reachable. Such a reply
                    // counts only if the request began after the address was lost.
                    if was_lost {
                        self.target.find(&upstream.shared.options.name);
                    }
                    self.link = Some(link);
                    return Ok((self, answered));
                }
                Err(broken) => broken,
            };
            let may_be_stale =
                is_kept && broken.is_stale() && (request.is_repeatable() || broken.sent_bytes == 0);
            if !may_be_stale {
                return Err((self.fail(broken.phase, broken.kind), broken.sent_bytes == 0));
            }
            tracing::debug!(backend = upstream.shared.options.name, "a kept connection was closed");
            count(&upstream.shared.counters.resends);
            (*kept, is_kept) = (KeptConnection::WasClosed, false);
            link = match self.connect(&timeouts, end).await {
                Ok(link) => link,
                Err((phase, kind)) => return Err((self.fail(phase, kind), broken.sent_bytes == 0)),
            };
        }
    }

    /// Creates a connection, with TLS if needed. The future is on the heap, so that the future of a request
    /// on a kept connection stays small.
    fn connect(&self, timeouts: &crate::Timeouts, end: Instant) -> Connecting {
        let (upstream, target, timeouts) = (self.upstream.clone(), self.target.clone(), *timeouts);
        Box::pin(async move {
            let (shared, begun) = (&upstream.shared, Instant::now());
            let at = end.min(begun + timeouts.connect);
            let mut phase = Phase::Connect;
            let made = Link::connect(&target.place, shared.options.tls.as_deref(), &mut phase);
            let made = tokio::time::timeout_at(at.into(), made).await;
            let made =
                made.unwrap_or_else(|_| Err(crate::exchange::late(at, end, timeouts.connect, &timeouts)));
            match made {
                Ok(link) => {
                    count(&shared.counters.connects);
                    target.find(&shared.options.name);
                    Ok(link)
                }
                Err(kind) => {
                    let now = Instant::now();
                    if is_fault_of_address(&kind, now - begun, &shared.options.timeouts) {
                        target.lose(&shared.options.name, phase, &kind, shared.ms(now));
                    }
                    if let Some(fault) = kind.handshake_fault(phase) {
                        count(shared.counters.of_handshakes(fault));
                    }
                    Err((phase, kind))
                }
            }
        })
    }

    /// Reports the result to the breaker, once.
    pub(crate) fn conclude(&mut self, result: AttemptResult, now: Instant) {
        let Some(pass) = self.pass.take() else { return };
        let shared = &self.upstream.shared;
        self.target.conclude(&shared.options.name, pass, result, shared.ms(now));
    }

    fn fail(mut self, phase: Phase, kind: FailureKind) -> Failure {
        self.conclude(
            if kind.blames_backend() { AttemptResult::Failure } else { AttemptResult::None },
            Instant::now(),
        );
        self.upstream.failure(Some(&self.target), phase, kind)
    }

    /// Returns whether the breaker has no result yet.
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self.pass, Some(BreakerPermit::Usual | BreakerPermit::Probe { .. }))
    }

    /// Reports a success that may still become a failure.
    pub(crate) fn succeed_early(&mut self, now: Instant) {
        if self.is_undecided() {
            self.conclude(AttemptResult::Success, now);
            self.pass = Some(BreakerPermit::Counted);
        }
    }

    /// Reports that a reply which had begun will never be complete.
    pub(crate) fn fail_late(self, phase: Phase, kind: FailureKind) -> Failure {
        count(&self.upstream.shared.counters.failures);
        self.fail(phase, kind)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.pass.is_some() {
            self.conclude(AttemptResult::None, Instant::now());
        }
        self.target.outstanding.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether the address is at fault for a failed connection. A failure does not count against the
/// address if the request had little time left.
fn is_fault_of_address(kind: &FailureKind, waited: Duration, timeouts: &crate::Timeouts) -> bool {
    !matches!(kind, FailureKind::TotalTimedOut { .. }) || waited >= timeouts.connect.min(timeouts.total) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_has_little_time_left_says_nothing_of_an_address() {
        let timeouts = crate::Timeouts::default();
        let [in_all, by_itself] = [
            FailureKind::TotalTimedOut { limit: timeouts.total },
            FailureKind::TimedOut { limit: timeouts.connect },
        ];
        let short = Duration::from_millis(20);
        assert!(
            !is_fault_of_address(&in_all, short, &timeouts)
                && is_fault_of_address(&by_itself, short, &timeouts)
        );
        assert!(is_fault_of_address(&in_all, Duration::from_secs(1), &timeouts));
        let hasty = crate::Timeouts { total: short, ..timeouts };
        assert!(is_fault_of_address(&in_all, short, &hasty), "it is never given more");
    }
}
