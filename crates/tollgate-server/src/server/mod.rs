//! Starts, reloads and drains all workers.

mod status;

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, watch};
use tollgate_backend::BackendSnapshot;
use tollgate_log::Log;

use crate::accept::Inboxes;
use crate::app::Sources;
use crate::dns_hook;
use crate::error::StartError;
use crate::listen::{HandedListen, ListenPoint, Listeners};
use crate::observe::WorkerCells;
use crate::options::ServerOptions;
use crate::overload::Capacity;
use crate::recorder::LogEnd;
use crate::reload::{Built, Offer, same_sources};
use crate::service::Plan;
use crate::spool::Spool;
use crate::worker::Order;
use crate::worker_thread::{self, Entrance};
pub use status::{ServerStatus, ServerWatch, TokenKeysStatus, WorkerStatus};

/// Running workers. Dropping this value makes them drain, and does not wait for their end.
pub struct Server {
    orders: watch::Sender<Order>,
    workers: Vec<JoinHandle<()>>,
    /// Channels that send a new configuration to the workers.
    offers: Vec<mpsc::Sender<Offer>>,
    capacity: Arc<Capacity>,
    /// The current configuration.
    plan: Arc<Mutex<Arc<Plan>>>,
    watch: ServerWatch,
    /// The bound addresses. Their socket files are deleted when no worker serves them.
    points: Vec<ListenPoint>,
}

impl Server {
    /// Starts the workers. Returns when all of them serve, with the sources that they loaded.
    ///
    /// If a script changed during the load, workers may have loaded different texts. In that case they load
    /// again.
    ///
    /// # Errors
    /// A script or a stream was not accepted, a script changed during each load, or the system created no
    /// thread. In that case the workers that have started end.
    pub fn start(
        options: ServerOptions,
        listeners: Listeners,
        log: &Log,
    ) -> Result<(Self, Sources), StartError> {
        let plan = Arc::new(Plan::new(options, log, None)?);
        let (orders, receiver) = watch::channel(Order::Serve);
        let (started, starts) = sync_channel(listeners.by_worker.len());
        let workers = listeners.by_worker.len();
        let capacity = Capacity::new(&plan.options.capacity, workers);
        let (inboxes, receivers) = Inboxes::new(workers);
        let cells: Vec<_> = receivers.iter().map(|_| Arc::new(WorkerCells::new())).collect();
        let serving = Arc::new(Mutex::new(plan.clone()));
        let mut server = Self {
            watch: ServerWatch::new(&capacity, cells.clone(), serving.clone()),
            orders,
            workers: Vec::new(),
            offers: Vec::new(),
            capacity: capacity.clone(),
            plan: serving,
            points: listeners.points,
        };
        let spool = Arc::new(Spool::new(plan.options.spool.clone()));
        let places = listeners.by_worker.into_iter().zip(receivers).zip(cells);
        for (index, ((listeners, inbox), cells)) in places.enumerate() {
            let (offer, offers) = mpsc::channel(1);
            server.offers.push(offer);
            let (capacity, spool, inboxes) = (capacity.clone(), spool.clone(), inboxes.clone());
            let entrance = Entrance { index, capacity, spool, cells, inboxes, inbox, offers, listeners };
            let (plan, orders, started) = (plan.clone(), receiver.clone(), started.clone());
            let log = LogEnd::new(log);
            let run = move || worker_thread::run(&plan, entrance, log, orders, &started);
            let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(run);
            server.workers.push(thread.map_err(StartError::Worker)?);
        }
        drop(started);
        let sources = match server.wait_for(&starts) {
            Err(StartError::Changed) => {
                let built = Built::again(&server.offers, &plan)?;
                let sources = built.sources.clone();
                built.commit()?;
                sources
            }
            sources => sources?,
        };
        Ok((server, with_hook(sources, &plan)))
    }

    /// Returns a handle that reads the state of the server.
    pub fn watch(&self) -> ServerWatch {
        self.watch.clone()
    }

    fn wait_for(&self, starts: &Receiver<Result<Sources, StartError>>) -> Result<Sources, StartError> {
        same_sources(starts.iter().take(self.workers.len()).collect::<Result<_, _>>()?)
    }

    /// Replaces the options of all workers, or of none. Returns when all of them use the new options, with
    /// the sources that they loaded. Running requests keep the options that they began with.
    ///
    /// Addresses, backlog and the number of workers do not change.
    ///
    /// # Errors
    /// A script or a stream was not accepted, or a worker did not answer in time.
    pub fn reload(&self, options: ServerOptions, log: &Log) -> Result<Sources, StartError> {
        let serving = || self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let before = serving().clone();
        let plan = Arc::new(Plan::new(options, log, Some(&before))?);
        let built = Built::by(&self.offers, &plan)?;
        self.capacity.limit(&plan.options.capacity);
        *serving() = plan.clone();
        let sources = with_hook(built.sources.clone(), &plan);
        built.commit()?;
        Ok(sources)
    }

    /// Returns the state of the backends, in the order of the configuration.
    pub fn backends(&self) -> Vec<BackendSnapshot> {
        self.watch.backends()
    }

    /// Returns copies of all listening sockets, for a successor. An address may have several entries.
    ///
    /// # Errors
    /// The system has no free descriptor.
    pub fn listens(&self) -> io::Result<Vec<HandedListen>> {
        let copy = |point: &ListenPoint| Ok(HandedListen { name: point.name(), sockets: point.copies()? });
        self.points.iter().map(copy).collect()
    }

    /// Leaves the addresses with these names to a successor, which has their sockets. The drain then leaves
    /// the connections in their queues to the successor.
    pub fn leave(&self, names: &[String]) {
        self.points.iter().filter(|point| names.contains(&point.name())).for_each(ListenPoint::leave);
    }

    /// Makes this server the owner of the sockets that its predecessor handed over.
    pub fn own_listens(&self) {
        self.points.iter().for_each(ListenPoint::own);
    }

    /// Ends the workers. The workers accept no new connections, and running requests end by themselves or at
    /// the drain deadline.
    pub fn drain(mut self) {
        // A copy would keep a socket open that its worker closes.
        self.points.iter_mut().for_each(ListenPoint::close_copies);
        self.orders.send_replace(Order::Drain);
        for worker in self.workers.drain(..) {
            // An error is impossible here: a panic in a worker ends the process.
            let _ = worker.join();
        }
    }
}

/// Adds the files of the hook, which no worker loads.
fn with_hook(mut sources: Sources, plan: &Plan) -> Sources {
    sources.own.extend(dns_hook::sources(&plan.options));
    sources
}

impl Drop for Server {
    fn drop(&mut self) {
        self.orders.send_replace(Order::Drain);
    }
}
