//! What workers count, and how it is seen from outside of them.
//!
//! Each worker writes cells of its own; [`ServerWatch`](crate::ServerWatch) reads those of all, at any time,
//! also while a worker does not turn. A request is counted when its reply may leave: then its status is
//! known, and how long it took is what its client sees, but for the network. One look at the clock is that of
//! all replies which leave together.

mod refusal;
mod route;
mod worker;

pub(crate) use refusal::{Refusal, Unconfirmed};
pub(crate) use route::{CLASSES, OwnCells, RouteCells, RouteTally, ScriptFailure};
pub use route::{RouteName, RouteStatus};
pub(crate) use worker::{Flight, MALFORMED, WorkerCells};
