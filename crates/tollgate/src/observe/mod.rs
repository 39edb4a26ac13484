//! How the server does, gathered for whoever asks: the admin listener, `tollgate status`, systemd.
//!
//! Everything is read from cells and locks that nobody holds over a call of the disk, so the answer comes
//! also while a worker does not turn, the disk hangs or a database is away. [`health`] says what is wrong and
//! what to do about it, [`metrics`] tells Prometheus, [`document`] everybody else; [`history`] knows how it
//! was a minute ago.

mod document;
pub(crate) mod health;
mod history;
mod memory;
pub(crate) mod metrics;
mod observer;
mod process;
mod reloads;
mod seen;
mod trimmer;
mod watcher;

pub(crate) use observer::Observer;
pub(crate) use seen::Phase;
pub(crate) use watcher::{Watcher, is_alive};
