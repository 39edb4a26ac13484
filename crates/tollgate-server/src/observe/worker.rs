//! The counters of one worker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_http::StatusCode;
use tollgate_meter::{Counter, Gauge, Histogram};

use super::handshake::HandshakeEnd;
use super::refusal::{Refusal, Unconfirmed};
use super::route::{Leaving, RouteCells, RouteName, Unrouted};

/// Statuses of the replies to invalid or slow requests. The last entry stands for all other statuses.
pub(crate) const MALFORMED: [u16; 9] = [400, 408, 413, 414, 417, 431, 501, 505, 0];

/// The cells of one worker.
#[repr(align(128))]
pub(crate) struct WorkerCells {
    begun: Instant,
    /// Nanoseconds from `begun` to the last beat of the worker.
    beat_ns: Gauge,
    pub(crate) turn: Histogram,
    pub(crate) accepted: Counter,
    /// Connections of peers outside `trusted_proxies` whose first request names a client.
    pub(crate) untrusted_proxies: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) in_flight: Gauge,
    pub(crate) refusals: [Counter; Refusal::ALL.len()],
    /// Nanoseconds from `begun` to the last refusal of each kind, or 0 if there was none.
    refused_ns: [Gauge; Refusal::ALL.len()],
    pub(crate) handshakes: [Counter; HandshakeEnd::ALL.len()],
    pub(crate) malformed: [Counter; MALFORMED.len()],
    pub(crate) unconfirmed: [Counter; Unconfirmed::ALL.len()],
    pub(crate) script_bytes: Gauge,
    pub(crate) script_vms_replaced: Counter,
    /// Number of requests in 1024 that are refused because of the age of the run queue.
    pub(crate) refused_share: Gauge,
    /// Number of scripts that wait for their next slice.
    pub(crate) script_queue_len: Gauge,
    /// Time that the first of these scripts has waited, in microseconds.
    pub(crate) script_queue_age_us: Gauge,
    /// 1 while requests are refused because too many scripts wait, and 0 at other times.
    pub(crate) script_queue_refuses: Gauge,
    pub(crate) unrouted: Unrouted,
    /// Routes of the current configuration. A reload and readers of the status lock this list.
    routes: Mutex<Vec<Arc<RouteCells>>>,
}

impl WorkerCells {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            beat_ns: Gauge::default(),
            turn: Histogram::default(),
            accepted: Counter::default(),
            untrusted_proxies: Counter::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            in_flight: Gauge::default(),
            refusals: Default::default(),
            refused_ns: Default::default(),
            handshakes: Default::default(),
            malformed: Default::default(),
            unconfirmed: Default::default(),
            script_bytes: Gauge::default(),
            script_vms_replaced: Counter::default(),
            refused_share: Gauge::default(),
            script_queue_len: Gauge::default(),
            script_queue_age_us: Gauge::default(),
            script_queue_refuses: Gauge::default(),
            unrouted: Unrouted::default(),
            routes: Mutex::default(),
        }
    }

    /// Records that the worker is running.
    pub(crate) fn beat(&self) {
        self.beat_ns.set(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    /// Records that the worker has ended.
    pub(crate) fn end(&self) {
        self.beat_ns.set(u64::MAX);
    }

    /// Returns the time since the last beat.
    pub(crate) fn silence(&self) -> Duration {
        self.begun.elapsed().saturating_sub(Duration::from_nanos(self.beat_ns.get()))
    }

    /// Records the time that ready tasks waited for their turn.
    pub(crate) fn note_turn(&self, took: Duration) {
        self.turn.observe(took);
    }

    pub(crate) fn note_script_bytes(&self, bytes: usize) {
        self.script_bytes.set(bytes as u64);
    }

    pub(crate) fn count_script_vm_replaced(&self) {
        self.script_vms_replaced.add(1);
    }

    pub(crate) fn note_refused_share(&self, share: u32) {
        self.refused_share.set(share.into());
    }

    pub(crate) fn note_script_queue(&self, len: usize, age: Duration, is_refusing: bool) {
        self.script_queue_refuses.set(is_refusing.into());
        self.script_queue_len.set(len as u64);
        self.script_queue_age_us.set(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count_accepted(&self) {
        self.accepted.add(1);
    }

    pub(crate) fn count_received(&self, bytes: usize) {
        self.received_bytes.add(bytes as u64);
    }

    pub(crate) fn count_sent(&self, bytes: usize) {
        self.sent_bytes.add(bytes as u64);
    }

    pub(crate) fn count_refusal(&self, refusal: Refusal) {
        self.refusals[refusal as usize].add(1);
        let now_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.refused_ns[refusal as usize].set(now_ns);
    }

    /// Returns the time since the last refusal of this kind, if any.
    pub(crate) fn refused_ago(&self, refusal: Refusal) -> Option<Duration> {
        let refused_ns =
            Some(self.refused_ns[refusal as usize].get()).filter(|refused_ns| *refused_ns > 0)?;
        Some(self.begun.elapsed().saturating_sub(Duration::from_nanos(refused_ns)))
    }

    pub(crate) fn count_handshake(&self, end: HandshakeEnd) {
        self.handshakes[end as usize].add(1);
    }

    pub(crate) fn count_malformed(&self, status: StatusCode) {
        let known = MALFORMED.iter().position(|known| *known == status.as_u16());
        self.malformed[known.unwrap_or(MALFORMED.len() - 1)].add(1);
    }

    pub(crate) fn count_unconfirmed(&self, unconfirmed: Unconfirmed) {
        self.unconfirmed[unconfirmed as usize].add(1);
    }

    /// Begins to count replies that are sent together now.
    #[inline]
    pub(crate) fn leaving(&self) -> Leaving<'_> {
        Leaving::new(&self.unrouted)
    }

    /// Returns the cells of a route. A route with the same name keeps its cells, so that a reload does not
    /// reset them.
    pub(crate) fn route(&self, name: RouteName) -> Arc<RouteCells> {
        let known = self.routes().iter().find(|cells| cells.name == name).cloned();
        known.unwrap_or_else(|| Arc::new(RouteCells::new(name)))
    }

    /// Sets the current routes.
    pub(crate) fn serve(&self, routes: Vec<Arc<RouteCells>>) {
        *self.routes() = routes;
    }

    /// Locks the list of routes. A poisoned lock is used as well, because a panic cannot leave the list
    /// incomplete.
    pub(crate) fn routes(&self) -> MutexGuard<'_, Vec<Arc<RouteCells>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the complete and unanswered requests of one connection for its worker.
pub(crate) struct Flight {
    cells: Arc<WorkerCells>,
    count: u64,
}

impl Flight {
    pub(crate) fn new(cells: &Arc<WorkerCells>) -> Self {
        Self { cells: cells.clone(), count: 0 }
    }

    pub(crate) fn set(&mut self, count: usize) {
        let count = count as u64;
        if count != self.count {
            self.cells.in_flight.shift(self.count, count);
            self.count = count;
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.set(0);
    }
}
