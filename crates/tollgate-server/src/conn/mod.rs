//! One connection, from its bytes to replies in order. This is step 2 of a transaction.
//!
//! A connection has four parts of state:
//! - [`Reading`](connection::Reading): the part of a request that has arrived.
//! - [`Queue`](queue::Queue): the handlers that run.
//! - [`Replies`]: the replies that wait to be sent.
//! - [`Reuse`](connection::Reuse): whether the connection serves another request.
//!
//! A pass answers every complete request of the read buffer. The pass then waits until the log has the
//! records of these requests, sends all replies with one write, and reads again. A handler that does not
//! return at once joins the queue, and so do all requests after it. The queue runs wherever the connection
//! waits.
//!
//! The engine uses any byte stream: a socket, or TLS over a socket.
//! [`Deadlines`](crate::deadline::Deadlines) keeps the deadlines.

mod answering;
#[cfg(test)]
mod bench;
mod body;
mod client;
mod coding;
mod connection;
mod ending;
mod feed;
mod find_client;
mod gone;
mod handshake;
mod outlet;
mod proxy_source;
mod queue;
mod relay;
mod replies;
mod run;
mod slow_reader;
mod socket;
mod stream;
mod streamed_reply;
mod tls_socket;
mod transport;
mod uploading;
mod wait;

pub(crate) use client::Origin;
pub(crate) use coding::decode_whole;
pub(crate) use handshake::serve_tls;
pub(crate) use replies::Replies;
pub(crate) use run::{refuse, serve};
pub(crate) use socket::Socket;
pub(crate) use transport::PlainStream;
