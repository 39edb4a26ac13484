//! The tables of the REST catalog of the tests. It checks each requirement and each update, and shares no
//! code with the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use tollgate_log::LogId;

/// Why a change is refused: a status and a type of error.
pub(crate) type Refusal = (u16, &'static str);

const BAD: Refusal = (400, "BadRequestException");
const CONFLICT: Refusal = (409, "CommitFailedException");
/// The ids of fields are larger than the ones of the client by this number.
const ID_SHIFT: i64 = 10;

/// The settings of a branch that say how long snapshots are kept.
pub(crate) const RETENTION: [&str; 3] = ["min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"];

/// A table: its metadata, and the address of its metadata file.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) location: String,
    pub(crate) metadata: Json,
    version: u64,
    root: Root,
}

/// The address of a warehouse, and the folder that has its files.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) address: String,
    pub(crate) folder: PathBuf,
}

impl Default for Root {
    fn default() -> Self {
        Self { address: "file://".to_owned(), folder: PathBuf::from("/") }
    }
}

impl Root {
    fn path(&self, address: &str) -> PathBuf {
        self.folder.join(address.strip_prefix(&self.address).unwrap().trim_start_matches('/'))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) tables: BTreeMap<(String, String), Table>,
    /// Number of commits that changed a table.
    pub(crate) commits: u64,
    pub(crate) root: Root,
}

fn need(is_met: bool, refusal: Refusal) -> Result<(), Refusal> {
    if is_met { Ok(()) } else { Err(refusal) }
}

/// Checks that an object has these keys, and no others.
fn only(object: &Json, keys: &[&str]) -> Result<(), Refusal> {
    let found: BTreeSet<_> = object.as_object().ok_or(BAD)?.keys().map(String::as_str).collect();
    need(found == keys.iter().copied().collect(), BAD)
}

fn int(value: &Json) -> Result<i64, Refusal> {
    value.as_i64().ok_or(BAD)
}

fn list(value: &Json) -> Result<&Vec<Json>, Refusal> {
    value.as_array().ok_or(BAD)
}

/// Returns the largest id of a field or of an element of a list.
fn last_id(schema: &Json) -> Result<i64, Refusal> {
    let mut last = 0;
    for field in list(&schema["fields"])? {
        last = last.max(int(&field["id"])?).max(field["type"]["element-id"].as_i64().unwrap_or(0));
    }
    Ok(last)
}

impl Table {
    fn write(&mut self) {
        let folder = format!("{}/metadata", self.metadata["location"].as_str().unwrap());
        self.location = format!("{folder}/{:05}-{}.metadata.json", self.version, LogId::random());
        fs::create_dir_all(self.root.path(&folder)).unwrap();
        fs::write(self.root.path(&self.location), self.metadata.to_string()).unwrap();
        self.version += 1;
    }

    fn check(&self, requirement: &Json) -> Result<(), Refusal> {
        let metadata = &self.metadata;
        let is_met = match requirement["type"].as_str().ok_or(BAD)? {
            "assert-table-uuid" => {
                only(requirement, &["type", "uuid"])?;
                requirement["uuid"] == metadata["table-uuid"]
            }
            "assert-ref-snapshot-id" => {
                only(requirement, &["type", "ref", "snapshot-id"])?;
                let name = requirement["ref"].as_str().ok_or(BAD)?;
                requirement["snapshot-id"] == metadata["refs"][name]["snapshot-id"]
            }
            "assert-current-schema-id" => {
                only(requirement, &["type", "current-schema-id"])?;
                requirement["current-schema-id"] == metadata["current-schema-id"]
            }
            "assert-last-assigned-field-id" => {
                only(requirement, &["type", "last-assigned-field-id"])?;
                requirement["last-assigned-field-id"] == metadata["last-column-id"]
            }
            _ => return Err(BAD),
        };
        need(is_met, CONFLICT)
    }

