//! Why a backend gave no reply: the whole story for the log, a status and a short safe text for the client.

use std::fmt;
use std::io;
use std::time::Duration;

use tollgate_http::{ReplyError, StatusCode};

use crate::{BrokenOff, HandshakeError, HandshakeFault};

/// A request that got no reply.
#[derive(Debug, thiserror::Error)]
#[error("backend {backend:?}{}, {phase}: {kind}", At(.address.as_deref()))]
pub struct Failure {
    /// The name of the backend.
    pub backend: String,
    /// The address that was asked last, if one was.
    pub address: Option<String>,
    /// How far the request was.
    pub phase: Phase,
    /// What happened.
    #[source]
    pub kind: FailureKind,
}

struct At<'a>(Option<&'a str>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |address| write!(f, " at {address}"))
    }
}

/// How far a request was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It waited for a place, or for an address.
    Admission,
    /// For a connection.
    Connect,
    /// It had one, and for TLS on it.
    Handshake,
    /// Its bytes were on their way.
    Send,
    /// All of it was sent; nothing came.
    FirstByte,
    /// The head of the reply came.
    Head,
    /// Its content came.
    Content,
}

impl Phase {
    /// Returns its name, for log lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::Send => "send",
            Self::FirstByte => "first byte",
            Self::Head => "head",
            Self::Content => "content",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What happened.
#[derive(Debug, thiserror::Error)]
pub enum FailureKind {
    /// No name was found yet.
    #[error("its names were not found")]
    Unresolved,
    /// The breakers of all its addresses are open.
    #[error("its breakers are open for {} ms more", .retry_after.as_millis())]
    Open {
        /// When another try is worth it.
        retry_after: Duration,
    },
    /// Too many are in flight, and too many wait.
    #[error("{queued} requests wait already, limit {limit}")]
    QueueFull {
        /// How many wait.
        queued: usize,
        /// How many may.
        limit: usize,
    },
    /// No place was free in time.
    #[error("no place was free within {} ms", .limit.as_millis())]
    QueueTimeout {
        /// How long it waited.
        limit: Duration,
    },
    /// It takes no connection.
    #[error("{0}")]
    Connect(#[source] io::Error),
    /// It is not who it should be, or TLS failed otherwise.
    #[error("{0}")]
    Handshake(#[source] HandshakeError),
    /// TLS was not made ready for it.
    #[error("it is https, without options of TLS")]
    NoTls,
    /// It took too long.
    #[error("nothing happened within {} ms", .limit.as_millis())]
    TimedOut {
        /// How long it may.
        limit: Duration,
    },
    /// The time for all of it is over.
    #[error("it took longer than {} ms in all", .limit.as_millis())]
    TotalTimedOut {
        /// How long it may.
        limit: Duration,
    },
    /// The time for all of it is over, as its reply was not taken.
    #[error("its reply was not taken within {} ms in all", .limit.as_millis())]
    NotTaken {
        /// How long it may take.
        limit: Duration,
    },
    /// It closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// The connection broke.
    #[error("{0}")]
    Broken(#[source] io::Error),
    /// What it sent is no reply.
    #[error("{0}")]
    NoReply(#[source] ReplyError),
    /// More interim replies than are taken before the final one.
    #[error("more than {limit} interim replies")]
    Interim {
        /// How many are.
        limit: usize,
    },
    /// The content is larger than may be held.
    #[error("its reply exceeds limit: {bytes} bytes or more, limit {limit} bytes")]
    TooLarge {
        /// Bytes that were announced, or came.
        bytes: u64,
        /// Bytes that may be.
        limit: usize,
    },
    /// There is no memory for its content now.
    #[error("too much is in flight to take its reply, of which {bytes} bytes came")]
    NoRoom {
        /// Bytes that came.
        bytes: usize,
    },
    /// The content of the request is gone from the disk.
    #[error("the request's content cannot be read back: {0}")]
    Content(#[source] io::Error),
    /// The content of the request broke off while it came.
    #[error("the request broke off: {0}")]
    BrokenOff(#[source] BrokenOff),
}

impl Failure {
    /// The status for the client: 502, 503 or 504 (RFC 9110 section 15.6).
    pub fn status(&self) -> StatusCode {
        match &self.kind {
            FailureKind::Unresolved
            | FailureKind::Open { .. }
            | FailureKind::QueueFull { .. }
            | FailureKind::QueueTimeout { .. }
            | FailureKind::NoRoom { .. }
            | FailureKind::Content(_) => StatusCode::SERVICE_UNAVAILABLE,
            FailureKind::TimedOut { .. }
            | FailureKind::TotalTimedOut { .. }
            | FailureKind::NotTaken { .. } => StatusCode::GATEWAY_TIMEOUT,
            FailureKind::Connect(_)
            | FailureKind::Handshake(_)
            | FailureKind::NoTls
            | FailureKind::Closed
            | FailureKind::Broken(_)
            | FailureKind::NoReply(_)
            | FailureKind::Interim { .. }
            | FailureKind::TooLarge { .. } => StatusCode::BAD_GATEWAY,
            FailureKind::BrokenOff(broken) => broken.status,
        }
    }

    /// What the client is told.
    pub fn client_text(&self) -> &'static str {
        match &self.kind {
            FailureKind::Unresolved => "the backend is not known yet",
            FailureKind::Open { .. } => "the backend failed too often: it is left alone for a moment",
            FailureKind::QueueFull { .. } | FailureKind::QueueTimeout { .. } => "the backend is busy",
            FailureKind::NoRoom { .. } => "too much is in flight",
            FailureKind::Content(_) => "the request could not be read back",
            FailureKind::BrokenOff(broken) => broken.text,
            FailureKind::TimedOut { .. }
            | FailureKind::TotalTimedOut { .. }
            | FailureKind::NotTaken { .. } => "the backend took too long",
            FailureKind::Connect(_) => "the backend is not reachable",
            FailureKind::Handshake(_) | FailureKind::NoTls => "no secure connection to the backend",
            FailureKind::Closed | FailureKind::Broken(_) => "the backend closed the connection",
            FailureKind::NoReply(_) | FailureKind::Interim { .. } => "the backend sent no valid reply",
            FailureKind::TooLarge { .. } => "the reply of the backend is too large",
        }
    }

    /// A word for it, for scripts and metrics.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            FailureKind::Unresolved => "unresolved",
            FailureKind::Open { .. } => "open",
            FailureKind::QueueFull { .. } | FailureKind::QueueTimeout { .. } => "busy",
            FailureKind::Content(_) | FailureKind::BrokenOff(_) => "content",
            FailureKind::TimedOut { .. }
            | FailureKind::TotalTimedOut { .. }
            | FailureKind::NotTaken { .. } => "timeout",
            FailureKind::Connect(_) => "connect",
            FailureKind::Handshake(_) | FailureKind::NoTls => "tls",
            FailureKind::Closed | FailureKind::Broken(_) => "broken",
            FailureKind::NoReply(_) | FailureKind::Interim { .. } => "invalid",
            FailureKind::TooLarge { .. } => "too_large",
            FailureKind::NoRoom { .. } => "no_room",
        }
    }

    /// Whether the client is to blame: its request broke off.
    pub fn is_of_client(&self) -> bool {
        matches!(self.kind, FailureKind::BrokenOff(_))
    }

    /// Whether nobody was asked: the backend is refused before it costs anything.
    pub fn is_refusal(&self) -> bool {
        self.retry_after().is_some()
    }

    /// In how many seconds another try is worth it, where that is known; 1 at least.
    pub fn retry_after(&self) -> Option<u64> {
        match &self.kind {
            FailureKind::Open { retry_after } => {
                Some(retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0)).map(|s| s.max(1))
            }
            FailureKind::Unresolved | FailureKind::QueueFull { .. } | FailureKind::QueueTimeout { .. } => {
                Some(1)
            }
            _ => None,
        }
    }
}

impl FailureKind {
    /// What was wrong with a handshake, if it was one that failed.
    pub(crate) fn handshake_fault(&self, phase: Phase) -> Option<HandshakeFault> {
        match self {
            Self::Handshake(error) => Some(error.fault),
            Self::TimedOut { .. } | Self::TotalTimedOut { .. } if phase == Phase::Handshake => {
                Some(HandshakeFault::Timeout)
            }
            _ => None,
        }
    }

    /// Whether it says something of the address, and not of us or of the request.
    pub(crate) fn blames_backend(&self) -> bool {
        match self {
            Self::Connect(error) => !is_ours(error),
            Self::Handshake(_)
            | Self::TimedOut { .. }
            | Self::TotalTimedOut { .. }
            | Self::Closed
            | Self::Broken(_)
            | Self::NoReply(_)
            | Self::Interim { .. } => true,
            Self::NoTls
            | Self::Unresolved
            | Self::Open { .. }
            | Self::QueueFull { .. }
            | Self::QueueTimeout { .. }
            | Self::TooLarge { .. }
            | Self::NoRoom { .. }
            | Self::NotTaken { .. }
            | Self::BrokenOff(_)
            | Self::Content(_) => false,
        }
    }
}

/// Descriptors, ports or memory that this system is out of.
fn is_ours(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory)
        || matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}
