//! Step 2: one connection, from its bytes to replies in order.
//!
//! Four parts of state: [`Reading`] what of a request has come, [`Queue`] whose handlers run, [`Replies`]
//! what waits to leave, [`Reuse`] what becomes of the connection afterwards. A pass answers every complete
//! request of the read buffer, waits until the log has their records, sends all replies by one write, and
//! reads on. A handler that does not return at once joins the queue, and so does all that comes behind it;
//! the queue runs wherever the connection waits.
//!
//! The engine knows a byte stream, not a socket, so that TLS can join. Deadlines are kept by
//! [`Deadlines`](crate::deadline::Deadlines).

mod answering;
mod arrive;
#[cfg(test)]
mod bench;
mod body;
mod client;
mod coding;
mod connection;
mod ending;
mod feed;
mod flow;
mod gone;
mod outlet;
mod queue;
mod relay;
mod replies;
mod run;
mod socket;
mod stream;
mod transport;
mod trial;
mod uploading;
mod wait;

pub(crate) use client::Origin;
pub(crate) use replies::Replies;
pub(crate) use run::{refuse, serve};
pub(crate) use socket::Socket;
pub(crate) use transport::Plain;
