//! One worker's end of the backends: which address is asked, on which connection, and how often.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tollgate_http::{Limits, StatusCode, UnderscoreNames};

use crate::backend::{Backend, count};
use crate::breaker::{Pass, Verdict};
use crate::exchange::{Answered, exchange};
use crate::incoming::{Content, Incoming, Lease};
use crate::limit::UploadPlace;
use crate::link::{Link, Scratch};
use crate::outgoing::Outgoing;
use crate::pool::Pool;
use crate::target::Target;
use crate::{Failure, FailureKind, Phase};

/// The backends of one worker, in the order of the configuration.
#[derive(Default)]
pub struct Client {
    upstreams: Vec<Rc<Upstream>>,
}

impl Client {
    /// Makes it; what is another client's of the same worker already is shared with it, connections and all.
    pub fn new(backends: &[Arc<Backend>], before: &Self) -> Self {
        let one = |backend: &Arc<Backend>| {
            let same = before.upstreams.iter().find(|upstream| Arc::ptr_eq(&upstream.shared, backend));
            same.map_or_else(|| Rc::new(Upstream::new(backend)), Rc::clone)
        };
        Self { upstreams: backends.iter().map(one).collect() }
    }

    /// The backend at a place of the configuration.
    pub fn at(&self, place: usize) -> Option<&Rc<Upstream>> {
        self.upstreams.get(place)
    }

    /// The backend of that name.
    pub fn named(&self, name: &str) -> Option<&Rc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.shared.options.name == name)
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.upstreams.iter().map(|upstream| upstream.shared.options.name.as_str())
    }

    /// Closes connections that nobody should use again. For a tick each second or so.
    pub fn sweep(&self, now: Instant) {
        for upstream in &self.upstreams {
            upstream.pool.borrow_mut().sweep(&upstream.targets(), now);
        }
    }
}

/// One worker's end of a backend.
pub struct Upstream {
    pub(crate) shared: Arc<Backend>,
    pub(crate) scratch: Scratch,
    pool: RefCell<Pool>,
    /// As of a version of the backend.
    targets: RefCell<(u64, Arc<[Arc<Target>]>)>,
    /// Where the search for an address begins, so that equals have their turns.
    next: Cell<usize>,
    limits: Limits,
    host: String,
}

impl Upstream {
    fn new(shared: &Arc<Backend>) -> Self {
        let options = &shared.options;
        Self {
            scratch: Scratch::default(),
            pool: RefCell::new(Pool::new(options.pool)),
            targets: RefCell::new((shared.version(), shared.targets())),
            next: Cell::new(0),
            limits: Limits {
                head_bytes_max: options.head_bytes_max,
                // A backend that flushes each character means no harm.
                chunk_framing_per_byte: Limits::ANY_CHUNK_FRAMING,
                // Nobody takes a name in a reply for another one: those of trailers may have it as those of
                // heads.
                underscore_names: UnderscoreNames::Drop,
                ..Limits::default()
            },
            host: options.addresses.first().map(crate::Address::host).unwrap_or_default(),
            shared: shared.clone(),
        }
    }

    /// What Host says where the request has none, or should not be told.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// How the backend is configured.
    pub fn options(&self) -> &crate::BackendOptions {
        &self.shared.options
    }

    /// Leave to send a request while its content comes: for half of `concurrency_max` at once. None: it has
    /// to come whole first.
    pub fn try_upload(&self) -> Option<UploadPlace> {
        self.shared.limit.try_upload()
    }

    /// Sends a request and waits for the head of its reply; `timeout` bounds all of it further.
    ///
    /// # Errors
    /// There is no reply; nothing of one was passed on.
    ///
    /// # Cancel safety
    /// Dropping it cancels the request, and closes its connection.
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
            // On the heap, so that requests that need not wait stay small.
            None => Box::pin(self.shared.limit.enter()).await,
        };
        let place = entered.map_err(|kind| self.failure(None, Phase::Admission, kind))?;
        self.shared.budget.deposit();
        let mut tried: Vec<Arc<Target>> = Vec::new();
        let mut resent = 0;
        let mut kept = Kept::MayServe;
        let mut last = None;
        loop {
            let attempt = match (self.pick(&tried, now), last) {
                (Ok(attempt), None) => attempt,
                (Ok(attempt), Some(_)) => {
                    count(&self.shared.counters.retries);
                    attempt
                }
                // Nobody else is there to be asked.
                (Err(_), Some(failure)) => return Err(failure),
                (Err(kind), None) => return Err(self.failure(None, Phase::Admission, kind)),
            };
            let target = attempt.target.clone();
            match attempt.run(request, &mut kept, now, end, total).await {
                Ok((mut attempt, Answered { head, interim, is_sent })) => {
                    now = Instant::now();
                    // Others are successes when their content is there, too.
                    if head.status().is_some_and(is_of_a_failing_backend) {
                        attempt.conclude(Verdict::Failure, now);
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
                    tracing::debug!("sent again: {failure}");
                    last = Some(failure);
                }
            }
        }
    }

    /// Whether a request that may be asked of another address is: within the bounds of retries, or free of
    /// them where nothing of it was sent, so that no backend works twice for it. But where all that is left
    /// could not be connected to, each request would knock at every door of a backend that is down.
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

    /// Picks an address among those that may be asked.
    fn pick(self: &Rc<Self>, tried: &[Arc<Target>], now: Instant) -> Result<Attempt, FailureKind> {
        let targets = self.targets();
        let now_ms = self.shared.ms(now);
        // Another worker may take the last place among those that try: then the next look is for another
        // address.
        for _ in 0..targets.len().max(1) {
            let place = best(&targets, self.next.get(), tried, now_ms)?;
            if let Some(pass) = targets[place].admit(now_ms) {
                self.next.set(place + 1);
                return Ok(Attempt::new(self, &targets[place], pass));
            }
        }
        Err(FailureKind::Open { retry_after: Duration::ZERO })
    }

    /// The addresses of this moment.
    fn targets(&self) -> Arc<[Arc<Target>]> {
        let mut targets = self.targets.borrow_mut();
        let version = self.shared.version();
        if targets.0 != version {
            *targets = (version, self.shared.targets());
        }
        targets.1.clone()
    }

    pub(crate) fn keep(&self, target: &Arc<Target>, link: Link, now: Instant) {
        self.pool.borrow_mut().put(target, link, now);
    }

    fn failure(&self, target: Option<&Target>, phase: Phase, kind: FailureKind) -> Failure {
        let address = target.map(|target| target.place.to_string());
        Failure { backend: self.shared.options.name.clone(), address, phase, kind }
    }
}

