//! A backend on a socket of its own. It answers as its fault says, and remembers the requests that it saw.

mod serve;
mod state;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::fault::Fault;
use crate::request::Request;
use crate::socket;
use crate::thread::Running;
use state::{BackendState, Observed};

pub use state::Seen;

/// A backend that takes longer to change is stuck.
const CHANGE_MAX: Duration = Duration::from_secs(30);

/// A backend that misbehaves, until dropped.
pub struct Backend {
    address: SocketAddr,
    shared: Arc<BackendState>,
    _running: Running,
}

impl Backend {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// The system has no socket, port or thread.
    pub fn start(fault: Fault) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), fault)
    }

    /// Listens on this address; a port of 0 is a free one.
    ///
    /// # Errors
    /// The address is taken or not of this machine.
    pub fn start_at(address: SocketAddr, fault: Fault) -> io::Result<Self> {
        let reservation = socket::bind(address)?;
        let address = reservation.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        // While nothing listens, this keeps the port; a second listener would be told that it is taken.
        drop(socket::listening(address, 1)?);
        let (change, changes) = watch::channel(fault);
        let shared = Arc::new(BackendState::new(change));
        let seen = shared.clone();
        let running = Running::start("backend", move || serve::run(reservation, address, seen, changes))?;
        let backend = Self { address, shared, _running: running };
        backend.wait_for_change(1)?;
        Ok(backend)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Turns into a backend with this fault. When it returns, connections are taken, or refused, as it says;
    /// requests that were begun are ended as they were begun.
    ///
    /// # Errors
    /// It could not listen again.
    pub fn turn(&self, fault: Fault) -> io::Result<()> {
        let changes = self.shared.observed().changes;
        self.shared.change.send_replace(fault);
        self.wait_for_change(changes + 1)
    }

    fn wait_for_change(&self, changes: u64) -> io::Result<()> {
        let is_due = |observed: &mut Observed| observed.changes < changes && observed.failed.is_none();
        let observed = self.shared.observed();
        let waited = self.shared.changed.wait_timeout_while(observed, CHANGE_MAX, is_due);
        let (mut observed, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        match observed.failed.take() {
            Some(error) => Err(error),
            None if timeout.timed_out() => Err(io::ErrorKind::TimedOut.into()),
            None => Ok(()),
        }
    }

    /// How much it saw up to now.
    pub fn seen(&self) -> Seen {
        self.shared.observed().seen
    }

    /// Waits until it saw what is asked for, at most so long. None: it did not.
    pub fn wait_until(&self, patience: Duration, is_enough: impl Fn(&Seen) -> bool) -> Option<Seen> {
        let observed = self.shared.observed();
        let is_due = |observed: &mut Observed| !is_enough(&observed.seen);
        let waited = self.shared.changed.wait_timeout_while(observed, patience, is_due);
        let (observed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is_enough(&observed.seen).then_some(observed.seen)
    }

    /// The latest thousand requests, oldest first; those whose body is to be read came to its end.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.observed().requests.iter().cloned().collect()
    }
}
