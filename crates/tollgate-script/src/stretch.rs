//! Work on the body of a request, one stretch after another.
//!
//! If the body is in a file, threads of the runtime that polls the call run each stretch. [`Blocks`] reads
//! the body in constant memory.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::body::{Body, ReadAt};

/// Bytes that a thread reads, skips or saves before other tasks run.
pub(crate) const STRETCH_BYTES: u64 = 8 << 20;
/// Maximum number of threads that work on bodies for one worker. Further threads stay free to read files that
/// are sent.
pub(crate) const AT_ONCE_MAX: usize = 2;

/// Reason why a body cannot be read further.
#[derive(Debug)]
pub(crate) enum BodyReadError {
    /// The client is at fault. The values are the status and the reason. Unless the script catches the error,
    /// the reply has this status.
    Client(u16, String),
    /// The disk failed.
    Disk(io::Error),
}

impl From<io::Error> for BodyReadError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Result of one stretch of work on a body.
pub(crate) enum WorkStep<R> {
    More,
    Done(R),
}

/// The content of a body, block by block.
pub(crate) struct Blocks {
    source: Source,
    /// Number of bytes that were read.
    at: u64,
}

enum Source {
    Memory(Bytes),
    File(Box<dyn ReadAt>, u64),
}

impl Blocks {
    /// Begins a body.
    ///
    /// # Errors
    /// The file of the body cannot be opened again.
    pub(crate) fn new(body: &Body) -> io::Result<Self> {
        let source = match body {
            Body::Memory(bytes) => Source::Memory(bytes.clone()),
            Body::File(file) => Source::File(file.open()?, file.bytes_len()),
        };
        Ok(Self { source, at: 0 })
    }

    /// Returns whether the body is in memory, so that reading does not wait.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.source, Source::Memory(_))
    }

    /// Returns the number of bytes that were read.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Reads the next block, of at most `bytes_max` bytes. An empty block is the end.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub(crate) fn next(&mut self, bytes_max: usize) -> io::Result<Bytes> {
        let len = match &self.source {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::File(_, len) => *len,
        };
        let bytes = usize::try_from(len - self.at).unwrap_or(bytes_max).min(bytes_max);
        let block = match &self.source {
            Source::Memory(body) => {
                let from = usize::try_from(self.at).unwrap_or_default();
                body.slice(from..from + bytes)
            }
            Source::File(file, _) => {
                let mut block = vec![0; bytes];
                file.read_exact_at(&mut block, self.at)?;
                block.into()
            }
        };
        self.at += bytes as u64;
        Ok(block)
    }
}

/// Runs work on a reader on threads, one stretch after another. Returns the reader and the result, or `None`
/// if the runtime ends.
///
/// # Cancel safety
/// After a drop of the future, the current stretch completes. Then the reader and the values of the work are
/// dropped.
pub(crate) async fn by_threads<T: Send + 'static, R: Send + 'static>(
    places: Arc<Semaphore>,
    mut reader: Box<T>,
    mut work: impl FnMut(&mut T) -> WorkStep<R> + Send + 'static,
) -> Option<(Box<T>, R)> {
    loop {
        let place = places.clone().acquire_owned().await.ok()?;
        let stretch = spawn_blocking(move || {
            let stretch = work(&mut reader);
            drop(place);
            (reader, work, stretch)
        });
        let (reader_back, work_back, done) = stretch.await.ok()?;
        match done {
            WorkStep::Done(result) => return Some((reader_back, result)),
            WorkStep::More => (reader, work) = (reader_back, work_back),
        }
    }
}
