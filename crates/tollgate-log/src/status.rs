//! The state of a log of this run, for reports and metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_meter::Observed;

use crate::appended::Level;
use crate::commit::pipeline::CommitPipeline;
use crate::commit::state::Watermark;
use crate::queue_age::QueueState;
use crate::room::RoomState;

/// How the log of this run does, counted from its start.
#[derive(Debug, Clone)]
pub struct LogStatus {
    /// How far it is on disk.
    pub watermark: Watermark,
    /// Why it stopped, if it did.
    pub failure: Option<String>,
    /// Whether records are taken, as far as the disk is concerned.
    pub room: RoomState,
    /// Bytes that are free on its disk.
    pub free_bytes: u64,
    /// Bytes that stay free.
    pub reserve_bytes: u64,
    /// Bytes that wait for the writer, and how many may.
    pub queued_bytes: u64,
    /// See `queued_bytes`.
    pub queue_bytes_max: u64,
    /// How long the oldest record has waited whose reply waits for the disk, and how long it may.
    pub queue_age: Duration,
    /// See `queue_age`.
    pub queue_age_max: Duration,
    /// Whether records are refused because too many or too old ones wait for the disk.
    pub queue: QueueState,
    /// How old the oldest record is that was written, or is being written, and is not synced.
    pub unsynced_age: Duration,
    /// Records written.
    pub records: u64,
    /// Batches written.
    pub batches: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// How long writes took.
    pub writes: Observed,
    /// How many of them workers did themselves.
    pub worker_writes: u64,
    /// How long syncs took.
    pub syncs: Observed,
    /// Segments that are closed and not sealed.
    pub unsealed_segments: usize,
    /// Sealed segments that are kept, of earlier runs too.
    pub kept_segments: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Segments that were deleted.
    pub deleted_segments: u64,
    /// Passes over the kept segments that ended: each deleted what was due.
    pub retain_passes: u64,
}

/// Sees how the log does, also after its end. Nobody waits for it, and it waits for no disk.
#[derive(Clone)]
pub struct LogWatch(pub(crate) Arc<CommitPipeline>);

impl LogWatch {
    /// How the log does.
    pub fn status(&self) -> LogStatus {
        let log = &self.0.state;
        let meter = &log.meter;
        let (unsynced_age, unsealed_segments) = log.unsynced();
        let room = if log.room.is_short() { RoomState::Short } else { RoomState::Enough };
        LogStatus {
            watermark: log.watermark(),
            failure: log.failure().map(str::to_owned),
            room,
            free_bytes: meter.retainer.free_bytes.get(),
            reserve_bytes: log.options.reserve_bytes,
            queued_bytes: log.queued_bytes.load(Ordering::Relaxed),
            queue_bytes_max: log.options.queue_bytes_max,
            queue_age: log.queue_age.age(Level::Synced, log.queue_age.now()),
            queue_age_max: log.options.queue_age_max,
            queue: log.queue_age.state(),
            unsynced_age: unsynced_age.max(meter.writing_for()),
            records: meter.writer.records.get(),
            batches: meter.writer.batches.get(),
            bytes: meter.writer.bytes.get(),
            writes: meter.writer.took.read(),
            worker_writes: meter.writer.by_workers.get(),
            syncs: meter.syncer.took.read(),
            unsealed_segments,
            kept_segments: meter.retainer.kept_segments.get(),
            kept_bytes: meter.retainer.kept_bytes.get(),
            deleted_segments: meter.retainer.deleted.get(),
            retain_passes: meter.retainer.passes.get(),
        }
    }
}
