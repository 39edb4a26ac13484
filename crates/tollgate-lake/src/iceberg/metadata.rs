//! The metadata file of a table (format version 2). It is kept as JSON, so that parts that another engine
//! wrote stay as they are.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::commit::{LAST_ADDED, MAIN, Update};
use super::fence::{POSITION, SINK, positions_of};
use super::new_table::NewTable;
use super::types::{FieldIds, TableColumn, type_text};

/// How far the time of a snapshot may be ahead of the wall clock: one day.
const AHEAD_MAX_MS: i64 = 24 * 60 * 60 * 1_000;
/// Key in the summary of a snapshot: the wall clock of its writer. Only a snapshot whose time is later than
/// this clock has it.
const CLOCK: &str = "tollgate.clock-ms";
const FORMAT_VERSION: i64 = 2;
/// Number of earlier metadata files that a metadata file names.
const VERSIONS_MAX: usize = 50;
/// The settings of a branch or a tag that say how long snapshots are kept.
const RETENTION: [&str; 3] = ["min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"];

/// A snapshot that is to be added.
#[derive(Debug, Clone)]
pub(super) struct NewSnapshot {
    pub(super) id: i64,
    /// Address of its manifest list.
    pub(super) list: String,
    /// Counts and texts for people, with the number of added files, rows and bytes.
    pub(super) summary: Vec<(&'static str, String)>,
    pub(super) files: u64,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// The metadata of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metadata {
    json: Json,
}

impl Metadata {
    /// Creates the metadata of a table without rows.
    pub(super) fn of(new: &NewTable, now_ms: i64) -> Self {
        let fields = new.spec["fields"].as_array().map_or(0, Vec::len);
        let json = json!({
            "format-version": FORMAT_VERSION,
            "table-uuid": unique().to_string(),
            "location": new.location,
            "last-sequence-number": 0,
            "last-updated-ms": now_ms,
            "last-column-id": last_id(&new.schema),
            "current-schema-id": 0,
            "schemas": [new.schema],
            "default-spec-id": 0,
            "partition-specs": [new.spec],
            "last-partition-id": 999 + fields,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": new.properties,
            // Java writes it so for a table without a snapshot.
            "current-snapshot-id": -1,
            "refs": {},
            "snapshots": [],
            "snapshot-log": [],
            "metadata-log": [],
            "statistics": [],
            "partition-statistics": [],
        });
        Self { json }
    }

    /// Takes the metadata of a table. This program may not be able to read all of it.
    pub(super) const fn new(json: Json) -> Self {
        Self { json }
    }

