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

/// State of the log of this run. All counts begin with the run.
#[derive(Debug, Clone)]
pub struct LogStatus {
    /// Watermark of the log.
    pub watermark: Watermark,
    /// The reason for which the log stopped, if it did.
    pub failure: Option<String>,
    /// Whether the disk has space for records.
    pub room: RoomState,
    /// Whether the folder of the log is not at its path any more: its disk was unmounted, or the folder was
    /// moved or removed. Records still go to the open file, which no loader finds.
    pub is_folder_gone: bool,
    /// Free bytes on the disk.
    pub free_bytes: u64,
    /// Bytes that have to stay free on the disk.
    pub reserve_bytes: u64,
    /// Bytes that wait for the writer.
    pub queued_bytes: u64,
    /// Maximum bytes that may wait for the writer.
    pub queue_bytes_max: u64,
    /// Current wait of the oldest record whose reply waits for the disk.
    pub queue_age: Duration,
    /// Longest allowed wait of such a record.
    pub queue_age_max: Duration,
    /// Whether records are refused because too many records, or too old ones, wait for the disk.
    pub queue: QueueState,
    /// Age of the oldest record that is written, or being written, and not synced.
    pub unsynced_age: Duration,
    /// Number of records written.
    pub records: u64,
    /// Number of batches written.
    pub batches: u64,
    /// Bytes of the records written.
    pub bytes: u64,
    /// Durations of the writes.
    pub writes: Observed,
    /// Number of writes by workers themselves.
    pub worker_writes: u64,
    /// Durations of the syncs.
    pub syncs: Observed,
    /// Number of segments that are closed and not sealed.
    pub unsealed_segments: usize,
    /// Number of sealed segments in the folder, including segments of earlier runs.
    pub kept_segments: u64,
    /// Bytes of these sealed segments.
    pub kept_bytes: u64,
    /// Number of segments that were deleted.
    pub deleted_segments: u64,
    /// Number of finished passes of the retainer. Each pass deleted the segments that were due.
    pub retain_passes: u64,
}

/// Reads the state of a log, even after the log is closed. A read never waits for a disk.
#[derive(Clone)]
pub struct LogWatch(pub(crate) Arc<CommitPipeline>);

impl LogWatch {
    /// Returns the state of the log.
    pub fn status(&self) -> LogStatus {
        let log = &self.0.state;
        let meter = &log.meter;
        let (unsynced_age, unsealed_segments) = log.unsynced();
        let room = if log.room.is_short() { RoomState::Short } else { RoomState::Enough };
        LogStatus {
            watermark: log.watermark(),
            failure: log.failure().map(str::to_owned),
            room,
            is_folder_gone: log.room.is_folder_gone(),
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
