//! The thread `ship` of a [`Shipper`]. It sends sealed segments to the store, the oldest log first. It also
//! reads the positions and requests of loaders from the store.
//!
//! | fault | effect |
//! | --- | --- |
//! | a call on the store | all logs wait, 100 ms doubling to 30 s, for ever; nothing is deleted meanwhile |
//! | the store has another segment of one name | that log stays here and is named; the others are shipped |
//! | a segment is too large for the store, or has no valid footer | that segment stays here and is named |
//! | reading a log of this machine | that log waits for the next look; the others are shipped |
//! | a panic | as a failed call |
//! | a call after the order to finish | the target tries again for a second, then ends |

mod answers;
mod once;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_log::{
    LogError, LogId, SegmentName, SegmentState, Sequence, Storage, join_chain, log_ids, read_footer, segments,
};

use crate::identity::SegmentIdentity;
use crate::logs::ShippedLogs;
use crate::name::ObjectName;
use crate::options::ShipOptions;
use crate::progress::{LocalSegment, LogProgress, Progress};
use crate::send::{Sent, find_segment, send_segment};
use crate::status::{LogFault, ShipState, ShipWatch};
use crate::store::{Store, StoreError};
use answers::{Answers, Exchange};
pub use once::{OnceOutcome, ShipOnce, ShipOnceError, ship_once};
#[cfg(test)]
pub(crate) use once::{sealed_segments, visit};

/// How long a store may fail after the order to finish. The rest is shipped after the next start.
const FINISH_FAILING_MAX: Duration = Duration::from_secs(1);
/// Wait between two tries after the order to finish.
const FINISH_PAUSE: Duration = Duration::from_millis(100);

/// Order of the owner of the [`Shipper`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Order {
    #[default]
    Follow,
    /// Ship all segments that are sealed now, then end.
    Finish,
    End,
}

#[derive(Debug, Default)]
struct Control {
    order: Mutex<Order>,
    wake: Condvar,
}

impl Control {
    fn order(&self) -> Order {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, order: Order) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
        self.wake.notify_all();
    }

    /// Waits for `time`, or until the order is not `known` any more.
    fn rest(&self, known: Order, time: Duration) {
        let order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.wake.wait_timeout_while(order, time, |order| *order == known));
    }
}

/// A running ship target: the thread `ship`, and a handle to end it.
pub struct Shipper {
    control: Arc<Control>,
    watch: ShipWatch,
    thread: Option<JoinHandle<()>>,
}

impl Shipper {
    /// Starts the thread `ship`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        options: ShipOptions,
        storage: Arc<dyn Storage>,
        store: Box<dyn Store>,
        logs: Box<dyn ShippedLogs>,
    ) -> std::io::Result<Self> {
        let (control, watch) = (Arc::new(Control::default()), ShipWatch::new(&options.name));
        let mut worker = ShipThread {
            answers: Answers::new(options.tuning),
            options,
            storage,
            store,
            logs,
            progress: Progress::default(),
            watch: watch.clone(),
            control: control.clone(),
            backoff: None,
            unread: None,
            finishing_since: None,
        };
        let thread = thread::Builder::new().name("ship".to_owned()).spawn(move || worker.run())?;
        Ok(Self { control, watch, thread: Some(thread) })
    }

    /// Returns a handle that reads the state of the target.
    pub fn watch(&self) -> ShipWatch {
        self.watch.clone()
    }

    /// Ships what is sealed and ends, at most `timeout` later. Returns whether the store has all sealed
    /// segments. The rest is shipped after the next start.
    ///
    /// The owner closes its log before. So the end of that log is noted in the store too.
    pub fn finish(mut self, timeout: Duration) -> bool {
        self.control.give(Order::Finish);
        let (end, order) = (Instant::now() + timeout, self.control.order.lock());
        let order = order.unwrap_or_else(PoisonError::into_inner);
        let is_running = |_: &mut Order| self.watch.lock().state != ShipState::Ended;
        let left = end.saturating_duration_since(Instant::now());
        drop(self.control.wake.wait_timeout_while(order, left, is_running));
        let is_done = self.watch.lock().state == ShipState::Ended;
        self.end();
        is_done && self.watch.lock().unshipped_segments == 0
    }

    fn end(&mut self) {
        self.control.give(Order::End);
        // A call on the store may hang until the timeout of the call. The thread then ends after this call,
        // and is not joined.
        if self.watch.lock().state == ShipState::Ended
            && let Some(thread) = self.thread.take()
        {
            drop(thread.join());
        }
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        self.end();
    }
}

