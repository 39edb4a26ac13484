//! Writing: stamps batches, writes them in one gathered write, and says so to the workers and the syncer.
//!
//! A worker writes its own batch, and those that wait, when the disk was quick lately: its reply then needs no other
//! thread. The writer thread does all other writes: those that open a segment, those of large or many bytes, and those on
//! a disk that was slow. No thread waits for the sync of a file.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::queue::WriteQueue;
use super::shared::Shared;
use crate::awaited::Awaited;
use crate::backlog::earlier;
use crate::desk::AwaitedBatch;
use crate::error::LogError;
use crate::id::Sequence;
use crate::segment_writer::{Handover, SegmentWriter};
use crate::worker_batch::{BatchOrigin, WorkerBatch, WorkerMarks};

/// Segments that may be closed and not sealed.
const UNSEALED_MAX: usize = 4;
/// Writes that a worker does in a row: its own, then those of batches that came meanwhile.
const WORKER_WRITES_MAX: usize = 2;

/// The writer of the log with the batches that it is to write next, and how quick the disk was.
pub(crate) struct BatchWriter {
    segments: SegmentWriter,
    /// When the active segment was opened.
    opened_at: Instant,
    /// Writes in a row that were quick.
    quick_writes: u32,
    /// Bytes that were written and not synced, as known after the last write.
    unsynced_bytes: u64,
    batches: Vec<Handover>,
    /// Of each batch, in the same order.
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

    /// Whether a worker may write all that is queued: no longer than a quick write is likely to take.
    ///
    /// After a failure no worker may. The thread that failed says so before it puts the writer back, so no write follows one
    /// that failed, also if its worker looked for a failure before that.
    pub(super) fn can_serve_worker(&self, shared: &Shared) -> bool {
        let rule = &shared.options.worker_writes;
        let bytes = self.unsynced_bytes + WriteQueue::bytes(shared);
        shared.failure().is_none()
            && self.quick_writes >= rule.after
            && bytes <= rule.unsynced_bytes_max
            && self.segments.is_open_for_records()
            && !self.is_segment_full(shared)
            && !shared.room.is_short()
    }

    pub(super) fn is_segment_full(&self, shared: &Shared) -> bool {
        self.segments.active_bytes() >= shared.options.segment_bytes_max
    }

    /// How long the active segment may stay open. None: no segment is open, or it may stay open for longer than there is time.
    fn open_until(&self, shared: &Shared) -> Option<Instant> {
        let age_max = shared.options.segment_age_max;
        (self.segments.active_bytes() > 0).then(|| self.opened_at.checked_add(age_max)).flatten()
    }

    /// Writes for a worker, and returns the buffer of its own batch, which was the last in the queue.
    pub(crate) fn serve_worker(mut self: Box<Self>, shared: &Shared, worker: &Arc<WorkerMarks>) -> Vec<u8> {
        let mut result = self.write(shared, Some(worker));
        let mut buffer = self.batches.pop().map(|batch| batch.payload).unwrap_or_default();
        buffer.clear();
        for writes in 1.. {
            self.batches.clear();
            if let Err(error) = &result {
                shared.fail(error);
            }
            let goes_on = result.is_ok() && writes < WORKER_WRITES_MAX;
            match shared.queue.put_back(shared, self, goes_on) {
                Some(again) => self = again,
                None => break,
            }
            result = self.write(shared, Some(worker));
        }
        buffer
    }

    /// Writes the batches at hand in one gathered write, and publishes how far their workers got.
    fn write(&mut self, shared: &Shared, writes_itself: Option<&Arc<WorkerMarks>>) -> Result<(), LogError> {
        let bytes: u64 = self.batches.iter().map(|batch| batch.payload.len() as u64).sum();
        let records = self.batches.iter().map(|batch| u64::from(batch.count)).sum();
        let begun = shared.meter.write_begins();
        let last = self.segments.write(&self.batches, shared.synced(), wall_clock_us())?;
        let took = shared.meter.write_ends(begun, self.batches.len(), records, bytes);
        self.note_speed(shared, took);
        if writes_itself.is_some() {
            shared.meter.writer.by_workers.add(1);
        }
        // Before they can be synced, and so before a loader can come past them.
        put_down(shared, &self.origins, &self.batches, last);
        self.publish(shared, bytes, writes_itself);
        Ok(())
    }

    fn note_speed(&mut self, shared: &Shared, took: Duration) {
        let is_quick = took <= shared.options.worker_writes.took_max;
        self.quick_writes = if is_quick { self.quick_writes.saturating_add(1) } else { 0 };
    }

