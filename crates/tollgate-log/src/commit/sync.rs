//! The syncer: group commit without a timer.
//!
//! A sync covers all writes that ended before it began. After the sync, the syncer publishes the watermark,
//! and wakes each waiting worker once. Batches that are written during a sync wait for the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::pipeline::CommitPipeline;
use super::state::LogState;
use crate::id::Sequence;
use crate::segment_writer::SyncWork;
use crate::worker_batch::WorkerMarks;

pub(crate) fn sync_loop(pipeline: &CommitPipeline) {
    let log = &pipeline.state;
    while let Some((work, written)) = next_sync(log) {
        let begun = Instant::now();
        let result = work.run(&*log.storage);
        log.meter.syncer.took.observe(begun.elapsed());
        match result {
            // Another thread failed during the sync. The owner of the log then knows that no more records are
            // acknowledged, so this sync must not acknowledge any.
            Ok(_) if log.failure().is_some() => break,
            Ok(last) => publish_synced(log, last, &written),
            Err(error) => {
                pipeline.fail(&error);
                break;
            }
        }
    }
    log.progress().is_syncer_done = true;
    log.seal_wake.notify_all();
}

/// Number of the last written batch of each worker.
type WrittenBatches = Vec<(Arc<WorkerMarks>, u64)>;

/// Waits until a sync is due. A sync is due at once if a reply waits for it, otherwise when the oldest
/// unsynced record is `sync_age_max` old. Returns `None` when the log is closed or has failed.
///
/// The batch numbers are read before the sync begins. A batch that is written later waits for the next sync.
fn next_sync(log: &LogState) -> Option<(SyncWork, WrittenBatches)> {
    let mut progress = log.progress();
    loop {
        if log.failure().is_some() || (progress.is_writer_done && progress.work.is_empty()) {
            return None;
        }
        let age = progress.oldest_unsynced.map_or(Duration::ZERO, |since| since.elapsed());
        let age_left = log.options.sync_age_max.saturating_sub(age);
        let is_due = progress.is_sync_wanted || progress.is_writer_done || age_left.is_zero();
        if !progress.work.is_empty() && is_due {
            break;
        }
        let timeout = if progress.work.is_empty() { Duration::from_secs(1) } else { age_left };
        progress = log.wait(&log.sync_wake, progress, timeout);
    }
    progress.is_sync_wanted = false;
    progress.oldest_syncing = progress.oldest_unsynced.take();
    progress.syncing_bytes = std::mem::take(&mut progress.unsynced_bytes);
    progress.wanted.sync_begins();
    let written = progress.workers.iter().map(|marks| (marks.clone(), marks.written())).collect();
    Some((std::mem::take(&mut progress.work), written))
}

fn publish_synced(log: &LogState, last: Sequence, written: &WrittenBatches) {
    {
        // The syncer holds the lock here, so that a thread that is about to wait does not miss the change.
        let mut progress = log.progress();
        progress.oldest_syncing = None;
        progress.syncing_bytes = 0;
        progress.wanted.sync_ends();
        log.queue_age.unsynced_since.set(progress.wanted.oldest());
        log.synced.store(last.0, Ordering::Release);
    }
    log.watermark_wake.notify_all();
    log.seal_wake.notify_all();
    for acks in log.pending_acks().iter() {
        acks.synced(last);
    }
    for (marks, batch) in written {
        marks.set_synced(*batch);
    }
}
