//! A backend on a socket of its own, that answers as its fault says and remembers what it saw.

mod serve;

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::fault::Fault;
use crate::request::Request;
use crate::socket;
use crate::thread::Running;

/// So many requests are remembered, the latest ones.
const REQUESTS_KEPT_MAX: usize = 1000;
/// A backend that takes longer to change is stuck.
const CHANGE_MAX: Duration = Duration::from_secs(30);

/// A backend that misbehaves, until dropped.
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    _running: Running,
}

/// How much a backend saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections that were accepted.
    pub connections: u64,
    /// Of them, those that are open now.
    pub open: u64,
    /// The most that were open at once.
    pub open_max: u64,
    /// Requests whose heads came.
    pub requests: u64,
    /// Of them, those that are not answered to their end yet.
    pub in_flight: u64,
    /// The most that were in flight at once.
    pub in_flight_max: u64,
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
        let shared = Arc::new(Shared { memory: Mutex::default(), changed: Condvar::new(), change });
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
        let changes = self.shared.memory().changes;
        self.shared.change.send_replace(fault);
        self.wait_for_change(changes + 1)
    }

    fn wait_for_change(&self, changes: u64) -> io::Result<()> {
        let is_due = |memory: &mut Memory| memory.changes < changes && memory.failed.is_none();
        let memory = self.shared.memory();
        let waited = self.shared.changed.wait_timeout_while(memory, CHANGE_MAX, is_due);
        let (mut memory, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        match memory.failed.take() {
            Some(error) => Err(error),
            None if timeout.timed_out() => Err(io::ErrorKind::TimedOut.into()),
            None => Ok(()),
        }
    }

    /// How much it saw up to now.
    pub fn seen(&self) -> Seen {
        self.shared.memory().seen
    }

    /// Waits until it saw what is asked for, at most so long. None: it did not.
    pub fn wait_until(&self, patience: Duration, is_enough: impl Fn(&Seen) -> bool) -> Option<Seen> {
        let memory = self.shared.memory();
        let is_due = |memory: &mut Memory| !is_enough(&memory.seen);
        let waited = self.shared.changed.wait_timeout_while(memory, patience, is_due);
        let (memory, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is_enough(&memory.seen).then_some(memory.seen)
    }

    /// The latest thousand requests, oldest first; those whose body is to be read came to its end.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.memory().requests.iter().cloned().collect()
    }
}

/// What the thread and the handle share.
struct Shared {
    memory: Mutex<Memory>,
    changed: Condvar,
    change: watch::Sender<Fault>,
}

#[derive(Default)]
struct Memory {
    seen: Seen,
    requests: VecDeque<Request>,
    /// How often a fault was taken up.
    changes: u64,
    failed: Option<io::Error>,
}

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: impl FnOnce(&mut Memory)) {
        what(&mut self.memory());
        self.changed.notify_all();
    }

    fn remember(&self, request: &Request) {
        self.note(|memory| {
            if memory.requests.len() == REQUESTS_KEPT_MAX {
                memory.requests.pop_front();
            }
            memory.requests.push_back(request.clone());
        });
    }
}
