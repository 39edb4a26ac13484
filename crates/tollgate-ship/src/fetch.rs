//! The thread `fetch` of a [`Fetcher`]. It finds segments in a store and copies them to a folder of this
//! machine (`FetchOptions::spool`). It also writes the positions of the sinks to the store. The loader reads
//! the folder like any folder of logs.
//!
//! The name of a segment has the number of its first record. The thread therefore looks for the name with the
//! next record that the sinks lack. The folder contains only copies of segments that the store has, so the
//! thread empties it at the start.
//!
//! Several fetchers may share a store. An [`Allotment`] then decides which logs each of them fetches. A
//! fetcher only lists the names of other logs, so that it knows whether they are loaded.
//!
//! | fault | effect |
//! | --- | --- |
//! | a call on the store fails, or a database does not answer | all logs wait. The thread tries again without end. The first wait is 100 ms, and each next wait is twice as long, up to 30 s |
//! | a segment in the store is damaged, or its content does not match its name | the fetcher asks the machine that wrote the segment to store it again. The log waits, and all other logs are fetched |
//! | the digest of a segment is right, and the checksum of a batch is wrong | the segment was wrong before its machine digested it. The loader records the batch as a gap, as from a log of its own machine |
//! | a segment is missing, and the store has a later one | the fetcher asks for the segment after `FetchTuning::gap_patience`. The log waits, and all other logs are fetched |
//! | the machine that wrote the segment has deleted it | the next later segment is fetched, and the loader records the gap |

mod allotment;
mod answers;
mod hunt;
mod log;
mod options;
mod retain;
mod spool;
mod status;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_log::{LogError, LogId, Sequence, Storage, join_chain, make_folder};

use crate::answer::{NodeAnswer, TEXT_BYTES_MAX, now_ms};
use crate::listing::{end_of, ended_logs, shipped_logs};
use crate::name::ObjectName;
use crate::store::{Store, StoreError};
pub use allotment::{AllLogs, Allotment, OfferedLog};
use answers::AnsweredPositions;
use hunt::Hunt;
use log::{FetchedLog, LogShare};
pub use options::{FetchOptions, FetchTuning, ReadPositions, SinkPositions};
pub use retain::StoreRetain;
pub use spool::{Spool, SpoolError};
pub use status::{FetchFault, FetchState, FetchStatus, FetchWatch, LogFetch, NodeFetch};

/// A machine that missed this many reports is silent.
const REPORTS_MISSED_MAX: u64 = 3;

/// Maximum number of segments of one log that are fetched before the next log has its turn.
const IN_A_ROW_MAX: usize = 64;

/// Time without a successful pass after which other fetchers get the logs of this one.
const FAILING_MAX: Duration = Duration::from_secs(10);

/// An order to the thread.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Order {
    #[default]
    Fetch,
    /// End the current wait, because the fetcher may have got further logs.
    FetchNow,
    End,
}

#[derive(Debug, Default)]
struct Control {
    order: Mutex<Order>,
    wake: Condvar,
}

impl Control {
    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ended(&self) -> bool {
        *self.order() == Order::End
    }

    fn give(&self, order: Order) {
        let mut present = self.order();
        if *present != Order::End {
            *present = order;
        }
        self.wake.notify_all();
    }

    fn rest(&self, time: Duration) {
        let wait = self.wake.wait_timeout_while(self.order(), time, |order| *order == Order::Fetch);
        let (mut order, _) = wait.unwrap_or_else(PoisonError::into_inner);
        if *order == Order::FetchNow {
            *order = Order::Fetch;
        }
    }
}

/// Makes a fetcher look at the store now.
#[derive(Debug, Clone)]
pub struct FetchWaker(Arc<Control>);

impl FetchWaker {
    /// Ends the wait of the fetcher until its next pass.
    pub fn wake(&self) {
        self.0.give(Order::FetchNow);
    }
}

/// A running fetcher: the thread `fetch`, and a handle to end it.
pub struct Fetcher {
    control: Arc<Control>,
    watch: FetchWatch,
    thread: Option<JoinHandle<()>>,
}

impl Fetcher {
    /// Starts the only fetcher of a store, as [`Self::start_sharing`] does.
    ///
    /// # Errors
    /// The same as [`Self::start_sharing`].
    pub fn start(
        options: FetchOptions,
        storage: Arc<dyn Storage>,
        store: Arc<dyn Store>,
        positions: ReadPositions,
    ) -> Result<Self, FetchStartError> {
        Self::start_sharing(options, storage, store, positions, Box::new(AllLogs))
    }

