//! All workers together: start, drain.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use tokio::sync::watch;
use tollgate_log::Log;

use crate::crowd::Crowd;
use crate::error::StartError;
use crate::listen::{Listeners, SocketFile};
use crate::options::ServerOptions;
use crate::recorder::LogEnd;
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
    /// Go when nobody serves them any more.
    _files: Vec<SocketFile>,
}

impl Server {
    /// Starts the workers; returns when all of them serve.
    ///
    /// # Errors
    /// A script was not taken, or the system gave no thread. Workers that started end again.
    pub fn start(options: ServerOptions, listeners: Listeners, log: &Log) -> Result<Self, StartError> {
        let options = Arc::new(options);
        let (orders, receiver) = watch::channel(Order::Serve);
        let (started, starts) = sync_channel(listeners.by_worker.len());
        let mut server = Self { orders, workers: Vec::new(), _files: listeners.files };
        let (crowd, inboxes) =
            Crowd::new(options.crowd.clone(), listeners.by_worker.len()).map_err(StartError::Worker)?;
        let spool = Arc::new(Spool::new(options.spool.clone()));
        for (index, (listeners, inbox)) in listeners.by_worker.into_iter().zip(inboxes).enumerate() {
            let (crowd, spool) = (crowd.clone(), spool.clone());
            let entrance = Entrance { index, crowd, spool, inbox, listeners };
            let (options, orders, started) = (options.clone(), receiver.clone(), started.clone());
            let log = LogEnd::new(log);
            let run = move || worker::run(&options, entrance, log, orders, &started);
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