/// Result of a pass over the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Done,
    /// The owner ordered the end of the thread.
    Aborted,
}

struct ShipThread {
    options: ShipOptions,
    storage: Arc<dyn Storage>,
    store: Box<dyn Store>,
    logs: Box<dyn ShippedLogs>,
    progress: Progress,
    answers: Answers,
    watch: ShipWatch,
    control: Arc<Control>,
    /// Wait after the last failed call. `None`: the last call worked.
    backoff: Option<Duration>,
    /// Why some log cannot be read. `None`: the last look read all of them.
    unread: Option<String>,
    /// When the order to finish came. `None`: it has not come.
    finishing_since: Option<Instant>,
}

impl ShipThread {
    fn run(&mut self) {
        loop {
            let order = self.control.order();
            if order == Order::End || (order == Order::Finish && self.gives_up()) {
                break;
            }
            match catch_unwind(AssertUnwindSafe(|| self.pass())) {
                Ok(Ok(Pass::Aborted)) => break,
                Ok(Ok(Pass::Done)) if order == Order::Finish => break,
                Ok(Ok(Pass::Done)) => {
                    self.went_well();
                    self.control.rest(order, self.options.tuning.look);
                }
                Ok(Err(error)) => self.failed(&join_chain(&error)),
                Err(_) => {
                    let ship = &self.options.name;
                    tracing::error!(ship, "shipping panicked and goes on: this is a bug, please report it");
                    self.failed("shipping panicked");
                }
            }
        }
        self.watch.lock().state = ShipState::Ended;
        // `finish` checks the state while it holds the lock of the order. After this lock, `finish` sees the
        // new state or waits for the notification.
        drop(self.control.order.lock());
        self.control.wake.notify_all();
    }

    fn went_well(&mut self) {
        if self.backoff.take().is_some() {
            tracing::info!(ship = self.options.name, "the store works again");
        }
        let mut status = self.watch.lock();
        (status.state, status.backoff) = (ShipState::CaughtUp, Duration::ZERO);
        status.last_error.clone_from(&self.unread);
        status.failing_since = None;
        if status.unshipped_segments == 0 {
            status.behind_since = None;
        }
    }

    fn failed(&mut self, reason: &str) {
        if self.backoff.is_none() {
            let ship = &self.options.name;
            tracing::warn!(ship, reason, "the store takes no segments, the target tries again");
        }
        let tuning = self.options.tuning;
        let wait = self.backoff.map_or(tuning.backoff_min, |wait| (wait * 2).min(tuning.backoff_max));
        self.backoff = Some(wait);
        {
            let mut status = self.watch.lock();
            (status.state, status.backoff) = (ShipState::Retrying, wait);
            status.last_error = Some(reason.to_owned());
            status.failing_since = status.failing_since.or_else(|| Some(Instant::now()));
            status.errors += 1;
        }
        let order = self.control.order();
        let wait = if order == Order::Finish { wait.min(FINISH_PAUSE) } else { wait };
        self.control.rest(order, jittered(wait));
    }

    /// Whether the store has failed for too long since the order to finish.
    fn gives_up(&mut self) -> bool {
        // The first try after the order is due at once, however long the present wait is.
        let finishing_since = *self.finishing_since.get_or_insert_with(Instant::now);
        let failing_since = self.watch.lock().failing_since;
        failing_since.is_some_and(|since| since.max(finishing_since).elapsed() >= FINISH_FAILING_MAX)
    }

    /// Visits each log once. Returns only errors of the store. Other errors are logged, and the pass
    /// continues.
    fn pass(&mut self) -> Result<Pass, StoreError> {
        self.look_at_logs();
        // The store may already have deleted segments that all sinks have loaded. These segments must not be
        // sent again, so the positions of the sinks are read first.
        let (answers, mut exchange) = self.exchange();
        answers.exchange(&mut exchange)?;
        let logs: Vec<_> = self.progress.logs.keys().copied().collect();
        let mut shipped = Ok(Pass::Done);
        for log in &logs {
            shipped = self.ship_log(*log);
            if !matches!(shipped, Ok(Pass::Done)) {
                break;
            }
        }
        // Also without space in the store, a segment that is shipped and loaded may be deleted here.
        for log in logs {
            self.confirm(log);
        }
        shipped
    }

