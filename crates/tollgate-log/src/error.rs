//! Errors of the format, if bytes are no valid log, and errors of the disk.

use std::io;
use std::path::{Path, PathBuf};

use crate::id::{LogId, Sequence};

/// Bytes that do not follow `docs/reference/log-format.md`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Zeros are where a batch should begin, and bytes other than zero follow them.
    #[error("bytes are zero where a batch header should begin")]
    Hole,
    /// There are bytes after the footer.
    #[error("bytes follow the footer")]
    BehindFooter,
    /// For a schema, the footer counts a different number of rows or rejects than the batches have.
    #[error("footer and batches differ in the record count of a schema")]
    OtherCounts,
    /// A part of the segment is cut off.
    #[error("{what} is cut off: found {found} of {needed} bytes")]
    CutOff {
        /// Name of the part.
        what: &'static str,
        /// Bytes found.
        found: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The first bytes are not the magic bytes of this part.
    #[error("{what} does not begin with its magic bytes")]
    Magic {
        /// Name of the part.
        what: &'static str,
    },
    /// A later version wrote the segment. Leave the segment unchanged.
    #[error("segment has format version {found}, this program reads up to {known}: use a later program")]
    Version {
        /// The version in the header.
        found: u16,
        /// The highest version that this program reads.
        known: u16,
    },
    /// A checksum is wrong.
    #[error("{what} checksum is {found:08x}, the stored checksum is {stored:08x}")]
    Checksum {
        /// The part with the checksum.
        what: &'static str,
        /// Checksum that the bytes have.
        found: u32,
        /// Checksum that is stored in the part.
        stored: u32,
    },
    /// The digest of the segment is wrong.
    #[error("digest of the segment differs from the digest in its footer")]
    Digest,
    /// The nonce of the batch header differs from the nonce of its segment.
    #[error("batch header has the nonce of another segment")]
    Nonce,
    /// The batch does not have the checksum of the previous batch.
    #[error("batch does not continue the chain: header has {found:08x}, the batch before has {expected:08x}")]
    Chain {
        /// Checksum of the previous batch that the header names.
        found: u32,
        /// Actual header checksum of the previous batch.
        expected: u32,
    },
    /// A segment is in the folder of another log, because someone copied it there.
    #[error("segment belongs to log {found}, but is in the folder of log {expected}")]
    Stranger {
        /// Log in the header.
        found: LogId,
        /// Log of the folder.
        expected: LogId,
    },
    /// The first number in the header differs from the name of the segment.
    #[error("segment begins with record {found}, its file name says record {named}")]
    Misnamed {
        /// Number in the header.
        found: u64,
        /// Number in the name.
        named: u64,
    },
    /// A sequence number is out of order.
    #[error("first sequence number is {found}, expected {expected}")]
    Order {
        /// Number in the header.
        found: u64,
        /// Number that follows the previous batch.
        expected: u64,
    },
    /// A field has a value that no writer writes.
    #[error("{what} is {found}, allowed is {allowed}")]
    Value {
        /// Name of the field.
        what: &'static str,
        /// Value found.
        found: u64,
        /// Allowed values.
        allowed: &'static str,
    },
    /// A record uses a schema that its segment does not contain.
    #[error("record uses schema {0}, which its segment does not define")]
    UnknownSchema(u16),
    /// A text is not UTF-8.
    #[error("{what} is not UTF-8")]
    Utf8 {
        /// Name of the text.
        what: &'static str,
    },
}

impl FormatError {
    /// Makes the error of a segment whose header and file name differ. The file was renamed, or the header or
    /// the name was forged.
    pub(crate) const fn misnamed(found: Sequence, named: Sequence) -> Self {
        Self::Misnamed { found: found.0, named: named.0 }
    }
}

/// A file of the log could not be read, written or synced, or has damaged content.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system returned an error.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// File or folder of the action.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A segment that is being written is damaged, and no intact batch follows the damage yet. The log may
    /// still write one.
    #[error("{} is damaged at byte {offset}, and no intact batch follows yet", path.display())]
    DamagedEnd {
        /// Path of the damaged segment.
        path: PathBuf,
        /// Offset of the damage.
        offset: u64,
        /// Kind of the damage.
        source: FormatError,
    },
    /// A segment is damaged.
    #[error("{} is damaged at byte {offset}", path.display())]
    Damaged {
        /// Path of the damaged segment.
        path: PathBuf,
        /// Offset of the damage.
        offset: u64,
        /// Kind of the damage.
        source: FormatError,
    },
}

impl LogError {
    /// Returns a function for `map_err` that names the file of an I/O error. The path is copied only if there
    /// is an error.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Returns whether the file or folder is missing. Retention may delete a file after it was listed.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether the disk was full.
    pub fn is_storage_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }

    /// Makes the error of damage at an offset.
    pub fn damaged(path: &Path, offset: u64, source: FormatError) -> Self {
        Self::Damaged { path: path.to_owned(), offset, source }
    }
}

/// Returns the error and its causes in one line.
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
