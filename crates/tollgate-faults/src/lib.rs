//! Backends and clients that misbehave, for tests of the code that must tolerate them.
//!
//! A [`Backend`] is a server on its own socket, which applies its [`Fault`] to each request.
//! [`FaultyClients`] are any number of clients that apply their [`ClientFault`] to a server. Each backend,
//! and each set of clients, runs in its own thread until it is dropped. A fault that is in neither catalogue
//! is written as a list of [`Step`]s.
//!
//! [`kafka::Kafka`] is a real broker of Kafka, which tests kill, freeze and cut off.
//!
//! This crate shares no code with the server, and has its own code to read requests.

pub mod backend;
pub mod client;
mod fault;
pub mod kafka;
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
