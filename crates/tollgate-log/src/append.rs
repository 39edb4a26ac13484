//! The worker's side of the log: encode records into the batch at hand, hand it over, see how far it got.
//!
//! An [`Appender`] belongs to one worker and is used by it alone. No lock is taken before the batch is
//! complete. The worker then writes it by itself, or leaves it to another thread (see [`crate::commit`]). Two
//! counters come back: how many of this worker's batches are written, how many synced. Where replies wait for
//! a sink, a message tells how far that is (see [`crate::awaited`]).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::appended::{AppendError, AppendedRecords, Level};
use crate::awaited::{Awaited, Settled, SinkBreaker, SinkPlace};
use crate::batch::BATCH_BYTES_MAX;
use crate::commit::pipeline::CommitPipeline;
use crate::commit::queue::Pushed;
use crate::commit::write::serve_worker;
use crate::queue_age::Moment;
use crate::record::{RowEncoder, ValueError, encode_reject};
use crate::schema::{Schema, SchemaId};
use crate::segment_writer::Handover;
use crate::worker_batch::{BatchOrigin, WorkerBatch, WorkerMarks};

/// A batch is handed over at once when it is this large; else when the worker's pass ends.
const BATCH_BYTES_SOFT: usize = 1 << 20;

/// Gathers the records of one worker.
pub struct Appender {
    pipeline: Arc<CommitPipeline>,
    marks: Arc<WorkerMarks>,
    /// Those of the log, as far as this worker has met them.
    schemas: Vec<Arc<Schema>>,
    pending: Vec<u8>,
    count: u32,
    schema_mask: u64,
    is_written_wanted: bool,
    is_sync_wanted: bool,
    /// Records that replies wait for until a sink has them.
    awaited: Vec<Awaited>,
    /// The number of the batch at hand, among those of this worker.
    batch_number: u64,
    /// The first append of the batch at hand, or the last time that it could not be handed over.
    now: Moment,
    /// Since when the batch at hand waits for a place in the writer's queue.
    stuck_since: Option<Moment>,
}

impl Appender {
    pub(crate) fn new(pipeline: Arc<CommitPipeline>, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        let marks = Arc::new(WorkerMarks::new(wake));
        pipeline.state.register(marks.clone());
        pipeline.queue.add_appender();
        let (schemas, now) = (pipeline.state.schemas(), pipeline.state.queue_age.now());
        Self {
            pipeline,
            marks,
            schemas,
            pending: Vec::new(),
            count: 0,
            schema_mask: 0,
            is_written_wanted: false,
            is_sync_wanted: false,
            awaited: Vec::new(),
            batch_number: 1,
            now,
            stuck_since: None,
        }
    }