    /// Empties the folder `FetchOptions::spool`, and starts the thread `fetch`.
    ///
    /// # Errors
    /// The folder cannot be created or emptied, or no thread can be started.
    pub fn start_sharing(
        options: FetchOptions,
        storage: Arc<dyn Storage>,
        store: Arc<dyn Store>,
        positions: ReadPositions,
        allotment: Box<dyn Allotment>,
    ) -> Result<Self, FetchStartError> {
        make_folder(&*storage, &options.spool)?;
        empty(&options.spool)
            .map_err(|source| FetchStartError::Folder { folder: options.spool.clone(), source })?;
        let (control, watch) = (Arc::new(Control::default()), FetchWatch::default());
        let mut worker = FetchThread {
            options,
            storage,
            store,
            positions,
            allotment,
            logs: BTreeMap::new(),
            answers: AnsweredPositions::default(),
            nodes_at: None,
            ends_at: None,
            retained_at: None,
            watch: watch.clone(),
            control: control.clone(),
            backoff: None,
            failing_since: None,
        };
        worker.watch.lock().spool_bytes_max = worker.options.spool_bytes_max;
        let thread = thread::Builder::new().name("fetch".to_owned()).spawn(move || worker.run());
        Ok(Self { control, watch, thread: Some(thread.map_err(FetchStartError::Thread)?) })
    }

    /// Returns a handle that reads the state of the fetcher.
    pub fn watch(&self) -> FetchWatch {
        self.watch.clone()
    }