/// Whether a connection that was not made tells something of its address: not where its request had little
/// time left for it.
fn tells_of_address(kind: &FailureKind, waited: Duration, timeouts: &crate::Timeouts) -> bool {
    !matches!(kind, FailureKind::TotalTimedOut { .. }) || waited >= timeouts.connect.min(timeouts.total) / 2
}

/// The place of the address to be asked, looked for from one place on: of those that could be connected to
/// the one that has the fewest requests outstanding, before the others.
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

/// Statuses by which a backend says that it cannot serve, not that the request is wrong.
fn is_of_a_failing_backend(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

/// Whether a request may go on a connection that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// One that turns out to be closed costs it nothing.
    MayServe,
    /// One was closed: others may be, too.
    WasClosed,
}

/// A connection that is being made; without one, how far it was and why.
type Connecting = Pin<Box<dyn Future<Output = Result<Link, (Phase, FailureKind)>>>>;

/// A request at one address.
pub(crate) struct Attempt {
    pub(crate) upstream: Rc<Upstream>,
    pub(crate) target: Arc<Target>,
    pub(crate) link: Option<Link>,
    /// Until the breaker was told.
    pass: Option<Pass>,
}

impl Attempt {
    fn new(upstream: &Rc<Upstream>, target: &Arc<Target>, pass: Pass) -> Self {
        target.outstanding.fetch_add(1, Ordering::Relaxed);
        Self { upstream: upstream.clone(), target: target.clone(), link: None, pass: Some(pass) }
    }

    /// Sends the request on a kept connection, or a new one; on a new one also if a kept one turned out to be
    /// closed, once to a request. With a failure comes whether nothing of the request was sent.
    async fn run(
        mut self,
        request: &Outgoing,
        kept: &mut Kept,
        now: Instant,
        end: Instant,
        total: Duration,
    ) -> Result<(Self, Answered), (Failure, bool)> {
        let upstream = self.upstream.clone();
        let was_lost = self.target.reach.is_lost();
        let timeouts = crate::Timeouts { total, ..upstream.shared.options.timeouts };
        let pooled = match kept {
            Kept::MayServe => upstream.pool.borrow_mut().take(&self.target, now),
            Kept::WasClosed => None,
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
                    // A connection that was kept tells so, too; not one on which it was asked before.
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
            (*kept, is_kept) = (Kept::WasClosed, false);
            link = match self.connect(&timeouts, end).await {
                Ok(link) => link,
                Err((phase, kind)) => return Err((self.fail(phase, kind), broken.sent_bytes == 0)),
            };
        }
    }

    /// Makes a connection, TLS and all. On the heap, so that requests on kept ones stay small.
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
                    if tells_of_address(&kind, now - begun, &shared.options.timeouts) {
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

    /// Tells the breaker, once.
    pub(crate) fn conclude(&mut self, verdict: Verdict, now: Instant) {
        let Some(pass) = self.pass.take() else { return };
        let shared = &self.upstream.shared;
        self.target.conclude(&shared.options.name, pass, verdict, shared.ms(now));
    }

    fn fail(mut self, phase: Phase, kind: FailureKind) -> Failure {
        self.conclude(if kind.blames_backend() { Verdict::Failure } else { Verdict::None }, Instant::now());
        self.upstream.failure(Some(&self.target), phase, kind)
    }

    /// Whether the breaker was not told yet.
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self.pass, Some(Pass::Usual | Pass::Probe { .. }))
    }

    /// Tells the breaker of a success that may still become a failure.
    pub(crate) fn succeed_early(&mut self, now: Instant) {
        if self.is_undecided() {
            self.conclude(Verdict::Success, now);
            self.pass = Some(Pass::Counted);
        }
    }

    /// A reply that had begun will never be whole.
    pub(crate) fn fail_late(self, phase: Phase, kind: FailureKind) -> Failure {
        count(&self.upstream.shared.counters.failures);
        self.fail(phase, kind)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.pass.is_some() {
            self.conclude(Verdict::None, Instant::now());
        }
        self.target.outstanding.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
