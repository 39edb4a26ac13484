//! A thread that encodes and compresses the columns of a row group while the next rows gather.
//!
//! Columns of one row group are encoded at a time. A loader that has the next row group ready encodes columns
//! too, until none is left. The columns are returned in order, so timing changes no byte of a file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use parquet::errors::Result as Encoded;

use crate::chunk::{Chunk, ColumnTask};
use crate::error::LakeError;

/// The number of a column, and its bytes.
type Done = (usize, Encoded<Chunk>);

/// The thread of one load. Dropping it ends the thread.
pub(crate) struct Encoder {
    columns: Arc<Columns>,
    /// Number of columns in work.
    count: usize,
    results: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

/// The columns that neither the thread nor the loader encodes yet.
#[derive(Default)]
struct Columns {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    tasks: VecDeque<(usize, ColumnTask)>,
    is_ended: bool,
}

impl Encoder {
    /// Starts the thread for files in `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self, LakeError> {
        let (sender, results) = channel();
        let columns = Arc::<Columns>::default();
        let of_thread = columns.clone();
        let thread = thread::Builder::new().name("lake-encode".to_owned());
        let thread = thread.spawn(move || of_thread.encode_until_end(&sender));
        let thread = thread.map_err(LakeError::file("start a thread for", folder))?;
        Ok(Self { columns, count: 0, results, thread: Some(thread) })
    }

    /// Begins to encode the columns of a row group, after the row group before was finished.
    pub(crate) fn begin(&mut self, tasks: Vec<ColumnTask>) {
        self.count = tasks.len();
        let mut tasks: Vec<_> = tasks.into_iter().enumerate().collect();
        // The last columns are short, so the loader and the thread end at about the same time.
        tasks.sort_by_key(|(_, task)| Reverse(task.values.bytes()));
        self.columns.lock().tasks.extend(tasks);
        self.columns.changed.notify_one();
    }

    /// Finishes the columns of the row group. Returns them in order.
    pub(crate) fn finish(&mut self) -> Encoded<Vec<Chunk>> {
        let mut chunks = BTreeMap::new();
        while let Some((place, task)) = self.columns.next() {
            chunks.insert(place, task.encode());
        }
        while chunks.len() < self.count {
            match self.results.recv() {
                Ok((place, chunk)) => drop(chunks.insert(place, chunk)),
                Err(_) => self.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            }
        }
        chunks.into_values().collect()
    }

    fn join(&mut self) -> thread::Result<()> {
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        {
            let mut waiting = self.columns.lock();
            waiting.tasks.clear();
            waiting.is_ended = true;
        }
        self.columns.changed.notify_one();
        // The column that the thread encodes belongs to a load that is given up or finished.
        drop(self.join());
    }
}

impl Columns {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<(usize, ColumnTask)> {
        self.lock().tasks.pop_front()
    }

    /// Waits for the next column. `None`: the load has ended.
    fn wait_for_next(&self) -> Option<(usize, ColumnTask)> {
        let waiting = self.lock();
        let is_idle = |waiting: &mut Waiting| waiting.tasks.is_empty() && !waiting.is_ended;
        let waiting = self.changed.wait_while(waiting, is_idle);
        waiting.unwrap_or_else(PoisonError::into_inner).tasks.pop_front()
    }

    fn encode_until_end(&self, results: &Sender<Done>) {
        while let Some((place, task)) = self.wait_for_next() {
            // The receiver exists until the thread has ended.
            drop(results.send((place, task.encode())));
        }
    }
}
