//! The thread that loads topics into one sink, and its state for reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_load::{
    LoadState, LoadStatus, LoadWatch, SinkError, TopicLoadCounts, TopicLoadOptions, TopicLoader, WAITING_MIN,
};
use tollgate_log::join_chain;
use tollgate_queue::PartitionName;

use crate::print::{counted, note, printable, problem};

/// Shortest and longest pause after an error.
const BACKOFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// How long the topics are left to another loader of the same sink.
const LEFT_PAUSE: Duration = Duration::from_millis(500);
/// Pause after an error that an operator has to correct.
const STOPPED_PAUSE: Duration = Duration::from_secs(30);
/// Longest time until the thread sees the order to stop.
const STOP_LATENCY: Duration = Duration::from_millis(100);
/// How long a single run tries again after errors.
const ONCE_PATIENCE: Duration = Duration::from_secs(60);
/// Time that is added to the age at which the broker aborts a transaction. Brokers look for such transactions
/// every ten seconds.
const ABORT_LATENCY: Duration = Duration::from_secs(15);
/// Wait for the end of an open transaction that is logged.
const WAIT_TOLD: Duration = Duration::from_secs(5);
/// Longest step of a thread that has nothing to load. A longer step loads records.
const IDLE_STEP_MAX: Duration = Duration::from_secs(1);

/// The thread of one sink.
pub(super) struct LoadThread {
    pub(super) options: TopicLoadOptions,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) progress: SharedProgress,
}

impl LoadThread {
    /// Loads until the end. Returns whether no error ended it.
    pub(super) fn run(self) -> bool {
        let mut pause = BACKOFF[0];
        let mut is_loaded = true;
        while !self.stop.load(Ordering::SeqCst) {
            let begun = Instant::now();
            let error = match self.load() {
                Ok(LoadEnd::Over) => break,
                Ok(LoadEnd::Hidden(place)) => {
                    self.tell_hidden(&place);
                    is_loaded = false;
                    break;
                }
                Err(error) => error,
            };
            if begun.elapsed() > BACKOFF[1] {
                pause = BACKOFF[0];
            }
            if matches!(error, SinkError::Lost { .. }) {
                tracing::debug!(sink = self.options.sink.name, "another loader of the topics loaded first");
                self.rest(LEFT_PAUSE);
                continue;
            }
            let text = join_chain(&error);
            let failing = self.progress.fail(&text, pause);
            let is_over = !error.is_retriable() || failing > ONCE_PATIENCE;
            if self.options.is_once && is_over || matches!(error, SinkError::NoQueue) {
                problem(&format!("sink {} is stopped: {text}", self.options.sink.name));
                self.progress.stop(Duration::ZERO);
                is_loaded = false;
                break;
            }
            self.tell(&text, error.is_retriable());
            if error.is_retriable() {
                self.rest(pause);
                pause = (pause * 2).min(BACKOFF[1]);
            } else {
                self.progress.stop(STOPPED_PAUSE);
                self.rest(STOPPED_PAUSE);
            }
        }
        self.print();
        is_loaded
    }

    /// Logs an error, unless it is the error of the try before.
    fn tell(&self, text: &str, is_retriable: bool) {
        if !self.progress.is_new(text) {
            return;
        }
        let sink = &self.options.sink.name;
        if is_retriable {
            tracing::warn!(sink, error = text, "the load of topics is tried again");
        } else {
            tracing::error!(sink, error = text, "the load of topics stopped: it is tried again each 30 s");
        }
    }

