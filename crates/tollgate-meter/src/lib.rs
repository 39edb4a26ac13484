//! Counters: cells that one thread writes and any thread reads, the text format of Prometheus, and limits on
//! repeated log lines.
//!
//! A cell is a relaxed load and a relaxed store: no lock, no locked instruction, and no cache line that two
//! writers share as long as each thread has cells of its own. Whoever reads sees each cell whole, and two
//! cells at slightly different moments.
//!
//! Absent here: names of metrics, threads, clocks. What is counted belongs to whoever counts it.

mod cell;
mod exposition;
mod histogram;
mod log_throttle;

pub use cell::{Counter, Gauge};
pub use exposition::{CONTENT_TYPE, Exposition, Family, Kind};
pub use histogram::{BOUNDS_NS, Histogram, Observed};
pub use log_throttle::{Episode, EpisodeNews, FewPerPeriod, OncePerPause};
