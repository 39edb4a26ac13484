//! What can be wrong with bytes that claim to be a log, and what can go wrong with a disk.

use std::io;
use std::path::{Path, PathBuf};

use crate::id::{LogId, Sequence};

/// Bytes that do not follow `docs/log-format.md`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Zeros stand where a batch begins, and something else behind them.
    #[error("zeros where a batch begins")]
    Hole,
    /// Something stands behind the footer.
    #[error("something stands behind the footer")]
    BehindFooter,
    /// The footer counts other rows or rejects of a schema than the batches hold.
    #[error("footer counts other records of a schema than the batches hold")]
    OtherCounts,
    /// Fewer bytes than the thing has.
    #[error("{what} is cut off: {found} bytes, needs {needed}")]
    CutOff {
        /// The thing that is read.
        what: &'static str,
        /// Bytes there are.
        found: u64,
        /// Bytes it takes.
        needed: u64,
    },
    /// The first bytes are not those of the thing.
    #[error("{what} does not begin with its magic bytes")]
    Magic {
        /// The thing that is read.
        what: &'static str,
    },
    /// Written by a later version: to be left untouched.
    #[error("segment has format version {found}, this program reads up to {known}")]
    Version {
        /// The version in the header.
        found: u16,
        /// The highest version that is known here.
        known: u16,
    },
    /// A checksum that does not hold.
    #[error("{what} checksum is {found:08x}, stored is {stored:08x}")]
    Checksum {
        /// The thing that is checked.
        what: &'static str,
        /// Computed from the bytes.
        found: u32,
        /// Stored beside them.
        stored: u32,
    },
    /// A digest that does not hold.
    #[error("segment digest differs from the one in its footer")]
    Digest,
    /// The batch header carries another segment's nonce.
    #[error("batch header is not of this segment")]
    Nonce,
    /// A batch does not follow the one before it.
    #[error("batch does not continue the chain: previous is {found:08x}, expected {expected:08x}")]
    Chain {
        /// What the header says.
        found: u32,
        /// The checksum of the batch before.
        expected: u32,
    },
    /// A segment of another log than the one whose folder it lies in: somebody copied it there.
    #[error("segment is of log {found}, in the folder of {expected}")]
    Stranger {
        /// What the header says.
        found: LogId,
        /// The folder.
        expected: LogId,
    },
    /// A segment whose header begins with another number than its name.
    #[error("segment begins with {found}, its name says {named}")]
    Misnamed {
        /// What the header says.
        found: u64,
        /// What the name says.
        named: u64,
    },
    /// A sequence number out of order.
    #[error("first sequence number is {found}, expected {expected}")]
    Order {
        /// What the header says.
        found: u64,
        /// What follows from the batch before.
        expected: u64,
    },
    /// A value that no writer writes.
    #[error("{what} is {found}, allowed is {allowed}")]
    Value {
        /// The field.
        what: &'static str,
        /// What it holds.
        found: u64,
        /// What it may hold.
        allowed: &'static str,
    },
    /// A record of a schema that its segment does not hold.
    #[error("record uses schema {0}, which its segment does not hold")]
    UnknownSchema(u16),
    /// Text that is not UTF-8.
    #[error("{what} is not UTF-8")]
    Utf8 {
        /// The text.
        what: &'static str,
    },
}

impl FormatError {
    /// A segment whose header and name differ: somebody renamed it, or forged one of the two.
    pub(crate) const fn misnamed(found: Sequence, named: Sequence) -> Self {
        Self::Misnamed { found: found.0, named: named.0 }
    }
}

/// A file of the log that could not be read, written or synced, or that does not hold what it should.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The bytes are wrong in a segment that is being written, and no intact batch behind them says what they
    /// took. It may come.
    #[error("{} is damaged at byte {offset}, and nothing behind it can be read yet", path.display())]
    DamagedEnd {
        /// The segment.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// How.
        source: FormatError,
    },
    /// The bytes are wrong.
    #[error("{} is damaged at byte {offset}", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// How.
        source: FormatError,
    },
}

impl LogError {
    /// Makes a function that names the file of an I/O error, for `map_err`. Only an error copies the path.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Whether the file or folder is not there: retention may delete it between a look and an opening.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the disk had no room for it.
    pub fn is_storage_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }

    /// Names the place of a format error.
    pub fn damaged(path: &Path, offset: u64, source: FormatError) -> Self {
        Self::Damaged { path: path.to_owned(), offset, source }
    }
}

/// The error and its causes in one line.
pub fn join_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
