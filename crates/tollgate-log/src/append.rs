//! The worker's side of the log: encodes records into the current batch, hands the batch over, and reads
//! whether it is written, synced and loaded.
//!
//! Each worker has its own [`Appender`]. A worker takes no lock before its batch is complete. Then the worker
//! writes the batch itself, or leaves the write to another thread (see [`crate::commit`]). The log publishes
//! two counters to the worker: the numbers of the worker's last written batch and of its last synced batch.
//! If replies wait for a sink, messages report which records the sink has (see [`crate::awaited`]).

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

/// Size of a batch, in bytes, from which the batch is handed over at once. A smaller batch is handed over
/// when the worker's pass ends.
const BATCH_BYTES_SOFT: usize = 1 << 20;

/// Gathers the records of one worker.
pub struct Appender {
    pipeline: Arc<CommitPipeline>,
    marks: Arc<WorkerMarks>,
    /// Schemas of the log that this worker knows. For a record of a newer schema, the worker reads the list
    /// of the log again.
    schemas: Vec<Arc<Schema>>,
    pending: Vec<u8>,
    count: u32,
    schema_mask: u64,
    is_written_wanted: bool,
    is_sync_wanted: bool,
    /// Records whose replies wait until a sink has them.
    awaited: Vec<Awaited>,
    /// Number of the current batch, counted per worker.
    batch_number: u64,
    /// Time of the first append to the current batch, or of the failed hand-over of that batch.
    now: Moment,
    /// Time of the first append to a batch that the full queue refused.
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

    /// Appends the records of one transaction, together and in order. After a crash, either all of these
    /// records survive, or none of them.
    ///
    /// Returns the value to pass to [`Self::reached`], or `None` if `fill` made no record. `Ok` means that
    /// the records are in memory: call [`Self::hand_over`] before you wait for them.
    ///
    /// # Errors
    /// `TooLarge`: never retry. `Busy`, `Slow`, `NoRoom`, `Gone`: retry later. `Stopped`: the process ends.
    /// After an error, no record of the transaction was appended.
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

    /// Appends records whose reply waits until a sink has them. [`Self::take_settled`] reports when the sink
    /// has them.
    ///
    /// # Errors
    /// The same as [`Self::append`].
    pub fn append_awaited<R>(
        &mut self,
        sink: SinkPlace,
        fill: impl FnOnce(&mut Transaction<'_>) -> R,
    ) -> Result<(Option<AppendedRecords>, R), AppendError> {
        self.append_with(Level::Synced, fill, |appender, places| {
            Awaited::add(&mut appender.awaited, sink, places);
        })
    }

    /// Appends records. `want` gets the places of the records in the batch. It notes that the reply waits for
    /// a level or a sink.
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

    /// Returns `Ok` if a transaction of that level would be accepted now. This check costs less than making
    /// the records of a transaction that is then refused.
    ///
    /// # Errors
    /// The same as [`Self::append`], except `TooLarge`.
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
            let is_gone = self.pipeline.state.room.is_folder_gone();
            return Err(if is_gone { AppendError::Gone } else { AppendError::NoRoom });
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

    /// Checks whether a disk that caused refusals keeps up again. If so, reports that to the owner of the
    /// log.
    ///
    /// A worker whose appends may be refused calls this regularly.
    pub fn look(&self, now: Instant) {
        self.pipeline.state.look_at_queue(self.pipeline.state.queue_age.moment(now));
    }

    /// Returns the number of records in the current batch, which wait to be handed over.
    pub fn pending(&self) -> u32 {
        self.count
    }

    /// Hands over the current batch. Returns false if the queue is full: call again soon.
    ///
    /// If the last writes were quick and no other thread writes, this call writes the batch before it
    /// returns. The call then waits for one write, or for two if other workers queued batches during the
    /// first.
    pub fn hand_over(&mut self) -> bool {
        // After a failure of the log, no batch is handed over. For the replies that wait, `reached` then
        // returns the reason of the failure.
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

    /// Returns the current batch with its buffers, and begins a new batch.
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

    /// Returns `Ok` if these records have reached a level, and `None` while they have not.
    ///
    /// # Errors
    /// `Stopped`: the log stopped before the records reached the level. Whether the records survive is
    /// unknown.
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

    /// Returns whether the log stopped. If it did, the state of records whose replies still wait is unknown.
    pub fn is_stopped(&self) -> bool {
        self.pipeline.state.failure().is_some()
    }

    /// Returns the messages of sinks about records of [`Self::append_awaited`] since the last call. Each
    /// record is reported once.
    pub fn take_settled(&self) -> Vec<Settled> {
        self.marks.inbox.take()
    }

    /// Forgets the records that wait for a sink in batches before the batch of `oldest`. With `None`, forgets
    /// the waiting records of all batches so far.
    pub fn wait_from(&self, oldest: Option<AppendedRecords>) {
        let batch = oldest.map_or(self.batch_number, |records| records.batch);
        self.marks.set_waited_from(batch);
    }

    /// Returns whether a sink accepts records. A sink without a follower of the log accepts none.
    pub fn breaker(&self, sink: SinkPlace) -> SinkBreaker {
        self.pipeline.state.pending_acks().get(sink.0).map_or(SinkBreaker::Open, |acks| acks.breaker())
    }

    /// Reads the log's list of schemas again, because a schema was declared after the last read.
    #[cold]
    fn read_schemas(&mut self) {
        self.schemas = self.pipeline.state.schemas();
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.pipeline.queue.remove_appender();
    }
}

/// Builder of the records of one transaction.
pub struct Transaction<'a> {
    appender: &'a mut Appender,
    start: usize,
}

impl Transaction<'_> {
    /// Returns whether the records exceed `transaction_bytes_max`. If they do, the transaction is refused,
    /// whatever is appended to it later.
    pub fn is_too_large(&self) -> bool {
        self.appender.pending.len() - self.start > self.appender.pipeline.state.options.transaction_bytes_max
    }

    /// Appends one row. If `fill` fails, no bytes of the row remain, and the caller can append a reject
    /// instead.
    ///
    /// # Errors
    /// The error that `fill` returns.
    ///
    /// # Panics
    /// If the log has no such schema. The caller declares all schemas first.
    pub fn row(
        &mut self,
        id: SchemaId,
        fill: impl FnOnce(&mut RowEncoder<'_>) -> Result<(), ValueError>,
    ) -> Result<(), ValueError> {
        let appender = &mut *self.appender;
        if usize::from(id.0) >= appender.schemas.len() {
            appender.read_schemas();
        }
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

    /// Appends a reject: an item that does not fit its stream, with the reason.
    pub fn reject(&mut self, id: SchemaId, reason: &str, item: &[u8]) {
        encode_reject(&mut self.appender.pending, id, reason, item);
        self.count(id);
    }

    fn count(&mut self, id: SchemaId) {
        self.appender.count += 1;
        self.appender.schema_mask |= id.mask();
    }
}
