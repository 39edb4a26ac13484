//! The catalog: which metadata file a table has now. Its compare-and-set is the commit of a table.

use crate::error::LakeError;

/// The name of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// The namespace.
    pub namespace: String,
    /// The table.
    pub table: String,
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.namespace, self.table)
    }
}

/// A catalog. A failed call may have had its effect, so each caller reads the location again.
pub trait Catalog: Send {
    /// Returns the location of the metadata of a table. `None`: there is no such table.
    ///
    /// # Errors
    /// The catalog does not answer.
    fn location(&mut self, table: &TableName) -> Result<Option<String>, LakeError>;

    /// Returns the names of all tables of a namespace.
    ///
    /// # Errors
    /// The catalog does not answer.
    fn tables(&mut self, namespace: &str) -> Result<Vec<String>, LakeError>;

    /// Adds a table. Returns false if there is one with this name.
    ///
    /// # Errors
    /// It is unknown whether the table is added.
    fn add(&mut self, table: &TableName, location: &str) -> Result<bool, LakeError>;

    /// Replaces the location of a table, if it is `old`. Returns false if it is another one.
    ///
    /// # Errors
    /// It is unknown whether the location is replaced.
    fn replace(&mut self, table: &TableName, old: &str, new: &str) -> Result<bool, LakeError>;
}
