//! The requests of one connection whose handlers run or wait, in the order of the requests. The handler of
//! the first request did not return at once, and all later requests arrived after it.
//!
//! Handlers with safe methods run concurrently. A handler with an unsafe method starts only when all earlier
//! handlers have returned, even if their records are not acknowledged. No later handler starts until it
//! returns (RFC 9112 section 9.3.2). Replies are created, and records appended, in the order of the requests.
//!
//! Whenever the connection waits, it also polls the handlers that wait. A handler continues when its
//! operation is ready.
//!
//! Handlers run in turns. After one slice, the other connections of the worker have their turn.
//!
//! A connection with many running handlers gets no larger share of the worker than a connection with one
//! handler:
//! - Each connection has one place in the script queue, for all scripts that continue after a slice or must
//!   wait before they begin. A script that streams a reply has a separate place.
//! - A thread reads files for one handler of the connection at a time, and only after the client has taken
//!   the earlier replies.
//!
//! Memory is bounded by these rules:
//! - A handler begins or continues only while fewer than [`REPLIES_BYTES_MAX`] bytes of replies wait for the
//!   client. A handler with an unsafe method also runs while a longer reply is being sent.
//! - While all connections together hold too much memory, a handler that has not begun is refused, and a
//!   handler that has begun waits.
//! - Handlers after the first of a connection wait as soon as handlers hold a quarter of the total limit.
//! - The result of a handler is counted before the next handler runs.
//!
//! Each file imports only files before it in this list: `running_request` (one request), `requests` (all
//! requests), `room` (memory for a reply), `script_place` (the place in the script queue), `turns`. Small
//! functions that another file calls are `#[inline]`, because the compiler may compile the files separately.

mod requests;
mod room;
mod running_request;
mod script_place;
mod turns;

pub(super) use requests::{AnsweredRequest, Queue};
pub(super) use room::REPLIES_BYTES_MAX;
pub(super) use running_request::{ReplyForm, ReplySource};

#[cfg(test)]
mod tests;