    /// Updates `progress` with the segments on this machine.
    fn look_at_logs(&mut self) {
        self.watch.lock().active_at = Some(Instant::now());
        let live = self.logs.live();
        let ids = match log_ids(&*self.storage, &self.options.dir) {
            Ok(mut ids) => {
                ids.retain(|log| self.logs.is_ours(*log));
                ids
            }
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return self.note_unread(None, &error),
        };
        self.progress.logs.retain(|log, _| ids.contains(log));
        let mut are_all_read = true;
        for log in ids {
            if let Err(error) = self.look_at_log(log, live) {
                are_all_read = false;
                self.note_unread(Some(log), &error);
            }
        }
        if are_all_read {
            self.unread = None;
        }
        let (count, bytes) = self.progress.unshipped();
        let mut status = self.watch.lock();
        status.faults.retain(|log, _| self.progress.logs.contains_key(log));
        (status.unshipped_segments, status.unshipped_bytes) = (count, bytes);
        status.behind_since =
            if count == 0 { None } else { status.behind_since.or_else(|| Some(Instant::now())) };
        if count > 0 && status.state == ShipState::CaughtUp {
            status.state = ShipState::Shipping;
        }
    }

    fn look_at_log(&mut self, log: LogId, live: Option<LogId>) -> Result<(), LogError> {
        let names = segments(&*self.storage, &self.options.dir, log)?;
        let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
        let (storage, folder) = (&*self.storage, self.options.dir.join(log.to_string()));
        let progress = self.progress.logs.entry(log).or_default();
        progress.is_of_earlier_run |= live != Some(log);
        let mut unsound = None;
        progress.look(&names, |name| match read_footer(storage, &name.path(&folder)) {
            Ok(Some(footer)) => {
                let (first, last, bytes) = (name.first, footer.last, footer.file_bytes());
                Ok(Some(LocalSegment { first, last, bytes }))
            }
            Ok(None) => {
                unsound = Some(LogFault::Unsound { first: name.first });
                Ok(None)
            }
            Err(error) => Err(error),
        })?;
        if let Some(fault) = unsound {
            self.note_fault(log, fault);
        }
        Ok(())
    }

    fn note_unread(&mut self, log: Option<LogId>, error: &LogError) {
        // The retainer deletes segments meanwhile.
        if error.is_not_found() {
            return;
        }
        let (ship, reason) = (&self.options.name, join_chain(error));
        if self.unread.as_deref() != Some(&reason) {
            let log = log.map(|log| log.to_string()).unwrap_or_default();
            tracing::warn!(ship, log, reason, "a log cannot be read, the target tries again");
        }
        self.unread = Some(reason);
    }

    fn note_fault(&self, log: LogId, fault: LogFault) {
        let ship = &self.options.name;
        match &fault {
            LogFault::Forked { first, found } => tracing::error!(
                ship, %log, %first, found,
                "the store has another segment of this name, so two machines write one log: it stays here"
            ),
            LogFault::TooLarge { first, bytes, limit } => tracing::error!(
                ship, %log, %first, bytes, limit, "a segment is too large for the store: it stays here"
            ),
            LogFault::Unsound { first } => {
                tracing::error!(ship, %log, %first, "a sealed segment has no valid footer: it stays here");
            }
        }
        self.watch.lock().faults.insert(log, fault);
    }

    /// Ships the segments of one log. A forked log stays here, because later segments in the store would hide
    /// that the two logs differ.
    fn ship_log(&mut self, log: LogId) -> Result<Pass, StoreError> {
        if matches!(self.watch.lock().faults.get(&log), Some(LogFault::Forked { .. })) {
            return Ok(Pass::Done);
        }
        let Some(due) = self.progress.logs.get(&log).map(LogProgress::due) else {
            return Ok(Pass::Done);
        };
        for segment in due {
            if self.control.order() == Order::End {
                return Ok(Pass::Aborted);
            }
            if !self.ship_segment(log, segment)? {
                break;
            }
        }
        // The owner orders the finish after it closed its log.
        let live = if self.control.order() == Order::Finish { None } else { self.logs.live() };
        let (_, mut exchange) = self.exchange();
        exchange.note_end(log, live)?;
        Ok(Pass::Done)
    }

