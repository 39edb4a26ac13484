//! All workers together: start, drain.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, watch};
use tollgate_backend::{Backend, BackendSnapshot};
use tollgate_log::Log;

use crate::crowd::Crowd;
use crate::error::StartError;
use crate::listen::{Listeners, SocketFile};
use crate::options::ServerOptions;
use crate::recorder::LogEnd;
use crate::reload::{Built, Offer};
use crate::service::Plan;
use crate::spool::Spool;
use crate::worker::{self, Entrance};

/// What workers are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Serve,
    Drain,
}

/// Running workers. Dropping it lets them drain without waiting for them.
pub struct Server {
    orders: watch::Sender<Order>,
    workers: Vec<JoinHandle<()>>,
    /// Where each worker takes another configuration.
    offers: Vec<mpsc::Sender<Offer>>,
    crowd: Arc<Crowd>,
    /// Those of the options that are served.
    backends: Mutex<Vec<Arc<Backend>>>,
    /// Go when nobody serves them any more.
    _files: Vec<SocketFile>,
}

impl Server {
    /// Starts the workers; returns when all of them serve.
    ///
    /// # Errors
    /// A script or a stream was not taken, or the system gave no thread. Workers that started end again.
    pub fn start(options: ServerOptions, listeners: Listeners, log: &Log) -> Result<Self, StartError> {
        let plan = Arc::new(Plan::new(options, log, &[])?);
        let (orders, receiver) = watch::channel(Order::Serve);
        let (started, starts) = sync_channel(listeners.by_worker.len());
        let (crowd, inboxes) =
            Crowd::new(&plan.options.crowd, listeners.by_worker.len()).map_err(StartError::Worker)?;
        let mut server = Self {
            orders,
            workers: Vec::new(),
            offers: Vec::new(),
            crowd: crowd.clone(),
            backends: Mutex::new(plan.backends.clone()),
            _files: listeners.files,
        };
        let spool = Arc::new(Spool::new(plan.options.spool.clone()));
        for (index, (listeners, inbox)) in listeners.by_worker.into_iter().zip(inboxes).enumerate() {
            let (offer, offers) = mpsc::channel(1);
            server.offers.push(offer);
            let (crowd, spool) = (crowd.clone(), spool.clone());
            let entrance = Entrance { index, crowd, spool, inbox, offers, listeners };
            let (plan, orders, started) = (plan.clone(), receiver.clone(), started.clone());
            let log = LogEnd::new(log);
            let run = move || worker::run(&plan, entrance, log, orders, &started);
            let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(run);
            server.workers.push(thread.map_err(StartError::Worker)?);
        }
        drop(started);
        server.wait_for(&starts)?;
        Ok(server)
    }

    fn wait_for(&self, starts: &Receiver<Result<(), StartError>>) -> Result<(), StartError> {
        starts.iter().take(self.workers.len()).collect()
    }

    /// Has all workers serve by other options, or none; returns when they do. Requests in flight end with what they began with.
    ///
    /// What is listened on, the backlog and the number of workers stay as they are.
    ///
    /// # Errors
    /// A script or a stream was not taken, or a worker did not answer in time.
    pub fn reload(&self, options: ServerOptions, log: &Log) -> Result<(), StartError> {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = Arc::new(Plan::new(options, log, &backends)?);
        let built = Built::by(&self.offers, &plan)?;
        self.crowd.limit(&plan.options.crowd);
        backends.clone_from(&plan.backends);
        built.commit()
    }

    /// How the backends do, in the order of the configuration.
    pub fn backends(&self) -> Vec<BackendSnapshot> {
        let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner).clone();
        backends.iter().map(|backend| backend.snapshot()).collect()
    }

    /// Ends the workers: no new connections, requests in flight to their end or the drain deadline.
    pub fn drain(mut self) {
        self.orders.send_replace(Order::Drain);
        for worker in self.workers.drain(..) {
            // A worker that panicked has ended the process.
            let _ = worker.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.orders.send_replace(Order::Drain);
    }
}
