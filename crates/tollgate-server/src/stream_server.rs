//! A worker without listeners and without a thread, for callers that have byte streams. The fuzz targets
//! serve whole connections with this worker.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_log::Log;

use crate::conn::{self, Origin, PlainStream};
use crate::error::StartError;
use crate::observe::WorkerCells;
use crate::options::ServerOptions;
use crate::overload::Capacity;
use crate::recorder::LogEnd;
use crate::service::Plan;
use crate::spool::Spool;
use crate::worker::Worker;

/// Serves byte streams on the calling thread.
///
/// No deadline runs, and nothing measures the age of the run queue. Replies that wait for a record wait
/// forever. Use this server only for routes without a stream, and with a long `queue_age_max`.
pub struct StreamServer {
    worker: Rc<Worker>,
    capacity: Arc<Capacity>,
}

impl StreamServer {
    /// Creates the routes.
    ///
    /// # Errors
    /// A script was not accepted.
    pub fn new(options: &ServerOptions, log: &Log) -> Result<Self, StartError> {
        let capacity = Capacity::new(&options.capacity, 1);
        let plan = Plan::new(options.clone(), log, None)?;
        let spool = Arc::new(Spool::new(options.spool.clone()));
        let worker = Rc::new(Worker::new(
            &plan,
            0,
            &capacity,
            &spool,
            &Arc::new(WorkerCells::new()),
            LogEnd::new(log),
        )?);
        Ok(Self { worker, capacity })
    }

    /// Serves one connection to its end. If there are too many connections, the stream is dropped.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, peer: IpAddr) {
        let origin = Origin { peer: Some(peer), proxy_protocol: false, tls: false, redirect_to_https: false };
        if let Some(permit) = self.capacity.enter(0) {
            conn::serve(self.worker.clone(), PlainStream(stream), origin, permit).await;
        }
    }

    /// Serves one connection with TLS like [`serve`](Self::serve). The options need certificates.
    pub async fn serve_tls<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, peer: IpAddr) {
        let origin = Origin { peer: Some(peer), proxy_protocol: false, tls: true, redirect_to_https: false };
        if let Some(permit) = self.capacity.enter(0) {
            conn::serve_tls(self.worker.clone(), PlainStream(stream), origin, permit).await;
        }
    }
}
