//! The trait [`Store`]: all calls on a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::identity::SegmentIdentity;

/// Result of storing an object under a new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The object is stored durably.
    Stored,
    /// The store already has an object with this name, which may be the same object.
    Exists,
}

/// Properties of an object, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectHead {
    /// Size of the object in bytes.
    pub bytes: u64,
    /// When the object was stored, in milliseconds since 1970, by the clock of the store.
    pub modified_ms: u64,
    /// The identity that was stored with a segment. `None` if the store kept none.
    pub identity: Option<SegmentIdentity>,
}

/// A store of objects. Each call waits until it has succeeded or failed.
///
/// A failed call may have had its effect, because only the response may be lost. So every caller repeats a
/// failed call. A repeated call has the same effect as one call.
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

    /// Returns the properties of an object. `None`: there is no such object.
    ///
    /// # Errors
    /// The store does not answer.
    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError>;

    /// Reads a short text. `None`: there is no such object.
    ///
    /// # Errors
    /// The store does not answer, or the object has more than `bytes_max` bytes.
    fn text(&self, name: &str, bytes_max: u64) -> Result<Option<String>, StoreError>;

    /// Writes an object to a new file. Returns the size in bytes. `None`: there is no such object, and no
    /// file is created.
    ///
    /// After an error, the file may be incomplete. So its name must not be the name of a segment.
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
    /// Returns at most 1,000 names, and fewer only if no more names follow.
    ///
    /// # Errors
    /// The store does not answer.
    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StoreError>;

    /// Returns the parts of names between a prefix that ends in `/` and the next `/`. Each part occurs once,
    /// and the parts are in order.
    ///
    /// # Errors
    /// The store does not answer.
    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError>;

    /// Returns at most `max` names below a prefix that ends in `/`, at any depth, which are no names of the
    /// layout. Another program wrote them. By default there are none.
    ///
    /// # Errors
    /// The store does not answer.
    fn foreign(&self, prefix: &str, max: usize) -> Result<Vec<String>, StoreError> {
        let _ = (prefix, max);
        Ok(Vec::new())
    }
}

/// A store that several owners share.
impl<S: Store + ?Sized> Store for Arc<S> {
    fn create(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<Created, StoreError> {
        (**self).create(name, file, identity)
    }

    fn replace(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<(), StoreError> {
        (**self).replace(name, file, identity)
    }

    fn put_text(&self, name: &str, text: &str) -> Result<(), StoreError> {
        (**self).put_text(name, text)
    }

    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError> {
        (**self).head(name)
    }

    fn text(&self, name: &str, bytes_max: u64) -> Result<Option<String>, StoreError> {
        (**self).text(name, bytes_max)
    }

    fn fetch(&self, name: &str, file: &Path, bytes_max: u64) -> Result<Option<u64>, StoreError> {
        (**self).fetch(name, file, bytes_max)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        (**self).remove(name)
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        (**self).list(prefix, after)
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        (**self).folders(prefix)
    }

    fn foreign(&self, prefix: &str, max: usize) -> Result<Vec<String>, StoreError> {
        (**self).foreign(prefix, max)
    }
}

/// Maximum number of names that one call of [`Store::list`] returns.
pub const LISTED_MAX: usize = 1_000;

/// Why a call on a store failed. The caller tries again.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store did not carry out the call, or its answer is lost.
    #[error("cannot {action} {name} in the store")]
    Call {
        /// The failed action.
        action: &'static str,
        /// Name of the object.
        name: String,
        /// Error of the store.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file of this machine cannot be read or written.
    #[error("cannot {action} {}", file.display())]
    File {
        /// The failed action.
        action: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// Error of the file.
        source: std::io::Error,
    },
    /// The folder of the store is not mounted.
    #[error("{} is no mounted folder: {reason}", folder.display())]
    NotMounted {
        /// Path of the folder.
        folder: PathBuf,
        /// Why the folder counts as not mounted.
        reason: &'static str,
    },
    /// The object is larger than the limit of the caller.
    #[error("{name} in the store has {found} bytes, limit {limit}")]
    TooLarge {
        /// Name of the object.
        name: String,
        /// Size of the object in bytes.
        found: u64,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The store answered that there is an object with the name, and then that there is none.
    #[error("the store refuses {name} and has no such object")]
    Contradiction {
        /// Name of the object.
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
