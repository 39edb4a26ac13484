//! A worker without listeners and without a thread, for callers who bring their own streams: the fuzz targets run whole
//! connections through it.

use std::net::SocketAddr;
use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_log::Log;

use crate::conn;
use crate::error::StartError;
use crate::options::ServerOptions;
use crate::recorder::LogEnd;
use crate::worker::Worker;

/// Serves byte streams on the calling thread. No deadline runs, and replies that wait for a record wait for ever: it is for
/// routes without a stream.
pub struct StreamServer(Rc<Worker>);

impl StreamServer {
    /// Makes the routes.
    ///
    /// # Errors
    /// A script was not taken.
    pub fn new(options: &ServerOptions, log: &Log) -> Result<Self, StartError> {
        Worker::new(options, LogEnd::new(log)).map(|worker| Self(Rc::new(worker)))
    }

    /// Serves one connection to its end.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, peer: SocketAddr) {
        conn::serve(self.0.clone(), stream, peer).await;
    }
}
