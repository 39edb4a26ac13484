//! Merges small manifests, because each append adds one, and each manifest list names all of them.
//!
//! The properties and their defaults are the same as for Java's `MergeAppend`. A manifest of another engine
//! stays if this program cannot read it, or does not write one of its fields.

use serde_json::Value as Json;

use super::avro::{AvroEncoder, Datum, read_file};
use super::manifest::{DELETED, ManifestEntry, manifest_schema, write_entries};
use super::metadata::Metadata;
use super::partition::Spec;

const IS_ON: &str = "commit.manifest-merge.enabled";
const COUNT_MIN: (&str, usize) = ("commit.manifest.min-count-to-merge", 100);
const BYTES: (&str, u64) = ("commit.manifest.target-size-bytes", 8 << 20);
/// Status of an entry of a file that an earlier snapshot added.
const EXISTING: i64 = 0;

/// The ids of the fields of an entry of a manifest.
const STATUS: i64 = 0;
const SNAPSHOT: i64 = 1;
const SEQUENCE: i64 = 3;
const FILE_SEQUENCE: i64 = 4;
const DATA_FILE: i64 = 2;
const ROWS: i64 = 103;

/// How manifests of a table are merged.
pub(super) struct MergeRule {
    count_min: usize,
    bytes: u64,
}

impl MergeRule {
    /// Reads the properties of a table. `None`: its manifests are not merged.
    pub(super) fn read(metadata: &Metadata) -> Option<Self> {
        let number = |key| metadata.property(key).and_then(|text| text.parse::<u64>().ok());
        let count_min = number(COUNT_MIN.0).and_then(|count| usize::try_from(count).ok());
        let rule =
            Self { count_min: count_min.unwrap_or(COUNT_MIN.1), bytes: number(BYTES.0).unwrap_or(BYTES.1) };
        (metadata.property(IS_ON) != Some("false")).then_some(rule)
    }

    /// Returns the groups of manifests that are merged, each by the places of its members.
    pub(super) fn groups(&self, manifests: &[ManifestEntry], spec: &Spec) -> Vec<Vec<usize>> {
        let is_small = |manifest: &ManifestEntry| manifest.bytes() < self.bytes / 2;
        let small: Vec<_> = manifests
            .iter()
            .enumerate()
            .filter(|(_, manifest)| manifest.is_of_rows(spec) && is_small(manifest))
            .map(|(place, manifest)| (place, manifest.bytes()))
            .collect();
        if small.len() < self.count_min.max(2) {
            return Vec::new();
        }
        let mut groups: Vec<(Vec<usize>, u64)> = Vec::new();
        for (place, bytes) in small {
            match groups.last_mut().filter(|(_, sum)| sum + bytes <= self.bytes) {
                Some((group, sum)) => {
                    group.push(place);
                    *sum += bytes;
                }
                None => groups.push((vec![place], bytes)),
            }
        }
        groups.into_iter().map(|(group, _)| group).filter(|group| group.len() > 1).collect()
    }
}

/// The entries of several manifests.
pub(super) struct Merged {
    values: AvroEncoder,
    files: usize,
    rows: i64,
    /// `None`: all files are deleted.
    sequence_min: Option<i64>,
    kind: Json,
}

impl Merged {
    pub(super) fn new(spec: &Spec) -> Self {
        let kind = manifest_schema(spec);
        Self { values: AvroEncoder::default(), files: 0, rows: 0, sequence_min: None, kind }
    }

    /// Adds the files of a manifest. Returns false, and adds none, if this program cannot read it, or does
    /// not know a field.
    pub(super) fn add(&mut self, manifest: &ManifestEntry, file: &[u8]) -> bool {
        let Ok(entries) = read_file(file) else { return false };
        if !entries.iter().all(|entry| is_known(&self.kind, entry)) {
            return false;
        }
        for entry in entries.iter().filter(|entry| entry.field(STATUS).int() != Some(DELETED)) {
            let or = |id: i64, inherited: i64| entry.field(id).int().unwrap_or(inherited);
            let sequence = or(SEQUENCE, manifest.sequence());
            let known = [
                (STATUS, EXISTING),
                (SNAPSHOT, or(SNAPSHOT, manifest.snapshot())),
                (SEQUENCE, sequence),
                (FILE_SEQUENCE, or(FILE_SEQUENCE, manifest.sequence())),
            ];
            let mut fields: Vec<_> = known.map(|(id, value)| (Some(id), Datum::Int(value))).into();
            fields.push((Some(DATA_FILE), entry.field(DATA_FILE).clone()));
            self.values.datum(&self.kind, &Datum::Record(fields));
            self.files += 1;
            self.rows += entry.field(DATA_FILE).field(ROWS).int().unwrap_or_default();
            self.sequence_min = Some(self.sequence_min.map_or(sequence, |least| least.min(sequence)));
        }
        true
    }

    /// Returns the manifest, and its entry for a manifest list. `from` are the merged manifests.
    pub(super) fn finish(
        self,
        (snapshot, address): (i64, &str),
        schema: &Json,
        spec: &Spec,
        from: &[&ManifestEntry],
    ) -> (Vec<u8>, ManifestEntry) {
        let bytes = write_entries(&self.values, self.files, schema, spec);
        let counts = (self.files as u64, self.rows, self.sequence_min);
        let entry = ManifestEntry::merged(from, (address, bytes.len() as u64), snapshot, counts);
        (bytes, entry)
    }
}

