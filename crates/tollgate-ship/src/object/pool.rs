//! Connections that wait for their next request.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::time::{Instant, timeout};

use super::connect::Target;
use super::request_body::RequestBody;

/// Maximum number of idle connections. A ship target and its loaders use few connections at a time.
const IDLE_MAX: usize = 8;
/// Longest time that a connection stays idle. Servers and middleboxes close idle connections only after a
/// longer time.
const IDLE_AGE_MAX: Duration = Duration::from_secs(15);
/// Longest wait until a returned connection is ready for its next request.
const READY_MAX: Duration = Duration::from_millis(100);

/// The sending end of a connection.
pub(super) struct Sender {
    pub(super) requests: SendRequest<RequestBody>,
    /// A second descriptor of its socket.
    pub(super) socket: OwnedFd,
}

impl Sender {
    /// Returns whether the server has neither closed the connection nor sent anything after the last
    /// response.
    ///
    /// The event loop runs only during calls. So the task of the connection may not have seen the close yet.
    fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let received = rustix::net::recv(&self.socket, &mut [0_u8], flags);
        !self.requests.is_closed() && received.is_err_and(|error| error == Errno::AGAIN)
    }
}

struct Idle {
    target: Target,
    sender: Sender,
    since: Instant,
}

/// Connections that wait for their next request.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<Idle>>);

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the idle connection to a target that was used last. `None`: no connection is idle.
    pub(super) async fn take(&self, target: &Target) -> Option<Sender> {
        loop {
            let mut sender = self.pop(target)?;
            if timeout(READY_MAX, sender.requests.ready()).await.is_ok_and(|ready| ready.is_ok()) {
                return Some(sender);
            }
        }
    }

    fn pop(&self, target: &Target) -> Option<Sender> {
        let mut idle = self.lock();
        idle.retain(|idle| idle.since.elapsed() < IDLE_AGE_MAX && idle.sender.is_quiet());
        let at = idle.iter().rposition(|idle| idle.target == *target)?;
        Some(idle.remove(at).sender)
    }

    fn push(&self, target: Target, sender: Sender) {
        let mut idle = self.lock();
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        idle.push(Idle { target, sender, since: Instant::now() });
    }
}

/// A connection in use. The drop of this value closes the connection.
pub(super) struct Lease {
    pool: Arc<Pool>,
    target: Target,
    sender: Sender,
}

impl Lease {
    /// Wraps the connection of a request.
    pub(super) fn new(pool: Arc<Pool>, target: Target, sender: Sender) -> Self {
        Self { pool, target, sender }
    }

    /// Returns the connection to the pool, for the next request.
    pub(super) fn give_back(self) {
        self.pool.push(self.target, self.sender);
    }
}
