//! The queue of batches that wait to be written, and the turn of a thread to write them.
//!
//! There is one [`BatchWriter`]. A thread that wants to write takes the writer out of the queue, and puts it
//! back after the write. During the write, further batches gather in the queue. If
//! [`BatchWriter::can_serve_worker`] allows it, a worker takes the writer to write its own batch and the
//! waiting ones. If not, the writer thread takes the writer. Therefore two threads never write at the same
//! time, and batches are written in the order in which they were queued.
//!
//! No thread holds the lock during a disk call.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::batch_writer::BatchWriter;
use super::state::LogState;
use crate::queue_age::{Moment, earlier};
use crate::schema::{Schema, SchemaId};
use crate::worker_batch::WorkerBatch;

/// Maximum number of batches in the queue.
const QUEUE_BATCHES_MAX: usize = 1024;
/// Maximum number of batches in one write.
const WRITE_BATCHES_MAX: usize = 256;
/// Pause of the writer thread if it has work, but a worker holds the writer.
const TURN_PAUSE: Duration = Duration::from_millis(1);
/// Longest sleep of the writer thread before it checks the free space of the disk again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Schemas with their numbers.
pub(crate) type Declared = Vec<(SchemaId, Arc<Schema>)>;

/// An entry of the queue.
enum Message {
    /// Records of a worker.
    Batch(WorkerBatch),
    /// Schemas that later batches may use.
    Schemas(Declared),
}

/// Result of a hand-over.
pub(crate) enum Pushed {
    /// The batch waits for the next thread that writes.
    Queued,
    /// The worker itself has to write the batch, with all waiting batches.
    Turn(Box<BatchWriter>),
    /// The queue is full, and returns the batch.
    Full(Box<WorkerBatch>),
}

/// The queue of waiting batches. It also has the writer while no thread writes.
pub(crate) struct WriteQueue {
    state: Mutex<State>,
    /// Signals the writer thread that it has work.
    wake: Condvar,
}

struct State {
    waiting: VecDeque<Message>,
    /// Number of waiting messages that are schemas.
    declarations: usize,
    /// The writer. `None` while a thread writes, and after the writer thread ended.
    writer: Option<Box<BatchWriter>>,
    appenders: usize,
    is_closing: bool,
}

impl State {
    fn is_over(&self) -> bool {
        self.is_closing && self.appenders == 0 && self.waiting.is_empty()
    }

    fn is_segment_full(&self, log: &LogState) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.is_segment_full(log))
    }

    /// Returns the writer with all waiting batches, if a worker may write now.
    fn turn_of_worker(&mut self, log: &LogState) -> Option<Box<BatchWriter>> {
        let can_serve = self.declarations == 0
            && self.waiting.len() < WRITE_BATCHES_MAX
            && self.writer.as_ref().is_some_and(|writer| writer.can_serve_worker(log));
        let mut writer = self.writer.take_if(|_| can_serve)?;
        self.move_batches_to(&mut writer);
        Some(writer)
    }

    /// Moves batches to the writer, up to the next message with schemas. Returns the time of the oldest
    /// batch.
    fn move_batches_to(&mut self, writer: &mut BatchWriter) -> Option<Moment> {
        let mut oldest = None;
        for _ in 0..WRITE_BATCHES_MAX {
            match self.waiting.pop_front() {
                Some(Message::Batch(batch)) => {
                    oldest = earlier(oldest, Some(batch.origin.since));
                    writer.take_on(batch);
                }
                Some(schemas @ Message::Schemas(_)) => {
                    self.waiting.push_front(schemas);
                    break;
                }
                None => break,
            }
        }
        oldest
    }

    /// Removes the schemas at the front of the queue, and returns them.
    fn next_schemas(&mut self) -> Option<Declared> {
        match self.waiting.pop_front()? {
            Message::Schemas(schemas) => {
                self.declarations -= 1;
                Some(schemas)
            }
            batch @ Message::Batch(_) => {
                self.waiting.push_front(batch);
                None
            }
        }
    }

    /// Returns the time since which the first batch in the queue waits.
    fn oldest_waiting(&self) -> Option<Moment> {
        self.waiting.iter().find_map(|message| match message {
            Message::Batch(batch) => Some(batch.origin.since),
            Message::Schemas(_) => None,
        })
    }
}

