//! Removes files that no snapshot needs: of expired snapshots, of commits that lost, of programs that ended.

use std::collections::BTreeSet;
use std::time::Duration;

use super::catalog::{CatalogTable, TableName};
use super::manifest::read_manifest;
use super::settled::Settled;
use super::tables::{Loaded, Tables};
use super::warehouse::{folder_at, folder_of, name_at};
use crate::error::LakeError;
use crate::names::LoadName;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Number of removed files.
    pub removed: u64,
    /// Tables whose folders keep all files, because a table in the same folder cannot be read.
    pub left: Vec<String>,
}

/// The folders of the tables of a namespace.
#[derive(Default)]
struct Folders {
    /// The tables that this program can read.
    read: Vec<ReadTable>,
    /// Folders that may have files of a table that this program cannot read.
    unread: Vec<String>,
}

struct ReadTable {
    name: TableName,
    folder: String,
    /// Whether the sink made the table, or has loads in it.
    is_own: bool,
    /// Whether a property forbids to remove files of the table.
    keeps_files: bool,
}

impl Folders {
    fn is_unread(&self, folder: &str) -> bool {
        self.unread.iter().any(|other| overlap(other, folder))
    }

    /// Returns the tables that may have files in a folder. A renamed table keeps its folder. A table whose
    /// catalog chose another folder has its data files in the folder of its name.
    fn tables_in<'f>(&'f self, folder: &'f str) -> impl Iterator<Item = &'f TableName> {
        let usual = |name: &TableName| folder_of(&name.namespace, &name.table);
        let is_in =
            move |table: &&ReadTable| overlap(&table.folder, folder) || overlap(&usual(&table.name), folder);
        self.read.iter().filter(is_in).map(|table| &table.name)
    }
}

/// Returns whether one of two folders is in the other, or is the other.
fn overlap(one: &str, other: &str) -> bool {
    let is_in = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_in(one, other) || is_in(other, one)
}

impl Tables {
    /// Removes the files of the tables of the sink that are older than `age` and that no snapshot needs. A
    /// file of a load that is not settled stays. All files of a folder stay if a table that this program
    /// cannot read may have files in it.
    ///
    /// # Errors
    /// The catalog or the warehouse does not answer. Removed files stay removed.
    pub fn sweep(&mut self, age: Duration, settled: &mut dyn Settled) -> Result<Swept, LakeError> {
        let folders = self.folders()?;
        let mut swept = Swept::default();
        for table in folders.read.iter().filter(|table| table.is_own) {
            let removed = match table.keeps_files || folders.is_unread(&table.folder) {
                true => None,
                false => self.sweep_folder(&table.folder, &folders, age, settled)?,
            };
            match removed {
                None if table.keeps_files => {}
                Some(removed) => swept.removed += removed,
                None => swept.left.push(table.name.to_string()),
            }
        }
        Ok(swept)
    }

    fn folders(&mut self) -> Result<Folders, LakeError> {
        let namespace = self.options.namespace.clone();
        let mut folders = Folders::default();
        for table in self.catalog.tables(&namespace)? {
            let usual = folder_of(&namespace, &table);
            let name = TableName { namespace: namespace.clone(), table };
            match self.catalog.load(&name) {
                Ok(None) => folders.unread.push(usual),
                // A table outside of the warehouse has no files there.
                Ok(Some(table)) => {
                    let Some(folder) = folder_at(&*self.objects, table.metadata.address()) else { continue };
                    let is_own = table.metadata.is_of(&self.options.sink);
                    let keeps_files = table.metadata.keeps_files();
                    match table.metadata.check() {
                        Ok(()) if !is_own || self.is_noted(&name, &table)? => {
                            folders.read.push(ReadTable { name, folder, is_own, keeps_files });
                        }
                        // Another catalog may have the table that the sink has loaded into.
                        Ok(()) | Err(_) => folders.unread.push(folder),
                    }
                }
                Err(LakeError::Missing { name }) => {
                    let folder = name.split_once("/metadata/").map(|(folder, _)| folder.to_owned());
                    folders.unread.extend(folder.into_iter().chain([usual]));
                }
                Err(LakeError::Table { .. }) => folders.unread.push(usual),
                Err(error) => return Err(error),
            }
        }
        Ok(folders)
    }

    /// Returns whether the sink has loaded into this table, and has seen no newer state of it.
    fn is_noted(&self, name: &TableName, table: &CatalogTable) -> Result<bool, LakeError> {
        let note = self.notes.read(&*self.objects, name)?;
        Ok(note.is_some_and(|note| self.notes.check(name, &note, Some(table)).is_ok()))
    }

    /// Removes files of a folder. `None`: a table may need any of them.
    fn sweep_folder(
        &mut self,
        folder: &str,
        folders: &Folders,
        age: Duration,
        settled: &mut dyn Settled,
    ) -> Result<Option<u64>, LakeError> {
        // The files are listed first. A file that a later commit adds is then in the metadata.
        let found = self.objects.walk(&format!("{folder}/"))?;
        let Some(needed) = self.needed_in(folder, folders)? else { return Ok(None) };
        let mut removed = 0;
        for object in found {
            if object.age <= age || needed.contains(&object.name) {
                continue;
            }
            let file = object.name.rsplit('/').next().unwrap_or_default();
            if let Some(load) = LoadName::of_file(file)
                && !settled.has(load)?
            {
                continue;
            }
            self.objects.remove(&object.name)?;
            removed += 1;
        }
        Ok(Some(removed))
    }

    /// Returns the names of all files that tables need in a folder. `None`: it may be any file.
    fn needed_in(&mut self, folder: &str, folders: &Folders) -> Result<Option<BTreeSet<String>>, LakeError> {
        let mut needed = BTreeSet::new();
        for name in folders.tables_in(folder) {
            let Some(Loaded { table, .. }) = self.load(name)? else { return Ok(None) };
            match self.needed_files(&table) {
                Ok(Some(files)) => needed.extend(files),
                Ok(None) | Err(LakeError::Missing { .. } | LakeError::Text { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(needed))
    }

    /// Returns the names of all files that the snapshots of a table need. `None`: one of them has an address
    /// that this program cannot read, so it may be any file.
    fn needed_files(&self, table: &CatalogTable) -> Result<Option<BTreeSet<String>>, LakeError> {
        let mut needed = BTreeSet::new();
        let mut is_complete = true;
        let mut add = |address: &str| match name_at(&*self.objects, address) {
            Some(name) => drop(needed.insert(name)),
            None => is_complete = false,
        };
        // Without its address, any metadata file may be the present one.
        let Some(location) = &table.location else { return Ok(None) };
        add(location);
        table.metadata.addresses().iter().for_each(|address| add(address));
        let lists =
            table.metadata.snapshots().iter().filter_map(|snapshot| snapshot["manifest-list"].as_str());
        let mut manifests = BTreeSet::new();
        for list in lists {
            manifests.extend(self.read_list(list)?.into_iter().map(|manifest| manifest.address));
        }
        for manifest in manifests {
            let files = read_manifest(&self.needed_at(&manifest)?);
            let files = files.map_err(|reason| LakeError::Text { name: manifest.clone(), reason })?;
            // A deleted file may be in an earlier snapshot, whose manifest then names it too.
            files.iter().filter(|file| !file.is_deleted).for_each(|file| add(&file.address));
            add(&manifest);
        }
        Ok(is_complete.then_some(needed))
    }
}
