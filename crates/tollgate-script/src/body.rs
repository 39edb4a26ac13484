//! The content of a request: in memory, or in a file of whoever serves.

use std::fmt;
use std::io;
use std::rc::Rc;

use bytes::Bytes;

/// The content of a request.
#[derive(Debug, Clone)]
pub enum Body {
    /// It is at hand.
    Memory(Bytes),
    /// It is read when somebody asks.
    File(Rc<dyn BodyFile>),
}

/// A file that holds a content.
pub trait BodyFile: fmt::Debug {
    /// Its bytes.
    fn bytes_len(&self) -> u64;

    /// Reads some of it from a place on; 0 at its end.
    ///
    /// # Errors
    /// The disk does not give it back.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads all of it.
    ///
    /// # Errors
    /// The disk does not give it back.
    fn read(&self) -> io::Result<Bytes>;

    /// Opens it once more, for threads that read parts of it.
    ///
    /// # Errors
    /// There are no descriptors.
    fn open(&self) -> io::Result<Box<dyn ReadAt>>;
}

/// A content that a thread reads from any place.
pub trait ReadAt: Send {
    /// Fills the buffer from a place on.
    ///
    /// # Errors
    /// The disk does not give it back, or it ends before the buffer is full.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Why a content cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It has more bytes than its reader may hold.
    #[error("content exceeds what its reader may hold: {bytes} bytes, limit {limit} bytes")]
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// Bytes that may be held.
        limit: usize,
    },
    /// The disk does not give it back.
    #[error("content cannot be read back: {0}")]
    Disk(#[from] io::Error),
}

impl Body {
    /// Its bytes.
    pub fn bytes_len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(file) => file.bytes_len(),
        }
    }

    /// The whole of it. What lies in memory already is given whatever the limit.
    ///
    /// # Errors
    /// `TooLarge` if a file has more than `bytes_max` bytes, before any is read; `Disk` if it cannot be read.
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