    /// Ships one segment. Returns whether the next segment of the log may be shipped.
    fn ship_segment(&mut self, log: LogId, segment: LocalSegment) -> Result<bool, StoreError> {
        let LocalSegment { first, last, bytes } = segment;
        let limit = self.options.tuning.object_bytes_max;
        if bytes > limit {
            self.set_aside(log, first, LogFault::TooLarge { first, bytes, limit });
            return Ok(true);
        }
        if self.answers.is_loaded(log, last) {
            return Ok(self.note_stored(log, segment));
        }
        let file = SegmentName { first, state: SegmentState::Sealed };
        let path = file.path(&self.options.dir.join(log.to_string()));
        let identity = match read_footer(&*self.storage, &path) {
            Ok(Some(footer)) => SegmentIdentity::of(&footer),
            // The next pass finds out whether the segment was deleted or damaged.
            Ok(None) | Err(_) => return Ok(true),
        };
        let name = ObjectName::Segment { node: self.options.node.clone(), log, first };
        let sent = self.send(log, &name, &path, &identity)?;
        self.watch.lock().active_at = Some(Instant::now());
        match sent {
            Sent::Stored => {
                let mut status = self.watch.lock();
                status.segments += 1;
                status.bytes += bytes;
            }
            Sent::Present => self.watch.lock().present_segments += 1,
            Sent::Forked { found } => {
                self.set_aside(log, first, LogFault::Forked { first, found });
                return Ok(false);
            }
        }
        Ok(self.note_stored(log, segment))
    }

    /// Marks a segment as stored. Always returns true: the next segment of the log may be shipped.
    fn note_stored(&mut self, log: LogId, segment: LocalSegment) -> bool {
        if let Some(progress) = self.progress.logs.get_mut(&log) {
            progress.note_stored(segment.first);
        }
        let mut status = self.watch.lock();
        status.unshipped_segments = status.unshipped_segments.saturating_sub(1);
        status.unshipped_bytes = status.unshipped_bytes.saturating_sub(segment.bytes);
        true
    }

    /// Sends a segment to the store. If an earlier run may have sent it, the store is asked first, because
    /// this is cheaper than sending.
    fn send(
        &self,
        log: LogId,
        name: &ObjectName,
        path: &std::path::Path,
        identity: &SegmentIdentity,
    ) -> Result<Sent, StoreError> {
        let name = name.to_string();
        if self.progress.logs.get(&log).is_some_and(|progress| progress.is_of_earlier_run)
            && let Some(found) = find_segment(&*self.store, &name, identity)?
        {
            return Ok(found);
        }
        send_segment(&*self.store, &name, path, identity)
    }

    fn set_aside(&mut self, log: LogId, first: Sequence, fault: LogFault) {
        if let Some(progress) = self.progress.logs.get_mut(&log) {
            progress.note_faulty(first);
        }
        self.note_fault(log, fault);
    }

    fn exchange(&mut self) -> (&mut Answers, Exchange<'_>) {
        let exchange = Exchange {
            options: &self.options,
            storage: &*self.storage,
            store: &*self.store,
            logs: &*self.logs,
            progress: &mut self.progress,
            watch: &self.watch,
        };
        (&mut self.answers, exchange)
    }

    /// Confirms to the retainer the last record up to which a log may be deleted.
    fn confirm(&self, log: LogId) {
        let Some(shipped) = self.progress.logs.get(&log).and_then(LogProgress::shipped) else {
            return;
        };
        self.watch.lock().shipped.insert(log, shipped);
        let last = self.answers.deletable(&self.options.delete, log, shipped, self.logs.is_room_tight());
        self.logs.confirm(log, last);
    }
}

/// Returns a random wait between half of `wait` and `wait`, so that many machines do not try again at the
/// same time.
fn jittered(wait: Duration) -> Duration {
    // If the system returns no random bytes, the wait is half of `wait`.
    let random = getrandom::u32().unwrap_or_default();
    wait / 2 + (wait / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
