//! A server as others see it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate_backend::BackendSnapshot;
use tollgate_meter::Observed;

use crate::observe::{CLASSES, MALFORMED, Refusal, RouteName, RouteStatus, Unconfirmed, WorkerCells};
use crate::overload::Capacity;
use crate::service::Plan;

/// Sees how a server does, also after its end, and while its workers do not turn: it waits for none of them.
#[derive(Clone)]
pub struct ServerWatch {
    capacity: Arc<Capacity>,
    workers: Arc<[Arc<WorkerCells>]>,
    /// Locked for a moment at a time.
    plan: Arc<Mutex<Arc<Plan>>>,
}

/// How a server does, counted from its start.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// Each worker, in order.
    pub workers: Vec<WorkerStatus>,
    /// The routes of the configuration that serves, in the order of their names.
    pub routes: Vec<RouteStatus>,
    /// The backends, in the order of the configuration.
    pub backends: Vec<BackendSnapshot>,
    /// Replies without a route, by the class of their status: the server answered by itself.
    pub unrouted: [u64; CLASSES.len()],
    /// Connections now, and how many may be.
    pub connections: usize,
    /// See `connections`.
    pub connections_max: usize,
    /// Bytes in flight beyond 4 KiB for each connection, and how many may be.
    pub in_flight_bytes: u64,
    /// See `in_flight_bytes`.
    pub in_flight_bytes_max: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Bytes of requests.
    pub received_bytes: u64,
    /// Bytes of replies.
    pub sent_bytes: u64,
    /// Requests that are complete and not answered.
    pub in_flight: u64,
    /// Requests and connections that were not taken on, by reason.
    pub refusals: Vec<(&'static str, u64)>,
    /// How long ago accepting paused for want of a descriptor. None if it never did.
    pub accept_paused_ago: Option<Duration>,
    /// How long ago something was refused because too much was in flight; none if nothing ever was.
    pub starved_ago: Option<Duration>,
    /// What came and was no request, or came too slowly, by the status that it was answered with; 0 for any
    /// other.
    pub malformed: Vec<(u16, u64)>,
    /// Replies whose records did not get where they should be, by what became of them.
    pub unconfirmed: Vec<(&'static str, u64)>,
}

/// How one worker does.
#[derive(Debug, Clone)]
pub struct WorkerStatus {
    /// How long it has not told that it turns; up to a quarter of a second is as it should be. None, once it
    /// has ended.
    pub silence: Duration,
    /// How long what is ready waits for its turn, four times a second.
    pub turn: Observed,
    /// Its connections.
    pub connections: usize,
    /// Memory of its scripts, in bytes.
    pub script_bytes: u64,
    /// How often a VM of its scripts was replaced because it kept too much.
    pub script_vms_replaced: u64,
    /// The share of requests that it refuses because it is behind, up to 1.
    pub refused_share: f64,
    /// Scripts that were not done within a slice, or may not begin before others, and run or wait for their
    /// next ones.
    pub scripts_queued: u64,
    /// How long the first of them has been among these.
    pub script_queue_age: Duration,
    /// Whether requests are refused because more of these come than it can run.
    pub refuses_scripts: bool,
}

impl ServerWatch {
    pub(crate) fn new(
        capacity: &Arc<Capacity>,
        workers: Vec<Arc<WorkerCells>>,
        plan: Arc<Mutex<Arc<Plan>>>,
    ) -> Self {
        Self { capacity: capacity.clone(), workers: workers.into(), plan }
    }

    /// How the backends do, in the order of the configuration.
    pub fn backends(&self) -> Vec<BackendSnapshot> {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        plan.backends.iter().map(|backend| backend.snapshot()).collect()
    }

    /// How it does.
    pub fn status(&self) -> ServerStatus {
        let (capacity, sum) = (&self.capacity, |count: fn(&WorkerCells) -> u64| -> u64 {
            self.workers.iter().map(|cells| count(cells)).sum()
        });
        let refused_ago = |refusal| self.workers.iter().filter_map(|cells| cells.refused_ago(refusal)).min();
        let mut unrouted = [0; CLASSES.len()];
        for cells in self.workers.iter() {
            for (all, more) in unrouted.iter_mut().zip(&cells.unrouted.0) {
                *all += more.get();
            }
        }
        ServerStatus {
            workers: self
                .workers
                .iter()
                .enumerate()
                .map(|(index, cells)| self.worker(index, cells))
                .collect(),
            routes: self.routes(),
            backends: self.backends(),
            unrouted,
            connections: capacity.connections(),
            connections_max: capacity.connections_max(),
            in_flight_bytes: capacity.held_bytes(),
            in_flight_bytes_max: capacity.in_flight_bytes_max(),
            accepted: sum(|cells| cells.accepted.get()),
            received_bytes: sum(|cells| cells.received_bytes.get()),
            sent_bytes: sum(|cells| cells.sent_bytes.get()),
            in_flight: sum(|cells| cells.in_flight.get()),
            refusals: self.named(Refusal::ALL.map(Refusal::name), |cells, place| cells.refusals[place].get()),
            accept_paused_ago: refused_ago(Refusal::Descriptors),
            starved_ago: refused_ago(Refusal::Memory),
            malformed: self.named(MALFORMED, |cells, place| cells.malformed[place].get()),
            unconfirmed: self
                .named(Unconfirmed::ALL.map(|(_, name)| name), |cells, place| cells.unconfirmed[place].get()),
        }
    }

    fn worker(&self, index: usize, cells: &WorkerCells) -> WorkerStatus {
        WorkerStatus {
            silence: cells.silence(),
            turn: cells.turn.read(),
            connections: self.capacity.connections_of(index),
            script_bytes: cells.script_bytes.get(),
            script_vms_replaced: cells.script_vms_replaced.get(),
            refused_share: cells.refused_share.get() as f64 / 1024.0,
            scripts_queued: cells.script_queue_len.get(),
            script_queue_age: Duration::from_micros(cells.script_queue_age_us.get()),
            refuses_scripts: cells.script_queue_refuses.get() > 0,
        }
    }

    fn routes(&self) -> Vec<RouteStatus> {
        let mut routes: BTreeMap<RouteName, RouteStatus> = BTreeMap::new();
        for worker in self.workers.iter() {
            for cells in worker.routes().iter() {
                match routes.get_mut(&cells.name) {
                    Some(status) => status.add(cells),
                    None => drop(routes.insert(cells.name.clone(), RouteStatus::of(cells))),
                }
            }
        }
        routes.into_values().collect()
    }

    fn named<N, const COUNT: usize>(
        &self,
        names: [N; COUNT],
        count: impl Fn(&WorkerCells, usize) -> u64,
    ) -> Vec<(N, u64)> {
        let of_all = |place| self.workers.iter().map(|cells| count(cells, place)).sum();
        names.into_iter().enumerate().map(|(place, name)| (name, of_all(place))).collect()
    }
}
