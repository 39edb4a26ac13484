//! Counters: cells that one thread writes and any thread reads, the text format of Prometheus, limits on
//! repeated log lines, and the recent outcomes of a source.
//!
//! A write to a cell is a relaxed load and a relaxed store, without a lock and without a locked instruction.
//! If each thread has its own cells, no two writers share a cache line. A reader never sees a half-written
//! cell, but it reads two cells at slightly different times.
//!
//! Absent here: names of metrics, threads, clocks. The crate that counts defines the meaning of a count.

mod cell;
mod exposition;
mod histogram;
mod log_throttle;
mod recent_outcomes;

pub use cell::{Counter, Gauge};
pub use exposition::{CONTENT_TYPE, Exposition, Family, Kind};
pub use histogram::{BOUNDS_NS, Histogram, Observed};
pub use log_throttle::{Episode, EpisodeNews, FewPerPeriod, OncePerPause};
pub use recent_outcomes::{BLOCK_MAX, BLOCK_MIN, OUTCOMES_MIN, OutcomeBlock, RecentOutcomes};
