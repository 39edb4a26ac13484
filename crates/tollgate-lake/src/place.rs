//! The trait [`Place`]: a folder or a store in which a lake is.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::error::LakeError;

/// Result of creating an object under a new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The object is stored durably.
    Stored,
    /// There is already an object with this name.
    Exists,
}

/// What identifies a file of a load. Two loaders of one plan write files with the same stamp. Their bytes
/// may differ, if one of them is another version of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    /// Number of rows.
    pub rows: u64,
    /// Digest of the records of the load, in hexadecimal.
    pub digest: String,
}

impl fmt::Display for FileStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of records {}", self.rows, self.digest)
    }
}

impl FromStr for FileStamp {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (rows, digest) = text.split_once(" rows of records ").ok_or(())?;
        Ok(Self { rows: rows.parse().map_err(drop)?, digest: digest.to_owned() })
    }
}

/// A folder or a store. Each call waits until it has succeeded or failed.
///
/// A failed call may have had its effect. So every caller repeats a failed call, and compares the object that
/// it finds.
pub trait Place: Send {
    /// Moves or copies a file of this machine into the lake, under a new name. The file may be gone
    /// afterwards.
    ///
    /// # Errors
    /// It is unknown whether the file is stored.
    fn create_file(&self, name: &str, file: &Path, stamp: &FileStamp) -> Result<Created, LakeError>;

    /// Stores a text under a new name.
    ///
    /// # Errors
    /// It is unknown whether the text is stored.
    fn create_text(&self, name: &str, text: &str) -> Result<Created, LakeError>;

    /// Stores a text under a name that may have one. The text need not survive a power cut.
    ///
    /// # Errors
    /// It is unknown whether the text is stored.
    fn replace_text(&self, name: &str, text: &str) -> Result<(), LakeError>;

    /// Removes a text. A missing text is no error. A removal need not survive a power cut.
    ///
    /// # Errors
    /// It is unknown whether the text is removed.
    fn remove_text(&self, name: &str) -> Result<(), LakeError>;

    /// Reads a text. `None`: there is no such object.
    ///
    /// # Errors
    /// The place does not answer.
    fn text(&self, name: &str) -> Result<Option<String>, LakeError>;

    /// Returns the stamp of a file. `None`: there is no such file. A file without a stamp has the text of its
    /// fault as the digest.
    ///
    /// # Errors
    /// The place does not answer.
    fn stamp(&self, name: &str) -> Result<Option<FileStamp>, LakeError>;

    /// Returns the names of objects directly below a prefix that ends in `/`, in the order of their bytes,
    /// after the name `after`. Returns all of them.
    ///
    /// # Errors
    /// The place does not answer.
    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, LakeError>;

    /// Returns the parts of names between a prefix that ends in `/` and the next `/`, in order.
    ///
    /// # Errors
    /// The place does not answer.
    fn folders(&self, prefix: &str) -> Result<Vec<String>, LakeError>;

    /// Copies a file of the lake to this machine. Returns false if there is no such file.
    ///
    /// # Errors
    /// The place does not answer, or the copy cannot be written.
    fn fetch(&self, name: &str, file: &Path) -> Result<bool, LakeError>;
}
