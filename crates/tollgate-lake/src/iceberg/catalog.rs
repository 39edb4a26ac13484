//! The catalog: finds, creates and changes tables. A change is a list of requirements and updates, as in the
//! REST catalog of Iceberg.
//!
//! Source: <https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml>

use serde_json::Value as Json;

use super::commit::TableCommit;
use super::metadata::Metadata;
use super::new_table::NewTable;
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

/// A table at one version.
#[derive(Debug, Clone)]
pub struct CatalogTable {
    /// Address of the metadata file. `None`: the catalog does not say it.
    pub(super) location: Option<String>,
    pub(super) metadata: Metadata,
}

impl CatalogTable {
    /// Takes the metadata of a table.
    pub const fn new(location: Option<String>, metadata: Json) -> Self {
        Self { location, metadata: Metadata::new(metadata) }
    }
}

/// A catalog. A failed call may have had its effect, so each caller loads the table again.
pub trait Catalog: Send {
    /// Loads a table as it is now. `None`: there is no such table.
    ///
    /// # Errors
    /// The catalog does not answer, or has lost the metadata of the table.
    fn load(&mut self, table: &TableName) -> Result<Option<CatalogTable>, LakeError>;

    /// Returns the names of all tables of a namespace.
    ///
    /// # Errors
    /// The catalog does not answer.
    fn tables(&mut self, namespace: &str) -> Result<Vec<String>, LakeError>;

    /// Creates a table. Returns false if there is one with this name.
    ///
    /// # Errors
    /// It is unknown whether the table is created.
    fn create(&mut self, table: &TableName, new: &NewTable) -> Result<bool, LakeError>;

    /// Changes a table that was loaded as `base`. Returns false if the table meets the requirements no more.
    ///
    /// # Errors
    /// It is unknown whether the table is changed, or the catalog refuses the change.
    fn commit(
        &mut self,
        table: &TableName,
        base: &CatalogTable,
        commit: &TableCommit,
    ) -> Result<bool, LakeError>;
}
