//! The Luau host of Tollgate: runs the script of a route in a sandbox, within budgets, and hands back the reply and
//! the record. Step 4 of the path of a transaction.
//!
//! Sockets, routes, framing and the log belong to others: this crate knows a request as data and a reply as data, and
//! does no I/O but reading scripts while they are loaded.
//!
//! - One [`Host`] per worker thread; [`Host::load`] gives a [`Handler`]; [`Handler::call`] a [`Call`], which is
//!   resumed until it is [`Step::Done`].
//! - Time: interrupts of the VM compare a counter of the ticker thread with the call's budget, also inside pattern
//!   matching, `pcall` and metamethods. Library functions without an interrupt are bounded in `api/guard.luau`.
//! - Memory: growth during a call is limited in the allocator. See [`Call`]'s module for what that costs.
//!
//! Invariants: nothing that a script does panics or ends the process; after any error the VM serves the next call;
//! no script sees the request of another call, or globals that another script wrote.

mod api;
mod body;
mod budget;
mod call;
mod error;
mod host;
mod id;
mod interned;
mod nearest;
mod place;
mod reply;
mod request;
mod require;
mod sys;

pub use body::{Body, BodyError, BodyFile};
pub use call::{Call, Step};
pub use error::{CallError, HostError, LoadError};
pub use host::{Handler, Host, HostOptions};
pub use id::{RequestId, RequestIdBuffer};
pub use place::Place;
pub use reply::{ContentType, FieldValue, HeaderLine, Outcome, Record, RecordFields};
pub use request::Request;