impl WriteQueue {
    pub(crate) fn new(writer: BatchWriter) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            declarations: 0,
            writer: Some(Box::new(writer)),
            appenders: 0,
            is_closing: false,
        };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Locks the queue. A poisoned lock is taken too, because each statement leaves the queue consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_appender(&self) {
        self.state().appenders += 1;
    }

    pub(crate) fn remove_appender(&self) {
        let mut state = self.state();
        state.appenders -= 1;
        if state.is_over() {
            self.wake.notify_one();
        }
    }

    /// Lets the writer thread end once the last appender is dropped and the queue is empty.
    pub(crate) fn close(&self) {
        self.state().is_closing = true;
        self.wake.notify_one();
    }

    /// Wakes the writer thread, for example because the log stopped.
    pub(crate) fn wake_thread(&self) {
        let _state = self.state();
        self.wake.notify_one();
    }

    /// Adds the batch of a worker.
    pub(crate) fn push(&self, log: &LogState, batch: WorkerBatch) -> Pushed {
        let mut state = self.state();
        if state.waiting.len() >= QUEUE_BATCHES_MAX {
            return Pushed::Full(Box::new(batch));
        }
        let since = batch.origin.since;
        let is_idle = state.waiting.is_empty() && state.writer.is_some();
        state.waiting.push_back(Message::Batch(batch));
        if is_idle {
            log.queue_age.unwritten_since.set(Some(since));
        }
        if let Some(writer) = state.turn_of_worker(log) {
            return Pushed::Turn(writer);
        }
        // A thread that is writing needs no wake-up, because it checks the queue when it puts the writer
        // back.
        if state.writer.is_some() {
            self.wake.notify_one();
        }
        Pushed::Queued
    }

    /// Adds schemas to the queue. The number of schemas is not bounded here, because there are few of them.
    pub(crate) fn declare(&self, schemas: Declared) {
        let mut state = self.state();
        state.waiting.push_back(Message::Schemas(schemas));
        state.declarations += 1;
        if state.writer.is_some() {
            self.wake.notify_one();
        }
    }

    /// Waits until the writer thread has work, and returns the writer. The flag is true if the thread has to
    /// end after this work.
    ///
    /// The thread has work when a message waits, when the active segment has to be closed, or when the log
    /// ends. A segment has to be closed when it is full, at `open_until`, or when the disk is short of space.
    /// In all other cases the thread leaves the writer to the workers.
    pub(crate) fn turn_of_thread(
        &self,
        log: &LogState,
        open_until: Option<Instant>,
    ) -> (Box<BatchWriter>, bool) {
        let mut state = self.state();
        loop {
            let is_last = state.is_over() || log.failure().is_some();
            let age_left = open_until.map(|until| until.saturating_duration_since(Instant::now()));
            let has_to_close = age_left.is_some_and(|left| left.is_zero() || log.room.is_short());
            let is_due = is_last || !state.waiting.is_empty() || has_to_close || state.is_segment_full(log);
            if is_due && let Some(writer) = state.writer.take() {
                return (writer, is_last);
            }
            let pause = if is_due { TURN_PAUSE } else { age_left.unwrap_or(PAUSE_MAX).min(PAUSE_MAX) };
            state = self.wake.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Moves waiting batches to the writer of the writer thread, up to the next schemas. Returns these
    /// schemas.
    pub(crate) fn take_batches(&self, log: &LogState, writer: &mut BatchWriter) -> Option<Declared> {
        let mut state = self.state();
        let oldest = state.move_batches_to(writer);
        if oldest.is_some() {
            log.queue_age.unwritten_since.set(oldest);
        }
        state.next_schemas()
    }

    /// Returns the writer to the queue. If `goes_on`, and a worker may write the batches that were queued
    /// during the write, returns the writer again with these batches.
    pub(crate) fn put_back(
        &self,
        log: &LogState,
        writer: Box<BatchWriter>,
        goes_on: bool,
    ) -> Option<Box<BatchWriter>> {
        let mut state = self.state();
        state.writer = Some(writer);
        log.queue_age.unwritten_since.set(state.oldest_waiting());
        if state.waiting.is_empty() {
            if state.is_over() || state.is_segment_full(log) || log.failure().is_some() {
                self.wake.notify_one();
            }
            return None;
        }
        let again = if goes_on { state.turn_of_worker(log) } else { None };
        if again.is_none() {
            self.wake.notify_one();
        }
        again
    }
}
