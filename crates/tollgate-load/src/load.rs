//! The loader: one thread that loads the synced records of all logs in a folder into one sink.

mod backlog;
mod calls;
mod chunk;
mod control;
mod deleted;
mod ending;
mod fill;
mod follow;
mod load_size;
mod loader_thread;
mod options;
mod rejecting;
mod segments;
mod settle;
mod skip;
mod status;
mod unloaded;
mod watched_sink;

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollgate_log::{Follower, SinkBreaker, Storage};

use crate::error::LoaderStartError;
use crate::live::LiveLog;
use crate::sink::{LoadFrom, SinkOptions};
use control::{LoaderControl, Order};
use loader_thread::LoaderThread;
use options::OpenSink;

pub use backlog::LoadBacklog;
pub use calls::WAITING_MIN;
pub(crate) use deleted::deleted_ends;
pub use options::{LoadOptions, LoadTuning, RefusedLogs};
pub(crate) use skip::is_given_up;
pub use skip::{SkipError, skip};
pub use status::{LoadState, LoadStatus, STALLED_MIN};

/// Handle that reads the state of a loader. It also works after the loader has ended.
#[derive(Clone)]
pub struct LoadWatch {
    name: String,
    look: Arc<dyn Fn() -> LoadStatus + Send + Sync>,
}

impl LoadWatch {
    /// Makes the handle of a loader that `look` reads.
    pub fn new(name: impl Into<String>, look: impl Fn() -> LoadStatus + Send + Sync + 'static) -> Self {
        Self { name: name.into(), look: Arc::new(look) }
    }

    /// Returns the name of the sink.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the state of the loader.
    pub fn status(&self) -> LoadStatus {
        (self.look)()
    }
}

/// Loads logs into one sink, on its own thread. A drop of the loader ends the thread after the current chunk.
/// A thread that hangs is not joined.
pub struct Loader {
    name: String,
    control: Arc<LoaderControl>,
    thread: Option<JoinHandle<()>>,
    away_wait_max: Duration,
    commit_wait_max: Duration,
}

impl Loader {
    /// Starts a loader, which loads dead logs to their end, and the live log up to its watermark.
    ///
    /// The thread opens the sink. If that fails, this function returns no error: the thread tries again, and
    /// the status shows the failure.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Follower>,
    ) -> Result<Self, LoaderStartError> {
        Self::start_beside(options, storage, live.map(|live| Arc::new(live) as Arc<dyn LiveLog>))
    }

    /// Starts a loader for a folder with a live log, which this or another process writes.
    ///
    /// # Errors
    /// The same as [`Self::start`].
    pub fn start_beside(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Arc<dyn LiveLog>>,
    ) -> Result<Self, LoaderStartError> {
        Self::start_with(options, storage, live, Box::new(SinkOptions::open))
    }

    fn start_with(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Arc<dyn LiveLog>>,
        open: OpenSink,
    ) -> Result<Self, LoaderStartError> {
        let name = options.sink.name.clone();
        let LoadTuning { away_wait_max, commit_wait_max, .. } = options.tuning;
        // With `LoadFrom::Now`, the breaker is open until the loader has noted where the logs end now.
        if let (Some(live), LoadFrom::Now) = (&live, options.sink.from) {
            live.set_breaker(SinkBreaker::Open);
        }
        let control = Arc::new(LoaderControl::new(live.as_ref()));
        let mut loader_thread = LoaderThread::new(options, storage, live, open, control.clone());
        let thread = thread::Builder::new().name(format!("load-{name}")).spawn(move || loader_thread.run());
        let thread = thread.map_err(LoaderStartError)?;
        Ok(Self { name, control, thread: Some(thread), away_wait_max, commit_wait_max })
    }

    /// Returns the name of the sink.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the loader use other options for the same database and name, after the current chunk. The
    /// positions in the database do not change.
    pub fn change(&self, sink: SinkOptions) {
        self.control.change(sink);
    }

    /// Ends the thread after the current chunk, without waiting for it.
    pub fn leave(mut self) {
        self.control.give(Order::Abort);
        self.thread = None;
    }

    /// Returns the state of the loader.
    pub fn status(&self) -> LoadStatus {
        self.control.status()
    }

    /// Returns a handle that reads the state without owning the loader.
    pub fn watch(&self) -> LoadWatch {
        let control = self.control.clone();
        LoadWatch::new(self.name.clone(), move || control.status())
    }
}

#[cfg(test)]
mod tests;
