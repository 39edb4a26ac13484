//! A thread that encodes and compresses row groups while the next rows gather.
//!
//! The thread takes the next row group when the last one is written. So the rows of two row groups are in
//! memory at most. The row groups are written in the order in which they were sent, so timing changes no
//! byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

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
    thread: JoinHandle<Result<Files, LakeError>>,
}

impl Encoder {
    /// Starts the thread. It makes the files in `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self, LakeError> {
        let (jobs, receiver) = sync_channel(0);
        let of_thread = folder.to_owned();
        let thread = thread::Builder::new().name("lake-encode".to_owned());
        let thread = thread.spawn(move || encode(&of_thread, &receiver));
        Ok(Self { jobs, thread: thread.map_err(LakeError::file("start a thread for", folder))? })
    }

    /// Passes a row group on as soon as the thread has written the one before. Returns false if an error has
    /// ended the thread. [`Self::finish`] returns the error.
    pub(crate) fn send(&self, file: usize, group: RowGroup) -> bool {
        self.jobs.send((file, group)).is_ok()
    }

    /// Waits until all row groups are written. Returns the files.
    pub(crate) fn finish(self) -> Result<Files, LakeError> {
        drop(self.jobs);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Ends the thread after the row group that it writes. The files are of no use, so its error is ignored.
    pub(crate) fn stop(self) {
        drop(self.jobs);
        drop(self.thread.join());
    }
}

fn encode(folder: &Path, jobs: &Receiver<Job>) -> Result<Files, LakeError> {
    let mut files = Files::new();
    for (file, group) in jobs {
        let new = || FileWriter::new(folder.join(format!("{}.part", file + 1)));
        files.entry(file).or_insert_with(new).write(group)?;
    }
    Ok(files)
}
