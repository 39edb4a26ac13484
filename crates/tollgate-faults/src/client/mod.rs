//! A crowd of clients that do to a server what their fault says, and how they fared.

mod fault;
mod run;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use fault::ClientFault;

use crate::thread::Running;

/// Clients that misbehave, until dropped.
pub struct Crowd {
    shared: Arc<Shared>,
    _running: Running,
}

/// Who comes, how many, and where to.
#[derive(Clone, Debug)]
pub struct CrowdOptions {
    /// What each does.
    pub fault: ClientFault,
    /// The server.
    pub to: SocketAddr,
    /// How many are there at once.
    pub count: usize,
    /// What they ask for.
    pub path: String,
    /// Where they come from, if it matters: 127.0.0.2 is as good as 127.0.0.1.
    pub from: Option<IpAddr>,
    /// How long after its end each comes again. None: not at all.
    pub again_after: Option<Duration>,
    /// Whether the server may be on another machine.
    pub reach: Reach,
}

/// How far clients may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To this machine alone.
    Loopback,
    /// To any: only against what is your own.
    Anywhere,
}

impl CrowdOptions {
    /// So many that ask for `/` once.
    pub fn new(fault: ClientFault, to: SocketAddr, count: usize) -> Self {
        let path = "/".to_owned();
        Self { fault, to, count, path, from: None, again_after: None, reach: Reach::Loopback }
    }
}

/// How clients fared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections that were made.
    pub connected: u64,
    /// Those that could not be made.
    pub unconnected: u64,
    /// Of those made, those that are open now.
    pub open: u64,
    /// Of those made, those that the server ended.
    pub closed: u64,
    /// Of those made, those that the server reset.
    pub reset: u64,
    /// Of those made, those that their client ended, as its fault says.
    pub left: u64,
    /// The status of the first reply on each connection that had one, and how many had it.
    pub statuses: BTreeMap<u16, u64>,
    /// The bytes that came, of all connections.
    pub bytes: u64,
    /// How long the connection that was open for the longest was open, of those that ended.
    pub open_for_max: Duration,
}

/// Why no crowd came.
#[derive(Debug, thiserror::Error)]
pub enum CrowdError {
    /// The server is not on this machine, and nobody said that it may be.
    #[error("{0} is not an address of this machine's loopback: ill will is for servers of one's own")]
    NotLoopback(SocketAddr),
    /// The system has no thread.
    #[error("no thread for the clients")]
    System(#[from] io::Error),
}

impl Crowd {
    /// Has clients do it, from now on.
    ///
    /// # Errors
    /// The server is not on loopback; the system has no thread.
    pub fn start(options: CrowdOptions) -> Result<Self, CrowdError> {
        if options.reach == Reach::Loopback && !options.to.ip().is_loopback() {
            return Err(CrowdError::NotLoopback(options.to));
        }
        let shared = Arc::new(Shared::default());
        let seen = shared.clone();
        let running = Running::start("crowd", move || run::run(options, seen))?;
        Ok(Self { shared, _running: running })
    }

    /// How they fared up to now.
    pub fn tally(&self) -> Tally {
        self.shared.tally().clone()
    }

    /// Waits until they fared as is asked for, at most so long. None: they did not.
    pub fn wait_until(&self, patience: Duration, is_enough: impl Fn(&Tally) -> bool) -> Option<Tally> {
        let is_due = |tally: &mut Tally| !is_enough(tally);
        let waited = self.shared.changed.wait_timeout_while(self.shared.tally(), patience, is_due);
        let (tally, _) = waited.unwrap_or_else(PoisonError::into_inner);
        is_enough(&tally).then(|| tally.clone())
    }
}

impl Tally {
    /// How many came to their end, or were never there.
    pub fn ended(&self) -> u64 {
        self.closed + self.reset + self.left + self.unconnected
    }
}

/// What the thread and the handle share.
#[derive(Default)]
struct Shared {
    tally: Mutex<Tally>,
    changed: Condvar,
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: impl FnOnce(&mut Tally)) {
        what(&mut self.tally());
        self.changed.notify_all();
    }
}