    /// Checks that this program can append to the table.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.json["format-version"].as_i64() {
            Some(FORMAT_VERSION) => self.check_form(),
            found => Err(format!(
                "has format version {}, this program writes version {FORMAT_VERSION}",
                found.unwrap_or_default()
            )),
        }
    }

    /// Checks the parts that a commit changes.
    fn check_form(&self) -> Result<(), String> {
        let is_table = |part: &Json| part.is_null() || part.is_object();
        let refs = &self.json["refs"];
        let damaged = [
            ("properties", is_table(&self.json["properties"])),
            (
                "refs",
                is_table(refs) && refs.as_object().into_iter().flatten().all(|(_, head)| is_table(head)),
            ),
            ("schemas", self.schema().is_object()),
        ];
        match damaged.into_iter().find(|(_, is_whole)| !is_whole) {
            None => Ok(()),
            Some((key, _)) => Err(format!(
                "has damaged metadata, {key} has another form: register the metadata file of an earlier \
                 version"
            )),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.json.to_string().into_bytes()
    }

    /// Returns the address of the table.
    pub(super) fn address(&self) -> &str {
        self.json["location"].as_str().unwrap_or_default()
    }

    pub(super) fn property(&self, key: &str) -> Option<&str> {
        self.json["properties"][key].as_str()
    }

    /// Returns whether a sink made the table, or has loads in it.
    pub(super) fn is_of(&self, sink: &str) -> bool {
        self.property(SINK) == Some(sink) || !self.properties_below(&positions_of(sink)).is_empty()
    }

    /// Returns another sink that made the table, or has loads in it. `None`: the table is of no other sink,
    /// or it is of this sink too.
    pub(super) fn other_sink(&self, sink: &str) -> Option<String> {
        if self.is_of(sink) {
            return None;
        }
        let position = || {
            let (position, _) = self.properties_below(POSITION).into_iter().next()?;
            Some(position.split('.').next()?.to_owned())
        };
        self.property(SINK).map(str::to_owned).or_else(position)
    }

    /// Returns the properties whose keys begin with a text, each without this text.
    pub(super) fn properties_below(&self, prefix: &str) -> Vec<(String, String)> {
        let all = self.json["properties"].as_object().into_iter().flatten();
        let below = all.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?, value.as_str()?)));
        below.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    pub(super) fn uuid(&self) -> &str {
        self.json["table-uuid"].as_str().unwrap_or_default()
    }

    pub(super) fn updated_ms(&self) -> i64 {
        self.json["last-updated-ms"].as_i64().unwrap_or_default()
    }

    pub(super) fn last_sequence(&self) -> i64 {
        self.json["last-sequence-number"].as_i64().unwrap_or_default()
    }

    fn list(&self, key: &str) -> &[Json] {
        self.json[key].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the current schema.
    pub(super) fn schema(&self) -> &Json {
        let current = &self.json["current-schema-id"];
        self.list("schemas").iter().find(|schema| schema["schema-id"] == *current).unwrap_or(&Json::Null)
    }

    /// Returns the partition of new files, as a list of fields with the id of the partition.
    pub(super) fn spec(&self) -> &Json {
        let default = &self.json["default-spec-id"];
        self.list("partition-specs").iter().find(|spec| spec["spec-id"] == *default).unwrap_or(&Json::Null)
    }

    pub(super) fn snapshots(&self) -> &[Json] {
        self.list("snapshots")
    }

    /// Returns the current snapshot.
    pub(super) fn snapshot(&self) -> Option<&Json> {
        let current = self.json["current-snapshot-id"].as_i64()?;
        self.snapshots().iter().find(|snapshot| snapshot["snapshot-id"] == current)
    }

    /// Returns the ids of columns. `None`: the table does not have all of them.
    ///
    /// # Errors
    /// A column has another type, with the name, the type found, and the wanted one.
    pub(super) fn ids_of(
        &self,
        columns: &[TableColumn],
    ) -> Result<Option<FieldIds>, (String, String, String)> {
        let fields = self.schema()["fields"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut ids = FieldIds::new();
        for column in columns {
            let Some(field) = field_of(fields, &column.name) else { continue };
            let Some(id) = column.ids_in(field) else {
                return Err((column.name.clone(), type_text(&field["type"]), column.type_text()));
            };
            ids.insert(column.name.clone(), id);
        }
        Ok((ids.len() == columns.len()).then_some(ids))
    }

    /// Returns whether these columns have these ids now.
    pub(super) fn has_ids(&self, ids: &FieldIds) -> bool {
        let fields = self.schema()["fields"].as_array().map(Vec::as_slice).unwrap_or_default();
        ids.iter().all(|(name, id)| {
            field_of(fields, name).is_some_and(|field| {
                field["id"] == id.id
                    && field["type"]["element-id"] == id.element.map_or(Json::Null, Json::from)
            })
        })
    }

    /// Returns whether a property forbids to remove files of the table.
    pub(super) fn keeps_files(&self) -> bool {
        self.property("gc.enabled").is_some_and(|value| value.eq_ignore_ascii_case("false"))
    }

    pub(super) fn schema_id(&self) -> i64 {
        self.json["current-schema-id"].as_i64().unwrap_or_default()
    }

    pub(super) fn last_column(&self) -> i64 {
        self.json["last-column-id"].as_i64().unwrap_or_default()
    }

    /// Returns the current schema with the columns that it lacks, and the largest id of a column.
    pub(super) fn schema_with(&self, columns: &[TableColumn]) -> (Json, i64) {
        let mut last = self.last_column();
        let mut schema = self.schema().clone();
        if let Some(fields) = schema["fields"].as_array_mut() {
            for column in columns {
                if field_of(fields, &column.name).is_none() {
                    fields.push(column.to_field(&mut last));
                }
            }
        }
        schema["schema-id"] = (self.last_schema() + 1).into();
        (schema, last)
    }

    fn last_schema(&self) -> i64 {
        let ids = self.list("schemas").iter().filter_map(|schema| schema["schema-id"].as_i64());
        ids.max().unwrap_or_default()
    }

    /// Returns the snapshot of the branch `main`.
    pub(super) fn head(&self) -> Option<i64> {
        self.snapshot()?["snapshot-id"].as_i64()
    }

    /// Returns how long snapshots of a branch are kept, by the keys of its settings.
    pub(super) fn retention(&self, branch: &str) -> BTreeMap<String, i64> {
        let settings = self.json["refs"][branch].as_object().into_iter().flatten();
        let of_retention = settings.filter(|(key, _)| RETENTION.contains(&key.as_str()));
        of_retention.filter_map(|(key, value)| Some((key.clone(), value.as_i64()?))).collect()
    }

    /// Returns the snapshot that adds files to the current one. Its time is not before the time of the table.
    pub(super) fn next_snapshot(&self, new: &NewSnapshot, clock_ms: i64) -> Json {
        let parent = self.snapshot();
        let now_ms = clock_ms.max(self.updated_ms());
        let total = |key: &str, more: u64| {
            let before = parent.and_then(|parent| parent["summary"][key].as_str()?.parse::<u64>().ok());
            Json::from((before.unwrap_or_default() + more).to_string())
        };
        let mut summary = json!({
            "operation": "append",
            "added-data-files": new.files.to_string(),
            "added-records": new.rows.to_string(),
            "added-files-size": new.bytes.to_string(),
            "total-data-files": total("total-data-files", new.files),
            "total-records": total("total-records", new.rows),
            "total-files-size": total("total-files-size", new.bytes),
            "total-delete-files": total("total-delete-files", 0),
            "total-position-deletes": total("total-position-deletes", 0),
            "total-equality-deletes": total("total-equality-deletes", 0),
        });
        for (key, value) in &new.summary {
            summary[*key] = Json::from(value.as_str());
        }
        if clock_ms < now_ms {
            summary[CLOCK] = Json::from(clock_ms.to_string());
        }
        let mut snapshot = json!({
            "snapshot-id": new.id,
            "sequence-number": self.last_sequence() + 1,
            "timestamp-ms": now_ms,
            "manifest-list": new.list,
            "summary": summary,
            "schema-id": self.schema_id(),
        });
        if let Some(parent) = parent {
            snapshot["parent-snapshot-id"] = parent["snapshot-id"].clone();
        }
        snapshot
    }

    /// Returns the snapshots older than `kept`, apart from the head of each branch and from tags.
    ///
    /// A snapshot may be more than [`AHEAD_MAX_MS`] ahead of the wall clock. Either the clock of a writer was
    /// ahead, or this clock is behind. No later snapshot gets an earlier time, so all of them would stay
    /// until that time. The age of such a snapshot is therefore the age of the earliest clock of its own
    /// writer and of all later writers. While this clock is behind, the clocks of the other writers are ahead
    /// of it too, so their snapshots stay.
    pub(super) fn expired(&self, kept: Duration, clock_ms: i64) -> Vec<i64> {
        let oldest = clock_ms.saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
        let newest = clock_ms.saturating_add(AHEAD_MAX_MS);
        let clocks = self.clocks();
        let heads: Vec<_> = self.json["refs"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, head)| &head["snapshot-id"])
            .collect();
        let is_old = |snapshot: &Json| {
            let at = snapshot["timestamp-ms"].as_i64()?;
            let clock = clocks.get(&sequence_of(snapshot)).copied();
            Some(if at > newest { clock.unwrap_or(at) } else { at } < oldest)
        };
        let is_expired = |snapshot: &&Json| {
            is_old(snapshot).unwrap_or_default() && !heads.contains(&&snapshot["snapshot-id"])
        };
        let expired = self.snapshots().iter().filter(is_expired);
        expired.filter_map(|snapshot| snapshot["snapshot-id"].as_i64()).collect()
    }

    /// Returns the earliest clock of the writers of each snapshot and of all later ones, by the sequence
    /// number of the snapshot.
    fn clocks(&self) -> BTreeMap<i64, i64> {
        let mut clocks = BTreeMap::new();
        for snapshot in self.snapshots() {
            let clock = snapshot["summary"][CLOCK].as_str().and_then(|clock| clock.parse().ok());
            let Some(clock) = clock.or_else(|| snapshot["timestamp-ms"].as_i64()) else { continue };
            let earliest = clocks.entry(sequence_of(snapshot)).or_insert(clock);
            *earliest = clock.min(*earliest);
        }
        let mut earliest = i64::MAX;
        for clock in clocks.values_mut().rev() {
            earliest = earliest.min(*clock);
            *clock = earliest;
        }
        clocks
    }

    /// Applies an update of a commit.
    pub(super) fn apply(&mut self, update: &Update) {
        match update {
            Update::AddSchema { schema, last_column_id } => {
                push(&mut self.json, "schemas", schema.clone());
                self.json["last-column-id"] = (*last_column_id).into();
            }
            Update::SetCurrentSchema { schema_id } => {
                let id = if *schema_id == LAST_ADDED { self.last_schema() } else { *schema_id };
                self.json["current-schema-id"] = id.into();
            }
            Update::AddSnapshot { snapshot } => {
                self.json["last-sequence-number"] = snapshot["sequence-number"].clone();
                push(&mut self.json, "snapshots", snapshot.clone());
            }
            // The branch has its retention already.
            Update::SetSnapshotRef { ref_name, kind, snapshot_id, retention: _ } => {
                self.set_ref(ref_name, kind, *snapshot_id);
            }
            Update::SetProperties { updates } => {
                updates.iter().for_each(|(key, value)| {
                    self.json["properties"][key] = Json::from(value.as_str());
                });
            }
            Update::RemoveProperties { removals } => {
                if let Some(properties) = self.json["properties"].as_object_mut() {
                    removals.iter().for_each(|key| drop(properties.remove(key)));
                }
            }
            Update::RemoveSnapshots { snapshot_ids } => self.remove_snapshots(snapshot_ids),
        }
    }

    fn set_ref(&mut self, name: &str, kind: &str, id: i64) {
        self.json["refs"][name]["snapshot-id"] = id.into();
        self.json["refs"][name]["type"] = kind.into();
        if name == MAIN {
            let snapshot = self.snapshots().iter().find(|snapshot| snapshot["snapshot-id"] == id);
            let time = snapshot.map_or(Json::Null, |snapshot| snapshot["timestamp-ms"].clone());
            push(&mut self.json, "snapshot-log", json!({"timestamp-ms": time, "snapshot-id": id}));
            self.json["current-snapshot-id"] = id.into();
        }
    }

    fn remove_snapshots(&mut self, ids: &[i64]) {
        let is_removed = |entry: &Json| entry["snapshot-id"].as_i64().is_some_and(|id| ids.contains(&id));
        // The log of snapshots has no holes: it begins after the last entry whose snapshot is gone.
        let log = self.list("snapshot-log");
        let first = log.iter().rposition(is_removed).map_or(0, |last| last + 1);
        let log = log.get(first..).unwrap_or_default().to_vec();
        self.json["snapshot-log"] = Json::from(log);
        for key in ["snapshots", "statistics", "partition-statistics"] {
            if let Some(entries) = self.json[key].as_array_mut() {
                entries.retain(|entry| !is_removed(entry));
            }
        }
    }

    /// Notes the metadata file from which this one was made, and the time.
    pub(super) fn follow(&mut self, before: &str, now_ms: i64) {
        let updated = self.updated_ms();
        push(&mut self.json, "metadata-log", json!({"timestamp-ms": updated, "metadata-file": before}));
        let log = self.list("metadata-log");
        let log = log.get(log.len().saturating_sub(VERSIONS_MAX)..).unwrap_or_default().to_vec();
        self.json["metadata-log"] = Json::from(log);
        self.json["last-updated-ms"] = now_ms.max(updated).into();
    }

    /// Returns the addresses of all files that the metadata names itself.
    pub(super) fn addresses(&self) -> Vec<String> {
        let keys = [
            ("metadata-log", "metadata-file"),
            ("snapshots", "manifest-list"),
            ("statistics", "statistics-path"),
            ("partition-statistics", "statistics-path"),
        ];
        let of = |(list, key): (&str, &str)| {
            let found = self.list(list).iter().filter_map(|entry| entry[key].as_str());
            found.map(str::to_owned).collect::<Vec<_>>()
        };
        keys.into_iter().flat_map(of).collect()
    }
}

