//! The state of a server, or of a process that only loads, for its readers: the admin listener,
//! `tollgate status`, systemd.
//!
//! All values come from cells and from locks that no thread holds during a disk operation. Readers therefore
//! get an answer even while a worker hangs, the disk hangs or a database is away. [`health`] finds faults and
//! their remedies. [`metrics`] writes the state for Prometheus, and [`document`] writes it for all other
//! readers. [`samples`] keeps the samples of the last minute, and [`history`] the cells of the last day.

mod counts;
mod damage;
mod document;
mod fetching;
pub(crate) mod health;
mod history;
mod memory;
pub(crate) mod metrics;
mod observer;
mod process;
mod reloads;
mod route_failures;
mod samples;
mod seen;
mod trimmer;
mod watcher;

pub(crate) use fetching::{Fetching, LoadSource};
pub(crate) use observer::Observer;
pub(crate) use seen::{OldProcess, Phase};
pub(crate) use watcher::{Watcher, is_alive};
