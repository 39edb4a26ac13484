//! State that the connections of one worker share. Other workers share only the fields in an `Arc`.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tollgate_backend::Client;
use tollgate_script::{Host, Keeper};

use crate::access_log::WorkerLines;
use crate::app::Sources;
use crate::clock::WorkerClock;
use crate::deadline::Deadlines;
use crate::error::StartError;
use crate::handler::BackendFetcher;
use crate::identity::IdMaker;
use crate::observe::WorkerCells;
use crate::overload::{Admission, Capacity, RefusalPauses, ScriptQueue, UnservedConnections};
use crate::recorder::{LogEnd, Recorder};
use crate::scratch::Scratch;
use crate::service::{Plan, Rules, Service};
use crate::spool::Spool;

/// State that the connections of a worker share.
pub(crate) struct Worker {
    pub(crate) clock: Rc<WorkerClock>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) recorder: Recorder,
    pub(crate) scratch: Scratch,
    pub(crate) index: usize,
    pub(crate) capacity: Arc<Capacity>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) cells: Arc<WorkerCells>,
    /// Number of connections that are being refused because the maximum is reached.
    pub(crate) refusals: Cell<usize>,
    pub(crate) admission: Admission,
    pub(crate) unserved: UnservedConnections,
    pub(crate) script_queue: Rc<ScriptQueue>,
    /// Assigns pauses to clients that were refused while other requests waited.
    pub(crate) refusal_pauses: RefusalPauses,
    /// Manages the VMs of the scripts.
    pub(crate) keeper: Rc<Keeper>,
    /// Lets one connection at a time process messages of a TLS handshake.
    pub(crate) handshake_turn: Semaphore,
    service: RefCell<Service>,
    pub(crate) ids: IdMaker,
    /// Lines of the access log that wait to be handed over.
    pub(crate) access_lines: Rc<WorkerLines>,
}

impl Worker {
    pub(crate) fn new(
        plan: &Plan,
        index: usize,
        capacity: &Arc<Capacity>,
        spool: &Arc<Spool>,
        cells: &Arc<WorkerCells>,
        log: LogEnd,
    ) -> Result<Self, StartError> {
        let clock = Rc::new(WorkerClock::new());
        let queue_age_max = plan.options.capacity.queue_age_max;
        let script_queue = Rc::new(ScriptQueue::new(plan.options.script.slice, queue_age_max));
        let service = Service::new(plan, &script_queue, cells)?;
        let keeper = Rc::default();
        equip(&service, &keeper, capacity);
        cells.serve(service.route_cells.clone());
        Ok(Self {
            deadlines: Rc::new(Deadlines::new(clock.clone())),
            clock,
            recorder: Recorder::new(log, cells),
            scratch: Scratch::default(),
            index,
            capacity: capacity.clone(),
            spool: spool.clone(),
            cells: cells.clone(),
            refusals: Cell::new(0),
            admission: Admission::new(queue_age_max),
            unserved: UnservedConnections::new(),
            script_queue,
            refusal_pauses: RefusalPauses::default(),
            keeper,
            handshake_turn: Semaphore::new(1),
            service: RefCell::new(service),
            access_lines: Rc::new(WorkerLines::new(
                &plan.options,
                IdMaker::new().map_err(StartError::Randomness)?,
                index,
            )),
            ids: IdMaker::new().map_err(StartError::Randomness)?,
        })
    }

    /// Returns the current service.
    pub(crate) fn service(&self) -> Ref<'_, Service> {
        self.service.borrow()
    }

    /// Returns the sources of the current service.
    pub(crate) fn sources(&self) -> Sources {
        self.service.borrow().sources.clone()
    }

    /// Returns the current rules for connections.
    pub(crate) fn rules(&self) -> Rc<Rules> {
        self.service.borrow().rules.clone()
    }

    /// Returns the client for the current backends.
    pub(crate) fn client(&self) -> Rc<Client> {
        self.service.borrow().client.clone()
    }

    /// Returns whether these are the current rules.
    pub(crate) fn goes_by(&self, rules: &Rc<Rules>) -> bool {
        Rc::ptr_eq(&self.service.borrow().rules, rules)
    }

    /// Replaces the service. Later requests use the new configuration.
    pub(crate) fn adopt(&self, service: Service, queue_age_max: Duration) {
        self.admission.set_age_max(queue_age_max);
        self.script_queue.set_age_max(queue_age_max);
        self.cells.serve(service.route_cells.clone());
        equip(&service, &self.keeper, &self.capacity);
        let before = self.service.replace(service);
        // The last requests of the old service hold their own open files, so the cache of open files is not
        // needed.
        before.descriptors.clear();
        // Dropping the old service may close a VM, so the service of the worker must not be borrowed.
        drop(before);
    }

    /// Returns the current `Host`s.
    pub(crate) fn script_hosts(&self) -> Vec<Host> {
        self.service.borrow().hosts.all().cloned().collect()
    }

    /// Publishes that the worker is running, and the state that only the worker can read.
    pub(crate) fn publish_state(&self) {
        let now = Instant::now();
        self.cells.beat();
        self.cells.note_refused_share(self.admission.refused_share());
        self.cells.note_script_queue(
            self.script_queue.len(),
            self.script_queue.age(now),
            self.script_queue.is_kept_short(),
        );
        self.recorder.look(now);
        self.cells.note_script_bytes(self.service.borrow().script_bytes());
    }

    /// Returns the time by which the deadline of idle connections is moved forward. The time is zero unless
    /// the number of connections is near its limit.
    pub(crate) fn hurry(&self) -> Duration {
        if self.capacity.is_nearly_full() {
            let limits = &self.service.borrow().rules.limits;
            limits.idle_timeout.saturating_sub(limits.idle_timeout_crowded)
        } else {
            Duration::ZERO
        }
    }
}

/// Connects the scripts of a service with the keeper and the backends of the worker.
fn equip(service: &Service, keeper: &Rc<Keeper>, capacity: &Arc<Capacity>) {
    service.hosts.set_keeper(keeper);
    service.hosts.set_fetcher(BackendFetcher { client: service.client.clone(), capacity: capacity.clone() });
}

/// An order to all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Serve,
    Drain,
}
