//! The log of this process run: opens it, starts its threads, and hands out appenders and followers.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::{self, JoinHandle};

use crate::append::Appender;
use crate::awaited::{SinkBreaker, SinkPlace};
use crate::batch::BATCH_BYTES_MAX;
use crate::commit::BatchWriter;
use crate::commit::follower::Follower;
use crate::commit::pipeline::CommitPipeline;
use crate::commit::queue::WriteQueue;
use crate::commit::seal::seal_loop;
use crate::commit::state::LogState;
use crate::commit::sync::sync_loop;
use crate::commit::write::write_loop;
use crate::duty::LogDuty;
use crate::error::LogError;
use crate::event::LogEvent;
use crate::id::LogId;
use crate::meter::LogMeter;
use crate::options::{LogOptions, OpenError};
use crate::pending_acks::PendingAcks;
use crate::queue_age::QueueAge;
use crate::recover::{RecoveryReport, recover};
use crate::retain::retain_loop;
use crate::room::Room;
use crate::schema::{SCHEMAS_MAX, Schema, SchemaId, TooManySchemas};
use crate::segment_writer::SegmentWriter;
use crate::status::LogWatch;
use crate::storage::{Storage, StorageLock, make_folder};

/// Bytes of zeros by which a segment grows, on file systems where that helps. A longer runway does not make
/// syncs faster, and it makes the sync that covers the new zeros slower.
const RUNWAY_BYTES: u64 = 128 << 10;
/// Smallest ratio of the size of a segment to the size of its runway.
const RUNWAY_SHARE: u64 = 8;

/// The log that this process run writes.
pub struct Log {
    pipeline: Arc<CommitPipeline>,
    threads: Vec<JoinHandle<()>>,
}

/// What a process that writes a log hands to its successor.
pub struct LogPredecessor {
    /// The lock of the folder. Both processes hold it, until the last of them ends.
    pub lock: StorageLock,
}

/// The lock of the folder, and the duty of the process.
struct Hold {
    lock: StorageLock,
    duty: fn(LogId) -> LogDuty,
}

