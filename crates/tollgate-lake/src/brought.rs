//! Loads that are decided and not committed: which of their files are in the lake.

use crate::error::LakeError;
use crate::ledger::Ledger;
use crate::place::FileStamp;
use crate::plan::{Plan, PlannedFile};

/// Which of the files of a decided load are in the lake, or which of its tables have the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Brought {
    /// None of them.
    Nothing,
    /// Some of them, by name.
    Part {
        /// The ones that the lake has.
        there: Vec<String>,
        /// The ones that it lacks.
        absent: Vec<String>,
    },
    /// All of them.
    All,
}

impl Brought {
    /// Returns the state of a load of which the lake has some files, or tables, and lacks others.
    pub fn new(there: Vec<String>, absent: Vec<String>) -> Self {
        match (there.is_empty(), absent.is_empty()) {
            (true, _) => Self::Nothing,
            (false, true) => Self::All,
            (false, false) => Self::Part { there, absent },
        }
    }
}

impl Ledger {
    /// Returns which files of a plan below a folder are in a lake without tables. The folder `""` has all of
    /// them. A table knows its loads itself, and the stamps of its files cover the ids of their columns.
    ///
    /// # Errors
    /// The place does not answer, or a file of the lake is another one.
    pub fn brought(&self, plan: &Plan, folder: &str) -> Result<Brought, LakeError> {
        let (mut there, mut absent) = (Vec::new(), Vec::new());
        for file in plan.files.iter().filter(|file| file.name.starts_with(folder)) {
            let names = if self.has(plan, file)? { &mut there } else { &mut absent };
            names.push(file.name.clone());
        }
        Ok(Brought::new(there, absent))
    }

    fn has(&self, plan: &Plan, file: &PlannedFile) -> Result<bool, LakeError> {
        let wanted = FileStamp { rows: file.rows, digest: plan.digest.clone() };
        match self.place().stamp(&file.name)? {
            None => Ok(false),
            Some(found) if found == wanted => Ok(true),
            Some(found) => {
                let (name, found, wanted) = (file.name.clone(), found.to_string(), wanted.to_string());
                Err(LakeError::Other { name, found, wanted })
            }
        }
    }
}
