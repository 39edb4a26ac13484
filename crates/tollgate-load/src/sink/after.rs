//! The operator's own statements, which run at the end of each load, in its transaction.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use crate::error::SinkError;

/// A file of SQL that runs after the rows of a load are written to their tables. The file is read for each
/// load, because it may change.
#[derive(Debug, Clone)]
pub(super) struct AfterLoad {
    file: PathBuf,
}

impl AfterLoad {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    pub(super) fn read(&self) -> Result<String, SinkError> {
        fs::read_to_string(&self.file).map_err(|error| self.failed(error))
    }

    pub(super) fn failed(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> SinkError {
        SinkError::AfterLoad { file: self.file.clone(), source: source.into() }
    }

    pub(super) fn ended(&self) -> SinkError {
        SinkError::AfterLoadEnded { file: self.file.clone() }
    }
}
