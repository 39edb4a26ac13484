//! Stores bodies that are not held in memory, in files without names. A few threads write these files. A
//! worker never writes these files.
//!
//! A connection hands over one piece at a time, and waits until the piece is written. The queue therefore has
//! at most one piece for each connection. The memory of the piece counts for that connection. The threads are
//! started when the first pieces arrive. A file is freed when its body is dropped. If the process is killed,
//! the kernel frees the file. If [`SpoolOptions::encrypt`] is set, [`cipher`] encrypts the files.

mod cipher;

use std::collections::VecDeque;
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;
use tokio::sync::oneshot;
use tollgate_http::StatusCode;
use tollgate_log::FOLDER_MODE;
use tollgate_script::{BodyFile, ReadAt};

use crate::observe::Refusal;
use crate::options::SpoolOptions;
use crate::reply::Reply;
use cipher::FileKey;

const THREADS_MAX: usize = 4;

/// Reason why a body cannot be stored. The whole body is lost.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolError {
    #[error("spooled bodies exceed limit: limit {limit} bytes")]
    Full { limit: u64 },
    #[error("the disk of spooled bodies is nearly full")]
    NoRoom,
    #[error("cannot write a spooled body: {0}")]
    Disk(io::Error),
}

impl SpoolError {
    pub(crate) fn reply(&self) -> Reply {
        let text = match self {
            Self::Full { .. } => "too many request bodies are on disk: nothing was recorded",
            Self::NoRoom => "the disk is nearly full: nothing was recorded",
            Self::Disk(_) => "the server could not store the body: nothing was recorded",
        };
        Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

impl From<io::Error> for SpoolError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::NoRoom,
            _ => Self::Disk(error),
        }
    }
}

impl From<&SpoolError> for Refusal {
    fn from(_: &SpoolError) -> Self {
        Self::Spool
    }
}

/// Stores bodies that the workers of a server do not hold in memory.
pub(crate) struct Spool(Arc<SpoolState>);

/// State that workers, spool threads and bodies share.
struct SpoolState {
    options: SpoolOptions,
    queue: Mutex<Queue>,
    is_work_there: Condvar,
    spooled_bytes: AtomicU64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle_threads: usize,
    is_closed: bool,
}

enum Job {
    Append {
        file: Option<SpooledBody>,
        content: BytesMut,
        done: oneshot::Sender<Result<(SpooledBody, BytesMut), SpoolError>>,
    },
    /// Closes a file. A thread does this, because freeing a large file costs as much time as a write.
    Close(File),
}

impl Spool {
    pub(crate) fn new(options: SpoolOptions) -> Self {
        Self(Arc::new(SpoolState {
            options,
            queue: Mutex::default(),
            is_work_there: Condvar::new(),
            spooled_bytes: AtomicU64::new(0),
        }))
    }

    /// Appends a piece to a body, or to a new body. Returns the empty buffer.
    ///
    /// # Errors
    /// The spool or the disk has no space. The whole body is lost.
    ///
    /// # Cancel safety
    /// If the future is dropped, the body is dropped after the piece is written.
    pub(crate) async fn append(
        &self,
        file: Option<SpooledBody>,
        content: BytesMut,
    ) -> Result<(SpooledBody, BytesMut), SpoolError> {
        let (done, outcome) = oneshot::channel();
        SpoolState::push(&self.0, Job::Append { file, content, done })?;
        outcome.await.unwrap_or_else(|_| Err(SpoolError::Disk(io::ErrorKind::BrokenPipe.into())))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.0.queue().is_closed = true;
        self.0.is_work_there.notify_all();
    }
}

impl SpoolState {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job for an idle thread, or for a new thread.
    fn push(shared: &Arc<Self>, job: Job) -> Result<(), SpoolError> {
        let mut queue = shared.queue();
        let is_thread_wanted = queue.jobs.len() >= queue.idle_threads && queue.threads < THREADS_MAX;
        if is_thread_wanted && !queue.is_closed {
            let own = shared.clone();
            let name = format!("spool-{}", queue.threads);
            match thread::Builder::new().name(name).spawn(move || own.run()) {
                Ok(_) => queue.threads += 1,
                Err(error) if queue.threads == 0 => return Err(SpoolError::Disk(error)),
                Err(_) => {}
            }
        }
        queue.jobs.push_back(job);
        drop(queue);
        shared.is_work_there.notify_one();
        Ok(())
    }

