//! The loader: one thread that brings what is synced in the logs of a folder into one sink.

mod backlog;
mod chunk;
mod control;
mod deleted;
mod ending;
mod fill;
mod follow;
mod loader_thread;
mod options;
mod settle;
mod skip;
mod status;

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tollgate_log::{Follower, SinkBreaker, Storage};

use crate::error::LoaderStartError;
use crate::live::LiveLog;
use crate::sink::{LoadFrom, SinkOptions};
use control::{LoaderControl, Order};
use loader_thread::LoaderThread;
use options::OpenSink;

pub use backlog::LoadBacklog;
pub(crate) use deleted::deleted_ends;
pub use options::{LoadOptions, LoadTuning};
pub use skip::{SkipError, skip};
pub use status::{LoadState, LoadStatus, STALLED_MIN};

/// Sees how a loader does, also after its end.
#[derive(Clone)]
pub struct LoadWatch {
    name: String,
    control: Arc<LoaderControl>,
}

impl LoadWatch {
    /// The name of its sink.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the loader does.
    pub fn status(&self) -> LoadStatus {
        self.control.status()
    }
}

/// Loads logs into one sink, on its own thread. Dropping it ends the thread after the present chunk; one that
/// hangs is left behind.
pub struct Loader {
    name: String,
    control: Arc<LoaderControl>,
    thread: Option<JoinHandle<()>>,
}

impl Loader {
    /// Starts to load: dead logs to their end, the live one up to its synced watermark.
    ///
    /// The sink is opened by the thread: one that cannot be is no error here, it is waited for and told in
    /// the status.
    ///
    /// # Errors
    /// No thread started.
    pub fn start(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Follower>,
    ) -> Result<Self, LoaderStartError> {
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
    ) -> Result<Self, LoaderStartError> {
        Self::start_with(options, storage, live, Box::new(SinkOptions::open))
    }

    fn start_with(
        options: LoadOptions,
        storage: Arc<dyn Storage>,
        live: Option<Box<dyn LiveLog>>,
        open: OpenSink,
    ) -> Result<Self, LoaderStartError> {
        let name = options.sink.name.clone();
        // A sink that begins at "now" takes nothing until it knows when that was.
        if let (Some(live), LoadFrom::Now) = (&live, options.sink.from) {
            live.set_breaker(SinkBreaker::Open);
        }
        let control = Arc::new(LoaderControl::default());
        let mut loader_thread = LoaderThread::new(options, storage, live, open, control.clone());
        let thread = thread::Builder::new().name(format!("load-{name}")).spawn(move || loader_thread.run());
        let thread = thread.map_err(LoaderStartError)?;
        Ok(Self { name, control, thread: Some(thread) })
    }

    /// The name of its sink.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Goes on with other options for the same database and name, after the present chunk. Its positions
    /// stay.
    pub fn change(&self, sink: SinkOptions) {
        self.control.change(sink);
    }

    /// Ends the thread after the present chunk, and does not wait for it.
    pub fn leave(mut self) {
        self.control.give(Order::Abort);
        self.thread = None;
    }

    /// How the loader does.
    pub fn status(&self) -> LoadStatus {
        self.control.status()
    }

    /// A handle for whoever wants to know that without owning the loader.
    pub fn watch(&self) -> LoadWatch {
        LoadWatch { name: self.name.clone(), control: self.control.clone() }
    }
}

#[cfg(test)]
mod tests;
