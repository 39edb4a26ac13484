//! The content of a request: in memory, or in a file of the caller.

use std::fmt;
use std::io;
use std::rc::Rc;

use bytes::Bytes;

/// The content of a request.
#[derive(Debug, Clone)]
pub enum Body {
    /// The content is in memory.
    Memory(Bytes),
    /// The content is in a file, and is read on demand.
    File(Rc<dyn BodyFile>),
}

/// A file that holds content.
pub trait BodyFile: fmt::Debug {
    /// Returns the size in bytes.
    fn bytes_len(&self) -> u64;

    /// Reads bytes from `offset` on, and returns their number. 0 means the end.
    ///
    /// # Errors
    /// The disk cannot be read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads the whole file.
    ///
    /// # Errors
    /// The disk cannot be read.
    fn read(&self) -> io::Result<Bytes>;

    /// Opens the file again, for threads that read parts of the file.
    ///
    /// # Errors
    /// No descriptor is available.
    fn open(&self) -> io::Result<Box<dyn ReadAt>>;
}

/// Content that a thread reads at any offset.
pub trait ReadAt: Send {
    /// Fills the buffer from `offset` on.
    ///
    /// # Errors
    /// The disk cannot be read, or the content ends before the buffer is full.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Reason why content cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The content is larger than the reader may hold in memory.
    #[error("content exceeds what its reader may hold: {bytes} bytes, limit {limit} bytes")]
    TooLarge {
        /// Size of the content in bytes.
        bytes: u64,
        /// Limit in bytes.
        limit: usize,
    },
    /// The disk cannot be read.
    #[error("content cannot be read back: {0}")]
    Disk(#[from] io::Error),
}

impl Body {
    /// Returns the size in bytes.
    pub fn bytes_len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(file) => file.bytes_len(),
        }
    }

    /// Returns the whole content. Content that is already in memory is returned regardless of the limit.
    ///
    /// # Errors
    /// `TooLarge` if a file has more than `bytes_max` bytes, before any byte is read. `Disk` if the file
    /// cannot be read.
    pub fn read_within(&self, bytes_max: usize) -> Result<Bytes, BodyError> {
        match self {
            Self::Memory(bytes) => Ok(bytes.clone()),
            Self::File(file) if file.bytes_len() > bytes_max as u64 => {
                Err(BodyError::TooLarge { bytes: file.bytes_len(), limit: bytes_max })
            }
            Self::File(file) => Ok(file.read()?),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Memory(bytes)
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Memory(Bytes::new())
    }
}
