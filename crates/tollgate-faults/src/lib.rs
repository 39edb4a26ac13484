//! Backends and clients that misbehave, for tests of what has to live with them.
//!
//! A [`Backend`] is a server on a socket of its own that does to each request what its [`Fault`] says.
//! [`FaultyClients`] are any number of connections that do to a server what their [`ClientFault`] says. Each
//! runs in a thread of its own until it is dropped. A fault that neither catalogue has is written as a list
//! of [`Step`]s.
//!
//! Nothing here shares code with the server: how it reads requests is its own.

pub mod backend;
pub mod client;
mod fault;
mod play;
mod random;
mod request;
mod socket;
mod spelling;
mod step;
mod thread;

pub use backend::{Backend, Seen};
pub use client::{ClientFault, FaultyClients, FaultyClientsOptions, Tally};
pub use fault::Fault;
pub use request::Request;
pub use spelling::{SpellingError, duration};
pub use step::Step;
