//! One listening socket, as a worker gets it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::acceptance::Acceptance;

/// One listening socket of one worker.
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) family: SocketFamily,
    pub(crate) proxy_protocol: bool,
    pub(crate) acceptance: Acceptance,
    pub(crate) tls: bool,
    pub(crate) redirect_to_https: bool,
    /// Whether the socket stays open after the server ends, so that connections in its queue are not lost.
    pub(crate) outlives_us: OutlivesUs,
}

/// The kind of a stream socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketFamily {
    Tcp,
    Unix,
}

/// Whether the socket of an address stays open after this server ends, because another process has it too.
/// The connections in its queue are then not lost.
#[derive(Clone, Default)]
pub(crate) struct OutlivesUs(Arc<AtomicBool>);

impl OutlivesUs {
    pub(super) fn new(outlives: bool) -> Self {
        Self(Arc::new(AtomicBool::new(outlives)))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, outlives: bool) {
        self.0.store(outlives, Ordering::Release);
    }
}
