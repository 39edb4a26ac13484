//! Counters of the threads of a log, in separate cells for each thread.

use std::time::{Duration, Instant};

use tollgate_meter::{Counter, Gauge, Histogram};

use crate::storage::Space;

/// Counters of the threads of a log, in separate cells for each thread.
pub(crate) struct LogMeter {
    begun: Instant,
    pub(crate) writer: WriterCells,
    pub(crate) syncer: SyncerCells,
    pub(crate) retainer: RetainerCells,
}

/// Counters of the thread that holds the writer. Only one thread holds the writer at a time.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct WriterCells {
    pub(crate) records: Counter,
    pub(crate) batches: Counter,
    pub(crate) bytes: Counter,
    pub(crate) by_workers: Counter,
    pub(crate) took: Histogram,
    /// Start of the current write, in nanoseconds since the log began. Zero if no thread writes.
    since_ns: Gauge,
}

#[derive(Default)]
#[repr(align(128))]
pub(crate) struct SyncerCells {
    pub(crate) took: Histogram,
}

#[derive(Default)]
#[repr(align(128))]
pub(crate) struct RetainerCells {
    pub(crate) kept_segments: Gauge,
    pub(crate) kept_bytes: Gauge,
    pub(crate) deleted: Counter,
    /// Finished passes of the retainer.
    pub(crate) passes: Counter,
    pub(crate) free_bytes: Gauge,
}

impl RetainerCells {
    pub(crate) fn note_space(&self, space: Space) {
        self.free_bytes.set(space.free_bytes);
    }
}

impl LogMeter {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            writer: WriterCells::default(),
            syncer: SyncerCells::default(),
            retainer: RetainerCells::default(),
        }
    }

    /// Notes that a write begins. Returns the time of its start.
    pub(crate) fn write_begins(&self) -> Instant {
        let now = Instant::now();
        self.writer.since_ns.set(self.nanoseconds(now).max(1));
        now
    }

    /// Counts a finished write, and returns its duration.
    pub(crate) fn write_ends(&self, begun: Instant, batches: usize, records: u64, bytes: u64) -> Duration {
        let (writer, took) = (&self.writer, begun.elapsed());
        writer.took.observe(took);
        writer.since_ns.set(0);
        writer.batches.add(batches as u64);
        writer.records.add(records);
        writer.bytes.add(bytes);
        took
    }

    /// Returns the duration of the current write so far, or zero if no thread writes.
    pub(crate) fn writing_for(&self) -> Duration {
        match self.writer.since_ns.get() {
            0 => Duration::ZERO,
            since => Duration::from_nanos(self.nanoseconds(Instant::now()).saturating_sub(since)),
        }
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.begun).as_nanos()).unwrap_or(u64::MAX)
    }
}
