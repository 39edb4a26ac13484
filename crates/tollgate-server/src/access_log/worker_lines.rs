//! The batches of lines and of spans that a worker gathers.
//!
//! The first line of a pass wakes [`WorkerLines::hand_over`]. The run queue is first in, first out, so this
//! task runs after every connection that is ready now, and takes the lock of a queue once for all of them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tokio::sync::Notify;
use uuid::Uuid;

use crate::access_queue::{AccessBatch, AccessQueue};
use crate::identity::IdMaker;
use crate::options::ServerOptions;

/// Bytes of a batch that are handed over before the pass ends.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// The lines and spans of one worker that are not handed over yet.
pub(crate) struct WorkerLines {
    lines: Gathered,
    spans: Gathered,
    /// Notified by the first line of a batch.
    pending: Notify,
    /// State of the random numbers that choose requests. It is never 0.
    random: Cell<u64>,
    /// Makes the ids of spans whose requests get no id.
    ids: IdMaker,
}

impl WorkerLines {
    pub(crate) fn new(options: &ServerOptions, ids: IdMaker, seed: usize) -> Self {
        Self {
            lines: Gathered::new(&options.access_queue),
            spans: Gathered::new(&options.span_queue),
            pending: Notify::new(),
            random: Cell::new(0x9e37_79b9_7f4a_7c15_u64.wrapping_add(seed as u64) | 1),
            ids,
        }
    }

    /// Adds a line that `write` appends.
    pub(super) fn add_line(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.lines.add(&self.pending, write);
    }

    /// Adds a span that `write` appends.
    pub(super) fn add_span(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.spans.add(&self.pending, write);
    }

    /// Hands lines over as long as the worker runs.
    pub(crate) async fn hand_over(&self) {
        loop {
            self.pending.notified().await;
            tokio::task::yield_now().await;
            self.hand_over_now();
        }
    }

    /// Hands over the lines and spans that wait.
    pub(crate) fn hand_over_now(&self) {
        self.lines.hand_over();
        self.spans.hand_over();
    }

    /// Makes the id of a span whose request has no id.
    pub(super) fn new_id(&self, time_us: i64) -> Uuid {
        self.ids.next(time_us)
    }

    /// Returns a random number (xorshift64, G. Marsaglia 2003).
    pub(super) fn random(&self) -> u32 {
        let mut state = self.random.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.set(state);
        (state >> 32) as u32
    }
}

/// A batch that gathers for one queue.
struct Gathered {
    queue: Arc<AccessQueue>,
    bytes: RefCell<Vec<u8>>,
    count: Cell<u64>,
}

impl Gathered {
    fn new(queue: &Arc<AccessQueue>) -> Self {
        Self { queue: queue.clone(), bytes: RefCell::default(), count: Cell::default() }
    }

    fn add(&self, pending: &Notify, write: impl FnOnce(&mut Vec<u8>)) {
        let bytes_len = {
            let mut bytes = self.bytes.borrow_mut();
            write(&mut bytes);
            bytes.len()
        };
        self.count.set(self.count.get() + 1);
        if bytes_len >= BATCH_BYTES_MAX {
            self.hand_over();
        } else if self.count.get() == 1 {
            pending.notify_one();
        }
    }

    fn hand_over(&self) {
        let bytes = self.bytes.take();
        let lines = self.count.replace(0);
        if lines > 0 {
            // The next batch is likely to have the same size.
            self.bytes.borrow_mut().reserve(bytes.len());
            self.queue.push(AccessBatch::new(bytes, lines));
        }
    }
}
