//! The state of the server for its readers: the admin listener, `tollgate status`, systemd.
//!
//! All values come from cells and from locks that no thread holds during a disk operation. The answer
//! therefore comes also while a worker hangs, the disk hangs or a database is away. [`health`] finds what is
//! wrong and what to do about it. [`metrics`] writes for Prometheus, and [`document`] for all other readers.
//! [`history`] keeps the samples of the last minute.

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
