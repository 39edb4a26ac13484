//! Checks whether a store creates each object once, and refuses a second object of the same name. `tollgate
//! check --store` shows the result.
//!
//! The promise "exactly once" does not depend on the store, because the database decides by the position of a
//! log. But a store that creates each object once shows early that two machines write one log. Many servers
//! with the protocol of S3 create once only for one writer at a time, or never refuse a second object.
//!
//! | two writers, one after the other | 16 writers at once | result |
//! | --- | --- | --- |
//! | the second is refused | one is stored in each round | atomic |
//! | the second is refused | several are stored in some round | sequential only |
//! | both are stored | | ignored |

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::identity::SegmentIdentity;
use crate::name::ObjectName;
use crate::store::{Created, Store, StoreError};

/// Number of writers that create one name at the same time.
const WRITERS: usize = 16;
/// Number of names that all writers create at the same time. A race appears only for some of the names.
const ROUNDS: usize = 4;
/// Maximum number of tries of a round in which the store refused every writer and stored no object.
const EMPTY_ROUNDS_MAX: usize = 3;

/// How a store treats a second object of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionalCreate {
    /// The store accepts exactly one of any number of writers.
    Atomic,
    /// The store refuses a later writer. If several writers write at the same time, the store accepts more
    /// than one.
    SequentialOnly,
    /// The store ignores the condition. Each writer replaces the object.
    Ignored,
}

impl fmt::Display for ConditionalCreate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Atomic => "atomic",
            Self::SequentialOnly => "sequential only",
            Self::Ignored => "ignored",
        })
    }
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreReport {
    /// How the store treats a second object of one name.
    pub conditional_create: ConditionalCreate,
    /// Objects of the check that could not be deleted, for example because the credentials do not allow it.
    pub undeleted: Vec<String>,
}

/// Checks a store with new objects, and deletes these objects.
///
/// `folder`: an empty folder for the files to store. The caller deletes the folder.
///
/// # Errors
/// The store does not answer or refuses the credentials, or a file cannot be written. Objects of the check
/// may still be in the store.
pub fn probe_store(store: &dyn Store, folder: &Path) -> Result<StoreReport, StoreError> {
    let mut probe = Probe { store, files: write_files(folder)?, names: Vec::new() };
    let conditional_create = probe.run();
    // The objects are also deleted after an error.
    let undeleted = probe.delete_all();
    Ok(StoreReport { conditional_create: conditional_create?, undeleted })
}

/// Writes a file for each writer. The files have different sizes.
fn write_files(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let write = |at: usize| {
        let path = folder.join(format!("probe-{at}"));
        fs::write(&path, vec![b'x'; at + 1]).map_err(StoreError::file("write", &path))?;
        Ok(path)
    };
    (0..WRITERS).map(write).collect()
}

struct Probe<'store> {
    store: &'store dyn Store,
    files: Vec<PathBuf>,
    /// Names that may have an object.
    names: Vec<String>,
}

impl Probe<'_> {
    fn run(&mut self) -> Result<ConditionalCreate, StoreError> {
        let name = self.new_name()?;
        for (at, first) in [(0, Created::Stored), (1, Created::Exists)] {
            let created = self.create(&name, at)?;
            if created == Created::Stored && first == Created::Exists {
                return Ok(ConditionalCreate::Ignored);
            }
            if created != first {
                return Err(StoreError::Contradiction { name });
            }
        }
        for _ in 0..ROUNDS {
            if self.stored_at_once()? > 1 {
                return Ok(ConditionalCreate::SequentialOnly);
            }
        }
        Ok(ConditionalCreate::Atomic)
    }

    fn create(&self, name: &str, at: usize) -> Result<Created, StoreError> {
        self.store.create(name, &self.files[at], &SegmentIdentity::from_store(&format!("probe-{at}")))
    }

    /// Lets all writers create one name at the same time. Returns the number of writers for which the store
    /// answered that the object is stored.
    ///
    /// The answers of some writers may be lost. An error is returned only if no writer got the answer that
    /// its object is stored, in any try.
    fn stored_at_once(&mut self) -> Result<usize, StoreError> {
        let mut failure = None;
        for _ in 0..EMPTY_ROUNDS_MAX {
            let name = self.new_name()?;
            let answers: Vec<_> = thread::scope(|scope| {
                let start = |at| {
                    let (probe, name) = (&*self, &name);
                    scope.spawn(move || probe.create(name, at))
                };
                let writers: Vec<_> = (0..WRITERS).map(start).collect();
                writers.into_iter().filter_map(|writer| writer.join().ok()).collect()
            });
            let stored = answers.iter().filter(|answer| matches!(answer, Ok(Created::Stored))).count();
            if stored > 0 {
                return Ok(stored);
            }
            failure = answers.into_iter().find_map(Result::err).or(Some(StoreError::Contradiction { name }));
        }
        Err(failure.unwrap_or(StoreError::Contradiction { name: "probe".to_owned() }))
    }

    fn new_name(&mut self) -> Result<String, StoreError> {
        let random = getrandom::u64().map_err(StoreError::call("name", "probe"))?;
        let name = ObjectName::Probe(random).to_string();
        self.names.push(name.clone());
        Ok(name)
    }

    /// Deletes the objects. Returns the names of objects that may still be there.
    fn delete_all(&mut self) -> Vec<String> {
        std::mem::take(&mut self.names).into_iter().filter(|name| self.store.remove(name).is_err()).collect()
    }
}

#[cfg(test)]
mod tests;
