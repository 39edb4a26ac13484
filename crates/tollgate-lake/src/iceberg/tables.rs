//! The tables of one sink: created, given new columns, and appended to.
//!
//! A commit is one compare-and-set of the catalog. Before each try, the table is loaded, and its fence is
//! compared with the load. So a commit whose answer is lost is found by the next try, and a loader with an
//! old view of the table is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tollgate_log::{LogId, Sequence};
use tollgate_value::Date;

use super::catalog::{Catalog, CatalogTable, TableName};
use super::change::Change;
use super::fence::{Fence, FencedLoad, SINK, fill_of, fills_of, last_of, positions_of};
use super::manifest::{DataFile, ManifestEntry, read_list, read_manifest, write_list, write_manifest};
use super::merge::{MergeRule, Merged};
use super::metadata::{Metadata, NewSnapshot, random, unique};
use super::metrics::FileMetrics;
use super::new_table::NewTable;
use super::noted::{TableNote, TableNotes};
use super::partition::{Spec, TIME_COLUMN};
use super::settled::Settled;
use super::types::{FieldIds, TableColumn};
use super::warehouse::{Objects, address_of, folder_at, folder_of, name_at, needed};
use crate::error::LakeError;
use crate::names::LoadName;
use crate::partition::Partition;
use crate::plan::Plan;

/// How often a commit is tried at once, while other programs commit to the same table.
const TRIES_MAX: usize = 20;
/// Number of positions, or of fills, of a sink from which a commit removes the settled ones.
const LOADS_MAX: usize = 64;

/// Options of the tables of a sink.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// Name of the sink.
    pub sink: String,
    /// Namespace of the tables.
    pub namespace: String,
    /// How new tables are partitioned.
    pub partition: Partition,
    /// Age from which snapshots expire. `None`: they never do.
    pub snapshots_kept: Option<Duration>,
}

/// A data file of a load.
#[derive(Debug, Clone)]
pub struct FileFacts {
    /// Name of the file in the warehouse.
    pub name: String,
    /// Its table.
    pub table: String,
    /// The day of its rows.
    pub day: Date,
    /// Number of its rows.
    pub rows: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Digest of its records, and of the ids of its columns if it has any.
    pub digest: String,
    /// Counts and bounds of its columns.
    pub metrics: FileMetrics,
}

/// The tables of one sink.
pub struct Tables {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) catalog: Box<dyn Catalog>,
    pub(super) options: TableOptions,
    pub(super) notes: TableNotes,
    /// The ids of all columns that were asked for, by table.
    known: BTreeMap<String, FieldIds>,
    /// Returns milliseconds since 1970.
    clock: fn() -> i64,
}

/// A table at one version.
pub(super) struct Loaded {
    pub(super) table: CatalogTable,
    /// Name of its folder in the warehouse.
    pub(super) folder: String,
}

impl Tables {
    /// Creates the tables of a sink. Reads nothing.
    pub fn new(
        objects: Arc<dyn Objects>,
        catalog: Box<dyn Catalog>,
        options: TableOptions,
        clock: fn() -> i64,
    ) -> Self {
        let notes = TableNotes::new(&options.sink);
        Self { objects, catalog, options, notes, known: BTreeMap::new(), clock }
    }

