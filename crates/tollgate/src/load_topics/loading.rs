//! The thread that loads topics into one sink, and its state for reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_load::{
    LoadState, LoadStatus, LoadWatch, SinkError, TopicLoadCounts, TopicLoadOptions, TopicLoader, WAITING_MIN,
};
use tollgate_log::join_chain;

use crate::print::{counted, note, problem};

/// Shortest and longest pause after an error.
const BACKOFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// How long a single run tries again after errors.
const ONCE_PATIENCE: Duration = Duration::from_secs(60);
/// Longest step of a thread that has nothing to load. A longer step loads records.
const IDLE_STEP_MAX: Duration = Duration::from_secs(1);

/// The thread of one sink.
pub(super) struct LoadThread {
    pub(super) options: TopicLoadOptions,
    pub(super) is_once: bool,
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
            let Err(error) = self.load() else { break };
            if begun.elapsed() > BACKOFF[1] {
                pause = BACKOFF[0];
            }
            let text = join_chain(&error);
            let failing = self.progress.fail(&text, pause);
            if !error.is_retriable() || self.is_once && failing > ONCE_PATIENCE {
                problem(&format!("sink {} is stopped: {text}", self.options.sink.name));
                self.progress.change(|status| status.state = LoadState::Stopped);
                is_loaded = false;
                break;
            }
            tracing::warn!(sink = self.options.sink.name, error = text, "the load of topics is tried again");
            thread::sleep(pause);
            pause = (pause * 2).min(BACKOFF[1]);
        }
        self.print();
        is_loaded
    }

    /// Loads until an error, the end of a single run, or the stop.
    fn load(&self) -> Result<(), SinkError> {
        let (before, begun) = (self.progress.status(), Instant::now());
        if before.failing_since.is_none() {
            self.progress.change(|status| status.state = LoadState::Opening);
        }
        let mut loader = TopicLoader::open(&self.options)?;
        let mut stepped = Ok(());
        loop {
            let (counts, left) = (loader.counts(), loader.left());
            // A loader that fails at its first step each time has not recovered.
            let is_well = counts.commits > 0 || begun.elapsed() > BACKOFF[1];
            self.progress.step(&before, counts, left, is_well);
            let is_over = self.stop.load(Ordering::SeqCst) || self.is_once && left == 0;
            if stepped.is_err() || is_over {
                return stepped.and_then(|()| loader.pass_markers());
            }
            stepped = loader.step();
        }
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

/// The state of a thread. Clones share it.
#[derive(Clone)]
pub(super) struct SharedProgress(Arc<Mutex<Progress>>);

struct Progress {
    status: LoadStatus,
    /// Since when there are records to load. `None`: there are none.
    behind_since: Option<Instant>,
    /// The last step of the thread.
    moved_at: Instant,
}

impl SharedProgress {
    pub(super) fn new() -> Self {
        let (status, behind_since) = (LoadStatus::default(), None);
        Self(Arc::new(Mutex::new(Progress { status, behind_since, moved_at: Instant::now() })))
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

    /// Notes an error. Returns how long the sink has failed.
    fn fail(&self, text: &str, pause: Duration) -> Duration {
        let mut progress = self.lock();
        progress.moved_at = Instant::now();
        let status = &mut progress.status;
        (status.state, status.backoff) = (LoadState::Retrying, pause);
        status.last_error = Some(text.to_owned());
        status.failing_since.get_or_insert_with(Instant::now).elapsed()
    }

    /// Notes the counts of a loader, which add to those `before` it, and the records that are left.
    fn step(&self, before: &LoadStatus, counts: TopicLoadCounts, left: u64, is_well: bool) {
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
    fn a_pause_after_an_error_is_no_wait_for_an_answer() {
        let progress = SharedProgress::new();
        progress.fail("away", BACKOFF[0]);
        let moved_at = progress.lock().moved_at;
        let status = progress.status_at(moved_at + Duration::from_secs(60));
        assert_eq!((status.state, status.waiting), (LoadState::Retrying, Duration::ZERO));
    }
}