    fn update(&mut self, update: &Json) -> Result<(), Refusal> {
        let metadata = &mut self.metadata;
        match update["action"].as_str().ok_or(BAD)? {
            "add-schema" => {
                only(update, &["action", "schema", "last-column-id"])?;
                let (schema, last) = (&update["schema"], int(&metadata["last-column-id"])?);
                let old = list(&metadata["schemas"])?;
                let is_new = old.iter().all(|old| old["schema-id"] != schema["schema-id"]);
                need(is_new && last_id(schema)? > last, BAD)?;
                let present = old.iter().find(|old| old["schema-id"] == metadata["current-schema-id"]);
                let kept = list(&present.ok_or(BAD)?["fields"])?;
                need(list(&schema["fields"])?.starts_with(kept), BAD)?;
                metadata["last-column-id"] = last_id(schema)?.into();
                metadata["schemas"].as_array_mut().unwrap().push(schema.clone());
            }
            "set-current-schema" => {
                only(update, &["action", "schema-id"])?;
                let last = list(&metadata["schemas"])?.last().ok_or(BAD)?["schema-id"].clone();
                need(update["schema-id"] == -1, BAD)?;
                metadata["current-schema-id"] = last;
            }
            "add-snapshot" => {
                only(update, &["action", "snapshot"])?;
                let snapshot = &update["snapshot"];
                let address = snapshot["manifest-list"].as_str().ok_or(BAD)?;
                need(address.starts_with(metadata["location"].as_str().unwrap()), BAD)?;
                need(self.root.path(address).is_file(), BAD)?;
                let sequence = int(&metadata["last-sequence-number"])? + 1;
                need(snapshot["sequence-number"] == sequence, BAD)?;
                need(snapshot["parent-snapshot-id"] == metadata["refs"]["main"]["snapshot-id"], BAD)?;
                need(int(&snapshot["timestamp-ms"])? >= int(&metadata["last-updated-ms"])?, BAD)?;
                metadata["last-sequence-number"] = sequence.into();
                metadata["last-updated-ms"] = snapshot["timestamp-ms"].clone();
                metadata["snapshots"].as_array_mut().unwrap().push(snapshot.clone());
            }
            "set-snapshot-ref" => {
                let mut head = update.as_object().ok_or(BAD)?.clone();
                head.retain(|key, _| !["action", "ref-name"].contains(&key.as_str()));
                let mut bare = Json::from(head.clone());
                RETENTION.iter().for_each(|key| drop(bare.as_object_mut().unwrap().remove(*key)));
                only(&bare, &["type", "snapshot-id"])?;
                need(update["ref-name"] == "main" && update["type"] == "branch", BAD)?;
                let snapshot = list(&metadata["snapshots"])?.last().ok_or(BAD)?.clone();
                need(snapshot["snapshot-id"] == update["snapshot-id"], BAD)?;
                let id = &snapshot["snapshot-id"];
                // A setting that the update lacks is gone.
                metadata["refs"]["main"] = head.into();
                metadata["current-snapshot-id"] = id.clone();
                let entry = json!({"snapshot-id": id, "timestamp-ms": snapshot["timestamp-ms"]});
                metadata["snapshot-log"].as_array_mut().unwrap().push(entry);
            }
            "set-properties" => {
                only(update, &["action", "updates"])?;
                for (key, value) in update["updates"].as_object().ok_or(BAD)? {
                    need(value.is_string(), BAD)?;
                    metadata["properties"][key] = value.clone();
                }
            }
            "remove-properties" => {
                only(update, &["action", "removals"])?;
                for key in list(&update["removals"])? {
                    metadata["properties"].as_object_mut().unwrap().remove(key.as_str().ok_or(BAD)?);
                }
            }
            "remove-snapshots" => {
                only(update, &["action", "snapshot-ids"])?;
                let gone = list(&update["snapshot-ids"])?.clone();
                need(!gone.contains(&metadata["current-snapshot-id"]), BAD)?;
                for key in ["snapshots", "snapshot-log"] {
                    let entries = metadata[key].as_array_mut().unwrap();
                    entries.retain(|entry| !gone.contains(&entry["snapshot-id"]));
                }
            }
            _ => return Err(BAD),
        }
        Ok(())
    }
}