    /// Waits for a time, or until the stop.
    fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.stop.load(Ordering::SeqCst) && Instant::now() < until {
            thread::sleep(until.saturating_duration_since(Instant::now()).min(STOP_LATENCY));
        }
    }

    /// Loads until an error, the end of a single run, or the stop.
    fn load(&self) -> Result<LoadEnd, SinkError> {
        let (before, begun) = (self.progress.status(), Instant::now());
        if before.failing_since.is_none() {
            self.progress.change(|status| status.state = LoadState::Opening);
        }
        let mut loader = TopicLoader::open(&self.options)?;
        let (mut stepped, mut wait) = (Ok(()), OpenWait::default());
        loop {
            let (counts, left) = (loader.counts(), loader.left());
            // A loader that fails at its first step each time has not recovered.
            let is_well = counts.commits > 0 || begun.elapsed() > BACKOFF[1];
            if self.progress.step(&before, counts, left, is_well) {
                tracing::info!(sink = self.options.sink.name, "the load of topics works again");
            }
            let end = match self.stop.load(Ordering::SeqCst) {
                true => Some(LoadEnd::Over),
                false if self.options.is_once && left == 0 => self.once_end(loader.unread(), &mut wait),
                false => None,
            };
            stepped?;
            if let Some(end) = end {
                return loader.pass_markers().map(|()| end);
            }
            stepped = loader.step();
        }
    }

    /// Returns the end of a single run that has nothing left to read now. `unread` is a partition with
    /// records that an open transaction hides. `None`: the run waits for the end of this transaction.
    fn once_end(&self, unread: Option<(PartitionName, u64)>, wait: &mut OpenWait) -> Option<LoadEnd> {
        let Some((place, next)) = unread else { return Some(LoadEnd::Over) };
        let waited = wait.look(&place, next, Instant::now());
        if waited > self.options.broker.transaction_timeout + ABORT_LATENCY {
            return Some(LoadEnd::Hidden(place));
        }
        if waited > WAIT_TOLD && !std::mem::replace(&mut wait.is_told, true) {
            let sink = &self.options.sink.name;
            tracing::info!(sink, partition = %place, "the load waits for the end of an open transaction");
        }
        None
    }

    /// Names a partition whose open transaction did not end in time.
    fn tell_hidden(&self, place: &PartitionName) {
        problem(&format!(
            "not visible yet: {} has an open transaction, so sink {} lacks its later records: wait for its \
             end, or abort it by kafka-transactions.sh, and run the command again",
            printable(&place.to_string()),
            self.options.sink.name
        ));
    }

    fn print(&self) {
        let LoadStatus { rows, rejects, duplicates, missing, .. } = self.progress.status();
        note(&format!(
            "sink {}: {}, {}, {}, {missing} missing",
            self.options.sink.name,
            counted(rows, "row"),
            counted(rejects, "reject"),
            counted(duplicates, "duplicate")
        ));
    }
}

/// How a load ended without an error.
enum LoadEnd {
    /// All is loaded, or the thread has to stop.
    Over,
    /// An open transaction hides the records of a partition.
    Hidden(PartitionName),
}

/// The wait of a single run for the end of an open transaction.
#[derive(Default)]
struct OpenWait {
    /// The partition, the offset of the next read there, and since when both have been the same.
    at: Option<(PartitionName, u64, Instant)>,
    is_told: bool,
}

impl OpenWait {
    /// Returns how long the run has waited for this offset of this partition.
    fn look(&mut self, place: &PartitionName, next: u64, now: Instant) -> Duration {
        match &self.at {
            Some((known, offset, since)) if (known, *offset) == (place, next) => {
                now.saturating_duration_since(*since)
            }
            _ => {
                self.at = Some((place.clone(), next, now));
                Duration::ZERO
            }
        }
    }
}

/// The state of a thread. Clones share it.
#[derive(Clone)]
pub(super) struct SharedProgress(Arc<Mutex<Progress>>);

struct Progress {
    status: LoadStatus,
    /// Since when there are records to load. `None`: there are none.
    behind_since: Option<Instant>,
    /// The last step of the thread.
    moved_at: Instant,
    /// The error that was logged last. `None`: no error was logged since the sink worked.
    told: Option<String>,
}

impl SharedProgress {
    pub(super) fn new() -> Self {
        let (status, behind_since) = (LoadStatus::default(), None);
        Self(Arc::new(Mutex::new(Progress { status, behind_since, moved_at: Instant::now(), told: None })))
    }

    /// Returns a handle for reports.
    pub(super) fn watch(&self, sink: &str) -> LoadWatch {
        let shared = self.clone();
        LoadWatch::new(sink, move || shared.status())
    }

    fn status(&self) -> LoadStatus {
        self.status_at(Instant::now())
    }

    fn status_at(&self, now: Instant) -> LoadStatus {
        let progress = self.lock();
        let mut status = progress.status.clone();
        let since = |begun: Instant| now.saturating_duration_since(begun);
        status.lag = progress.behind_since.map_or(Duration::ZERO, since);
        let step = since(progress.moved_at);
        let is_pausing = matches!(status.state, LoadState::Stopped | LoadState::Retrying);
        // A step waits only for the broker and for the database.
        status.waiting = if is_pausing || step < WAITING_MIN { Duration::ZERO } else { step };
        if status.state == LoadState::CaughtUp && step > IDLE_STEP_MAX {
            status.state = LoadState::Loading;
        }
        status
    }

    fn change(&self, change: impl FnOnce(&mut LoadStatus)) {
        let mut progress = self.lock();
        progress.moved_at = Instant::now();
        change(&mut progress.status);
    }

    /// Notes that an operator has to correct something. The next try is after `pause`.
    fn stop(&self, pause: Duration) {
        self.change(|status| (status.state, status.backoff) = (LoadState::Stopped, pause));
    }

