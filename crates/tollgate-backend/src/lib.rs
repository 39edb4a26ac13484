//! Backends: servers that ours asks, for proxied routes and for scripts.
//!
//! A [`Backend`] is what the workers of a process share about one: its addresses, breakers, limits and
//! counters, all of them atomics. An [`Upstream`] is one worker's end of it, with the connections of that
//! worker. A request goes through the files in this order: [`limit`] lets it in or has it wait, [`send`]
//! picks the address, [`pool`] and [`link`] give the connection, over [`tls`] where the address is https,
//! [`exchange`] sends it and reads the head of the reply, [`incoming`] reads the content.
//!
//! What a reply means as bytes is decided in `tollgate-http`; which fields are forwarded, by whoever asks.
//!
//! Invariants:
//! - every wait has a bound: for a place, for a connection, for the first byte, between bytes, for all of it;
//! - a connection is used again only after both messages ended cleanly and nothing more came;
//! - a request is sent twice only if it is idempotent, or nothing of it was sent; never after its reply
//!   began;
//! - no task and no thread for a connection: whoever waits for a reply polls it, and dropping that cancels
//!   it.

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