impl Tables {
    /// Creates a table, with other ids of fields than the client wants.
    pub(crate) fn create(&mut self, namespace: &str, new: &Json) -> Result<Table, Refusal> {
        let keys = ["name", "location", "schema", "partition-spec", "stage-create", "properties"];
        only(new, &keys)?;
        need(self.namespaces.contains(namespace), (404, "NoSuchNamespaceException"))?;
        let name = (namespace.to_owned(), new["name"].as_str().ok_or(BAD)?.to_owned());
        need(!self.tables.contains_key(&name), (409, "AlreadyExistsException"))?;
        let mut properties = new["properties"].clone();
        let version = properties.as_object_mut().ok_or(BAD)?.remove("format-version");
        need(version == Some("2".into()) && new["stage-create"] == false, BAD)?;
        let (mut schema, mut spec) = (new["schema"].clone(), new["partition-spec"].clone());
        for field in schema["fields"].as_array_mut().ok_or(BAD)? {
            field["id"] = (int(&field["id"])? + ID_SHIFT).into();
            if let Some(id) = field["type"]["element-id"].as_i64() {
                field["type"]["element-id"] = (id + ID_SHIFT).into();
            }
        }
        for field in spec["fields"].as_array_mut().ok_or(BAD)? {
            field["source-id"] = (int(&field["source-id"])? + ID_SHIFT).into();
        }
        let metadata = json!({
            "format-version": 2, "table-uuid": LogId::random().to_string(), "location": new["location"],
            "last-sequence-number": 0, "last-updated-ms": 1, "last-column-id": last_id(&schema)?,
            "current-schema-id": 0, "schemas": [schema], "default-spec-id": 0, "partition-specs": [spec],
            "last-partition-id": 1000, "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}], "properties": properties, "refs": {},
            "snapshots": [], "snapshot-log": [], "metadata-log": [],
        });
        let mut table = Table { location: String::new(), metadata, version: 0, root: self.root.clone() };
        table.write();
        self.tables.insert(name, table.clone());
        Ok(table)
    }

    /// Changes a table as another program would: a snapshot with the same files, and a new column.
    pub(crate) fn change(&mut self, namespace: &str, name: &str) {
        let table = self.tables.get_mut(&(namespace.to_owned(), name.to_owned())).unwrap();
        let metadata = &mut table.metadata;
        if let Some(mut snapshot) = metadata["snapshots"].as_array().unwrap().last().cloned() {
            let id = snapshot["snapshot-id"].as_i64().unwrap();
            let sequence = metadata["last-sequence-number"].as_i64().unwrap() + 1;
            snapshot["parent-snapshot-id"] = id.into();
            snapshot["snapshot-id"] = (id ^ 1).into();
            snapshot["sequence-number"] = sequence.into();
            metadata["last-sequence-number"] = sequence.into();
            metadata["refs"]["main"]["snapshot-id"] = (id ^ 1).into();
            metadata["current-snapshot-id"] = (id ^ 1).into();
            metadata["snapshots"].as_array_mut().unwrap().push(snapshot);
        }
        let mut schema = metadata["schemas"].as_array().unwrap().last().unwrap().clone();
        let last = metadata["last-column-id"].as_i64().unwrap() + 1;
        let field = json!({"id": last, "name": format!("other_{last}"), "required": false, "type": "long"});
        schema["fields"].as_array_mut().unwrap().push(field);
        schema["schema-id"] = (schema["schema-id"].as_i64().unwrap() + 1).into();
        metadata["last-column-id"] = last.into();
        metadata["current-schema-id"] = schema["schema-id"].clone();
        metadata["schemas"].as_array_mut().unwrap().push(schema);
        table.write();
    }

    /// Changes a table, if it meets all requirements.
    pub(crate) fn commit(&mut self, namespace: &str, name: &str, change: &Json) -> Result<Table, Refusal> {
        only(change, &["identifier", "requirements", "updates"])?;
        let table = self.tables.get_mut(&(namespace.to_owned(), name.to_owned()));
        let table = table.ok_or((404, "NoSuchTableException"))?;
        let requirements = list(&change["requirements"])?;
        need(requirements.len() >= 2, BAD)?;
        requirements.iter().try_for_each(|requirement| table.check(requirement))?;
        let mut changed = table.clone();
        let (time, file) = (&table.metadata["last-updated-ms"], &table.location);
        let entry = json!({"timestamp-ms": time, "metadata-file": file});
        changed.metadata["metadata-log"].as_array_mut().unwrap().push(entry);
        list(&change["updates"])?.iter().try_for_each(|update| changed.update(update))?;
        changed.write();
        *table = changed.clone();
        self.commits += 1;
        Ok(changed)
    }
}
