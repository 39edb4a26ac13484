//! Writes batches in one gathered write, and publishes the write to the workers and the syncer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::state::LogState;
use crate::awaited::Awaited;
use crate::error::LogError;
use crate::id::Sequence;
use crate::pending_acks::AwaitedBatch;
use crate::queue_age::earlier;
use crate::segment_writer::{Handover, SegmentWriter};
use crate::worker_batch::{BatchOrigin, WorkerBatch, WorkerMarks};

/// The writer of the log, with the batches of its next write. The writer also counts quick writes in a row.
pub(crate) struct BatchWriter {
    pub(super) segments: SegmentWriter,
    /// Time when the active segment was opened.
    pub(super) opened_at: Instant,
    /// Number of quick writes since the last slow one.
    quick_writes: u32,
    /// Bytes that were written and not synced when the last write ended.
    unsynced_bytes: u64,
    pub(super) batches: Vec<Handover>,
    /// Origins of `batches`, in the same order.
    origins: Vec<BatchOrigin>,
}

impl BatchWriter {
    pub(crate) fn new(segments: SegmentWriter) -> Self {
        Self {
            segments,
            opened_at: Instant::now(),
            quick_writes: 0,
            unsynced_bytes: 0,
            batches: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// Adds a batch to the next write.
    pub(super) fn take_on(&mut self, batch: WorkerBatch) {
        self.batches.push(batch.batch);
        self.origins.push(batch.origin);
    }

    /// Returns whether a worker may write all queued batches. A worker may do so if the write is likely to be
    /// quick.
    ///
    /// After a failure no worker may write. A thread whose write fails sets the failure before it puts the
    /// writer back. So no write follows a failed one, even if a worker checked for a failure before the
    /// failed write.
    pub(super) fn can_serve_worker(&self, log: &LogState) -> bool {
        let rule = &log.options.worker_writes;
        let bytes = self.unsynced_bytes + log.queued_bytes();
        log.failure().is_none()
            && self.quick_writes >= rule.after
            && bytes <= rule.unsynced_bytes_max
            && self.segments.is_open_for_records()
            && !self.is_segment_full(log)
            && !log.room.is_short()
    }

    pub(super) fn is_segment_full(&self, log: &LogState) -> bool {
        self.segments.active_bytes() >= log.options.segment_bytes_max
    }

    /// Returns the time until which the active segment may stay open. Returns `None` if no segment is open,
    /// or if an `Instant` cannot represent that time.
    pub(super) fn open_until(&self, log: &LogState) -> Option<Instant> {
        let age_max = log.options.segment_age_max;
        (self.segments.active_bytes() > 0).then(|| self.opened_at.checked_add(age_max)).flatten()
    }

    /// Writes all batches of this writer in one gathered write, and publishes the write to their workers.
    pub(super) fn write(
        &mut self,
        log: &LogState,
        writes_itself: Option<&Arc<WorkerMarks>>,
    ) -> Result<(), LogError> {
        let bytes: u64 = self.batches.iter().map(|batch| batch.payload.len() as u64).sum();
        let records = self.batches.iter().map(|batch| u64::from(batch.count)).sum();
        let begun = log.meter.write_begins();
        let last = self.segments.write(&self.batches, log.synced(), wall_clock_us())?;
        let took = log.meter.write_ends(begun, self.batches.len(), records, bytes);
        self.note_speed(log, took);
        if writes_itself.is_some() {
            log.meter.writer.by_workers.add(1);
        }
        // The waiting replies are noted before a sync can cover the batches. In another order, a loader could
        // commit these records without releasing the replies.
        add_pending_acks(log, &self.origins, &self.batches, last);
        self.publish(log, bytes, writes_itself);
        Ok(())
    }

    fn note_speed(&mut self, log: &LogState, took: Duration) {
        let is_quick = took <= log.options.worker_writes.took_max;
        self.quick_writes = if is_quick { self.quick_writes.saturating_add(1) } else { 0 };
    }

    /// Publishes the write. Workers see that their batches are written, and the syncer gets the files to
    /// sync.
    fn publish(&mut self, log: &LogState, bytes: u64, writes_itself: Option<&Arc<WorkerMarks>>) {
        let waits_for_sync = |origin: &&BatchOrigin| origin.is_sync_wanted || !origin.awaited.is_empty();
        let wanted_since = self
            .origins
            .iter()
            .filter(waits_for_sync)
            .fold(None, |oldest, origin| earlier(oldest, Some(origin.since)));
        let mut is_sync_wanted = wanted_since.is_some();
        let is_room_wanted = log.room.take(bytes);
        log.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        {
            // The writer holds the lock here. A sync that begins now therefore covers all of these batches,
            // or publishes none of these batches as synced.
            let mut progress = log.progress();
            for origin in &self.origins {
                origin.marks.set_written(origin.batch_number, origin.is_sync_wanted);
            }
            progress.wanted.add(wanted_since);
            log.queue_age.unsynced_since.set(progress.wanted.oldest());
            self.segments.move_sync_work_to(&mut progress.work);
            progress.unsynced_bytes += bytes;
            self.unsynced_bytes = progress.unsynced_bytes + progress.syncing_bytes;
            is_sync_wanted |= self.is_sync_due(log, progress.unsynced_bytes);
            progress.is_sync_wanted |= is_sync_wanted;
            progress.is_room_wanted |= is_room_wanted;
            if progress.oldest_unsynced.is_none() {
                progress.oldest_unsynced = Some(Instant::now());
                is_sync_wanted = true;
            }
        }
        if is_sync_wanted {
            log.sync_wake.notify_all();
        }
        if is_room_wanted {
            log.retain_wake.notify_all();
        }
        for origin in self.origins.drain(..) {
            let is_waiting = !writes_itself.is_some_and(|worker| Arc::ptr_eq(worker, &origin.marks));
            if origin.is_written_wanted && is_waiting {
                origin.marks.wake();
            }
        }
    }

    /// Returns whether a sync is due so that workers can continue to write. Workers may not write once
    /// `unsynced_bytes_max` is exceeded.
    fn is_sync_due(&self, log: &LogState, unsynced_bytes: u64) -> bool {
        let rule = &log.options.worker_writes;
        self.quick_writes >= rule.after && unsynced_bytes >= rule.unsynced_bytes_max / 2
    }
}

/// Adds the records whose replies wait for sinks to the pending acknowledgements. `last` is the last record
/// of the last batch.
fn add_pending_acks(log: &LogState, origins: &[BatchOrigin], batches: &[Handover], last: Sequence) {
    let is_awaited = |(_, origin): &(usize, &BatchOrigin)| !origin.awaited.is_empty();
    for (index, origin) in origins.iter().enumerate().filter(is_awaited) {
        let behind: u64 = batches[index..].iter().map(|batch| u64::from(batch.count)).sum();
        let first = Sequence(last.after(1).0 - behind);
        for (place, acks) in log.pending_acks().iter().enumerate() {
            let of_sink = |awaited: &&Awaited| awaited.sink.0 == place;
            let places: Vec<_> =
                origin.awaited.iter().filter(of_sink).map(|awaited| awaited.places.clone()).collect();
            if !places.is_empty() {
                let (marks, batch_number) = (origin.marks.clone(), origin.batch_number);
                acks.add(AwaitedBatch { marks, batch_number, first, places });
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one wall clock of the log: a stamp for people")]
fn wall_clock_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
