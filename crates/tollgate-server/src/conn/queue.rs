//! The requests of one connection that are in their handlers, in their order. The handler of the first one
//! did not return at once, and the others came after it.
//!
//! Handlers with safe methods run concurrently. Any other handler runs when the handlers before it have
//! returned, even if their records are not acknowledged. No handler runs after it until it returns (RFC 9112
//! section 9.3.2). Replies are made, and records appended, in the order of the requests.
//!
//! A handler that waits is polled wherever the connection waits, and continues when its operation is ready.
//!
//! Handlers run in turns. After one slice, the other connections of the worker have their turn.
//!
//! A connection with many running handlers gets no larger share of the worker than a connection with one:
//! - It has one place in the script queue, for all scripts that continue after a slice or may not begin at
//!   once. A script that streams a reply has a place of its own.
//! - A thread reads files for one of its handlers at a time, and only after the client has taken the earlier
//!   replies.
//!
//! Memory is bounded by these rules:
//! - A handler begins or continues only while the client has less than [`REPLIES_BYTES_MAX`] of replies to
//!   take. A handler with an unsafe method also runs while a longer reply is being sent.
//! - While all connections together hold too much, a handler that has not begun is refused, and a handler
//!   that has begun waits.
//! - Handlers after the first of a connection wait as soon as handlers hold a quarter of the total limit.
//! - The result of a handler is counted before the next handler runs.
//!
//! The files, from the bottom up: one request (`running_request`), all requests (`requests`), room for a
//! reply (`room`), the place in the script queue (`script_place`), and turns (`turns`). Small functions that
//! another file calls are `#[inline]`, because the compiler may compile the files separately.

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