fn sequence_of(snapshot: &Json) -> i64 {
    snapshot["sequence-number"].as_i64().unwrap_or_default()
}

/// Returns the field of a column. Engines ignore the case of its name. The exact name is first, because a
/// table of another program may have names that differ only in case.
fn field_of<'fields>(fields: &'fields [Json], name: &str) -> Option<&'fields Json> {
    let is_same =
        |field: &&Json| field["name"].as_str().is_some_and(|found| found.eq_ignore_ascii_case(name));
    fields.iter().find(|field| field["name"] == name).or_else(|| fields.iter().find(is_same))
}

fn push(json: &mut Json, key: &str, item: Json) {
    match json[key].as_array_mut() {
        Some(items) => items.push(item),
        None => json[key] = Json::from(vec![item]),
    }
}

/// Returns the largest id of a field of a schema, and of the elements of its lists.
fn last_id(schema: &Json) -> i64 {
    let fields = schema["fields"].as_array().into_iter().flatten();
    let ids = fields.flat_map(|field| [field["id"].as_i64(), field["type"]["element-id"].as_i64()]);
    ids.flatten().max().unwrap_or_default()
}

/// Returns a part of a name that no other file has.
pub(super) fn unique() -> uuid::Uuid {
    uuid::Builder::from_random_bytes(random()).into_uuid()
}

/// Returns random bytes. Without any, the name of a file may be taken, and the commit is tried again.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests;