    /// Tells the workers that their batches are written, and the syncer what is to be synced.
    fn publish(&mut self, shared: &Shared, bytes: u64, writes_itself: Option<&Arc<WorkerMarks>>) {
        let waits_for_sync = |origin: &&BatchOrigin| origin.is_sync_wanted || !origin.awaited.is_empty();
        let wanted_since = self
            .origins
            .iter()
            .filter(waits_for_sync)
            .fold(None, |oldest, origin| earlier(oldest, Some(origin.since)));
        let mut is_sync_wanted = wanted_since.is_some();
        let is_room_wanted = shared.room.take(bytes);
        shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        {
            // Under the lock, so that a sync that begins now either covers these batches or publishes none of them.
            let mut progress = shared.progress();
            for origin in &self.origins {
                origin.marks.set_written(origin.ticket, origin.is_sync_wanted);
            }
            progress.wanted.add(wanted_since);
            shared.backlog.unsynced_since.set(progress.wanted.oldest());
            self.segments.move_sync_work_to(&mut progress.work);
            progress.unsynced_bytes += bytes;
            self.unsynced_bytes = progress.unsynced_bytes + progress.syncing_bytes;
            is_sync_wanted |= self.is_sync_due(shared, progress.unsynced_bytes);
            progress.is_sync_wanted |= is_sync_wanted;
            progress.is_room_wanted |= is_room_wanted;
            if progress.oldest_unsynced.is_none() {
                progress.oldest_unsynced = Some(Instant::now());
                is_sync_wanted = true;
            }
        }
        if is_sync_wanted {
            shared.sync_wake.notify_all();
        }
        if is_room_wanted {
            shared.retain_wake.notify_all();
        }
        for origin in self.origins.drain(..) {
            let is_waiting = !writes_itself.is_some_and(|worker| Arc::ptr_eq(worker, &origin.marks));
            if origin.is_written_wanted && is_waiting {
                origin.marks.wake();
            }
        }
    }

    /// Whether so much is unsynced that the next writes would not be the workers' any more.
    fn is_sync_due(&self, shared: &Shared, unsynced_bytes: u64) -> bool {
        let rule = &shared.options.worker_writes;
        self.quick_writes >= rule.after && unsynced_bytes >= rule.unsynced_bytes_max / 2
    }
}

/// The writer thread: writes what the workers leave to it, opens segments, and closes those that are full or old.
pub(super) fn write_loop(shared: &Shared) {
    let mut open_until = None;
    loop {
        let (mut writer, is_last) = shared.queue.turn_of_thread(shared, open_until);
        if is_last {
            return end(shared, writer);
        }
        if let Err(error) = write_queued(shared, &mut writer) {
            shared.fail(&error);
        }
        open_until = writer.open_until(shared);
        shared.queue.put_back(shared, writer, false);
    }
}

/// Closes the last segment. After a failure it stays unsealed.
fn end(shared: &Shared, mut writer: Box<BatchWriter>) {
    let closed = writer.segments.close_segment();
    let mut progress = shared.progress();
    if shared.failure().is_none() {
        progress.closed.extend(closed);
    }
    progress.is_writer_done = true;
    drop(progress);
    shared.sync_wake.notify_all();
}

/// Writes what waits, in one write; opens and closes segments where that is due.
fn write_queued(shared: &Shared, writer: &mut BatchWriter) -> Result<(), LogError> {
    // What is sealed can be loaded and deleted: that makes room.
    let is_old = writer.open_until(shared).is_some_and(|until| until <= Instant::now());
    if is_old || writer.is_segment_full(shared) || shared.room.is_short() {
        close_segment(shared, &mut writer.segments);
    }
    if WriteQueue::bytes(shared) > 0 && writer.segments.active_bytes() == 0 {
        writer.opened_at = Instant::now();
        wait_for_sealer(shared);
        shared.look_for_room();
    }
    let declared = shared.queue.take_batches(shared, writer);
    if !writer.batches.is_empty() {
        let result = writer.write(shared, None);
        writer.batches.clear();
        result?;
    }
    if let Some(schemas) = declared {
        writer.segments.declare(schemas);
    }
    Ok(())
}

/// Notes whose replies wait until sinks have records of these batches, the last of which is `last`.
fn put_down(shared: &Shared, origins: &[BatchOrigin], batches: &[Handover], last: Sequence) {
    let is_awaited = |(_, origin): &(usize, &BatchOrigin)| !origin.awaited.is_empty();
    for (index, origin) in origins.iter().enumerate().filter(is_awaited) {
        let behind: u64 = batches[index..].iter().map(|batch| u64::from(batch.count)).sum();
        let first = Sequence(last.after(1).0 - behind);
        for (place, desk) in shared.desks().iter().enumerate() {
            let of_sink = |part: &&Awaited| part.sink.0 == place;
            let places: Vec<_> =
                origin.awaited.iter().filter(of_sink).map(|part| part.places.clone()).collect();
            if !places.is_empty() {
                let (marks, ticket) = (origin.marks.clone(), origin.ticket);
                desk.put(AwaitedBatch { marks, ticket, first, places });
            }
        }
    }
}

fn close_segment(shared: &Shared, segments: &mut SegmentWriter) {
    if let Some(segment) = segments.close_segment() {
        shared.progress().closed.push_back(segment);
        shared.seal_wake.notify_all();
    }
}

/// Before another segment is opened: no more than four may be closed and unsealed.
fn wait_for_sealer(shared: &Shared) {
    let mut progress = shared.progress();
    while progress.closed.len() >= UNSEALED_MAX && shared.failure().is_none() {
        progress = shared.wait(&shared.seal_wake, progress, Duration::from_secs(1));
    }
}

#[expect(clippy::disallowed_methods, reason = "the one wall clock of the log: a stamp for people")]
fn wall_clock_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
