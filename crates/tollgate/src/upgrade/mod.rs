//! The upgrade of a running server: a new process takes the sockets, and the old one drains and ends.
//!
//! | step | message | who serves | what happens if the new process dies |
//! | --- | --- | --- | --- |
//! | start | `hello`, `started` | old | the upgrade is refused |
//! | check | `checked` | old | the upgrade is refused |
//! | hand over | `listen`, `admin`, `lock`, `go` | old | the upgrade is refused |
//! | serve | `serving` | both accept | the upgrade is refused |
//! | yield | `yielded` | new | the old process starts its own program again |
//! | drain | `draining` | new, old for its last connections | the same |
//!
//! If the old process dies, the new one serves at each step: before the sockets are handed over, it binds the
//! addresses itself.
//!
//! [`channel`] and [`message`] are the protocol. [`conversation`] and [`old`] are the side of the old
//! process, and [`new`] is the other side. [`order`] is the command. `docs/explanation/upgrade.md` says which
//! process owns which file at each step.

mod channel;
mod conversation;
mod message;
mod new;
mod offer;
mod old;
mod order;
mod program;

pub(crate) use new::{DrainingProcess, Handed, Predecessor};
pub(crate) use offer::{Offer, OfferedAdmin};
pub(crate) use old::{BegunUpgrade, Successor};
pub(crate) use order::{Refusal, UpgradeOrder};
pub(crate) use program::note_path;

/// The variable by which a process knows that its standard input is the socket of an upgrade.
const VARIABLE: &str = "TOLLGATE_UPGRADE";
