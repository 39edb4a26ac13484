//! The log of this process run and its threads: writer, syncer, sealer, and the retainer of [`mod@crate::retain`].
//!
//! Each of the three has a file here; what they share is [`Shared`], under one lock that is never held over a call of
//! the disk.
//!
//! Any error of any of them stops the log for good: nothing more is acknowledged, waiters learn that their records are
//! in an unknown state, and the owner is told through `on_event`. A start afterwards makes a new log.

mod seal;
mod sync;
mod write;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::append::{Appender, Message, WorkerMarks};
use crate::awaited::{Breaker, Desk, Exception, SinkPlace};
use crate::batch::BATCH_BYTES_MAX;
use crate::error::LogError;
use crate::event::LogEvent;
use crate::id::{LogId, Sequence};
use crate::meter::{LogMeter, LogWatch};
use crate::options::{LogOptions, OpenError};
use crate::recover::{RecoveryReport, recover};
use crate::retain::{SealedSegment, retain_loop};
use crate::room::Room;
use crate::schema::{Schema, SchemaId, TooManySchemas};
use crate::segment_writer::{ClosedSegment, SegmentWriter, SyncWork};
use crate::shelf::Loaded;
use crate::storage::{Space, Storage, StorageLock, make_folder};
use seal::seal_loop;
use sync::sync_loop;
use write::write_loop;

/// Batches that may wait for the writer.
const QUEUE_BATCHES_MAX: usize = 1024;
/// Zeros by which a segment grows, where that helps: more make syncs no faster, and the one that carries them slower.
const RUNWAY_BYTES: u64 = 128 << 10;
/// What of a segment they may be at most.
const RUNWAY_SHARE: u64 = 8;
/// How far the log of this run is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// The log.
    pub log: LogId,
    /// The last record that is synced.
    pub synced: Sequence,
}

/// What the threads and the appenders share.
pub(crate) struct Shared {
    pub(crate) options: LogOptions,
    /// By their numbers. Only ever longer.
    schemas: Mutex<Vec<Arc<Schema>>>,
    pub(crate) queued_bytes: AtomicU64,
    pub(crate) room: Room,
    pub(crate) meter: LogMeter,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) log: LogId,
    synced: AtomicU64,
    failure: OnceLock<String>,
    on_event: Box<dyn Fn(&LogEvent) + Send + Sync>,
    progress: Mutex<Progress>,
    loaded: Mutex<Loaded>,
    /// Who waits for which sink. Those of sinks that went stay, and nobody is at them.
    desks: RwLock<Vec<Arc<Desk>>>,
    /// There is something to sync.
    sync_wake: Condvar,
    /// There is something to seal, or the sealer is done with one.
    seal_wake: Condvar,
    /// The watermark moved.
    watermark_wake: Condvar,
    /// The log is closing, or room is wanted.
    retain_wake: Condvar,
    /// Held until the last thread is done.
    _lock: StorageLock,
}

#[derive(Default)]
struct Progress {
    workers: Vec<Arc<WorkerMarks>>,
    work: SyncWork,
    is_sync_wanted: bool,
    oldest_unsynced: Option<Instant>,
    /// The same of what is being synced.
    oldest_syncing: Option<Instant>,
    /// Closed segments in order; the first is with the sealer as soon as it is synced.
    closed: VecDeque<ClosedSegment>,
    /// What was sealed since the retainer looked.
    sealed: Vec<SealedSegment>,
    is_writer_done: bool,
    is_syncer_done: bool,
    is_sealer_done: bool,
    /// The retainer is to look for room at once.
    is_room_wanted: bool,
}

