//! The loader: one thread that brings what is synced in the logs of a folder into one sink.

mod backlog;
mod chunk;
mod deleted;
mod ending;
mod fill;
mod follow;
mod settle;
mod share;
mod skip;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_log::{Breaker, Follower, LogId, Storage};

use crate::error::{SinkError, StartError};
use crate::live::LiveLog;
use crate::sink::{LoadFrom, Sink, SinkOptions};
use worker::Worker;

pub use backlog::Backlog;
pub(crate) use deleted::deleted_ends;
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
    /// How long records of a live log gather before they are committed together, if no reply waits for that.
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

/// A loader that makes no progress for this long is stalled.
///
/// It makes progress when it reads a batch, commits, or waits for more. What lies in between is one call of the database
/// or one batch.
pub const STALLED_MIN: Duration = Duration::from_secs(5);

/// What a loader is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadState {
    /// There is more to load than was loaded.
    #[default]
    Loading,
    /// The sink is opened, and has not answered yet.
    Opening,
    /// All that was synced at the last look is loaded.
    CaughtUp,
    /// An error is waited out.
    Retrying,
    /// Somebody has to act; it is looked at again now and then.
    Stopped,
    /// The thread is over.
    Ended,
}

impl LoadState {
    /// The name in log lines and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Opening => "opening",
            Self::CaughtUp => "caught up",
            Self::Retrying => "retrying",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
        }
    }
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
    /// Records in gaps that the sink has now, also of earlier runs, but for those that were given up by command.
    pub in_gaps: u64,
    /// Commits.
    pub commits: u64,
    /// Bytes of the records that they brought, as they are in the log; those of gaps that filled are not counted.
    pub bytes: u64,
    /// Age of the oldest record that is not loaded, by the stamp of its batch; zero when caught up.
    pub lag: Duration,
    /// What is still to be loaded, as of the last look.
    pub backlog: Backlog,
    /// Logs that are not followed any more, and why.
    pub stopped_logs: BTreeMap<LogId, String>,
    /// Logs that cannot be read for now, and why: each is tried again.
    pub failing_logs: BTreeMap<LogId, String>,
    /// Since when such logs are all that is left to load; none if more is left, or nothing.
    pub only_failing_since: Option<Instant>,
    /// How long the loader has made no progress, from [`STALLED_MIN`] on; else zero.
    pub stalled: Duration,
    /// The last error, with its causes.
    pub last_error: Option<String>,
    /// The sink could not be opened the last time, and waiting alone will not change that.
    pub is_unusable: bool,
    /// The present wait after errors; zero while the sink works.
    pub backoff: Duration,
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
    /// What the sink is to be from now on, until the thread takes it up.
    change: Option<SinkOptions>,
    status: LoadStatus,
}

/// What the thread and its owner share.
struct Shared {
    state: Mutex<State>,
    /// The order changed, or the thread ended.
    wake: Condvar,
    begun: Instant,
    /// Milliseconds from `begun` to the last progress; [`RESTING`] while the thread waits.
    progress_ms: AtomicU64,
}

/// Stands for a thread that waits for more, or for its next try.
const RESTING: u64 = u64::MAX;

impl Default for Shared {
    fn default() -> Self {
        let (state, wake, progress_ms) = (Mutex::default(), Condvar::new(), AtomicU64::new(RESTING));
        Self { state, wake, begun: Instant::now(), progress_ms }
    }
}

impl Shared {
    /// Notes that the thread got on.
    fn note_progress(&self) {
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(RESTING - 1);
        self.progress_ms.store(ms, Ordering::Relaxed);
    }

    /// Notes that the thread has nothing to do for now.
    fn note_rest(&self) {
        self.progress_ms.store(RESTING, Ordering::Relaxed);
    }

    /// How long the thread has made no progress; zero below [`STALLED_MIN`].
    fn stalled(&self) -> Duration {
        let progress_ms = self.progress_ms.load(Ordering::Relaxed);
        if progress_ms == RESTING {
            return Duration::ZERO;
        }
        let idle = self.begun.elapsed().saturating_sub(Duration::from_millis(progress_ms));
        if idle < STALLED_MIN { Duration::ZERO } else { idle }
    }

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

