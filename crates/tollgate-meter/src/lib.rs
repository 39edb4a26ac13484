//! Counters: cells that one thread writes and any thread reads, the text format of Prometheus, and limits on
//! repeated log lines.
//!
//! A write to a cell is a relaxed load and a relaxed store. It needs no lock and no locked instruction. If
//! each thread has its own cells, no two writers share a cache line. A reader sees each cell whole, but reads
//! two cells at slightly different times.
//!
//! Absent here: names of metrics, threads, clocks. The meaning of a count belongs to its crate.

mod cell;
mod exposition;
mod histogram;
mod log_throttle;

pub use cell::{Counter, Gauge};
pub use exposition::{CONTENT_TYPE, Exposition, Family, Kind};
pub use histogram::{BOUNDS_NS, Histogram, Observed};
pub use log_throttle::{Episode, EpisodeNews, FewPerPeriod, OncePerPause};