impl Log {
    /// Locks the folder, recovers the logs of dead runs, and starts a new log for these streams.
    ///
    /// Nothing is created for the new log before its first record. The number of a schema is its index in
    /// `schemas`. [`Self::declare`] adds further schemas.
    ///
    /// # Errors
    /// Another server holds the folder, or the folder cannot be created, listed or synced. A dead log that
    /// cannot be recovered is no error: the report lists it.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: LogOptions,
        schemas: Vec<Schema>,
        on_event: impl Fn(&LogEvent) + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), OpenError> {
        let lock = lock_folder(&*storage, &options.dir)?;
        Self::open_locked(storage, options, schemas, Hold { lock, duty: LogDuty::all }, on_event)
    }

    /// Opens a log as [`Self::open`] does, while the predecessor still writes its own log.
    ///
    /// Until [`Self::take_over_from`], this process deletes no segment, and covers only its own log.
    ///
    /// # Errors
    /// The same as [`Self::open`], but the folder is locked already.
    pub fn succeed(
        storage: Arc<dyn Storage>,
        options: LogOptions,
        schemas: Vec<Schema>,
        predecessor: LogPredecessor,
        on_event: impl Fn(&LogEvent) + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), OpenError> {
        let hold = Hold { lock: predecessor.lock, duty: LogDuty::own };
        Self::open_locked(storage, options, schemas, hold, on_event)
    }

    fn open_locked(
        storage: Arc<dyn Storage>,
        options: LogOptions,
        schemas: Vec<Schema>,
        Hold { lock, duty }: Hold,
        on_event: impl Fn(&LogEvent) + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), OpenError> {
        let limit = BATCH_BYTES_MAX / 2;
        if options.transaction_bytes_max > limit {
            return Err(OpenError::TransactionBytes { found: options.transaction_bytes_max, limit });
        }
        let report = recover(&storage, &options.dir, options.digest)?;
        let schemas: Vec<_> = schemas.into_iter().map(Arc::new).collect();
        let numbered = schemas.iter().enumerate().map(|(id, schema)| (SchemaId(id as u16), schema.clone()));
        let writer = SegmentWriter::new(
            storage.clone(),
            &options.dir,
            report.newest,
            &options.node,
            numbered.collect(),
        )
        .with_runway(runway_bytes(&*storage, &options));
        let room = Room::new(options.reserve_bytes);
        let id = writer.log();
        let queue = WriteQueue::new(BatchWriter::new(writer));
        let state = LogState {
            options,
            schemas: Mutex::new(schemas),
            queued_bytes: AtomicU64::new(0),
            id,
            duty: duty(id),
            room,
            queue_age: QueueAge::new(),
            meter: LogMeter::new(),
            storage,
            synced: AtomicU64::new(0),
            failure: OnceLock::new(),
            on_event: Box::new(on_event),
            progress: Mutex::default(),
            loaded: Mutex::default(),
            pending_acks: RwLock::default(),
            sync_wake: Condvar::new(),
            seal_wake: Condvar::new(),
            watermark_wake: Condvar::new(),
            retain_wake: Condvar::new(),
            deleting: Mutex::default(),
            lock,
        };
        let pipeline = Arc::new(CommitPipeline { state, queue });
        pipeline.state.look_for_room();
        let is_mending_due = report.failed.iter().any(|(_, error)| error.is_storage_full());
        let mut log = Self { pipeline, threads: Vec::new() };
        log.spawn("log-writer", write_loop)?;
        log.spawn("log-syncer", sync_loop)?;
        log.spawn("log-sealer", seal_loop)?;
        log.spawn("log-retainer", move |pipeline| retain_loop(pipeline, is_mending_due))?;
        Ok((log, report))
    }

    /// Returns a handle that reads the state of the log.
    pub fn watch(&self) -> LogWatch {
        LogWatch(self.pipeline.clone())
    }

    /// Returns the id of this log.
    pub fn id(&self) -> LogId {
        self.pipeline.state.id
    }

    /// Returns the name of this machine, as the segments have it.
    pub fn node(&self) -> &str {
        &self.pipeline.state.options.node
    }

    /// Declares schemas of later rows, and returns their numbers. A known schema keeps its number. The log
    /// writes a new schema before any batch that uses it.
    ///
    /// # Errors
    /// The log would then have more than [`SCHEMAS_MAX`] schemas.
    pub fn declare(&self, schemas: Vec<Schema>) -> Result<Vec<SchemaId>, TooManySchemas> {
        let mut known = self.pipeline.state.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        let mut all = known.clone();
        let number = |schema: Schema| {
            let place = all.iter().position(|known| **known == schema).unwrap_or_else(|| {
                all.push(Arc::new(schema));
                all.len() - 1
            });
            if place < SCHEMAS_MAX { Ok(SchemaId(place as u16)) } else { Err(TooManySchemas) }
        };
        let numbers = schemas.into_iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let new =
            all[before..].iter().zip(before..).map(|(schema, id)| (SchemaId(id as u16), schema.clone()));
        let new: Vec<_> = new.collect();
        *known = all;
        if !new.is_empty() {
            self.pipeline.queue.declare(new);
        }
        Ok(numbers)
    }

    /// Returns the schemas declared so far, oldest first.
    pub fn schemas(&self) -> Vec<Arc<Schema>> {
        self.pipeline.state.schemas()
    }

    /// Makes the appender of one worker. Another thread calls `wake` when a batch that this worker waits for
    /// is written, synced or loaded.
    pub fn appender(&self, wake: impl Fn() + Send + Sync + 'static) -> Appender {
        Appender::new(self.pipeline.clone(), Box::new(wake))
    }

    /// Returns a handle that reads the watermark of the log. The handle belongs to no sink.
    pub fn follower(&self) -> Follower {
        Follower { pipeline: self.pipeline.clone(), acks: None }
    }

    /// Adds `count` sinks and returns their handles. From now on, segments that all sinks confirmed are
    /// deleted.
    ///
    /// If the log has no sink, no segment is ever deleted.
    pub fn sink_followers(&self, count: usize) -> Vec<Follower> {
        (0..count).map(|_| self.add_sink()).collect()
    }

    /// Adds a sink and returns its handle. From now on, a segment is deleted only after this sink has
    /// confirmed its records.
    pub fn add_sink(&self) -> Follower {
        let mut pending_acks =
            self.pipeline.state.pending_acks.write().unwrap_or_else(PoisonError::into_inner);
        let acks = Arc::new(PendingAcks::new(SinkPlace(pending_acks.len())));
        pending_acks.push(acks.clone());
        self.pipeline.state.loaded().add_sink(acks.sink());
        Follower { pipeline: self.pipeline.clone(), acks: Some(acks) }
    }

    /// Removes the sink of a handle. Later confirmations of this sink are ignored, and no reply waits for the
    /// sink.
    pub fn remove_sink(&self, follower: &Follower) {
        if let Some(acks) = &follower.acks {
            acks.set_breaker(SinkBreaker::Open);
            self.pipeline.state.loaded().remove_sink(acks.sink());
        }
    }

    /// Returns a copy of the descriptor that holds the lock of the folder, for a successor. `None`: the
    /// storage has no such descriptor.
    ///
    /// # Errors
    /// The system has no free descriptor.
    pub fn lock(&self) -> io::Result<Option<File>> {
        self.pipeline.state.lock.downcast_ref::<File>().map(File::try_clone).transpose()
    }

    /// Gives all logs but the own one to the successor. Segments are no longer deleted when this returns.
    pub fn give_up(&self) {
        self.pipeline.state.duty.give_up();
        // A pass that began before may still delete, so this function waits for its end.
        drop(self.pipeline.state.deleting());
    }

    /// Takes the duty for all logs, except the log of the predecessor. The predecessor has given them up.
    pub fn take_over_from(&self, predecessor: LogId) {
        self.pipeline.state.duty.take_over_from(predecessor);
    }

    /// Returns a function that takes the log of the predecessor too. The owner calls it when that process has
    /// ended. The retainer then recovers the log.
    pub fn take_log(&self, predecessor: LogId) -> impl FnOnce() + Send + 'static {
        let pipeline = self.pipeline.clone();
        move || pipeline.state.duty.note_ended(predecessor)
    }

    /// Writes, syncs and seals all batches that the appenders handed over, and ends the threads. All
    /// appenders must be dropped before this call.
    ///
    /// # Errors
    /// The log stopped before or during this call. The error is the reason.
    pub fn close(mut self) -> Result<(), String> {
        self.pipeline.queue.close();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                return Err("a thread of the log panicked".to_owned());
            }
        }
        self.pipeline.state.failure().map_or(Ok(()), |reason| Err(reason.to_owned()))
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(&CommitPipeline) + Send + 'static,
    ) -> Result<(), OpenError> {
        let pipeline = self.pipeline.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(&pipeline));
        self.threads.push(thread.map_err(OpenError::Thread)?);
        Ok(())
    }
}

/// The threads end by themselves after the last appender is dropped.
impl Drop for Log {
    fn drop(&mut self) {
        self.pipeline.queue.close();
    }
}

fn lock_folder(storage: &dyn Storage, dir: &Path) -> Result<StorageLock, OpenError> {
    make_folder(storage, dir)?;
    let path = dir.join("lock");
    let lock = storage.try_lock(&path).map_err(LogError::io("lock", &path))?;
    lock.ok_or_else(|| OpenError::Locked(dir.to_owned()))
}

fn runway_bytes(storage: &dyn Storage, options: &LogOptions) -> usize {
    if !storage.writes_in_place(&options.dir) {
        return 0;
    }
    RUNWAY_BYTES.min(options.segment_bytes_max / RUNWAY_SHARE) as usize
}