    /// Forgets the columns of tables, which another program may have changed.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    fn table(&self, table: &str) -> TableName {
        TableName { namespace: self.options.namespace.clone(), table: table.to_owned() }
    }

    pub(super) fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Loads a table as it is now.
    pub(super) fn load(&mut self, name: &TableName) -> Result<Option<Loaded>, LakeError> {
        let Some(table) = self.catalog.load(name)? else { return Ok(None) };
        let refused = |reason| LakeError::Table { table: name.to_string(), reason };
        table.metadata.check().map_err(refused)?;
        let address = table.metadata.address();
        let folder = folder_at(&*self.objects, address)
            .ok_or_else(|| LakeError::outside(name, address, self.objects.address()))?;
        Ok(Some(Loaded { folder, table }))
    }

    /// Loads a table, and compares it with the note of the sink. Notes a table that the sink has not noted.
    ///
    /// # Errors
    /// The table is not the table that the sink expects.
    fn load_noted(&mut self, name: &TableName) -> Result<Option<Loaded>, LakeError> {
        let (found, is_noted) = self.look(name)?;
        if let Some(Loaded { table, .. }) = found.as_ref().filter(|_| !is_noted) {
            self.note(name, table, table.metadata.last_sequence())?;
        }
        Ok(found)
    }

    /// Loads a table, and compares it with the note of the sink. Returns whether there is a note. Changes
    /// nothing.
    ///
    /// # Errors
    /// The table is missing, another one, or older than the sink has seen it. Or the sink has noted nothing,
    /// and the table is of another sink.
    fn look(&mut self, name: &TableName) -> Result<(Option<Loaded>, bool), LakeError> {
        let note = self.notes.read(&*self.objects, name)?;
        let found = self.load(name)?;
        match (&note, &found) {
            (Some(note), _) => self.notes.check(name, note, found.as_ref().map(|found| &found.table))?,
            (None, Some(Loaded { table, .. })) => self.expect_own(name, &table.metadata)?,
            (None, None) => {}
        }
        Ok((found, note.is_some()))
    }

    fn note(&self, name: &TableName, table: &CatalogTable, sequence: i64) -> Result<(), LakeError> {
        self.notes.write(&*self.objects, name, &TableNote::new(table, sequence))
    }

    /// Checks that a table that the sink has not noted is of no other sink. A sink with another name begins
    /// at the oldest record, so it would bring the rows of that sink again.
    fn expect_own(&self, name: &TableName, metadata: &Metadata) -> Result<(), LakeError> {
        let Some(other) = metadata.other_sink(&self.options.sink) else { return Ok(()) };
        let reason = format!(
            "has rows of the sink {other:?}, and this sink is named {:?}, so it would load the same records \
             again: name the sink {other:?} as before. To load all kept records into new tables, give the \
             sink another namespace",
            self.options.sink
        );
        Err(LakeError::Table { table: name.to_string(), reason })
    }

    /// Checks that the folder of a new table has no data files. A table may need them that was
    /// renamed, or that the catalog lost.
    fn expect_empty(&self, name: &TableName) -> Result<(), LakeError> {
        let folder = folder_of(&name.namespace, &name.table);
        if self.objects.walk(&format!("{folder}/data/"))?.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "is not in the catalog, and the folder {folder} of the warehouse has data files: move the folder \
             away, or give the sink another namespace"
        );
        Err(LakeError::Table { table: name.to_string(), reason })
    }

    /// Reads a file that metadata names.
    pub(super) fn needed_at(&self, address: &str) -> Result<Vec<u8>, LakeError> {
        match name_at(&*self.objects, address) {
            Some(object) => needed(&*self.objects, &object),
            None => Err(LakeError::Text {
                name: address.to_owned(),
                reason: format!("outside of the warehouse {}", self.objects.address()),
            }),
        }
    }

    /// Stores a file of the folder `metadata` of a table under a name that no other file has.
    fn store(&self, folder: &str, name: &str, bytes: &[u8]) -> Result<String, LakeError> {
        let object = format!("{folder}/metadata/{name}");
        self.objects.create(&object, bytes)?;
        Ok(address_of(&*self.objects, &object))
    }

    /// Makes a table with these columns, or adds the columns that it lacks. Returns the ids of the columns.
    ///
    /// # Errors
    /// A column has another type, or got another id since it was asked for. Or the catalog or the warehouse
    /// does not answer.
    pub fn ensure(&mut self, table: &str, columns: &[TableColumn]) -> Result<FieldIds, LakeError> {
        if let Some(ids) = self.known.get(table)
            && columns.iter().all(|column| ids.contains_key(&column.name))
        {
            return Ok(ids.clone());
        }
        let name = self.table(table);
        for _ in 0..TRIES_MAX {
            let Some(Loaded { table: found, .. }) = self.load_noted(&name)? else {
                self.expect_empty(&name)?;
                let location = address_of(&*self.objects, &folder_of(&self.options.namespace, table));
                let new = NewTable::new(location, columns, self.options.partition, &self.options.sink);
                // A catalog may have a table whose metadata is lost.
                if !self.catalog.create(&name, &new)? && self.load(&name)?.is_none() {
                    return Err(LakeError::Missing { name: name.to_string() });
                }
                continue;
            };
            if let Some(ids) = ids_of(&name, &found.metadata, columns)? {
                let known = self.known.entry(table.to_owned()).or_default();
                // Files of the load may have the former id.
                if ids.iter().any(|(column, id)| known.get(column).is_some_and(|known| known != id)) {
                    self.known.remove(table);
                    return Err(renumbered_early(&name));
                }
                known.extend(ids);
                return Ok(known.clone());
            }
            let mut change = Change::new(&found.metadata);
            change.add_columns(columns);
            self.catalog.commit(&name, &found, &change.commit)?;
        }
        Err(busy(&name))
    }

    /// Checks whether a table can have these columns. Changes nothing. A missing table is made by the first
    /// load.
    ///
    /// # Errors
    /// A column has another type, the table is not the table that the sink expects, or the catalog or the
    /// warehouse does not answer.
    pub fn check(&mut self, table: &str, columns: &[TableColumn]) -> Result<(), LakeError> {
        let name = self.table(table);
        match self.look(&name)?.0 {
            Some(found) => ids_of(&name, &found.table.metadata, columns).map(drop),
            None => self.expect_empty(&name),
        }
    }

    /// Brings the files of a load into their tables, each table by one commit. A table that has the load
    /// already stays as it is.
    ///
    /// Positions of logs and properties of fills that are `settled` are removed from time to time. So a load
    /// that is settled is in its tables, even if they have no property of it.
    ///
    /// # Errors
    /// The catalog or the warehouse does not answer. It is unknown which tables have the load. Or a table has
    /// a part of the records.
    pub fn append(
        &mut self,
        load: LoadName,
        plan: &Plan,
        files: &[FileFacts],
        settled: &mut dyn Settled,
    ) -> Result<(), LakeError> {
        let fenced = FencedLoad::new(&self.options.sink, load, plan);
        let tables: BTreeSet<_> = files.iter().map(|file| &file.table).collect();
        for table in tables {
            let files: Vec<_> = files.iter().filter(|file| file.table == *table).collect();
            self.append_to(table, &fenced, &files, settled)?;
        }
        Ok(())
    }

    fn append_to(
        &mut self,
        table: &str,
        load: &FencedLoad,
        files: &[&FileFacts],
        settled: &mut dyn Settled,
    ) -> Result<(), LakeError> {
        let name = self.table(table);
        for _ in 0..TRIES_MAX {
            let Some(found) = self.load_noted(&name)? else {
                return Err(LakeError::Missing { name: name.to_string() });
            };
            let metadata = &found.table.metadata;
            match load.check(metadata.property(&load.key)) {
                Fence::Passed => return Ok(()),
                Fence::Other(position) => return Err(decided_otherwise(&name, load, &position)),
                // The table was read before. If the load is settled later, the commit loses its race.
                Fence::Free if settled.has(load.load)? => return Ok(()),
                Fence::Free => {}
            }
            if self.known.get(table).is_some_and(|ids| !metadata.has_ids(ids)) {
                self.known.remove(table);
                return Err(renumbered(&name, files));
            }
            let snapshot = self.snapshot(&name, &found, load, files)?;
            let clock_ms = self.now_ms();
            let mut change = Change::new(metadata);
            change.append(&snapshot, (&load.key, &load.value), clock_ms);
            change.remove_properties(self.settled_keys(metadata, &load.key, settled)?);
            if let Some(kept) = self.options.snapshots_kept.filter(|_| !metadata.keeps_files()) {
                change.expire(kept, clock_ms);
            }
            if self.catalog.commit(&name, &found.table, &change.commit)? {
                return self.note(&name, &found.table, metadata.last_sequence() + 1);
            }
        }
        Err(busy(&name))
    }

    /// Returns the property of tables that has the position of a log.
    pub fn position_of(&self, log: LogId) -> String {
        format!("{}{log}", positions_of(&self.options.sink))
    }

    /// Returns whether a table has the files of a load that is not settled.
    ///
    /// # Errors
    /// The catalog or the warehouse does not answer, or the table has a part of the records.
    pub fn has_load(&mut self, table: &str, load: LoadName, plan: &Plan) -> Result<bool, LakeError> {
        let name = self.table(table);
        let load = FencedLoad::new(&self.options.sink, load, plan);
        let Some(Loaded { table, .. }) = self.load_noted(&name)? else { return Ok(false) };
        match load.check(table.metadata.property(&load.key)) {
            Fence::Free => Ok(false),
            Fence::Passed => Ok(true),
            Fence::Other(position) => Err(decided_otherwise(&name, &load, &position)),
        }
    }

    /// Returns the properties of loads that are settled, if there are many. The property `own` stays.
    fn settled_keys(
        &self,
        metadata: &Metadata,
        own: &str,
        settled: &mut dyn Settled,
    ) -> Result<Vec<String>, LakeError> {
        let (positions, fills) = (positions_of(&self.options.sink), fills_of(&self.options.sink));
        let mut removals = Vec::new();
        for (log, value) in many_below(metadata, &positions) {
            let Some((id, last)) = log.parse().ok().zip(last_of(&value)) else { continue };
            if settled.is_past(id, Sequence(last))? {
                removals.push(format!("{positions}{log}"));
            }
        }
        for (fill, _) in many_below(metadata, &fills) {
            let Some(load) = fill_of(&fill) else { continue };
            if settled.has(load)? {
                removals.push(format!("{fills}{fill}"));
            }
        }
        removals.retain(|key| key != own);
        Ok(removals)
    }

    /// Stores the manifest and the manifest list of a snapshot that adds these files.
    fn snapshot(
        &self,
        name: &TableName,
        table: &Loaded,
        load: &FencedLoad,
        files: &[&FileFacts],
    ) -> Result<NewSnapshot, LakeError> {
        let refused = |reason: String| LakeError::Table { table: name.to_string(), reason };
        let time = TableColumn { name: TIME_COLUMN.to_owned(), kind: tollgate_log::ColumnType::Timestamp };
        let time =
            table.table.metadata.ids_of(&[time]).ok().flatten().and_then(|ids| ids.get(TIME_COLUMN).copied());
        let time =
            time.ok_or_else(|| refused(format!("has no column {TIME_COLUMN}: add it, timestamptz")))?;
        let spec = Spec::read(table.table.metadata.spec(), time.id).map_err(refused)?;
        let files = files.iter().map(|file| self.data_file(file)).collect::<Result<Vec<_>, _>>()?;
        // Other implementations read the id as a signed number.
        let id = (u64::from_le_bytes(random()) >> 1).cast_signed();
        let manifest = format!("{}-m0.avro", unique());
        let address = address_of(&*self.objects, &format!("{}/metadata/{manifest}", table.folder));
        let (bytes, entry) = write_manifest(&files, (id, &address), table.table.metadata.schema(), &spec);
        self.store(&table.folder, &manifest, &bytes)?;
        let mut entries = vec![entry];
        entries.extend(self.merged_manifests(table, id, &spec)?);
        let parent = table.table.metadata.snapshot().and_then(|parent| parent["snapshot-id"].as_i64());
        let bytes = write_list(&entries, (id, parent, table.table.metadata.last_sequence() + 1));
        let list = self.store(&table.folder, &format!("snap-{id}-{}.avro", unique()), &bytes)?;
        Ok(NewSnapshot {
            id,
            list,
            summary: vec![(SINK, self.options.sink.clone()), ("tollgate.load", load.value.clone())],
            files: files.len() as u64,
            rows: files.iter().map(|file| file.rows).sum(),
            bytes: files.iter().map(|file| file.bytes).sum(),
        })
    }

    /// Returns the manifests of the current snapshot, of which small ones are merged if there are many.
    fn merged_manifests(
        &self,
        Loaded { table, folder }: &Loaded,
        snapshot: i64,
        spec: &Spec,
    ) -> Result<Vec<ManifestEntry>, LakeError> {
        let mut manifests = self.manifests(&table.metadata)?;
        let Some(rule) = MergeRule::read(&table.metadata) else { return Ok(manifests) };
        let (mut gone, mut merged) = (BTreeSet::new(), Vec::new());
        for group in rule.groups(&manifests, spec) {
            let (mut files, mut members) = (Merged::new(spec), Vec::new());
            for place in group {
                let Some(manifest) = manifests.get(place) else { continue };
                let bytes = match self.needed_at(&manifest.address) {
                    // An append needs none of the earlier manifests.
                    Err(LakeError::Missing { .. } | LakeError::Text { .. }) => continue,
                    bytes => bytes?,
                };
                if files.add(manifest, &bytes) {
                    gone.insert(manifest.address.clone());
                    members.push(manifest);
                }
            }
            if members.is_empty() {
                continue;
            }
            let name = format!("{}-m1.avro", unique());
            let address = address_of(&*self.objects, &format!("{folder}/metadata/{name}"));
            let schema = table.metadata.schema();
            let (bytes, entry) = files.finish((snapshot, &address), schema, spec, &members);
            self.store(folder, &name, &bytes)?;
            merged.push(entry);
        }
        manifests.retain(|manifest| !gone.contains(&manifest.address));
        merged.extend(manifests);
        Ok(merged)
    }

    /// Returns a file with its bytes in the warehouse. Another version of this program may have written it.
    fn data_file(&self, file: &FileFacts) -> Result<DataFile, LakeError> {
        let bytes = self.objects.size(&file.name)?;
        let bytes = bytes.ok_or_else(|| LakeError::Missing { name: file.name.clone() })?;
        let mut metrics = file.metrics.clone();
        if bytes != file.bytes {
            metrics.groups.clear();
        }
        let address = address_of(&*self.objects, &file.name);
        Ok(DataFile { address, day: file.day, rows: file.rows, bytes, metrics })
    }

    /// Returns the manifests of the current snapshot.
    pub(super) fn manifests(&self, metadata: &Metadata) -> Result<Vec<ManifestEntry>, LakeError> {
        let Some(list) = metadata.snapshot().and_then(|snapshot| snapshot["manifest-list"].as_str()) else {
            return Ok(Vec::new());
        };
        self.read_list(list)
    }

    pub(super) fn read_list(&self, address: &str) -> Result<Vec<ManifestEntry>, LakeError> {
        let unread = |reason| LakeError::Text { name: address.to_owned(), reason };
        read_list(&self.needed_at(address)?).map_err(unread)
    }

    /// Returns the names of the data files that a table has now.
    ///
    /// # Errors
    /// The catalog or the warehouse does not answer, the table is of another sink, or rows of the table are
    /// deleted by files of their own.
    pub fn files(&mut self, table: &str) -> Result<Vec<String>, LakeError> {
        let name = self.table(table);
        let note = self.notes.read(&*self.objects, &name)?;
        let Some(found) = self.load(&name)? else { return Ok(Vec::new()) };
        if note.is_none() {
            self.expect_own(&name, &found.table.metadata)?;
        }
        let mut files = Vec::new();
        for manifest in self.manifests(&found.table.metadata)? {
            if manifest.has_deletes() {
                let reason = "has files of deleted rows: rewrite its data files, then try again".to_owned();
                return Err(LakeError::Table { table: name.to_string(), reason });
            }
            let address = &manifest.address;
            let unread = |reason| LakeError::Text { name: address.clone(), reason };
            for file in read_manifest(&self.needed_at(address)?).map_err(unread)? {
                if !file.is_deleted {
                    files.extend(name_at(&*self.objects, &file.address));
                }
            }
        }
        Ok(files)
    }
}

