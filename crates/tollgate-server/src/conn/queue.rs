//! Requests of one connection that are in their handlers, in their order. The first of them has a handler
//! that did not return at once, and the others came behind it.
//!
//! Handlers with safe methods run side by side. Any other runs when those before it have returned - returned,
//! not acknowledged - and nothing runs behind it (RFC 9112 section 9.3.2). Replies are made, and records
//! appended, in the order of the requests.
//!
//! A handler that waits is polled wherever the connection is, and runs on when what it waits for is there.
//!
//! Handlers run where the connection would wait otherwise, in turns: after a slice of one of them the other
//! connections of the worker have theirs. A connection with many running handlers has no larger share of the
//! worker than one with one: for those of its scripts that go on after a slice, or may not begin at once, it
//! has one place in the script queue of the worker. (A reply that a script streams has a place of its own.)
//! And a thread of the worker looks at files for one of its handlers at a time, not before the client has
//! taken the replies to those before it.
//!
//! Memory: a handler begins or goes on only while the connection holds less than [`REPLIES_BYTES_MAX`] of
//! replies that the client has not taken. One with a method that is not safe does so behind a longer reply
//! that leaves. While all connections together hold too much, a handler that has not begun is refused, and
//! one that has begun waits. Handlers behind the first of a connection wait as soon as handlers hold a
//! quarter of what all may hold. What a handler returned is counted before the next handler runs.
//!
//! The files, from the bottom up: one request (`running_request`), all of them (`requests`), whether there is
//! room for a reply (`room`), the place in the script queue (`script_place`), and the turns of the handlers
//! (`turns`). Small functions that one file calls in another are `#[inline]`, because the compiler may
//! compile the files apart.

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
