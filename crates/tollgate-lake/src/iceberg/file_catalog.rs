//! A catalog that keeps only the address of the metadata file of each table. This program writes the file,
//! and a compare-and-set of the address is the commit.

use std::sync::Arc;

use super::catalog::{Catalog, CatalogTable, TableName};
use super::commit::TableCommit;
use super::metadata::{Metadata, unique};
use super::new_table::NewTable;
use super::warehouse::{Objects, address_of, name_at, needed};
use crate::error::LakeError;

/// A database with the addresses of metadata files. A failed call may have had its effect.
pub trait Locations: Send {
    /// Returns the address of the metadata file of a table. `None`: there is no such table.
    ///
    /// # Errors
    /// The database does not answer.
    fn location(&mut self, table: &TableName) -> Result<Option<String>, LakeError>;

    /// Returns the names of all tables of a namespace.
    ///
    /// # Errors
    /// The database does not answer.
    fn tables(&mut self, namespace: &str) -> Result<Vec<String>, LakeError>;

    /// Adds a table. Returns false if there is one with this name.
    ///
    /// # Errors
    /// It is unknown whether the table is added.
    fn add(&mut self, table: &TableName, location: &str) -> Result<bool, LakeError>;

    /// Replaces the address of a table, if it is `old`. Returns false if it is another one.
    ///
    /// # Errors
    /// It is unknown whether the address is replaced.
    fn replace(&mut self, table: &TableName, old: &str, new: &str) -> Result<bool, LakeError>;
}

/// A catalog over the addresses of metadata files.
pub struct FileCatalog {
    locations: Box<dyn Locations>,
    objects: Arc<dyn Objects>,
    /// Returns milliseconds since 1970.
    clock: fn() -> i64,
}

impl FileCatalog {
    /// Creates a catalog. Reads nothing.
    pub fn new(locations: Box<dyn Locations>, objects: Arc<dyn Objects>, clock: fn() -> i64) -> Self {
        Self { locations, objects, clock }
    }

    /// Stores a metadata file under a name that no other file has.
    fn store(&self, folder: &str, version: u64, metadata: &Metadata) -> Result<String, LakeError> {
        let object = format!("{folder}/metadata/{version:05}-{}.metadata.json", unique());
        self.objects.create(&object, &metadata.to_bytes())?;
        Ok(address_of(&*self.objects, &object))
    }

    fn name_of(&self, table: &TableName, address: &str) -> Result<String, LakeError> {
        name_at(&*self.objects, address)
            .ok_or_else(|| LakeError::outside(table, address, self.objects.address()))
    }
}

impl Catalog for FileCatalog {
    fn load(&mut self, table: &TableName) -> Result<Option<CatalogTable>, LakeError> {
        let Some(location) = self.locations.location(table)? else { return Ok(None) };
        let bytes = needed(&*self.objects, &self.name_of(table, &location)?)?;
        let unread = |error| LakeError::Table {
            table: table.to_string(),
            reason: format!("has no JSON in its metadata file ({error})"),
        };
        let metadata = serde_json::from_slice(&bytes).map_err(unread)?;
        Ok(Some(CatalogTable::new(Some(location), metadata)))
    }

    fn tables(&mut self, namespace: &str) -> Result<Vec<String>, LakeError> {
        self.locations.tables(namespace)
    }

    fn create(&mut self, table: &TableName, new: &NewTable) -> Result<bool, LakeError> {
        let folder = self.name_of(table, &new.location)?;
        let location = self.store(&folder, 0, &Metadata::of(new, (self.clock)()))?;
        self.locations.add(table, &location)
    }

    /// A metadata file never changes. So the comparison of its address covers each requirement.
    fn commit(
        &mut self,
        table: &TableName,
        base: &CatalogTable,
        commit: &TableCommit,
    ) -> Result<bool, LakeError> {
        let old = base.location.as_deref().unwrap_or_default();
        let mut metadata = base.metadata.clone();
        commit.updates.iter().for_each(|update| metadata.apply(update));
        metadata.follow(old, (self.clock)());
        let folder = self.name_of(table, metadata.address())?;
        let new = self.store(folder.trim_end_matches('/'), version_of(old) + 1, &metadata)?;
        self.locations.replace(table, old, &new)
    }
}

/// Returns the version in the name of a metadata file.
fn version_of(location: &str) -> u64 {
    let file = location.rsplit('/').next().unwrap_or_default();
    let digits = file.trim_start_matches('v').split(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}