    fn run(self: Arc<Self>) {
        while let Some(job) = self.next() {
            match job {
                Job::Close(file) => drop(file),
                Job::Append { file, mut content, done } => {
                    let appended = SpooledBody::append(&self, file, &mut content);
                    content.clear();
                    // If the connection is gone, this drops its body.
                    let _ = done.send(appended.map(|file| (file, content)));
                }
            }
        }
    }

    /// Waits for a job. Returns `None` when no more jobs will arrive.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_closed {
                return None;
            }
            queue.idle_threads += 1;
            queue = self.is_work_there.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle_threads -= 1;
        }
    }
}

/// A body in a file, which is freed when this value is dropped.
#[derive(Debug)]
pub(crate) struct SpooledBody {
    shared: Arc<SpoolState>,
    /// `None` only during the drop.
    file: Option<File>,
    /// `None` if the file is not encrypted.
    key: Option<FileKey>,
    bytes: u64,
}

impl SpooledBody {
    /// Appends `content`. If the file is encrypted, `content` is encrypted in place.
    fn append(shared: &Arc<SpoolState>, body: Option<Self>, content: &mut [u8]) -> Result<Self, SpoolError> {
        let mut body = match body {
            Some(body) => body,
            None => Self::create(shared)?,
        };
        let offset = body.bytes;
        body.claim(content.len() as u64)?;
        if let Some(key) = &body.key {
            key.apply(content, offset)?;
        }
        body.file()?.write_all(content)?;
        Ok(body)
    }

    fn create(shared: &Arc<SpoolState>) -> Result<Self, SpoolError> {
        let dir = &shared.options.dir;
        let file = tempfile::tempfile_in(dir).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(dir)?;
                tempfile::tempfile_in(dir)
            }
            _ => Err(error),
        })?;
        let key = if shared.options.encrypt { Some(FileKey::new()?) } else { None };
        Ok(Self { shared: shared.clone(), file: Some(file), key, bytes: 0 })
    }

    /// Counts bytes that are about to be written.
    fn claim(&mut self, bytes: u64) -> Result<(), SpoolError> {
        let limit = self.shared.options.bytes_max;
        self.bytes += bytes;
        if self.shared.spooled_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > limit {
            return Err(SpoolError::Full { limit });
        }
        let space = rustix::fs::fstatvfs(self.file()?).map_err(io::Error::from)?;
        let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        if free_bytes < self.shared.options.reserve_bytes.saturating_add(bytes) {
            return Err(SpoolError::NoRoom);
        }
        Ok(())
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl BodyFile for SpooledBody {
    fn bytes_len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file()?.read_at(buffer, offset)?;
        if let Some(key) = &self.key {
            key.apply(&mut buffer[..read], offset)?;
        }
        Ok(read)
    }

    fn read(&self) -> io::Result<Bytes> {
        let bytes = usize::try_from(self.bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut content = vec![0; bytes];
        read_exact_at(self.file()?, self.key.as_ref(), &mut content, 0)?;
        Ok(content.into())
    }

    fn open(&self) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(Opened { file: self.file()?.try_clone()?, key: self.key.clone() }))
    }
}

/// An open file for a thread that reads parts of the file.
struct Opened {
    file: File,
    key: Option<FileKey>,
}

impl ReadAt for Opened {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        read_exact_at(&self.file, self.key.as_ref(), buffer, offset)
    }
}

/// Fills the buffer with the bytes of the file from `offset` on, and decrypts them.
fn read_exact_at(file: &File, key: Option<&FileKey>, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buffer, offset)?;
    key.map_or(Ok(()), |key| key.apply(buffer, offset))
}

impl Drop for SpooledBody {
    fn drop(&mut self) {
        self.shared.spooled_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(file) = self.file.take() {
            // If no thread can be started, the file is closed here.
            let _ = SpoolState::push(&self.shared, Job::Close(file));
        }
    }
}

impl std::fmt::Debug for SpoolState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool").field("options", &self.options).finish_non_exhaustive()
    }
}