impl Shared {
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The schemas that are declared by now, by their numbers.
    pub(crate) fn schemas(&self) -> Vec<Arc<Schema>> {
        self.schemas.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn register(&self, marks: Arc<WorkerMarks>) {
        self.progress().workers.push(marks);
    }

    /// A thread that panicked while holding the lock has already ended the process.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        wake: &Condvar,
        progress: MutexGuard<'a, Progress>,
        timeout: Duration,
    ) -> MutexGuard<'a, Progress> {
        wake.wait_timeout(progress, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// How far the log is on disk.
    pub(crate) fn watermark(&self) -> Watermark {
        Watermark { log: self.log, synced: self.synced() }
    }

    /// The age of the oldest record that is written and not synced, and how many segments are closed and not sealed.
    pub(crate) fn unsynced(&self) -> (Duration, usize) {
        let progress = self.progress();
        let oldest = progress.oldest_syncing.or(progress.oldest_unsynced);
        (oldest.map_or(Duration::ZERO, |since| since.elapsed()), progress.closed.len())
    }

    fn synced(&self) -> Sequence {
        Sequence(self.synced.load(Ordering::Acquire))
    }

    /// How far the sinks are. The map is whole after every statement.
    pub(crate) fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By the places of the sinks. The list is whole after every statement.
    pub(crate) fn desks(&self) -> RwLockReadGuard<'_, Vec<Arc<Desk>>> {
        self.desks.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, event: &LogEvent) {
        (self.on_event)(event);
    }

    /// Asks the file system how much is free. None: it does not tell, and what was known stands.
    pub(crate) fn look_for_room(&self) -> Option<Space> {
        let space = self.storage.space(&self.options.dir).ok()?;
        self.meter.retainer.note_space(space);
        if let Some(state) = self.room.note(space) {
            let reserve_bytes = self.options.reserve_bytes;
            self.tell(&LogEvent::Room { state, space, reserve_bytes });
        }
        Some(space)
    }

