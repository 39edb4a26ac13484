//! The reader of a multipart body. The reader reads part by part, in constant memory, from memory or from a
//! file.

use std::io;

use bytes::Bytes;
use tollgate_http::{FormError, FormEvent, FormPartHead, FormStream};

use crate::body::Body;
use crate::stretch::{Blocks, BodyReadError, STRETCH_BYTES, WorkStep};

/// Maximum bytes of one read from a file. One `part:read()` also returns at most this many bytes.
const BLOCK_BYTES: usize = 256 << 10;

impl From<FormError> for BodyReadError {
    fn from(error: FormError) -> Self {
        Self::Client(400, error.to_string())
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
    blocks: Blocks,
    stream: FormStream,
    limits: PartLimits,
    /// Number of parts so far.
    count: u64,
    /// Bytes of content of the current part so far. `None` between parts.
    part_bytes: Option<u64>,
}

impl PartReader {
    /// Creates a reader for a body.
    ///
    /// # Errors
    /// `Client` if the body is not a multipart form. `Disk` if its file cannot be opened again.
    pub(crate) fn new(content_type: &[u8], body: &Body, limits: PartLimits) -> Result<Self, BodyReadError> {
        let media_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        if !media_type.eq_ignore_ascii_case(b"multipart/form-data") {
            return Err(BodyReadError::Client(415, "the body is not multipart/form-data".to_owned()));
        }
        let blocks = Blocks::new(body)?;
        let stream = FormStream::new(content_type)?;
        Ok(Self { blocks, stream, limits, count: 0, part_bytes: None })
    }

    /// Returns whether the body is in memory, so that reading does not wait.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.blocks.is_in_memory()
    }

    /// Skips the remaining content of the current part, and moves to the next part. `None` means that there
    /// are no more parts.
    pub(crate) fn next_part(&mut self) -> WorkStep<Result<Option<FormPartHead>, BodyReadError>> {
        let until = self.blocks.at().saturating_add(STRETCH_BYTES);
        loop {
            match self.next_event() {
                Ok(FormEvent::Part(head)) => return WorkStep::Done(Ok(Some(head))),
                Ok(FormEvent::End) => return WorkStep::Done(Ok(None)),
                Ok(FormEvent::Content(_) | FormEvent::PartEnd) if self.blocks.at() < until => {}
                Ok(FormEvent::Content(_) | FormEvent::PartEnd) => return WorkStep::More,
                Err(fault) => return WorkStep::Done(Err(fault)),
            }
        }
    }

    /// Returns more content of the current part. `None` means that the part is complete.
    pub(crate) fn chunk(&mut self) -> Result<Option<Bytes>, BodyReadError> {
        if self.part_bytes.is_none() {
            return Ok(None);
        }
        match self.next_event()? {
            FormEvent::Content(bytes) => Ok(Some(bytes)),
            FormEvent::PartEnd | FormEvent::End | FormEvent::Part(_) => Ok(None),
        }
    }

    fn next_event(&mut self) -> Result<FormEvent, BodyReadError> {
        loop {
            if let Some(event) = self.stream.next_event()? {
                self.count(&event)?;
                return Ok(event);
            }
            self.fill()?;
        }
    }

    fn count(&mut self, event: &FormEvent) -> Result<(), BodyReadError> {
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
        let block = self.blocks.next(BLOCK_BYTES)?;
        if block.is_empty() {
            self.stream.finish();
        } else {
            self.stream.push(&block);
        }
        Ok(())
    }
}

fn over(what: &str, found: u64, limit: u64, unit: &str) -> Result<(), BodyReadError> {
    if found > limit {
        return Err(BodyReadError::Client(413, format!("{what}: limit {limit} {unit}")));
    }
    Ok(())
}
