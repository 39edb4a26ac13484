//! Passes connections from the worker that accepted them to another worker.

use std::sync::Arc;

use tokio::sync::mpsc::{self, error::TrySendError};

use super::accepted::Accepted;

/// Maximum number of connections in the inbox of a worker.
const INBOX_MAX: usize = 1024;

/// The inboxes of all workers, for connections that other workers accepted.
pub(crate) struct Inboxes(Box<[mpsc::Sender<Accepted>]>);

impl Inboxes {
    /// Creates an inbox for each worker.
    pub(crate) fn new(workers: usize) -> (Arc<Self>, Vec<mpsc::Receiver<Accepted>>) {
        let (inboxes, receivers) = (0..workers).map(|_| mpsc::channel(INBOX_MAX)).unzip::<_, _, Vec<_>, _>();
        (Arc::new(Self(inboxes.into())), receivers)
    }

    /// Hands a connection to another worker. Returns the connection if that worker drains or its inbox is
    /// full.
    pub(super) fn hand_over(&self, mut accepted: Accepted, worker: usize) -> Result<(), Accepted> {
        let from = accepted.permit.move_to(worker);
        self.0[worker].try_send(accepted).map_err(|error| {
            let (TrySendError::Full(mut accepted) | TrySendError::Closed(mut accepted)) = error;
            accepted.permit.move_to(from);
            accepted
        })
    }
}
