//! Checks whether a store creates each object once. `tollgate check --store` shows the result.
//!
//! The promise "exactly once" does not rest on the store: the database decides by the position of a log. A
//! store that creates once shows earlier that two machines write one log. Many servers with the protocol of
//! S3 do it for one writer at a time only, or not at all.
//!
//! | two writers, one after the other | 16 writers at once | result |
//! | --- | --- | --- |
//! | the second is refused | one is stored in each round | atomic |
//! | the second is refused | several are stored in some round | sequential only |
//! | both are stored | | ignored |
//!
//! Absent here: the lifecycle rules of the bucket. The crate `object_store` cannot read them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::identity::SegmentIdentity;
use crate::name::ObjectName;
use crate::store::{Created, Store, StoreError};

/// Writers of one name at once.
const WRITERS: usize = 16;
/// Names that all writers create at once. A race shows in some of them only.
const ROUNDS: usize = 4;
/// Tries of a round in which the store refused every writer and stored nothing.
const EMPTY_ROUNDS_MAX: usize = 3;

/// How a store treats a second object of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionalCreate {
    /// Of any number of writers exactly one is stored.
    Atomic,
    /// A later writer is refused. Of several writers at once more than one is stored, as the store answers.
    SequentialOnly,
    /// The condition has no effect. Each writer replaces the object.
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
    /// Objects of the check that could not be deleted. The credentials may not allow it.
    pub undeleted: Vec<String>,
}

/// Checks a store by objects of its own, and deletes them.
///
/// `folder` is an empty folder for the files that are stored. The caller deletes it.
///
/// # Errors
/// The store does not answer or refuses the credentials, or a file cannot be written. Objects of the check
/// may still be in the store.
pub fn probe_store(store: &dyn Store, folder: &Path) -> Result<StoreReport, StoreError> {
    let mut probe = Probe { store, files: write_files(folder)?, names: Vec::new() };
    let conditional_create = probe.run();
    // The objects are deleted also after an error.
    let undeleted = probe.delete_all();
    Ok(StoreReport { conditional_create: conditional_create?, undeleted })
}

/// Writes the files. Each writer has one of its own size.
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

    /// Creates one name by all writers at once. Returns how many are stored, as the store says.
    ///
    /// The answers of some writers may be lost. Their errors count only if the store answers none of them.
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