    /// Returns whether an error differs from the one that was logged last. If so, notes it.
    fn is_new(&self, text: &str) -> bool {
        let mut progress = self.lock();
        let is_new = progress.told.as_deref() != Some(text);
        progress.told = Some(text.to_owned());
        is_new
    }

    /// Notes an error. Returns how long the sink has failed.
    fn fail(&self, text: &str, pause: Duration) -> Duration {
        let mut progress = self.lock();
        progress.moved_at = Instant::now();
        let status = &mut progress.status;
        (status.state, status.backoff) = (LoadState::Retrying, pause);
        status.last_error = Some(text.to_owned());
        status.failing_since.get_or_insert_with(Instant::now).elapsed()
    }

    /// Notes the counts of a loader, which add to those `before` it, and the records that are left. Returns
    /// whether the sink works again after an error that was logged.
    fn step(&self, before: &LoadStatus, counts: TopicLoadCounts, left: u64, is_well: bool) -> bool {
        let mut progress = self.lock();
        progress.moved_at = Instant::now();
        progress.behind_since = if left == 0 { None } else { progress.behind_since.or(Some(Instant::now())) };
        let status = &mut progress.status;
        status.rows = before.rows + counts.rows;
        status.rejects = before.rejects + counts.rejects;
        status.duplicates = before.duplicates + counts.duplicates;
        status.missing = before.missing + counts.missing;
        status.in_gaps = counts.in_gaps;
        status.commits = before.commits + counts.commits;
        (status.backlog.records, status.backlog.is_bound) = (left, left > 0);
        if is_well {
            (status.failing_since, status.backoff) = (None, Duration::ZERO);
        }
        if status.failing_since.is_none() {
            status.state = if left == 0 { LoadState::CaughtUp } else { LoadState::Loading };
        }
        is_well && progress.told.take().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        // The value is consistent after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the status of a thread that found nothing to load, this long after its last step.
    fn check(step: Duration, state: LoadState, waiting: Duration) {
        let progress = SharedProgress::new();
        progress.step(&LoadStatus::default(), TopicLoadCounts::default(), 0, true);
        let moved_at = progress.lock().moved_at;
        let status = progress.status_at(moved_at + step);
        assert_eq!((status.state, status.waiting), (state, waiting), "{step:?}");
        assert_eq!(status.stalled, Duration::ZERO, "the disk of the log is no cause");
    }

    #[test]
    fn a_long_step_is_a_load_and_then_a_wait_for_an_answer() {
        check(Duration::ZERO, LoadState::CaughtUp, Duration::ZERO);
        check(IDLE_STEP_MAX, LoadState::CaughtUp, Duration::ZERO);
        check(Duration::from_millis(1500), LoadState::Loading, Duration::ZERO);
        check(WAITING_MIN, LoadState::Loading, WAITING_MIN);
        check(Duration::from_secs(60), LoadState::Loading, Duration::from_secs(60));
    }

    #[test]
    fn a_wait_for_an_open_transaction_begins_anew_when_the_read_goes_on() {
        let (mut wait, begun) = (OpenWait::default(), Instant::now());
        let mut look = |partition: i32, next: u64, seconds: u64| {
            let place = PartitionName { topic: "shop.orders".to_owned(), partition };
            wait.look(&place, next, begun + Duration::from_secs(seconds)).as_secs()
        };
        assert_eq!([look(1, 7, 0), look(1, 7, 60)], [0, 60]);
        assert_eq!([look(1, 8, 61), look(1, 8, 70)], [0, 9], "the transaction before ended");
        assert_eq!([look(2, 8, 71), look(2, 8, 90)], [0, 19], "another partition has an open transaction");
    }

    #[test]
    fn an_error_is_told_once_until_the_sink_works() {
        let progress = SharedProgress::new();
        let step = |is_well| progress.step(&LoadStatus::default(), TopicLoadCounts::default(), 0, is_well);
        assert!(!step(true), "nothing failed");
        assert_eq!(["away", "away", "denied"].map(|text| progress.is_new(text)), [true, false, true]);
        assert_eq!([false, true, true].map(step), [false, true, false]);
        assert!(progress.is_new("away"));
    }

    #[test]
    fn a_pause_after_an_error_is_no_wait_for_an_answer() {
        let progress = SharedProgress::new();
        progress.fail("away", BACKOFF[0]);
        let moved_at = progress.lock().moved_at;
        let status = progress.status_at(moved_at + Duration::from_secs(60));
        assert_eq!((status.state, status.waiting), (LoadState::Retrying, Duration::ZERO));
    }
}
