//! The loader: one thread that brings what is synced in the logs of a folder into one sink.

mod backlog;
mod chunk;
mod fill;
mod follow;
mod share;
mod skip;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_log::{Follower, LogId, Storage};

use crate::error::{FinishError, SinkError, StartError};
use crate::live::LiveLog;
use crate::sink::{Sink, SinkOptions};
use worker::Worker;

pub use backlog::Backlog;
pub use skip::{SkipError, skip};

/// What is loaded, and where.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The folder of all logs.
    pub dir: PathBuf,
    /// Where rows go.
    pub sink: SinkOptions,
    /// How loads are cut.
    pub tuning: LoadTuning,
}

impl LoadOptions {
    /// The defaults for a folder and a sink.
    pub fn new(dir: impl Into<PathBuf>, sink: SinkOptions) -> Self {
        Self { dir: dir.into(), sink, tuning: LoadTuning::default() }
    }
}

/// Bounds of one commit, and of waits.
#[derive(Debug, Clone, Copy)]
pub struct LoadTuning {
    /// A chunk ends with the batch that reaches this many records.
    pub chunk_rows_max: u64,
    /// A chunk ends with the batch that reaches this many bytes.
    pub chunk_bytes_max: u64,
    /// What was written to the sink is tidied up when it has about this many bytes.
    pub tidy_bytes: u64,
    /// How long records of a live log gather before they are committed together.
    pub gather: Duration,
    /// How often new logs are looked for.
    pub poll: Duration,
    /// The first wait after an error; it doubles.
    pub backoff_min: Duration,
    /// The longest wait after an error.
    pub backoff_max: Duration,
    /// A loader that was not caught up for so long takes an equal share of the machine.
    pub lag_max: Duration,
}

impl Default for LoadTuning {
    fn default() -> Self {
        Self {
            chunk_rows_max: 20_000,
            chunk_bytes_max: 8 << 20,
            tidy_bytes: 16 << 20,
            gather: Duration::from_millis(100),
            poll: Duration::from_secs(1),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(30),
            lag_max: Duration::from_mins(1),
        }
    }
}

impl LoadTuning {
    /// Keeps what a load needs on the sink's disk, beside its rows, within the free bytes that are kept for it.
    #[must_use]
    pub fn within(self, reserve_bytes: u64) -> Self {
        Self {
            chunk_bytes_max: self.chunk_bytes_max.min(reserve_bytes / 8).max(1),
            tidy_bytes: self.tidy_bytes.min(reserve_bytes / 4),
            ..self
        }
    }
}

/// What a loader is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadState {
    /// There is more to load than was loaded.
    #[default]
    Loading,
    /// All that was synced at the last look is loaded.
    CaughtUp,
    /// An error is waited out.
    Retrying,
    /// Somebody has to act; it is looked at again now and then.
    Stopped,
    /// The thread is over.
    Ended,
}

/// How a loader does, counted since its start.
#[derive(Debug, Clone, Default)]
pub struct LoadStatus {
    /// What it is about.
    pub state: LoadState,
    /// Rows loaded.
    pub rows: u64,
    /// Rejects loaded.
    pub rejects: u64,
    /// Records whose key another record has: counted, not loaded.
    pub duplicates: u64,
    /// Records in gaps that the position passed.
    pub missing: u64,
    /// Records of gaps that were found after all.
    pub filled: u64,
    /// Commits.
    pub commits: u64,
    /// Time from the stamp of the first batch of the last commit to its commit; zero when caught up.
    pub lag: Duration,
    /// What is still to be loaded, as of the last look.
    pub backlog: Backlog,
    /// Logs that are not followed any more, and why.
    pub stopped_logs: BTreeMap<LogId, String>,
    /// The last error, with its causes.
    pub last_error: Option<String>,
    /// How often the thread was restarted after a panic.
    pub restarts: u64,
}

/// What the thread is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Order {
    #[default]
    Follow,
    /// Load what is synced, then end.
    Finish,
    /// End after the present chunk.
    Abort,
}

#[derive(Default)]
struct State {
    order: Order,
    status: LoadStatus,
}