/// Returns whether a type has each field of a value.
fn is_known(kind: &Json, value: &Datum) -> bool {
    match (of_union(kind), value) {
        (_, Datum::Null) => true,
        (kind, Datum::Array(items)) => items.iter().all(|item| is_known(&kind["items"], item)),
        (kind, Datum::Record(fields)) => {
            let own = kind["fields"].as_array().map(Vec::as_slice).unwrap_or_default();
            fields.iter().all(|(id, value)| {
                let field = own.iter().find(|field| id.is_some() && field["field-id"].as_i64() == *id);
                field.map_or(*value == Datum::Null, |field| is_known(&field["type"], value))
            })
        }
        _ => true,
    }
}

/// Returns the type of the values of a union with null.
fn of_union(kind: &Json) -> &Json {
    let kind = kind.as_array().and_then(|kinds| kinds.get(1)).unwrap_or(kind);
    if kind["type"].is_object() { &kind["type"] } else { kind }
}

impl AvroEncoder {
    /// Encodes a value of a type. Fields of records are found by their ids.
    fn datum(&mut self, kind: &Json, value: &Datum) {
        if kind.is_array() {
            self.option((*value != Datum::Null).then_some(value), |values, value| {
                values.datum(of_union(kind), value);
            });
            return;
        }
        match (of_union(kind), value) {
            (kind, Datum::Record(_)) => {
                for field in kind["fields"].as_array().into_iter().flatten() {
                    let id = field["field-id"].as_i64().unwrap_or_default();
                    self.datum(&field["type"], value.field(id));
                }
            }
            (kind, Datum::Array(items)) => {
                self.array(items.iter(), |values, item| values.datum(&kind["items"], item));
            }
            (_, Datum::Bytes(bytes)) => {
                self.bytes(bytes);
            }
            (_, Datum::Int(value)) => {
                self.long(*value);
            }
            (_, Datum::Bool(value)) => {
                self.bool(*value);
            }
            // Neither is the type of a field that this program writes.
            (_, Datum::Null | Datum::Double(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::iceberg::avro::write_file;
    use crate::iceberg::manifest::{read_manifest, write_list};
    use crate::partition::Partition;

    /// Returns a manifest of another engine, with the status of its file, and one more field and its value.
    fn manifest(spec: &Spec, status: i64, value: Option<i64>) -> Vec<u8> {
        let mut kind = manifest_schema(spec);
        let more = json!({"name": "x", "type": ["null", "long"], "default": null, "field-id": 999});
        kind["fields"][4]["type"]["fields"].as_array_mut().unwrap().push(more);
        let text = |text: &str| Datum::Bytes(text.as_bytes().to_vec());
        let fields = vec![
            (Some(134), Datum::Int(0)),
            (Some(100), text("file:///a")),
            (Some(101), text("PARQUET")),
            (Some(102), Datum::Record(vec![(Some(1_000), Datum::Int(20_786))])),
            (Some(103), Datum::Int(5)),
            (Some(104), Datum::Int(1_000)),
            (Some(140), Datum::Int(2)),
            (Some(999), value.map_or(Datum::Null, Datum::Int)),
        ];
        let entry = [(Some(STATUS), Datum::Int(status)), (Some(DATA_FILE), Datum::Record(fields))];
        let mut values = AvroEncoder::default();
        values.datum(&kind, &Datum::Record(entry.into()));
        write_file(&kind, &[], 1, &values)
    }

    #[test]
    fn a_manifest_with_an_unknown_field_or_damage_is_not_merged() {
        let fields = Partition::Day.to_fields(&json!(3));
        let spec = Spec::read(&json!({"spec-id": 0, "fields": fields}), 3).unwrap();
        let list = ManifestEntry::default();
        let mut merged = Merged::new(&spec);
        assert!(!merged.add(&list, &manifest(&spec, 1, Some(7))));
        assert!(!merged.add(&list, b"damage"));
        assert!(merged.add(&list, &manifest(&spec, 1, None)));
        let (bytes, _) = merged.finish((9, "file:///m"), &json!({"schema-id": 0}), &spec, &[&list]);
        assert_eq!(read_manifest(&bytes).unwrap().len(), 1);
        let entries = read_file(&bytes).unwrap();
        let file = entries[0].field(DATA_FILE);
        assert_eq!((file.field(103).int(), file.field(140).int()), (Some(5), Some(2)));
        assert_eq!(file.field(102).field(1_000).int(), Some(20_786));
        assert_eq!(
            (entries[0].field(STATUS).int(), entries[0].field(SEQUENCE).int()),
            (Some(EXISTING), Some(0))
        );
    }

    #[test]
    fn merged_manifests_of_deleted_files_have_the_number_of_their_snapshot() {
        let spec =
            Spec::read(&json!({"spec-id": 0, "fields": Partition::Day.to_fields(&json!(3))}), 3).unwrap();
        let list = ManifestEntry::default();
        let mut merged = Merged::new(&spec);
        assert!(merged.add(&list, &manifest(&spec, DELETED, None)));
        let (bytes, entry) = merged.finish((9, "file:///m"), &json!({"schema-id": 0}), &spec, &[&list]);
        assert_eq!(read_manifest(&bytes).unwrap().len(), 0);
        let read = read_file(&write_list(&[entry], (9, None, 12))).unwrap();
        assert_eq!((read[0].field(515).int(), read[0].field(516).int()), (Some(12), Some(12)));
    }
}