/// Returns the ids of columns. `None`: the table does not have all of them.
fn ids_of(
    name: &TableName,
    metadata: &Metadata,
    columns: &[TableColumn],
) -> Result<Option<FieldIds>, LakeError> {
    let retyped =
        |(column, found, wanted)| LakeError::Retyped { table: name.to_string(), column, found, wanted };
    metadata.ids_of(columns).map_err(retyped)
}

/// Returns the properties whose keys begin with a text, if there are many.
fn many_below(metadata: &Metadata, prefix: &str) -> Vec<(String, String)> {
    let found = metadata.properties_below(prefix);
    if found.len() < LOADS_MAX { Vec::new() } else { found }
}

fn decided_otherwise(name: &TableName, load: &FencedLoad, position: &str) -> LakeError {
    let reason = format!(
        "has {} = {position}, this load has {}: another loader decided the load otherwise. Check whether the \
         store refuses to create an object twice",
        load.key, load.value
    );
    LakeError::Table { table: name.to_string(), reason }
}

/// Returns the error of a table whose columns got other ids while the files of a load were written.
fn renumbered(name: &TableName, files: &[&FileFacts]) -> LakeError {
    let files: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
    let reason = format!(
        "had a column dropped, renamed or made again while a load was written: move {} of the warehouse \
         away. The sink then writes the load again",
        files.join(", ")
    );
    LakeError::Table { table: name.to_string(), reason }
}

/// Returns the error of a table whose columns got other ids before the files of a load are in the lake. The
/// next try makes these files again.
fn renumbered_early(name: &TableName) -> LakeError {
    LakeError::call("load into", &name.to_string())(std::io::Error::other(
        "a column was dropped, renamed or made again while a load was written: the sink writes the load \
         again",
    ))
}

fn busy(name: &TableName) -> LakeError {
    LakeError::call("commit to", &name.to_string())(std::io::Error::other(format!(
        "other programs committed first, {TRIES_MAX} times"
    )))
}
