//! The schemas of a route.

use std::fmt;

use tollgate_validate::{CompiledSchema, Folder, SchemaError, compile};

/// The schemas that the messages of a route must follow. At least one is set.
#[derive(Debug)]
pub struct ValidateSpec {
    /// The schema of requests.
    pub request: Option<SchemaSpec>,
    /// The schema of replies.
    pub reply: Option<SchemaSpec>,
    /// What happens to a message that is not valid.
    pub mode: ValidateMode,
}

/// What happens to a message that is not valid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ValidateMode {
    /// A message goes on when all of it is valid.
    #[default]
    Whole,
    /// A message goes on while it is valid, and breaks off at its fault.
    Stream,
    /// A fault is counted and logged, and the message goes on.
    Report,
}

impl ValidateMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Whole, Self::Stream, Self::Report];

    /// Returns the name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Stream => "stream",
            Self::Report => "report",
        }
    }
}

/// A schema in a file.
pub struct SchemaSpec {
    /// The path of the file, relative to the folder of the configuration.
    pub file: String,
    pub(crate) compiled: CompiledSchema,
}

impl SchemaSpec {
    /// Reads a schema and the files that it includes, all of them below `folder`.
    ///
    /// # Errors
    /// The first fault of the schema, or the reason why a file cannot be read.
    pub fn read(file: &str, folder: &Folder) -> Result<Self, SchemaError> {
        Ok(Self { file: file.to_owned(), compiled: compile(file, folder)? })
    }
}

impl fmt::Debug for SchemaSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The patterns of a schema fill many pages.
        f.debug_struct("SchemaSpec").field("file", &self.file).finish_non_exhaustive()
    }
}
