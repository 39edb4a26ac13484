//! Reasons why a backend gave no reply. The log gets all details. The client gets a status and a short text
//! without details.

use std::fmt;
use std::io;
use std::time::Duration;

use tollgate_http::{ReplyError, StatusCode};

use crate::{BrokenOff, HandshakeError, HandshakeFault};

/// A request without a reply.
#[derive(Debug, thiserror::Error)]
#[error("backend {backend:?}{}, {phase}: {kind}", At(.address.as_deref()))]
pub struct Failure {
    /// The name of the backend.
    pub backend: String,
    /// The address that was tried last, if there was one.
    pub address: Option<String>,
    /// The phase that the request had reached.
    pub phase: Phase,
    /// Cause of the failure.
    #[source]
    pub kind: FailureKind,
}

struct At<'a>(Option<&'a str>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |address| write!(f, " at {address}"))
    }
}

/// Phase of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The request waited for admission or for an address.
    Admission,
    /// The request waited for a connection.
    Connect,
    /// The request waited for the TLS handshake on its connection.
    Handshake,
    /// The request was being sent.
    Send,
    /// The request was sent, and no byte of the reply had arrived.
    FirstByte,
    /// The head of the reply was arriving.
    Head,
    /// The content of the reply was arriving.
    Content,
}

impl Phase {
    /// Returns the name of the phase, for log lines.
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

/// Cause of a failure.
#[derive(Debug, thiserror::Error)]
pub enum FailureKind {
    /// No lookup has found an address of the backend yet.
    #[error("none of its names was found yet")]
    Unresolved,
    /// The breakers of all addresses are open.
    #[error("its breakers are open for {} ms more", .retry_after.as_millis())]
    Open {
        /// Time after which another attempt is useful.
        retry_after: Duration,
    },
    /// Too many requests are in flight, and too many wait.
    #[error("{queued} requests wait for it, limit {limit} requests")]
    QueueFull {
        /// Waiting requests.
        queued: usize,
        /// Limit of waiting requests.
        limit: usize,
    },
    /// No admission permit was free in time.
    #[error("the request waited longer than {} ms for a free place", .limit.as_millis())]
    QueueTimeout {
        /// Maximum time of the wait.
        limit: Duration,
    },
    /// The address accepts no connection.
    #[error("{0}")]
    Connect(#[source] io::Error),
    /// The backend could not prove its identity, or TLS failed in another way.
    #[error("{0}")]
    Handshake(#[source] HandshakeError),
    /// The address is `https`, but the backend has no TLS options.
    #[error("its address is https, but it has no TLS options")]
    NoTls,
    /// A wait exceeded its limit.
    #[error("it made no progress within {} ms", .limit.as_millis())]
    TimedOut {
        /// Limit of the wait.
        limit: Duration,
    },
    /// The total time is over.
    #[error("the request took longer than {} ms in all", .limit.as_millis())]
    TotalTimedOut {
        /// Limit of the total time.
        limit: Duration,
    },
    /// The total time is over, because the client did not read the reply.
    #[error("the client did not read its reply within {} ms in all", .limit.as_millis())]
    NotTaken {
        /// Limit of the total time.
        limit: Duration,
    },
    /// The backend closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// The connection broke.
    #[error("{0}")]
    Broken(#[source] io::Error),
    /// The backend sent an invalid reply.
    #[error("{0}")]
    NoReply(#[source] ReplyError),
    /// Too many interim replies before the final one.
    #[error("it sent more than {limit} interim replies")]
    Interim {
        /// Limit of interim replies.
        limit: usize,
    },
    /// The content exceeds its limit.
    #[error("its reply exceeds limit: {bytes} bytes or more, limit {limit} bytes")]
    TooLarge {
        /// Announced or arrived bytes.
        bytes: u64,
        /// Limit in bytes.
        limit: usize,
    },
    /// Too little memory is available for the content now.
    #[error("the server has too little memory for its reply, of which {bytes} bytes arrived")]
    NoRoom {
        /// Arrived bytes.
        bytes: usize,
    },
    /// The spooled content of the request cannot be read.
    #[error("the request's content cannot be read back: {0}")]
    Content(#[source] io::Error),
    /// The content of the request broke off while it was arriving.
    #[error("the request broke off: {0}")]
    BrokenOff(#[source] BrokenOff),
}

impl Failure {
    /// Returns the status for the client: 502, 503 or 504 (RFC 9110 section 15.6). If the content of the
    /// request broke off, [`BrokenOff`] decides the status.
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

    /// Returns the text for the client.
    pub fn client_text(&self) -> &'static str {
        match &self.kind {
            FailureKind::Unresolved => "no address of the backend is known yet",
            FailureKind::Open { .. } => "the backend failed too often: try again later",
            FailureKind::QueueFull { .. } | FailureKind::QueueTimeout { .. } => "the backend is busy",
            FailureKind::NoRoom { .. } => "the server has too little memory for the reply",
            FailureKind::Content(_) => "the server could not read the request back",
            FailureKind::BrokenOff(broken) => broken.text,
            FailureKind::TimedOut { .. }
            | FailureKind::TotalTimedOut { .. }
            | FailureKind::NotTaken { .. } => "the backend did not reply in time",
            FailureKind::Connect(_) => "the backend is not reachable",
            FailureKind::Handshake(_) | FailureKind::NoTls => "the TLS handshake with the backend failed",
            FailureKind::Closed | FailureKind::Broken(_) => "the backend closed the connection",
            FailureKind::NoReply(_) | FailureKind::Interim { .. } => "the backend sent no valid reply",
            FailureKind::TooLarge { .. } => "the reply of the backend is too large",
        }
    }

    /// Returns a word for the cause, for scripts and metrics.
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

    /// Returns whether the client is at fault, because its request broke off.
    pub fn is_of_client(&self) -> bool {
        matches!(self.kind, FailureKind::BrokenOff(_))
    }

    /// Returns whether the request was refused before any address was tried.
    pub fn is_refusal(&self) -> bool {
        self.retry_after().is_some()
    }

    /// Returns the seconds until another attempt is useful, at least 1. `None` if this time is not known.
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
    /// Returns the fault of a failed handshake, or `None` for any other failure.
    pub(crate) fn handshake_fault(&self, phase: Phase) -> Option<HandshakeFault> {
        match self {
            Self::Handshake(error) => Some(error.fault),
            Self::TimedOut { .. } | Self::TotalTimedOut { .. } if phase == Phase::Handshake => {
                Some(HandshakeFault::Timeout)
            }
            _ => None,
        }
    }

    /// Returns whether the address is the cause of the failure. The cause may also be this system or the
    /// request.
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

/// Returns whether this system lacks descriptors, ports or memory.
fn is_ours(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory)
        || matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}
