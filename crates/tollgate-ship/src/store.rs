//! The calls on a store.

use std::path::{Path, PathBuf};

use crate::identity::SegmentIdentity;

/// Result of storing an object under a new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The object is stored durably.
    Stored,
    /// The name has an object already. It may be the same one.
    Exists,
}

/// What a store says of an object without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectHead {
    /// Size in bytes.
    pub bytes: u64,
    /// When the object was stored, in milliseconds since 1970, by the clock of the store.
    pub modified_ms: u64,
    /// The identity that was stored with a segment. `None` if the store kept none.
    pub identity: Option<SegmentIdentity>,
}

/// A store of objects. All calls wait until they are done or have failed.
///
/// A failed call may have taken place: the response may be lost. So every caller repeats a call that failed,
/// and a repeated call has the same effect.
pub trait Store: Send + Sync {
    /// Stores a file under a new name, with its identity.
    ///
    /// # Errors
    /// It is unknown whether the object is stored.
    fn create(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<Created, StoreError>;

    /// Stores a file under a name that may have an object.
    ///
    /// # Errors
    /// It is unknown whether the object is stored.
    fn replace(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<(), StoreError>;

    /// Stores a short text under a name that may have an object.
    ///
    /// # Errors
    /// It is unknown whether the text is stored.
    fn put_text(&self, name: &str, text: &str) -> Result<(), StoreError>;

    /// Returns what the store says of an object. `None`: there is none.
    ///
    /// # Errors
    /// The store does not answer.
    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError>;

    /// Reads a short text. `None`: there is no such object.
    ///
    /// # Errors
    /// The store does not answer, or the object has more than `bytes_max` bytes.
    fn text(&self, name: &str, bytes_max: u64) -> Result<Option<String>, StoreError>;

    /// Writes an object to a new file. Returns its size. `None`: there is no such object, and no file is
    /// made.
    ///
    /// The file may be incomplete after an error, so it needs a name that no reader takes for a segment.
    ///
    /// # Errors
    /// The store does not answer, the file cannot be written, or the object has more than `bytes_max` bytes.
    fn fetch(&self, name: &str, file: &Path, bytes_max: u64) -> Result<Option<u64>, StoreError>;

    /// Deletes an object. A missing object is no error.
    ///
    /// # Errors
    /// It is unknown whether the object is deleted.
    fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// Returns the names with a prefix that ends in `/`, in the order of their bytes, after the name `after`.
    /// At most 1,000 names: fewer only at the end.
    ///
    /// # Errors
    /// The store does not answer.
    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StoreError>;

    /// Returns the parts of names between a prefix that ends in `/` and the next `/`, each once, in order.
    ///
    /// # Errors
    /// The store does not answer.
    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError>;
}

/// Names that one call of [`Store::list`] returns at most.
pub const LISTED_MAX: usize = 1_000;

/// Why a call on a store failed. Its caller tries again.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store did not do what was asked, or its answer is lost.
    #[error("cannot {action} {name} in the store")]
    Call {
        /// The failed action.
        action: &'static str,
        /// The object.
        name: String,
        /// Error of the store.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file of this machine cannot be read or written.
    #[error("cannot {action} {}", file.display())]
    File {
        /// The failed action.
        action: &'static str,
        /// The file.
        file: PathBuf,
        /// Error of the file.
        source: std::io::Error,
    },
    /// The folder of the store is not mounted.
    #[error("{} is no mounted folder: {reason}", folder.display())]
    NotMounted {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The object is larger than any object of its kind.
    #[error("{name} in the store has {found} bytes, limit {limit}")]
    TooLarge {
        /// The object.
        name: String,
        /// Its size in bytes.
        found: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The store said that the name has an object, and then that it has none.
    #[error("the store refuses {name} and has no such object")]
    Contradiction {
        /// The object.
        name: String,
    },
}

impl StoreError {
    /// Returns a function that wraps an error of the store.
    pub fn call<E>(action: &'static str, name: &str) -> impl FnOnce(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let name = name.to_owned();
        move |source| Self::Call { action, name, source: Box::new(source) }
    }

    /// Returns a function that wraps an error of a file.
    pub fn file(action: &'static str, file: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::File { action, file, source }
    }
}