    /// Returns a handle that ends the wait until the next pass.
    pub fn waker(&self) -> FetchWaker {
        FetchWaker(self.control.clone())
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.control.give(Order::End);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Why a fetcher could not start.
#[derive(Debug, thiserror::Error)]
pub enum FetchStartError {
    /// The folder of fetched segments cannot be created.
    #[error("cannot create the folder of fetched segments")]
    Create(#[from] LogError),
    /// The folder of fetched segments cannot be emptied.
    #[error("cannot empty {}, the folder of fetched segments", folder.display())]
    Folder {
        /// The folder of fetched segments.
        folder: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// No thread can be started.
    #[error("cannot start the thread that fetches")]
    Thread(#[source] io::Error),
}

/// Deletes the folders of logs that an earlier run fetched.
fn empty(spool: &std::path::Path) -> io::Result<()> {
    for entry in fs::read_dir(spool)? {
        let entry = entry?;
        let is_log = entry.file_name().to_str().is_some_and(|name| name.parse::<LogId>().is_ok());
        if is_log && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

struct FetchThread {
    options: FetchOptions,
    storage: Arc<dyn Storage>,
    store: Arc<dyn Store>,
    positions: ReadPositions,
    /// Decides which logs this fetcher fetches.
    allotment: Box<dyn Allotment>,
    logs: BTreeMap<LogId, FetchedLog>,
    answers: AnsweredPositions,
    /// Time of the last read of the reports of all machines.
    nodes_at: Option<Instant>,
    /// Time of the last list of the ends of all logs.
    ends_at: Option<Instant>,
    /// Time of the last search for segments to delete.
    retained_at: Option<Instant>,
    watch: FetchWatch,
    control: Arc<Control>,
    /// Wait after the last pass failed. `None`: the last pass worked.
    backoff: Option<Duration>,
    /// Time since which no pass has worked. `None`: the last pass worked.
    failing_since: Option<Instant>,
}

/// Result of a pass over all logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// At least one segment was fetched.
    Some,
    /// The store has no new segment.
    Nothing,
    /// The folder has `spool_bytes_max` bytes of segments that are not loaded.
    Full,
}

impl FetchThread {
    fn run(&mut self) {
        while !self.control.is_ended() {
            match catch_unwind(AssertUnwindSafe(|| self.look())) {
                Ok(Ok(look)) => self.looked(look),
                Ok(Err(error)) => self.failed(&join_chain(&error)),
                Err(_) => {
                    tracing::error!("fetching panicked and goes on: this is a bug, please report it");
                    self.failed("fetching panicked");
                }
            }
        }
        // The other machines only delete segments later if they lack these positions, so a failed write is
        // not repeated.
        if let Ok(positions) = (self.positions)()
            && let Err(error) = self.answer(&positions, Duration::ZERO)
        {
            tracing::warn!(reason = join_chain(&error), "the store does not have the last positions");
        }
        self.watch.lock().state = FetchState::Ended;
    }

    fn looked(&mut self, look: Look) {
        self.failing_since = None;
        if self.backoff.take().is_some() {
            tracing::info!("the store and the sinks answer again");
        }
        let state = match look {
            Look::Some => FetchState::Fetching,
            Look::Nothing => FetchState::CaughtUp,
            Look::Full => FetchState::Full,
        };
        {
            let mut status = self.watch.lock();
            (status.state, status.last_error, status.failing_since) = (state, None, None);
        }
        let tuning = self.options.tuning;
        match look {
            Look::Some => {}
            Look::Nothing => self.control.rest(tuning.poll),
            Look::Full => self.control.rest(tuning.backoff_min),
        }
    }

    fn failed(&mut self, reason: &str) {
        if self.backoff.is_none() {
            tracing::warn!(reason, "cannot fetch, trying again");
        }
        let tuning = self.options.tuning;
        let wait = self.backoff.map_or(tuning.backoff_min, |wait| (wait * 2).min(tuning.backoff_max));
        self.backoff = Some(wait);
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        {
            let mut status = self.watch.lock();
            (status.state, status.last_error) = (FetchState::Retrying, Some(reason.to_owned()));
            (status.failing_since, status.errors) = (Some(since), status.errors + 1);
        }
        if since.elapsed() >= FAILING_MAX {
            self.allotment.pause();
        }
        self.control.rest(wait);
    }

    /// Visits each log in the store once, and exchanges positions and reports with other machines.
    fn look(&mut self) -> Result<Look, StoreError> {
        let positions = (self.positions)().map_err(|source| StoreError::Call {
            action: "read how far the sinks are, for",
            name: "the logs".to_owned(),
            source,
        })?;
        self.find_logs()?;
        if self.ends_at.is_none_or(|at| at.elapsed() >= self.options.tuning.list) {
            self.find_ended_logs()?;
            self.ends_at = Some(Instant::now());
        }
        self.offer(&positions)?;
        let mut look = Look::Nothing;
        for log in self.logs.keys().copied().collect::<Vec<_>>() {
            if self.control.is_ended() {
                break;
            }
            let found = self.look_at_log(log)?;
            look = if found == Look::Nothing { look } else { found };
        }
        self.answer(&positions, self.options.tuning.answer)?;
        if self.nodes_at.is_none_or(|at| at.elapsed() >= self.options.tuning.answer) {
            self.look_at_nodes()?;
            self.nodes_at = Some(Instant::now());
        }
        let is_retain_due = self.retained_at.is_none_or(|at| at.elapsed() >= self.options.tuning.retain);
        if is_retain_due && self.allotment.may_delete() {
            self.delete_due()?;
            self.retained_at = Some(Instant::now());
        }
        self.show();
        Ok(look)
    }

    /// Adds the logs of all machines to `logs`, by the names of the store's folders.
    fn find_logs(&mut self) -> Result<(), StoreError> {
        for (node, log) in shipped_logs(&*self.store)? {
            self.logs.entry(log).or_insert_with(|| FetchedLog::new(node));
        }
        Ok(())
    }

    /// Adds the logs that have ended to `logs`. If the store lost all segments of a log, only its end object
    /// shows that the log existed.
    fn find_ended_logs(&mut self) -> Result<(), StoreError> {
        for log in ended_logs(&*self.store)? {
            if !self.logs.contains_key(&log)
                && let Some(end) = end_of(&*self.store, log)?
            {
                self.logs.insert(log, FetchedLog::new(end.node));
            }
        }
        Ok(())
    }

    /// Notes which records are loaded, and offers the logs that are not finished.
    fn offer(&mut self, positions: &SinkPositions) -> Result<(), StoreError> {
        let mut offered = BTreeMap::new();
        for (id, log) in &mut self.logs {
            log.note_loaded(&self.options.spool.join(id.to_string()), loaded_by_all(positions, *id));
            if !log.is_done() || !self.answers.are_whole(&*self.store, positions, *id)? {
                let state = if log.bytes() > 0 { OfferedLog::Busy } else { OfferedLog::Idle };
                offered.insert(*id, state);
            }
        }
        self.allotment.offer(&offered);
        Ok(())
    }

    fn look_at_log(&mut self, id: LogId) -> Result<Look, StoreError> {
        let may_fetch = self.allotment.may_fetch(id);
        let Some(log) = self.logs.get_mut(&id) else { return Ok(Look::Nothing) };
        let is_changed = log.set_share(if may_fetch { LogShare::Fetched } else { LogShare::Left });
        if !may_fetch {
            let hunt = Hunt { store: &*self.store, storage: &*self.storage, options: &self.options, log: id };
            return hunt.look_beside(log).map(|()| Look::Nothing);
        }
        if is_changed {
            // The positions were read before this fetcher got the log. Another fetcher may have loaded
            // segments since then. The next pass begins at once, and reads the positions again.
            return Ok(Look::Some);
        }
        let mut spool_bytes: u64 = self.logs.values().map(FetchedLog::bytes).sum();
        let mut look = Look::Nothing;
        for _ in 0..IN_A_ROW_MAX {
            if spool_bytes > 0 && spool_bytes >= self.options.spool_bytes_max {
                return Ok(Look::Full);
            }
            let is_over = self.control.is_ended() || !self.allotment.may_fetch(id);
            let Some(log) = self.logs.get_mut(&id).filter(|_| !is_over) else { break };
            let hunt = Hunt { store: &*self.store, storage: &*self.storage, options: &self.options, log: id };
            let Some(bytes) = hunt.fetch_next(log)? else { break };
            (look, spool_bytes) = (Look::Some, spool_bytes + bytes);
            let mut status = self.watch.lock();
            status.segments += 1;
            status.bytes += bytes;
        }
        Ok(look)
    }

    /// Writes the position of each sink in each log of this fetcher to the store, for the machines that wrote
    /// the logs.
    fn answer(&mut self, positions: &SinkPositions, every: Duration) -> Result<(), StoreError> {
        let Self { answers, store, logs, allotment, .. } = self;
        let is_chosen = |log| logs.contains_key(&log) && allotment.holds(log);
        answers.write(&**store, positions, is_chosen, every)
    }

    /// Deletes the segments that are due from the store, of all logs.
    fn delete_due(&self) -> Result<(), StoreError> {
        for (id, log) in &self.logs {
            let deleted = retain::delete_due(&*self.store, &self.options.retain, *id, &log.node)?;
            self.watch.lock().deleted_segments += deleted;
        }
        Ok(())
    }

    fn look_at_nodes(&mut self) -> Result<(), StoreError> {
        let mut nodes = BTreeMap::new();
        for name in self.store.list(&ObjectName::nodes(), None)? {
            let Some(ObjectName::Node(node)) = ObjectName::parse(&name) else { continue };
            let text = self.store.text(&name, TEXT_BYTES_MAX)?;
            if let Some(answer) = text.as_deref().and_then(NodeAnswer::parse) {
                let age_ms = now_ms().saturating_sub(answer.at_ms);
                let is_silent = age_ms > answer.every_ms.saturating_mul(REPORTS_MISSED_MAX);
                let was_silent = self.watch.lock().nodes.get(&node).is_some_and(|known| known.is_silent);
                if is_silent && !was_silent {
                    tracing::warn!(%node, age_ms, "a machine does not report to the store any more");
                } else if was_silent && !is_silent {
                    tracing::info!(%node, "a machine reports to the store again");
                }
                if let Some(log) =
                    answer.log.and_then(|log| self.logs.get_mut(&log)).filter(|log| log.node == node)
                {
                    log.reported = answer.shipped;
                }
                nodes.insert(node, NodeFetch { answer, is_silent });
            }
        }
        self.watch.lock().nodes = nodes;
        Ok(())
    }

    fn show(&mut self) {
        let logs = self.logs.iter_mut().map(|(id, log)| (*id, log.shown())).collect();
        let mut status = self.watch.lock();
        status.spool_bytes = self.logs.values().map(FetchedLog::bytes).sum();
        status.logs = logs;
    }
}

/// Returns the last record of a log that every sink has loaded.
fn loaded_by_all(positions: &SinkPositions, log: LogId) -> Sequence {
    let lasts = positions.values().map(|logs| logs.get(&log).map_or(Sequence(0), |position| position.last));
    lasts.min().unwrap_or_default()
}

#[cfg(test)]
mod tests;