    fn status(&self) -> LoadStatus {
        let status = self.state().status.clone();
        let stalled = match status.state {
            LoadState::Ended | LoadState::Opening => Duration::ZERO,
            _ => self.stalled(),
        };
        // It looked before it stalled: what is there by now it does not know.
        let is_outdated = status.state == LoadState::CaughtUp && !stalled.is_zero();
        let state = if is_outdated { LoadState::Loading } else { status.state };
        LoadStatus { state, lag: status.backlog.age(), stalled, ..status }
    }

    fn update(&self, change: impl FnOnce(&mut LoadStatus)) {
        change(&mut self.state().status);
    }

    /// Waits, shorter if the order is no longer `seen` or the sink changes; not at all once the loader is to end.
    fn rest(&self, seen: Order, time: Duration) {
        self.is_undisturbed_for(seen, time);
    }

    /// The same; tells whether it was the whole time.
    fn is_undisturbed_for(&self, seen: Order, time: Duration) -> bool {
        let state = self.state();
        let is_undisturbed =
            |state: &mut State| state.order == seen && seen != Order::Abort && state.change.is_none();
        self.note_rest();
        let waited = self.wake.wait_timeout_while(state, time, is_undisturbed);
        let is_over = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        self.note_progress();
        is_over
    }

    fn change(&self, sink: SinkOptions) {
        self.state().change = Some(sink);
        self.wake.notify_all();
    }

    fn take_change(&self) -> Option<SinkOptions> {
        self.state().change.take()
    }

    fn end(&self) {
        self.update(|status| status.state = LoadState::Ended);
        self.wake.notify_all();
    }
}

/// Opens the sink, again after errors.
type OpenSink = Box<dyn Fn(&SinkOptions) -> Result<Box<dyn Sink>, SinkError> + Send>;

/// Sees how a loader does, also after its end.
#[derive(Clone)]
pub struct LoadWatch {
    name: String,
    shared: Arc<Shared>,
}

impl LoadWatch {
    /// The name of its sink.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the loader does.
    pub fn status(&self) -> LoadStatus {
        self.shared.status()
    }
}

/// Loads logs into one sink, on its own thread. Dropping it ends the thread after the present chunk; one that hangs is
/// left behind.
pub struct Loader {
    name: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Loader {
    /// Starts to load: dead logs to their end, the live one up to its synced watermark.
    ///
    /// The sink is opened by the thread: one that cannot be is no error here, it is waited for and told in the status.
    ///
    /// # Errors
    /// No thread started.
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
        Self::start_with(options, storage, live, Box::new(SinkOptions::open))
    }

    fn start_with(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Box<dyn LiveLog>>,
        open: OpenSink,
    ) -> Result<Self, StartError> {
        let name = options.sink.name.clone();
        // A sink that begins at "now" takes nothing until it knows when that was.
        if let (Some(live), LoadFrom::Now) = (&live, options.sink.from) {
            live.set_breaker(Breaker::Open);
        }
        let shared = Arc::new(Shared::default());
        let mut worker = Worker::new(options, storage, live, open, shared.clone());
        let thread_name = format!("load-{name}");
        let thread = thread::Builder::new()
            .name(thread_name.clone())
            .spawn(move || share::run(&thread_name, &mut worker))
            .map_err(StartError)?;
        Ok(Self { name, shared, thread: Some(thread) })
    }

    /// The name of its sink.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Goes on with other options for the same database and name, after the present chunk. Its positions stay.
    pub fn change(&self, sink: SinkOptions) {
        self.shared.change(sink);
    }

    /// Ends the thread after the present chunk, and does not wait for it.
    pub fn leave(mut self) {
        self.shared.give(Order::Abort);
        self.thread = None;
    }

    /// How the loader does.
    pub fn status(&self) -> LoadStatus {
        self.shared.status()
    }

    /// A handle for whoever wants to know that without owning the loader.
    pub fn watch(&self) -> LoadWatch {
        LoadWatch { name: self.name.clone(), shared: self.shared.clone() }
    }
}

#[cfg(test)]
mod tests;