    /// Appends the records of one transaction, together, in order; they survive together or not at all.
    ///
    /// Returns the records to ask [`Self::reached`] about; none if no record was made. `Ok` means gathered in
    /// memory: call [`Self::hand_over`] before waiting.
    ///
    /// # Errors
    /// `TooLarge`: never retry. `Busy`, `Slow`, `NoRoom`: retry later. `Stopped`: the process ends. Nothing
    /// was recorded.
    pub fn append<R>(
        &mut self,
        level: Level,
        fill: impl FnOnce(&mut Transaction<'_>) -> R,
    ) -> Result<(Option<AppendedRecords>, R), AppendError> {
        self.append_with(level, fill, |appender, _| match level {
            Level::Received => {}
            Level::Written => appender.is_written_wanted = true,
            Level::Synced => appender.is_sync_wanted = true,
        })
    }

    /// Appends records whose reply waits until a sink has them. [`Self::take_settled`] reports that.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_awaited<R>(
        &mut self,
        sink: SinkPlace,
        fill: impl FnOnce(&mut Transaction<'_>) -> R,
    ) -> Result<(Option<AppendedRecords>, R), AppendError> {
        self.append_with(Level::Synced, fill, |appender, places| {
            Awaited::add(&mut appender.awaited, sink, places);
        })
    }

    /// Notes with `want` what the records at these places of the batch are waited for.
    fn append_with<R>(
        &mut self,
        level: Level,
        fill: impl FnOnce(&mut Transaction<'_>) -> R,
        want: impl FnOnce(&mut Self, Range<u32>),
    ) -> Result<(Option<AppendedRecords>, R), AppendError> {
        if self.count == 0 {
            self.now = self.pipeline.state.queue_age.now();
        }
        self.check_admission(level, self.now)?;
        let (start, count, mask) = (self.pending.len(), self.count, self.schema_mask);
        let result = fill(&mut Transaction { appender: self, start });
        let bytes = self.pending.len() - start;
        let limit = self.pipeline.state.options.transaction_bytes_max;
        if bytes > limit {
            self.pending.truncate(start);
            (self.count, self.schema_mask) = (count, mask);
            return Err(AppendError::TooLarge { bytes, limit });
        }
        if bytes == 0 {
            return Ok((None, result));
        }
        want(self, count..self.count);
        let records = AppendedRecords { batch: self.batch_number, first: count, count: self.count - count };
        if self.pending.len() >= BATCH_BYTES_SOFT {
            self.hand_over();
        }
        Ok((Some(records), result))
    }

    /// Whether a transaction of that level would be taken at this moment: to ask costs less than to make its
    /// records.
    ///
    /// # Errors
    /// As [`Self::append`], but for `TooLarge`.
    pub fn check(&self, level: Level, now: Instant) -> Result<(), AppendError> {
        self.check_admission(level, self.pipeline.state.queue_age.moment(now))
    }

    #[inline]
    fn check_admission(&self, level: Level, now: Moment) -> Result<(), AppendError> {
        if let Some(reason) = self.pipeline.state.failure() {
            return Err(AppendError::Stopped(reason.to_owned()));
        }
        let limit = self.pipeline.state.options.queue_bytes_max;
        let queued = self.pipeline.state.queued_bytes.load(Ordering::Relaxed) + self.pending.len() as u64;
        if !self.pipeline.state.room.has_room_behind(queued) {
            return Err(AppendError::NoRoom);
        }
        if queued > limit || self.pending.len() > BATCH_BYTES_MAX / 2 {
            self.pipeline.state.note_refusal(now);
            return Err(AppendError::Busy { queued, limit });
        }
        let (age, limit) = (
            self.pipeline.state.queue_age.age_with(level, self.stuck_since, now),
            self.pipeline.state.options.queue_age_max,
        );
        if age > limit {
            self.pipeline.state.note_refusal(now);
            return Err(AppendError::Slow { age, limit });
        }
        Ok(())
    }

    /// Tells the owner of the log when records are taken again that were refused because the disk was behind.
    /// To be called now and then by whoever may be refused.
    pub fn look(&self, now: Instant) {
        self.pipeline.state.look_at_queue(self.pipeline.state.queue_age.moment(now));
    }

    /// How many records wait to be handed over.
    pub fn pending(&self) -> u32 {
        self.count
    }

    /// Hands over what was gathered. Returns false if the queue is full: call again soon.
    ///
    /// Where the disk was quick lately and no thread writes, this writes the batch before it returns. It
    /// waits for one write at most, or for two if batches of other workers came meanwhile.
    pub fn hand_over(&mut self) -> bool {
        // After a failure the waiters learn the reason from `reached`.
        if self.count == 0 || self.pipeline.state.failure().is_some() {
            return true;
        }
        let bytes = self.pending.len();
        let batch = self.take_batch();
        self.pipeline.state.queued_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        match self.pipeline.queue.push(&self.pipeline.state, batch) {
            Pushed::Queued => self.pending = Vec::with_capacity(bytes),
            Pushed::Turn(writer) => self.pending = serve_worker(writer, &self.pipeline, &self.marks),
            Pushed::Full(batch) => {
                self.pipeline.state.queued_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
                self.now = self.pipeline.state.queue_age.now();
                let WorkerBatch { batch, origin } = *batch;
                (self.pending, self.awaited) = (batch.payload, origin.awaited);
                return self.pipeline.state.failure().is_some();
            }
        }
        self.batch_number += 1;
        self.stuck_since = None;
        (self.count, self.schema_mask) = (0, 0);
        (self.is_written_wanted, self.is_sync_wanted) = (false, false);
        true
    }

    /// The batch at hand, whose buffers move out.
    fn take_batch(&mut self) -> WorkerBatch {
        let payload = std::mem::take(&mut self.pending);
        WorkerBatch {
            batch: Handover {
                payload_checksum: crc32c::crc32c(&payload),
                payload,
                count: self.count,
                schema_mask: self.schema_mask,
            },
            origin: BatchOrigin {
                marks: self.marks.clone(),
                batch_number: self.batch_number,
                since: *self.stuck_since.get_or_insert(self.now),
                is_written_wanted: self.is_written_wanted,
                is_sync_wanted: self.is_sync_wanted,
                awaited: std::mem::take(&mut self.awaited),
            },
        }
    }

    /// Whether a batch reached a level. None: not yet.
    ///
    /// # Errors
    /// The log stopped before: whether the records survive is unknown.
    pub fn reached(&self, records: AppendedRecords, level: Level) -> Option<Result<(), AppendError>> {
        let batch = match level {
            Level::Received => return Some(Ok(())),
            Level::Written => self.marks.written(),
            Level::Synced => self.marks.synced(),
        };
        if batch >= records.batch {
            return Some(Ok(()));
        }
        self.pipeline.state.failure().map(|reason| Err(AppendError::Stopped(reason.to_owned())))
    }

    /// Whether the log stopped: what is waited for is in an unknown state.
    pub fn is_stopped(&self) -> bool {
        self.pipeline.state.failure().is_some()
    }

    /// Returns what sinks have by now of the records of [`Self::append_awaited`]. Each record is reported
    /// once.
    pub fn take_settled(&self) -> Vec<Settled> {
        self.marks.inbox.take()
    }

    /// Forgets those that wait for a sink, but for the transaction `oldest` and those behind it; all, if
    /// there is none.
    pub fn wait_from(&self, oldest: Option<AppendedRecords>) {
        let batch = oldest.map_or(self.batch_number, |records| records.batch);
        self.marks.set_waited_from(batch);
    }

    /// Whether a sink takes records. One that nobody follows the log for does not.
    pub fn breaker(&self, sink: SinkPlace) -> SinkBreaker {
        self.pipeline.state.pending_acks().get(sink.0).map_or(SinkBreaker::Open, |acks| acks.breaker())
    }

    /// Makes sure that the schema with that number is at hand, if it was declared meanwhile.
    fn learn(&mut self, id: SchemaId) {
        if usize::from(id.0) >= self.schemas.len() {
            self.schemas = self.pipeline.state.schemas();
        }
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.pipeline.queue.remove_appender();
    }
}

/// The records of one transaction, while they are made.
pub struct Transaction<'a> {
    appender: &'a mut Appender,
    start: usize,
}

impl Transaction<'_> {
    /// Whether its records have more bytes than they may: it will not be taken, whatever else is appended.
    pub fn is_too_large(&self) -> bool {
        self.appender.pending.len() - self.start > self.appender.pipeline.state.options.transaction_bytes_max
    }

    /// Appends one row. A row that fails leaves no trace; append a reject in its place.
    ///
    /// # Errors
    /// What `fill` returns.
    ///
    /// # Panics
    /// When the log has no such schema: a fault of the caller, who declared them all.
    pub fn row(
        &mut self,
        id: SchemaId,
        fill: impl FnOnce(&mut RowEncoder<'_>) -> Result<(), ValueError>,
    ) -> Result<(), ValueError> {
        let appender = &mut *self.appender;
        appender.learn(id);
        let schema = &appender.schemas[usize::from(id.0)];
        let start = appender.pending.len();
        let mut row = RowEncoder::begin(&mut appender.pending, id, schema);
        match fill(&mut row) {
            Ok(()) => {
                row.finish();
                self.count(id);
                Ok(())
            }
            Err(error) => {
                appender.pending.truncate(start);
                Err(error)
            }
        }
    }

    /// Appends an item that does not fit its stream, with the reason.
    pub fn reject(&mut self, id: SchemaId, reason: &str, item: &[u8]) {
        encode_reject(&mut self.appender.pending, id, reason, item);
        self.count(id);
    }

    fn count(&mut self, id: SchemaId) {
        self.appender.count += 1;
        self.appender.schema_mask |= id.mask();
    }
}
