//! What the threads of the log count, each in cells of its own.

use std::time::{Duration, Instant};

use tollgate_meter::{Counter, Gauge, Histogram};

use crate::storage::Space;

/// What the threads of the log count, each in cells of its own.
pub(crate) struct LogMeter {
    begun: Instant,
    pub(crate) writer: WriterCells,
    pub(crate) syncer: SyncerCells,
    pub(crate) retainer: RetainerCells,
}

/// Of the thread that holds the writer: one at a time.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct WriterCells {
    pub(crate) records: Counter,
    pub(crate) batches: Counter,
    pub(crate) bytes: Counter,
    pub(crate) by_workers: Counter,
    pub(crate) took: Histogram,
    /// Nanoseconds from the begin of the log to that of the write under way; zero for none.
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
    /// Passes that ended.
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

    /// A write begins.
    pub(crate) fn write_begins(&self) -> Instant {
        let now = Instant::now();
        self.writer.since_ns.set(self.nanoseconds(now).max(1));
        now
    }

    /// Counts a write that is done, and returns how long it took.
    pub(crate) fn write_ends(&self, begun: Instant, batches: usize, records: u64, bytes: u64) -> Duration {
        let (writer, took) = (&self.writer, begun.elapsed());
        writer.took.observe(took);
        writer.since_ns.set(0);
        writer.batches.add(batches as u64);
        writer.records.add(records);
        writer.bytes.add(bytes);
        took
    }

    /// How long the write under way has taken; zero while no thread writes.
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
