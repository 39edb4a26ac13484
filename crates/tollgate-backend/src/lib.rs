//! Backends: servers that Tollgate sends requests to, for proxied routes and for scripts.
//!
//! A [`Backend`] is the state that the workers of a process share: addresses, breakers, limits and counters,
//! all of them atomics. An [`Upstream`] is the state of one worker for a backend, with the connections of
//! that worker.
//!
//! A request passes the files in this order. [`limit`] admits it or makes it wait. [`send`] picks the
//! address. [`pool`] and [`link`] provide the connection, over [`tls`] if the address is https. [`exchange`]
//! sends the request and reads the head of the reply. [`incoming`] reads the content.
//!
//! `tollgate-http` decides the meaning of the bytes of a reply. The caller decides which fields are
//! forwarded.
//!
//! Invariants:
//! - Every wait is bounded: for admission, for a connection, for the first byte, between bytes, and in total.
//! - A connection is reused only after both messages ended cleanly and no further bytes arrived.
//! - A request is sent twice only if it is idempotent, or if no byte of the request was sent. A request is
//!   never sent again after its reply began.
//! - A connection has neither a task nor a thread. The caller that waits for a reply polls the connection,
//!   and dropping the reply cancels the request.

mod address;
mod attempt;
mod backend;
mod breaker;
mod budget;
mod exchange;
mod failure;
mod incoming;
mod limit;
mod link;
mod options;
mod outgoing;
mod pool;
mod reachability;
mod resolver;
mod send;
mod snapshot;
mod streamed;
mod target;
mod tls;
mod upstream;

pub use address::{Address, AddressError, Scheme};
pub use backend::Backend;
pub use breaker::BreakerState;
pub use failure::{Failure, FailureKind, Phase};
pub use incoming::{Content, Gathered, Incoming, Relayed};
pub use limit::UploadPlace;
pub use options::{BackendOptions, BreakerOptions, PoolOptions, RetryOptions, Timeouts};
pub use outgoing::{Outgoing, OutgoingContent, SpooledContent};
pub use snapshot::{AddressSnapshot, AddressState, BackendSnapshot};
pub use streamed::{BrokenOff, StreamedContent};
pub use tls::{ClientIdentity, HandshakeError, HandshakeFault, TlsError, TlsFiles, TlsOptions};
pub use upstream::{Client, Upstream};