    /// Waits, and returns what was sealed meanwhile. None: the log is closed or has failed.
    pub(crate) fn next_sealed(&self, pause: Duration) -> Option<Vec<SealedSegment>> {
        let progress = self.progress();
        let is_over = |progress: &Progress| progress.is_sealer_done || self.failure().is_some();
        let is_idle = |progress: &mut Progress| !is_over(progress) && !progress.is_room_wanted;
        let waited = self.retain_wake.wait_timeout_while(progress, pause, is_idle);
        let (mut progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        progress.is_room_wanted = false;
        (!is_over(&progress)).then(|| std::mem::take(&mut progress.sealed))
    }

    /// Stops the log: the first reason counts.
    pub(crate) fn fail(&self, error: &LogError) {
        let reason = join_chain(error);
        if self.failure.set(reason.clone()).is_err() {
            return;
        }
        let workers = self.progress().workers.clone();
        for worker in workers {
            worker.wake();
        }
        for wake in [&self.sync_wake, &self.seal_wake, &self.watermark_wake, &self.retain_wake] {
            wake.notify_all();
        }
        self.tell(&LogEvent::Failed(reason));
    }
}

fn join_chain(error: &LogError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The log that this process run writes.
pub struct Log {
    shared: Arc<Shared>,
    sender: Option<SyncSender<Message>>,
    threads: Vec<JoinHandle<()>>,
}

impl Log {
    /// Locks the folder, mends what dead runs left, and starts a new log for these streams.
    ///
    /// Nothing is created for the new log before its first record. The number of a schema is its place in `schemas`;
    /// [`Self::declare`] adds further ones.
    ///
    /// # Errors
    /// The folder is another server's, or cannot be made, listed or synced. A dead log that cannot be mended is no
    /// error: it is in the report.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: LogOptions,
        schemas: Vec<Schema>,
        on_event: impl Fn(&LogEvent) + Send + Sync + 'static,
    ) -> Result<(Self, RecoveryReport), OpenError> {
        let limit = BATCH_BYTES_MAX / 2;
        if options.transaction_bytes_max > limit {
            return Err(OpenError::TransactionBytes { found: options.transaction_bytes_max, limit });
        }
        let lock = lock_folder(&*storage, &options.dir)?;
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
        let shared = Arc::new(Shared {
            options,
            schemas: Mutex::new(schemas),
            queued_bytes: AtomicU64::new(0),
            room,
            meter: LogMeter::new(),
            storage,
            log: writer.log(),
            synced: AtomicU64::new(0),
            failure: OnceLock::new(),
            on_event: Box::new(on_event),
            progress: Mutex::default(),
            loaded: Mutex::default(),
            desks: RwLock::default(),
            sync_wake: Condvar::new(),
            seal_wake: Condvar::new(),
            watermark_wake: Condvar::new(),
            retain_wake: Condvar::new(),
            _lock: lock,
        });
        shared.look_for_room();
        let is_mending_due = report.failed.iter().any(|(_, error)| error.is_storage_full());
        let (sender, receiver) = sync_channel(QUEUE_BATCHES_MAX);
        let threads = vec![
            spawn("log-writer", &shared, move |shared| write_loop(shared, writer, &receiver))?,
            spawn("log-syncer", &shared, sync_loop)?,
            spawn("log-sealer", &shared, seal_loop)?,
            spawn("log-retainer", &shared, move |shared| retain_loop(shared, is_mending_due))?,
        ];
        Ok((Self { shared, sender: Some(sender), threads }, report))
    }

    /// A handle for whoever wants to know how the log does.
    pub fn watch(&self) -> LogWatch {
        LogWatch(self.shared.clone())
    }

    /// The id of this log.
    pub fn id(&self) -> LogId {
        self.shared.log
    }

    /// Declares what rows look like from now on, and returns the numbers of these schemas: that of one that the log has is
    /// the one it has. It is in the log before any batch that uses it.
    ///
    /// # Errors
    /// There would be more than 65,536 schemas in this log.
    ///
    /// # Panics
    /// After [`Self::close`] began.
    pub fn declare(&self, schemas: Vec<Schema>) -> Result<Vec<SchemaId>, TooManySchemas> {
        let Some(sender) = &self.sender else { unreachable!("the log is closing") };
        let mut known = self.shared.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        let mut all = known.clone();
        let number = |schema: Schema| {
            let place = all.iter().position(|known| **known == schema).unwrap_or_else(|| {
                all.push(Arc::new(schema));
                all.len() - 1
            });
            u16::try_from(place).map(SchemaId).map_err(|_| TooManySchemas)
        };
        let numbers = schemas.into_iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let new =
            all[before..].iter().zip(before..).map(|(schema, id)| (SchemaId(id as u16), schema.clone()));
        let new: Vec<_> = new.collect();
        *known = all;
        if !new.is_empty() {
            // A writer that is gone has failed: no batch will follow.
            let _ = sender.send(Message::Schemas(new));
        }
        Ok(numbers)
    }

    /// The schemas that were declared by now, the oldest first.
    pub fn schemas(&self) -> Vec<Arc<Schema>> {
        self.shared.schemas()
    }

    /// Makes the appender of one worker; `wake` is called from a log thread when batches that it waits for got on.
    ///
    /// # Panics
    /// After [`Self::close`] began.
    pub fn appender(&self, wake: impl Fn() + Send + Sync + 'static) -> Appender {
        let Some(sender) = &self.sender else { unreachable!("the log is closing") };
        Appender::new(self.shared.clone(), sender.clone(), Box::new(wake))
    }

    /// A handle that tells how far the log is on disk.
    pub fn follower(&self) -> Follower {
        Follower { shared: self.shared.clone(), desk: None }
    }

    /// Handles of so many further sinks: from now on segments are deleted that all sinks confirmed.
    ///
    /// While there is none, nothing is ever deleted.
    pub fn sink_followers(&self, count: usize) -> Vec<Follower> {
        (0..count).map(|_| self.add_sink()).collect()
    }

    /// The handle of one further sink: nothing is deleted any more that it does not confirm.
    pub fn add_sink(&self) -> Follower {
        let mut desks = self.shared.desks.write().unwrap_or_else(PoisonError::into_inner);
        let desk = Arc::new(Desk::new(SinkPlace(desks.len())));
        desks.push(desk.clone());
        self.shared.loaded().add_sink(desk.sink());
        Follower { shared: self.shared.clone(), desk: Some(desk) }
    }

    /// Waits no more for the sink of a handle. What it says afterwards is not heard, and no reply waits for it.
    pub fn remove_sink(&self, follower: &Follower) {
        if let Some(desk) = &follower.desk {
            desk.set_breaker(Breaker::Open);
            self.shared.loaded().remove_sink(desk.sink());
        }
    }

    /// Writes, syncs and seals what the appenders handed over, and ends the threads. All appenders must be gone.
    ///
    /// # Errors
    /// The reason, if the log stopped before or while closing.
    pub fn close(mut self) -> Result<(), String> {
        drop(self.sender.take());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                return Err("a thread of the log panicked".to_owned());
            }
        }
        self.shared.failure().map_or(Ok(()), |reason| Err(reason.to_owned()))
    }
}

