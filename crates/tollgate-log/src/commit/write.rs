//! Decides which thread writes: the worker of a batch, or the writer thread.
//!
//! A worker writes its own batch and the waiting ones when the last writes were quick. A reply that waits for
//! this write then needs no other thread. The writer thread does all other writes: writes that open a
//! segment, writes of many bytes, and writes to a slow disk. No thread that writes waits for the sync of a
//! file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch_writer::BatchWriter;
use super::pipeline::CommitPipeline;
use super::state::LogState;
use crate::error::LogError;
use crate::segment_writer::SegmentWriter;
use crate::worker_batch::WorkerMarks;

/// Maximum number of segments that are closed and not sealed.
const UNSEALED_MAX: usize = 4;
/// Maximum number of writes of a worker in a row. The first write has its own batch. The second has the
/// batches that were queued during the first.
const WORKER_WRITES_MAX: usize = 2;

/// Writes the batches that a worker took with the writer. The worker's own batch is the last of these
/// batches. Returns the emptied buffer of that batch.
pub(crate) fn serve_worker(
    mut writer: Box<BatchWriter>,
    pipeline: &CommitPipeline,
    worker: &Arc<WorkerMarks>,
) -> Vec<u8> {
    let log = &pipeline.state;
    let mut result = writer.write(log, Some(worker));
    let mut buffer = writer.batches.pop().map(|batch| batch.payload).unwrap_or_default();
    buffer.clear();
    for writes in 1.. {
        writer.batches.clear();
        if let Err(error) = &result {
            pipeline.fail(error);
        }
        let goes_on = result.is_ok() && writes < WORKER_WRITES_MAX;
        match pipeline.queue.put_back(log, writer, goes_on) {
            Some(again) => writer = again,
            None => break,
        }
        result = writer.write(log, Some(worker));
    }
    buffer
}

/// Runs the writer thread. The thread writes the batches that workers do not write, opens segments, and
/// closes full or old segments.
pub(crate) fn write_loop(pipeline: &CommitPipeline) {
    let log = &pipeline.state;
    let mut open_until = None;
    loop {
        let (mut writer, is_last) = pipeline.queue.turn_of_thread(log, open_until);
        if is_last {
            return end(log, writer);
        }
        if let Err(error) = write_queued(pipeline, &mut writer) {
            pipeline.fail(&error);
        }
        open_until = writer.open_until(log);
        pipeline.queue.put_back(log, writer, false);
    }
}

/// Closes the last segment at the end of the thread. After a failure the segment stays unsealed.
fn end(log: &LogState, mut writer: Box<BatchWriter>) {
    let closed = writer.segments.close_segment();
    let mut progress = log.progress();
    if log.failure().is_none() {
        progress.closed.extend(closed);
    }
    progress.is_writer_done = true;
    drop(progress);
    log.sync_wake.notify_all();
}

/// Writes the waiting batches in one write. Closes and opens segments if that is due.
fn write_queued(pipeline: &CommitPipeline, writer: &mut BatchWriter) -> Result<(), LogError> {
    let log = &pipeline.state;
    // If the disk is short of space, the segment is closed early, because only a sealed segment can be
    // deleted to free space.
    let is_old = writer.open_until(log).is_some_and(|until| until <= Instant::now());
    if is_old || writer.is_segment_full(log) || log.room.is_short() {
        close_segment(log, &mut writer.segments);
    }
    if log.queued_bytes() > 0 && writer.segments.active_bytes() == 0 {
        writer.opened_at = Instant::now();
        wait_for_sealer(log);
        log.look_for_room();
    }
    let declared = pipeline.queue.take_batches(log, writer);
    if !writer.batches.is_empty() {
        let result = writer.write(log, None);
        writer.batches.clear();
        result?;
    }
    if let Some(schemas) = declared {
        writer.segments.declare(schemas);
    }
    Ok(())
}

fn close_segment(log: &LogState, segments: &mut SegmentWriter) {
    if let Some(segment) = segments.close_segment() {
        log.progress().closed.push_back(segment);
        log.seal_wake.notify_all();
    }
}

/// Waits until fewer than `UNSEALED_MAX` segments are closed and unsealed, so that another may be opened.
fn wait_for_sealer(log: &LogState) {
    let mut progress = log.progress();
    while progress.closed.len() >= UNSEALED_MAX && log.failure().is_none() {
        progress = log.wait(&log.seal_wake, progress, Duration::from_secs(1));
    }
}
