//! The queue of batches between the workers and the thread that writes the access log.
//!
//! A worker never waits here. While the thread is blocked by its reader or its disk, batches that do not fit
//! are dropped, and their lines are counted as lost.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::line::AccessLine;

/// Maximum bytes of waiting batches. This bound is some ten thousand lines.
const BYTES_MAX: usize = 4 << 20;
/// Pause between two wake-ups of the writer, so that busy workers do not wake it for each batch.
const PAUSE: Duration = Duration::from_millis(5);
/// Pause in which spans gather, as the batch processors of OpenTelemetry let them.
const PAUSE_OF_SPANS: Duration = Duration::from_secs(1);
/// Spans at which this pause ends.
const SPANS_DUE: u64 = 512;

/// Encoded lines of one worker.
#[derive(Debug, Default)]
pub struct AccessBatch {
    bytes: Vec<u8>,
    lines: u64,
}

impl AccessBatch {
    pub(crate) fn new(bytes: Vec<u8>, lines: u64) -> Self {
        Self { bytes, lines }
    }

    /// Returns the lines in the order in which their requests ended.
    pub fn lines(&self) -> impl Iterator<Item = AccessLine<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (line, after) = AccessLine::read(rest)?;
            rest = after;
            Some(line)
        })
    }
}

/// The queue. All workers and the writer share it.
#[derive(Debug, Default)]
pub struct AccessQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<AccessBatch>,
    bytes: usize,
    lines: u64,
    bounds: Bounds,
    report: Counts,
    is_writer_idle: bool,
    is_woken: bool,
    is_closed: bool,
    /// The failure that has not ended, and its beginning.
    failure: Option<(Instant, String)>,
}

/// The bounds of a queue.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    bytes_max: usize,
    pause: Duration,
    /// Waiting lines at which a pause ends.
    lines_due: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes_max: BYTES_MAX, pause: PAUSE, lines_due: u64::MAX }
    }
}

impl State {
    /// Returns whether a pause ends, because a quarter of the queue or enough lines wait.
    fn is_due(&self) -> bool {
        self.bytes >= self.bounds.bytes_max / 4 || self.lines >= self.bounds.lines_due
    }

    /// Returns whether the thread has other work than the batches.
    fn is_disturbed(&self) -> bool {
        self.is_woken || self.is_closed
    }
}

#[derive(Debug, Default)]
struct Counts {
    written: u64,
    lost: u64,
    last_lost: Option<Instant>,
}

/// The counts of the access log since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessReport {
    /// Lines that were written.
    pub written: u64,
    /// Lines that were lost.
    pub lost: u64,
    /// Time since the last loss.
    pub lost_ago: Option<Duration>,
}

/// The batches that the writer took.
#[derive(Debug)]
pub struct TakenBatches {
    /// The batches in their order. The list is empty if the writer was only woken.
    pub batches: VecDeque<AccessBatch>,
    /// Whether no further batch follows.
    pub is_end: bool,
}

