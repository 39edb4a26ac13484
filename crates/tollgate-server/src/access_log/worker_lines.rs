//! The batch of lines that a worker gathers.
//!
//! The first line of a pass wakes [`WorkerLines::hand_over`]. The run queue is first in, first out, so this
//! task runs after every connection that is ready now, and takes the lock of the queue once for all of them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tokio::sync::Notify;

use crate::access_queue::{AccessBatch, AccessQueue};

/// Bytes of a batch that are handed over before the pass ends.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// The lines of one worker that are not handed over yet.
pub(crate) struct WorkerLines {
    queue: Arc<AccessQueue>,
    bytes: RefCell<Vec<u8>>,
    count: Cell<u64>,
    /// Notified by the first line of a batch.
    pending: Notify,
    /// State of the random numbers that choose requests. It is never 0.
    random: Cell<u64>,
}

impl WorkerLines {
    pub(crate) fn new(queue: &Arc<AccessQueue>, seed: usize) -> Self {
        Self {
            queue: queue.clone(),
            bytes: RefCell::default(),
            count: Cell::default(),
            pending: Notify::new(),
            random: Cell::new(0x9e37_79b9_7f4a_7c15_u64.wrapping_add(seed as u64) | 1),
        }
    }

    /// Adds a line that `write` appends.
    pub(super) fn add(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let bytes_len = {
            let mut bytes = self.bytes.borrow_mut();
            write(&mut bytes);
            bytes.len()
        };
        self.count.set(self.count.get() + 1);
        if bytes_len >= BATCH_BYTES_MAX {
            self.hand_over_now();
        } else if self.count.get() == 1 {
            self.pending.notify_one();
        }
    }

    /// Hands lines over as long as the worker runs.
    pub(crate) async fn hand_over(&self) {
        loop {
            self.pending.notified().await;
            tokio::task::yield_now().await;
            self.hand_over_now();
        }
    }

    /// Hands over the lines that wait.
    pub(crate) fn hand_over_now(&self) {
        let bytes = self.bytes.take();
        let lines = self.count.replace(0);
        if lines > 0 {
            // The next batch is likely to have the same size.
            self.bytes.borrow_mut().reserve(bytes.len());
            self.queue.push(AccessBatch::new(bytes, lines));
        }
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
