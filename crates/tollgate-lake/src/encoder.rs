//! Threads that encode and compress row groups while the next rows gather.
//!
//! One thread writes the files. It takes the next row group when the last one is written. So the rows of two
//! row groups are in memory at most. A loader that waits for this thread encodes columns of its row group.
//! Row groups and columns keep their order in the file, so timing changes no byte.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use parquet::errors::Result as Encoded;

use crate::chunk::{Chunk, ColumnTask};
use crate::error::LakeError;
use crate::rows::RowGroup;
use crate::writer::FileWriter;

/// A row group, and the number of its file.
type Job = (usize, RowGroup);
/// The files, by their numbers.
type Files = BTreeMap<usize, FileWriter>;

/// The files of one load, with the thread that writes them.
pub(crate) struct Encoder {
    jobs: SyncSender<Job>,
    columns: Arc<Columns>,
    thread: JoinHandle<Result<Files, LakeError>>,
}

/// The columns of the present row group that no thread encodes yet.
#[derive(Default)]
struct Columns(Mutex<Option<Waiting>>);

struct Waiting {
    tasks: VecDeque<(usize, ColumnTask)>,
    results: Sender<(usize, Encoded<Chunk>)>,
}

impl Encoder {
    /// Starts the thread. It makes the files in `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self, LakeError> {
        let (jobs, receiver) = sync_channel(0);
        let columns = Arc::<Columns>::default();
        let (folder_of_thread, columns_of_thread) = (folder.to_owned(), columns.clone());
        let thread = thread::Builder::new().name("lake-encode".to_owned());
        let thread = thread.spawn(move || write(&folder_of_thread, &receiver, &columns_of_thread));
        let thread = thread.map_err(LakeError::file("start a thread for", folder))?;
        Ok(Self { jobs, columns, thread })
    }

    /// Passes a row group on as soon as the thread has written the one before. Encodes columns of that one
    /// until then. Returns false if an error has ended the thread. [`Self::finish`] returns the error.
    pub(crate) fn send(&self, file: usize, group: RowGroup) -> bool {
        let mut job = (file, group);
        loop {
            job = match self.jobs.try_send(job) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(job)) => job,
            };
            if !self.columns.encode_one() {
                return self.jobs.send(job).is_ok();
            }
        }
    }

    /// Waits until all row groups are written, and encodes columns meanwhile. Returns the files.
    pub(crate) fn finish(self) -> Result<Files, LakeError> {
        drop(self.jobs);
        while self.columns.encode_one() {}
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Ends the thread after the row group that it writes. The files are of no use, so its error is ignored.
    pub(crate) fn stop(self) {
        drop(self.jobs);
        drop(self.thread.join());
    }
}

impl Columns {
    fn lock(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes the next column. Returns false if there is none.
    fn encode_one(&self) -> bool {
        let mut waiting = self.lock();
        let next = waiting.as_mut().and_then(|waiting| {
            let (place, task) = waiting.tasks.pop_front()?;
            Some((place, task, waiting.results.clone()))
        });
        drop(waiting);
        let Some((place, task, results)) = next else { return false };
        // After an error in another column, nothing receives the result.
        drop(results.send((place, task.encode())));
        true
    }

    /// Encodes all columns of a row group, with the help of other threads. Returns them in order.
    fn encode_all(&self, tasks: Vec<ColumnTask>) -> Encoded<Vec<Chunk>> {
        let (results, received) = channel();
        *self.lock() = Some(Waiting { tasks: tasks.into_iter().enumerate().collect(), results });
        while self.encode_one() {}
        // The results end when the last thread has sent its column.
        *self.lock() = None;
        let mut chunks = BTreeMap::new();
        for (place, chunk) in received {
            chunks.insert(place, chunk?);
        }
        Ok(chunks.into_values().collect())
    }
}

fn write(folder: &Path, jobs: &Receiver<Job>, columns: &Columns) -> Result<Files, LakeError> {
    let mut files = Files::new();
    for (file, group) in jobs {
        let new = || FileWriter::new(folder.join(format!("{}.part", file + 1)));
        files.entry(file).or_insert_with(new).write(group, |tasks| columns.encode_all(tasks))?;
    }
    Ok(files)
}