impl AccessQueue {
    /// Creates the queue of exported spans.
    pub fn of_spans() -> Arc<Self> {
        let bounds = Bounds { bytes_max: BYTES_MAX, pause: PAUSE_OF_SPANS, lines_due: SPANS_DUE };
        let state = State { bounds, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Sets the maximum bytes of waiting batches. Batches that wait are kept.
    pub fn set_bytes_max(&self, bytes: usize) {
        self.state().bounds.bytes_max = bytes;
    }

    /// Appends a batch, or drops it if the queue is full or closed.
    pub(crate) fn push(&self, batch: AccessBatch) {
        let mut state = self.state();
        if state.is_closed || state.bytes + batch.bytes.len() > state.bounds.bytes_max {
            state.report.lose(batch.lines);
            return;
        }
        state.bytes += batch.bytes.len();
        state.lines += batch.lines;
        state.batches.push_back(batch);
        if state.is_writer_idle || state.is_due() {
            state.is_writer_idle = false;
            self.changed.notify_one();
        }
    }

    /// Waits for batches, for a call of [`wake`](Self::wake), or for the end. Takes all waiting batches.
    pub fn take(&self) -> TakenBatches {
        let mut state = self.wait_for_work();
        (state.is_woken, state.bytes, state.lines) = (false, 0, 0);
        TakenBatches { batches: std::mem::take(&mut state.batches), is_end: state.is_closed }
    }

    /// Waits for batches, for a call of [`wake`](Self::wake), or for the end.
    pub fn wait(&self) {
        drop(self.wait_for_work());
    }

    fn wait_for_work(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.batches.is_empty() && !state.is_disturbed() {
            state.is_writer_idle = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_writer_idle = false;
        state
    }

    /// Takes the first batch that waits. The other batches keep their place in the bound.
    pub fn pop(&self) -> Option<AccessBatch> {
        let mut state = self.state();
        let batch = state.batches.pop_front()?;
        state.bytes -= batch.bytes.len();
        state.lines -= batch.lines;
        Some(batch)
    }

    /// Forgets the last call of [`wake`](Self::wake). Returns whether no further batch follows.
    pub fn settle(&self) -> bool {
        let mut state = self.state();
        state.is_woken = false;
        state.is_closed
    }

    /// Waits for a time, or until there is other work for the thread.
    pub fn pause(&self, time: Duration) {
        let is_calm = |state: &mut State| !state.is_disturbed();
        drop(self.changed.wait_timeout_while(self.state(), time, is_calm));
    }

    /// Lets batches gather for a short time, unless there is other work for the writer.
    pub fn gather(&self) {
        let state = self.state();
        let pause = state.bounds.pause;
        let is_calm = |state: &mut State| !state.is_disturbed() && !state.is_due();
        drop(self.changed.wait_timeout_while(state, pause, is_calm));
    }

    /// Wakes the writer, so that it looks for other work.
    pub fn wake(&self) {
        self.state().is_woken = true;
        self.changed.notify_one();
    }

    /// Ends the queue. The writer gets the batches that wait, and later batches are dropped.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }

    /// Counts lines that the writer wrote.
    pub fn note_written(&self, lines: u64) {
        self.state().report.written += lines;
    }

    /// Notes that the thread fails for a reason, or that it works again.
    pub fn note_failure(&self, reason: Option<String>) {
        let mut state = self.state();
        let since = state.failure.take().map_or_else(Instant::now, |(since, _)| since);
        state.failure = reason.map(|reason| (since, reason));
    }

    /// Returns the time since the thread fails, and the last reason.
    pub fn failure(&self) -> Option<(Duration, String)> {
        self.state().failure.as_ref().map(|(since, reason)| (since.elapsed(), reason.clone()))
    }

    /// Counts lines that the writer could not write.
    pub fn note_lost(&self, lines: u64) {
        self.state().report.lose(lines);
    }

    /// Returns the counts since the start.
    pub fn report(&self) -> AccessReport {
        let Counts { written, lost, last_lost } = self.state().report;
        AccessReport { written, lost, lost_ago: last_lost.map(|at| at.elapsed()) }
    }

    /// Locks the state, also after a panic of another thread. The state is consistent after every statement.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn lose(&mut self, lines: u64) {
        if lines > 0 {
            self.lost += lines;
            self.last_lost = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn batch(bytes: usize, lines: u64) -> AccessBatch {
        AccessBatch::new(vec![0; bytes], lines)
    }

    #[test]
    fn a_writer_that_takes_nothing_loses_lines_and_holds_nobody_up() {
        let queue = AccessQueue::default();
        (0..9).for_each(|_| queue.push(batch(BYTES_MAX / 8, 3)));
        let report = queue.report();
        assert_eq!((report.lost, report.lost_ago.is_some()), (3, true));
        assert_eq!(queue.take().batches.len(), 8);
        queue.push(batch(1, 1));
        assert_eq!((queue.take().batches.len(), queue.report().lost), (1, 3));
    }

    #[test]
    fn a_batch_that_is_popped_leaves_its_place_and_the_others_stay() {
        let queue = AccessQueue::of_spans();
        queue.set_bytes_max(100);
        (0..3).for_each(|_| queue.push(batch(40, 1)));
        assert_eq!(queue.report().lost, 1);
        assert!(queue.pop().is_some());
        (0..2).for_each(|_| queue.push(batch(60, 1)));
        assert_eq!(queue.report().lost, 2);
        assert_eq!(queue.take().batches.len(), 2);
        assert!(queue.pop().is_none());
    }

    #[test]
    fn a_failure_lasts_from_its_first_reason_and_has_the_last_one() {
        let queue = AccessQueue::of_spans();
        assert_eq!(queue.failure(), None);
        queue.note_failure(Some("first".to_owned()));
        let (first, _) = queue.failure().unwrap();
        queue.note_failure(Some("last".to_owned()));
        let (last, reason) = queue.failure().unwrap();
        assert!(last >= first && reason == "last", "{last:?} {reason}");
        queue.note_failure(None);
        assert_eq!(queue.failure(), None);
    }

    #[test]
    fn the_writer_gets_all_batches_and_then_the_end() {
        let queue = Arc::new(AccessQueue::default());
        let taking = queue.clone();
        let writer = thread::spawn(move || {
            let (mut lines, mut takes) = (0, 0);
            loop {
                let taken = taking.take();
                takes += 1;
                lines += taken.batches.iter().map(|batch| batch.lines).sum::<u64>();
                if taken.is_end {
                    return (lines, takes);
                }
                taking.gather();
            }
        });
        (0..100).for_each(|_| queue.push(batch(10, 2)));
        queue.wake();
        queue.close();
        let (lines, takes) = writer.join().unwrap();
        assert!(lines == 200 && takes >= 1, "{lines} lines in {takes} takes");
        queue.push(batch(10, 2));
        assert_eq!(queue.report().lost, 2);
    }
}