/// What the thread and its owner share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The order changed, or the thread ended.
    wake: Condvar,
}

impl Shared {
    /// The state is whole after every statement, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self) -> Order {
        self.state().order
    }

    fn give(&self, order: Order) {
        self.state().order = order;
        self.wake.notify_all();
    }

    fn update(&self, change: impl FnOnce(&mut LoadStatus)) {
        change(&mut self.state().status);
    }

    /// Waits, shorter if the order is no longer `seen`; not at all once the loader is to end.
    fn rest(&self, seen: Order, time: Duration) {
        let state = self.state();
        let waited =
            self.wake.wait_timeout_while(state, time, |state| state.order == seen && seen != Order::Abort);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn end(&self) {
        self.update(|status| status.state = LoadState::Ended);
        self.wake.notify_all();
    }
}

/// Opens the sink, again after errors.
type OpenSink = Box<dyn Fn() -> Result<Box<dyn Sink>, SinkError> + Send>;

/// Loads logs into one sink, on its own thread. Dropping it ends the thread after the present chunk.
pub struct Loader {
    name: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Loader {
    /// Opens the sink and starts to load: dead logs to their end, the live one up to its synced watermark.
    ///
    /// A sink that is locked by somebody else, or whose disk is full, is no error: it is waited for.
    ///
    /// # Errors
    /// The sink cannot be used, or no thread started.
    pub fn start(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Follower>,
    ) -> Result<Self, StartError> {
        Self::start_beside(options, storage, live.map(|live| Box::new(live) as Box<dyn LiveLog>))
    }

    /// The same, beside a log that any process writes.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_beside(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Box<dyn LiveLog>>,
    ) -> Result<Self, StartError> {
        let sink = options.sink.clone();
        Self::start_with(options, storage, live, Box::new(move || sink.open()))
    }

    fn start_with(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Box<dyn LiveLog>>,
        open: OpenSink,
    ) -> Result<Self, StartError> {
        let name = options.sink.name.clone();
        let sink = match open() {
            Ok(sink) => Some(sink),
            Err(error) if error.is_waited_for() => None,
            Err(error) => return Err(StartError::Sink { name, source: Box::new(error) }),
        };
        let shared = Arc::new(Shared::default());
        let mut worker = Worker::new(options, storage, live, open, sink, shared.clone());
        let thread_name = format!("load-{name}");
        let thread = thread::Builder::new()
            .name(thread_name.clone())
            .spawn(move || share::run(&thread_name, &mut worker))
            .map_err(StartError::Thread)?;
        Ok(Self { name, shared, thread: Some(thread) })
    }

    /// The name of its sink.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the loader does.
    pub fn status(&self) -> LoadStatus {
        self.shared.state().status.clone()
    }

    /// Loads all that is synced, then ends the thread. Call after the log was closed.
    ///
    /// `Ok` does not promise that every log is loaded: see `stopped_logs`.
    ///
    /// # Errors
    /// The time was over, or the sink stopped. Nothing is lost: the next run goes on.
    pub fn finish(mut self, timeout: Duration) -> Result<LoadStatus, FinishError> {
        let began = Instant::now();
        self.shared.give(Order::Finish);
        let mut state = self.shared.state();
        let reason = |status: &LoadStatus| status.last_error.clone();
        while !matches!(state.status.state, LoadState::Ended | LoadState::Stopped) {
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                let last_error = reason(&state.status);
                state.order = Order::Abort;
                drop(state);
                self.shared.wake.notify_all();
                // Not joined: a disk that hangs must not hang the owner.
                self.thread = None;
                let waited_ms = began.elapsed().as_millis();
                return Err(FinishError::Timeout { name: self.name.clone(), waited_ms, last_error });
            }
            state = self.shared.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let status = state.status.clone();
        drop(state);
        if status.state == LoadState::Stopped {
            let reason = reason(&status).unwrap_or_default();
            return Err(FinishError::Stopped { name: self.name.clone(), reason });
        }
        Ok(status)
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.give(Order::Abort);
            // A thread that panicked has said so in the log.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
