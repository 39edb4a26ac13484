//! Clients that apply their fault to a server, and the counts of their connections.

mod fault;
mod options;
mod run;
mod tally;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::thread::Running;
use tally::SharedTally;

pub use fault::ClientFault;
pub use options::{FaultyClientsOptions, TargetReach};
pub use tally::Tally;

/// Clients that misbehave. The clients end when this value is dropped.
pub struct FaultyClients {
    shared: Arc<SharedTally>,
    _running: Running,
}

/// Why the clients did not start.
#[derive(Debug, thiserror::Error)]
pub enum FaultyClientsError {
    /// The server is not on this machine, and the options do not allow other machines.
    #[error("{0} is not an address of this machine's loopback: use --anywhere if the server is yours")]
    NotLoopback(SocketAddr),
    /// The system cannot start a thread.
    #[error("cannot start the thread of the clients")]
    System(#[from] io::Error),
}

impl FaultyClients {
    /// Starts the clients.
    ///
    /// # Errors
    /// The server is not on loopback, or the system cannot start a thread.
    pub fn start(options: FaultyClientsOptions) -> Result<Self, FaultyClientsError> {
        if options.reach == TargetReach::Loopback && !options.to.ip().is_loopback() {
            return Err(FaultyClientsError::NotLoopback(options.to));
        }
        let shared = Arc::new(SharedTally::default());
        let seen = shared.clone();
        let running = Running::start("clients", move || run::run(options, seen))?;
        Ok(Self { shared, _running: running })
    }

    /// Returns the current counts.
    pub fn tally(&self) -> Tally {
        self.shared.tally().clone()
    }

    /// Waits at most `patience` until `is_enough` returns true for the counts. Returns these counts, or
    /// `None` if it never did.
    pub fn wait_until(&self, patience: Duration, is_enough: impl Fn(&Tally) -> bool) -> Option<Tally> {
        let is_due = |tally: &mut Tally| !is_enough(tally);
        let waited = self.shared.changed.wait_timeout_while(self.shared.tally(), patience, is_due);
        let (tally, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is_enough(&tally).then(|| tally.clone())
    }
}
