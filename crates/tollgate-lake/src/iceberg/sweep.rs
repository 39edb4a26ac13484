//! Removes files that no snapshot needs: of expired snapshots, of commits that lost, of programs that ended.

use std::collections::BTreeSet;
use std::time::Duration;

use super::catalog::{CatalogTable, TableName};
use super::manifest::read_manifest;
use super::settled::Settled;
use super::tables::{Loaded, Tables};
use super::warehouse::name_at;
use crate::error::LakeError;
use crate::names::LoadName;

impl Tables {
    /// Removes the files of the tables of the sink that are older than `age` and that no snapshot needs. A
    /// file of a load that is not settled stays. Returns how many files were removed.
    ///
    /// # Errors
    /// The catalog or the warehouse does not answer. Removed files stay removed.
    pub fn sweep(&mut self, age: Duration, settled: &mut dyn Settled) -> Result<u64, LakeError> {
        let namespace = self.options.namespace.clone();
        let mut removed = 0;
        for table in self.catalog.tables(&namespace)? {
            let name = TableName { namespace: namespace.clone(), table };
            match self.sweep_table(&name, age, settled) {
                Ok(count) => removed += count,
                // Such a table is of another program.
                Err(LakeError::Table { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    fn sweep_table(
        &mut self,
        name: &TableName,
        age: Duration,
        settled: &mut dyn Settled,
    ) -> Result<u64, LakeError> {
        let Some(Loaded { folder, table }) = self.load(name)? else { return Ok(0) };
        if !table.metadata.is_of(&self.options.sink) {
            return Ok(0);
        }
        // The files are listed first. A file that a later commit adds is then in the metadata.
        let found = self.objects.walk(&format!("{folder}/"))?;
        let Some(Loaded { table, .. }) = self.load(name)? else { return Ok(0) };
        let Some(needed) = self.needed_files(&table)? else { return Ok(0) };
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
        Ok(removed)
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
        table.location.iter().for_each(|address| add(address));
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
