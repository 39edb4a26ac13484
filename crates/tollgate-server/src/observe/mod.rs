//! The counters of workers, and how other threads read them.
//!
//! Each worker writes its own cells. [`ServerWatch`](crate::ServerWatch) reads the cells of all workers at
//! any time, even if a worker hangs.
//!
//! A request is counted when its reply may be sent, because its status is known then. The counted duration is
//! the one that the client sees, without the network. One clock reading serves all replies that are sent
//! together.

mod handshake;
mod refusal;
mod request_fault;
mod route;
mod validated;
mod worker;

pub(crate) use handshake::HandshakeEnd;
pub(crate) use refusal::{Refusal, Unconfirmed};
pub(crate) use request_fault::RequestFault;
pub(crate) use route::{CLASSES, OwnCells, RouteCells, RouteTally, ScriptFailure};
pub use route::{RouteName, RouteStatus};
pub use validated::JudgedCount;
pub(crate) use validated::{Judged, MessageSide};
pub(crate) use worker::{Flight, MALFORMED, WorkerCells};
