//! The state of a server, which other threads can read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate_backend::BackendSnapshot;
use tollgate_meter::Observed;

use crate::auth::RemoteKeys;
use crate::dns_hook::DnsHookSource;
use crate::observe::{
    CLASSES, HandshakeEnd, MALFORMED, Refusal, RouteName, RouteStatus, Unconfirmed, WorkerCells,
};
use crate::overload::Capacity;
use crate::service::Plan;

/// Reads the state of a server without waiting for its workers. Reading also works while workers hang, and
/// after the server has ended.
#[derive(Clone)]
pub struct ServerWatch {
    capacity: Arc<Capacity>,
    workers: Arc<[Arc<WorkerCells>]>,
    /// The current configuration. The lock is held only for a short time.
    plan: Arc<Mutex<Arc<Plan>>>,
}

/// The state of a server. All counters are 0 at the start of the server.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// The workers, in order.
    pub workers: Vec<WorkerStatus>,
    /// The routes of the current configuration, sorted by name.
    pub routes: Vec<RouteStatus>,
    /// The backends, in the order of the configuration.
    pub backends: Vec<BackendSnapshot>,
    /// The sets of keys of tokens that backends publish.
    pub token_keys: Vec<TokenKeysStatus>,
    /// Replies that the server itself created without a route, by the class of their status.
    pub unrouted: [u64; CLASSES.len()],
    /// Number of connections.
    pub connections: usize,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Held memory in bytes, in addition to 4 KiB for each connection.
    pub in_flight_bytes: u64,
    /// Maximum held memory, in bytes.
    pub in_flight_bytes_max: u64,
    /// Accepted connections.
    pub accepted: u64,
    /// Connections of peers outside `trusted_proxies` whose first request names a client.
    pub untrusted_proxies: u64,
    /// Received bytes.
    pub received_bytes: u64,
    /// Sent bytes.
    pub sent_bytes: u64,
    /// Complete requests that have no reply yet.
    pub in_flight: u64,
    /// Refused requests and connections, by reason.
    pub refusals: Vec<(&'static str, u64)>,
    /// Time since accepting last paused because no descriptor was free. `None` if it never paused.
    pub accept_paused_ago: Option<Duration>,
    /// Time since the last refusal because of held memory. `None` if there was none.
    pub starved_ago: Option<Duration>,
    /// TLS handshakes, by result.
    pub handshakes: Vec<(&'static str, u64)>,
    /// Invalid or slow requests by the status of their reply. 0 stands for any other status.
    pub malformed: Vec<(u16, u64)>,
    /// Replies whose records did not reach their level, by outcome.
    pub unconfirmed: Vec<(&'static str, u64)>,
}

/// The state of a set of keys of tokens that a backend publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenKeysStatus {
    /// Name of the section of the configuration.
    pub section: String,
    /// Name of the backend.
    pub backend: String,
    /// Whether a set is there. Without a set, every token gets 503.
    pub is_there: bool,
    /// Reason why the last fetch failed, and the time since the first failure in a row.
    pub trouble: Option<(String, Duration)>,
}

/// The state of one worker.
#[derive(Debug, Clone)]
pub struct WorkerStatus {
    /// Time since the worker last recorded that it runs. Up to a quarter of a second is normal. The value is
    /// zero after the worker has ended.
    pub silence: Duration,
    /// Time that ready tasks wait for their turn, measured four times a second.
    pub turn: Observed,
    /// Number of connections of the worker.
    pub connections: usize,
    /// Memory of the scripts of the worker, in bytes.
    pub script_bytes: u64,
    /// Number of VMs that were replaced because they held too much memory.
    pub script_vms_replaced: u64,
    /// Share of requests that are refused because of the age of the run queue, from 0 to 1.
    pub refused_share: f64,
    /// Number of scripts in the script queue. These scripts need more than one slice, or have to wait before
    /// they begin.
    pub scripts_queued: u64,
    /// Time that the first of these scripts has been in the queue.
    pub script_queue_age: Duration,
    /// Whether requests are refused because more scripts arrive than the worker can run.
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

    /// Returns the hook of the current configuration, with its backends. `None`: there is none.
    pub fn dns_hook(&self) -> Option<DnsHookSource> {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        DnsHookSource::of(plan, self.capacity.clone())
    }

    /// Returns the state of the backends, in the order of the configuration.
    pub fn backends(&self) -> Vec<BackendSnapshot> {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        plan.backends.iter().map(|backend| backend.snapshot()).collect()
    }

    /// Returns the state of the sets of keys that backends publish.
    fn token_keys(&self) -> Vec<TokenKeysStatus> {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let state = |(section, keys): (&str, &Arc<RemoteKeys>)| {
            let (is_there, trouble) = keys.trouble();
            let (section, backend) = (section.to_owned(), keys.source.backend.clone());
            TokenKeysStatus { section, backend, is_there, trouble }
        };
        plan.remote_keys().into_iter().map(state).collect()
    }

    /// Returns the state of the server.
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
            token_keys: self.token_keys(),
            unrouted,
            connections: capacity.connections(),
            connections_max: capacity.connections_max(),
            in_flight_bytes: capacity.held_bytes(),
            in_flight_bytes_max: capacity.in_flight_bytes_max(),
            accepted: sum(|cells| cells.accepted.get()),
            untrusted_proxies: sum(|cells| cells.untrusted_proxies.get()),
            received_bytes: sum(|cells| cells.received_bytes.get()),
            sent_bytes: sum(|cells| cells.sent_bytes.get()),
            in_flight: sum(|cells| cells.in_flight.get()),
            refusals: self.named(Refusal::ALL.map(Refusal::name), |cells, place| cells.refusals[place].get()),
            accept_paused_ago: refused_ago(Refusal::Descriptors),
            starved_ago: refused_ago(Refusal::Memory),
            handshakes: self.named(HandshakeEnd::ALL.map(HandshakeEnd::name), |cells, place| {
                cells.handshakes[place].get()
            }),
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