/// Follows the watermark of the log of this run, and says what its sink has.
#[derive(Clone)]
pub struct Follower {
    shared: Arc<Shared>,
    desk: Option<Arc<Desk>>,
}

impl Follower {
    /// How far the log is on disk.
    pub fn watermark(&self) -> Watermark {
        self.shared.watermark()
    }

    /// Confirms that the sink of this handle has all records of a log up to `last`, durably: their segments may go.
    ///
    /// A later call may name a lower number, when the sink has less than before. A handle of no sink confirms nothing.
    pub fn confirm(&self, log: LogId, last: Sequence) {
        if let Some(sink) = self.place() {
            self.shared.loaded().confirm(sink, log, last);
        }
    }

    /// Whether replies wait until the sink has records that it lacks and could load.
    pub fn is_awaited(&self) -> bool {
        self.desk().is_some_and(|desk| desk.is_awaited(self.shared.synced()))
    }

    /// Waits until [`Self::is_awaited`], or the time is over; returns whether it is.
    pub fn wait_awaited(&self, timeout: Duration) -> bool {
        match self.desk() {
            Some(desk) => desk.wait(|| self.shared.synced(), timeout),
            None => {
                thread::sleep(timeout);
                false
            }
        }
    }

    /// The first record that replies wait for until the sink has it, in the batch that it is in; none if they wait for
    /// nothing of that log up to `last`.
    pub fn awaited_from(&self, log: LogId, last: Sequence) -> Option<Sequence> {
        self.desk().filter(|_| log == self.shared.log)?.awaited_from(last)
    }

    /// Releases the replies that wait until the sink has records of a log up to `last`, which it has, durably: as rows or
    /// duplicates, but for the exceptions. These are in the order of the log.
    pub fn settle(&self, log: LogId, last: Sequence, exceptions: &[Exception]) {
        if let Some(desk) = self.desk().filter(|_| log == self.shared.log) {
            desk.settle(last, exceptions);
        }
    }

    /// Says whether the sink takes records.
    pub fn set_breaker(&self, breaker: Breaker) {
        if let Some(desk) = self.desk() {
            desk.set_breaker(breaker);
        }
    }

    /// The place of its sink, if it has one.
    pub fn place(&self) -> Option<SinkPlace> {
        self.desk().map(Desk::sink)
    }

    fn desk(&self) -> Option<&Desk> {
        self.desk.as_deref()
    }

    /// Waits until the log is on disk beyond `seen`, or the time is over.
    pub fn wait_beyond(&self, seen: Sequence, timeout: Duration) -> Watermark {
        let progress = self.shared.progress();
        if self.shared.synced() <= seen {
            drop(self.shared.wait(&self.shared.watermark_wake, progress, timeout));
        }
        self.watermark()
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

fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    run: impl FnOnce(&Shared) + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    let shared = shared.clone();
    thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared)).map_err(OpenError::Thread)
}
