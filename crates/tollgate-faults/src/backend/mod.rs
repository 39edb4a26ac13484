//! A backend on its own socket. The backend applies its fault to each request, and keeps the received
//! requests.

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

/// Longest duration of a change of the fault. If it lasts longer, the backend hangs.
const CHANGE_MAX: Duration = Duration::from_secs(30);

/// A backend that misbehaves. The backend ends when this value is dropped.
pub struct Backend {
    address: SocketAddr,
    shared: Arc<BackendState>,
    _running: Running,
}

impl Backend {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// The system has no free socket or port, or cannot start a thread.
    pub fn start(fault: Fault) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), fault)
    }

    /// Listens on this address. Port 0 stands for a free port.
    ///
    /// # Errors
    /// The address is in use, or it does not belong to this machine.
    pub fn start_at(address: SocketAddr, fault: Fault) -> io::Result<Self> {
        let reservation = socket::bind(address)?;
        let address = reservation.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        // The reservation keeps the port while the backend does not listen. This listener fails if another
        // server uses the port.
        drop(socket::listening(address, 1)?);
        let (change, changes) = watch::channel(fault);
        let shared = Arc::new(BackendState::new(change));
        let seen = shared.clone();
        let running = Running::start("backend", move || serve::run(reservation, address, seen, changes))?;
        let backend = Self { address, shared, _running: running };
        backend.wait_for_change(1)?;
        Ok(backend)
    }

    /// Returns the address that the backend listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the fault of the backend. After this call, connections are accepted or refused as the new
    /// fault says. The old fault still applies to requests that began before.
    ///
    /// # Errors
    /// The backend could not listen again.
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

    /// Returns the current counts.
    pub fn seen(&self) -> Seen {
        self.shared.observed().seen
    }

    /// Waits at most `patience` until `is_enough` returns true for the counts. Returns these counts, or
    /// `None` if it never did.
    pub fn wait_until(&self, patience: Duration, is_enough: impl Fn(&Seen) -> bool) -> Option<Seen> {
        let observed = self.shared.observed();
        let is_due = |observed: &mut Observed| !is_enough(&observed.seen);
        let waited = self.shared.changed.wait_timeout_while(observed, patience, is_due);
        let (observed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is_enough(&observed.seen).then_some(observed.seen)
    }

    /// Returns the last 1,000 requests, oldest first. If the fault reads the body of a request, the request
    /// is included once the body has ended.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.observed().requests.iter().cloned().collect()
    }
}
