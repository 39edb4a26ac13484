//! The reader of a multipart body. The reader reads part by part, in constant memory, from memory or from a
//! file.
//!
//! If the body is in a file, threads of the runtime that polls the call read the file, one stretch at a time.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tollgate_http::{FormError, FormEvent, FormPartHead, FormStream};

use crate::body::{Body, ReadAt};

/// Maximum bytes of one read from a file. One `part:read()` also returns at most this many bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes that a thread reads, skips or saves before other tasks run.
pub(crate) const STRETCH_BYTES: u64 = 8 << 20;
/// Maximum number of threads that work on forms for one worker. Further threads stay free to read files that
/// are sent.
pub(crate) const AT_ONCE_MAX: usize = 2;

/// Reason why a form cannot be read further.
#[derive(Debug)]
pub(crate) enum FormReadError {
    /// The client is at fault. The values are the status and the reason. Unless the script catches the error,
    /// the reply has this status.
    Client(u16, String),
    /// The disk failed.
    Disk(io::Error),
}

impl From<FormError> for FormReadError {
    fn from(error: FormError) -> Self {
        Self::Client(400, error.to_string())
    }
}

impl From<io::Error> for FormReadError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Limits of a script for a form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartLimits {
    pub(crate) count_max: u64,
    pub(crate) part_bytes_max: u64,
}

/// A form that is being read.
pub(crate) struct PartReader {
    source: Source,
    /// Number of bytes of the source that were read.
    at: u64,
    stream: FormStream,
    limits: PartLimits,
    /// Number of parts so far.
    count: u64,
    /// Bytes of content of the current part so far. `None` between parts.
    part_bytes: Option<u64>,
}

enum Source {
    Memory(Bytes),
    File(Box<dyn ReadAt>, u64),
}

/// Result of one stretch of work on a form.
pub(crate) enum WorkStep<R> {
    More,
    Done(R),
}

impl PartReader {
    /// Creates a reader for a body.
    ///
    /// # Errors
    /// `Client` if the body is not a multipart form. `Disk` if its file cannot be opened again.
    pub(crate) fn new(content_type: &[u8], body: &Body, limits: PartLimits) -> Result<Self, FormReadError> {
        let media_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        if !media_type.eq_ignore_ascii_case(b"multipart/form-data") {
            return Err(FormReadError::Client(415, "the body is not multipart/form-data".to_owned()));
        }
        let source = match body {
            Body::Memory(bytes) => Source::Memory(bytes.clone()),
            Body::File(file) => Source::File(file.open()?, file.bytes_len()),
        };
        let stream = FormStream::new(content_type)?;
        Ok(Self { source, at: 0, stream, limits, count: 0, part_bytes: None })
    }

    /// Returns whether the body is in memory, so that reading does not wait.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.source, Source::Memory(_))
    }

    /// Skips the remaining content of the current part, and moves to the next part. `None` means that there
    /// are no more parts.
    pub(crate) fn next_part(&mut self) -> WorkStep<Result<Option<FormPartHead>, FormReadError>> {
        let until = self.at.saturating_add(STRETCH_BYTES);
        loop {
            match self.next_event() {
                Ok(FormEvent::Part(head)) => return WorkStep::Done(Ok(Some(head))),
                Ok(FormEvent::End) => return WorkStep::Done(Ok(None)),
                Ok(FormEvent::Content(_) | FormEvent::PartEnd) if self.at < until => {}
                Ok(FormEvent::Content(_) | FormEvent::PartEnd) => return WorkStep::More,
                Err(fault) => return WorkStep::Done(Err(fault)),
            }
        }
    }

    /// Returns more content of the current part. `None` means that the part is complete.
    pub(crate) fn chunk(&mut self) -> Result<Option<Bytes>, FormReadError> {
        if self.part_bytes.is_none() {
            return Ok(None);
        }
        match self.next_event()? {
            FormEvent::Content(bytes) => Ok(Some(bytes)),
            FormEvent::PartEnd | FormEvent::End | FormEvent::Part(_) => Ok(None),
        }
    }

    fn next_event(&mut self) -> Result<FormEvent, FormReadError> {
        loop {
            if let Some(event) = self.stream.next_event()? {
                self.count(&event)?;
                return Ok(event);
            }
            self.fill()?;
        }
    }

    fn count(&mut self, event: &FormEvent) -> Result<(), FormReadError> {
        match event {
            FormEvent::Part(_) => {
                (self.count, self.part_bytes) = (self.count + 1, Some(0));
                over("parts of the form exceed limit", self.count, self.limits.count_max, "parts")
            }
            FormEvent::Content(bytes) => {
                let part_bytes = self.part_bytes.unwrap_or_default() + bytes.len() as u64;
                self.part_bytes = Some(part_bytes);
                over("a part of the form exceeds limit", part_bytes, self.limits.part_bytes_max, "bytes")
            }
            FormEvent::PartEnd | FormEvent::End => {
                self.part_bytes = None;
                Ok(())
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let len = match &self.source {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::File(_, len) => *len,
        };
        let bytes = usize::try_from(len - self.at).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        if bytes == 0 {
            self.stream.finish();
            return Ok(());
        }
        match &self.source {
            Source::Memory(body) => {
                let from = usize::try_from(self.at).unwrap_or_default();
                self.stream.push(&body[from..from + bytes]);
            }
            Source::File(file, _) => {
                let mut block = vec![0; bytes];
                file.read_exact_at(&mut block, self.at)?;
                self.stream.push(&block);
            }
        }
        self.at += bytes as u64;
        Ok(())
    }
}

fn over(what: &str, found: u64, limit: u64, unit: &str) -> Result<(), FormReadError> {
    if found > limit {
        return Err(FormReadError::Client(413, format!("{what}: limit {limit} {unit}")));
    }
    Ok(())
}

/// Runs work on a form on threads, one stretch after another. Returns the reader and the result, or `None` if
/// the runtime ends.
///
/// # Cancel safety
/// After a drop of the future, the current stretch completes. Then the reader and the values of the work are
/// dropped.
pub(crate) async fn by_threads<R: Send + 'static>(
    places: Arc<Semaphore>,
    mut reader: Box<PartReader>,
    mut work: impl FnMut(&mut PartReader) -> WorkStep<R> + Send + 'static,
) -> Option<(Box<PartReader>, R)> {
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
