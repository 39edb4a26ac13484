//! Manifests and manifest lists: which data files a snapshot has.

use serde_json::{Value as Json, json};
use tollgate_value::Date;

use super::avro::{AvroEncoder, Datum, read_file, write_file};
use super::metrics::{ColumnMetrics, FileMetrics};
use super::partition::{self, Spec};

/// Status of an entry of a file that the snapshot adds.
const ADDED: i64 = 1;
/// Status of an entry of a file that is gone.
pub(super) const DELETED: i64 = 2;
/// Content of files with rows. Other files name rows that are deleted.
const DATA: i64 = 0;

/// A data file that is added.
#[derive(Debug, Clone)]
pub(super) struct DataFile {
    pub(super) address: String,
    pub(super) day: Date,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) metrics: FileMetrics,
}

/// A manifest, as a manifest list has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ManifestEntry {
    pub(super) address: String,
    bytes: i64,
    spec: i64,
    pub(super) content: i64,
    /// `None`: the manifest is new, and gets the number of its snapshot.
    sequence: Option<i64>,
    sequence_min: Option<i64>,
    snapshot: i64,
    /// Numbers of added, existing and deleted files, then of their rows.
    counts: [i64; 6],
    partitions: Option<Vec<FieldSummary>>,
    key_metadata: Option<Vec<u8>>,
}

/// What is known of one field of the partitions of a manifest.
#[derive(Debug, Clone, Default, PartialEq)]
struct FieldSummary {
    has_null: bool,
    has_nan: Option<bool>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

/// A file that an entry of a manifest names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedFile {
    pub(super) address: String,
    pub(super) is_deleted: bool,
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns a manifest of added files, and its entry for a manifest list.
pub(super) fn write_manifest(
    files: &[DataFile],
    (snapshot, address): (i64, &str),
    schema: &Json,
    spec: &Spec,
) -> (Vec<u8>, ManifestEntry) {
    let mut values = AvroEncoder::default();
    for file in files {
        // Numbers of sequences are inherited from the manifest list.
        values.long(ADDED).option(Some(snapshot), |values, id| {
            values.long(id);
        });
        values.long(0).long(0);
        data_file(file, spec, &mut values);
    }
    let bytes = write_entries(&values, files.len(), schema, spec);
    let rows = files.iter().map(|file| file.rows).sum();
    let entry = ManifestEntry {
        address: address.to_owned(),
        bytes: signed(bytes.len() as u64),
        spec: spec.id,
        snapshot,
        counts: [signed(files.len() as u64), 0, 0, signed(rows), 0, 0],
        partitions: Some(summaries(files, spec)),
        ..ManifestEntry::default()
    };
    (bytes, entry)
}

/// Returns a manifest of encoded entries.
pub(super) fn write_entries(values: &AvroEncoder, count: usize, schema: &Json, spec: &Spec) -> Vec<u8> {
    let pairs = [
        ("schema", schema.to_string()),
        ("schema-id", schema["schema-id"].to_string()),
        ("partition-spec", Json::from(spec.fields.clone()).to_string()),
        ("partition-spec-id", spec.id.to_string()),
        ("format-version", "2".to_owned()),
        ("content", "data".to_owned()),
    ];
    write_file(&manifest_schema(spec), &pairs, count, values)
}

fn summaries(files: &[DataFile], spec: &Spec) -> Vec<FieldSummary> {
    let values: Vec<_> = files.iter().map(|file| spec.values(file.day)).collect();
    let summary = |place: usize| {
        let of_field = || values.iter().filter_map(|values| values.get(place).copied().flatten());
        FieldSummary {
            has_null: values.iter().any(|values| values.get(place).is_none_or(Option::is_none)),
            has_nan: Some(false),
            lower: of_field().min().map(|value| value.to_le_bytes().to_vec()),
            upper: of_field().max().map(|value| value.to_le_bytes().to_vec()),
        }
    };
    (0..spec.fields.len()).map(summary).collect()
}

fn data_file(file: &DataFile, spec: &Spec, values: &mut AvroEncoder) {
    values.long(DATA).text(&file.address).text("PARQUET");
    partition::encode(&spec.values(file.day), values);
    values.long(signed(file.rows)).long(signed(file.bytes));
    let columns = &file.metrics.columns;
    let longs = |values: &mut AvroEncoder, of: &dyn Fn(&ColumnMetrics) -> Option<i64>| {
        let found: Vec<_> = columns.iter().filter_map(|(id, column)| Some((*id, of(column)?))).collect();
        values.option(Some(found), |values, found| {
            values.array(found.into_iter(), |values, (id, value)| {
                values.long(id.into()).long(value);
            });
        });
    };
    longs(values, &|column| Some(column.bytes));
    longs(values, &|column| Some(column.values));
    longs(values, &|column| column.nulls);
    for is_upper in [false, true] {
        let bound =
            |column: &ColumnMetrics| if is_upper { column.upper.clone() } else { column.lower.clone() };
        let found: Vec<_> = columns.iter().filter_map(|(id, column)| Some((*id, bound(column)?))).collect();
        values.option(Some(found), |values, found| {
            values.array(found.into_iter(), |values, (id, bytes)| {
                values.long(id.into()).bytes(&bytes);
            });
        });
    }
    let groups = (!file.metrics.groups.is_empty()).then_some(&file.metrics.groups);
    values.option(groups, |values, groups| {
        values.array(groups.iter(), |values, group| {
            values.long(*group);
        });
    });
    // Counts of NaN, a key, and a sort order.
    for _ in 0..3 {
        values.option(None::<()>, |_, ()| {});
    }
}

pub(super) fn manifest_schema(spec: &Spec) -> Json {
    let map = |(name, id): (&str, i64), key: i64, value: &str| {
        json!({"name": name, "field-id": id, "default": null, "type": ["null", {
        "type": "array", "logicalType": "map", "items": {
            "type": "record", "name": format!("k{key}_v{}", key + 1), "fields": [
                {"name": "key", "type": "int", "field-id": key},
                {"name": "value", "type": value, "field-id": key + 1},
            ]}}]})
    };
    json!({"type": "record", "name": "manifest_entry", "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        optional("snapshot_id", "long", 1),
        optional("sequence_number", "long", 3),
        optional("file_sequence_number", "long", 4),
        {"name": "data_file", "field-id": 2, "type": {"type": "record", "name": "r2", "fields": [
            {"name": "content", "type": "int", "field-id": 134},
            {"name": "file_path", "type": "string", "field-id": 100},
            {"name": "file_format", "type": "string", "field-id": 101},
            {"name": "partition", "type": spec.schema(), "field-id": 102},
            {"name": "record_count", "type": "long", "field-id": 103},
            {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
            map(("column_sizes", 108), 117, "long"),
            map(("value_counts", 109), 119, "long"),
            map(("null_value_counts", 110), 121, "long"),
            map(("lower_bounds", 125), 126, "bytes"),
            map(("upper_bounds", 128), 129, "bytes"),
            {"name": "split_offsets", "field-id": 132, "default": null,
             "type": ["null", {"type": "array", "items": "long", "element-id": 133}]},
            // Other engines fill these fields, and a merged manifest keeps them.
            map(("nan_value_counts", 137), 138, "long"),
            optional("key_metadata", "bytes", 131),
            optional("sort_order_id", "int", 140),
        ]}},
    ]})
}

/// Returns a field that may be null.
fn optional(name: &str, kind: &str, id: i64) -> Json {
    json!({"name": name, "type": ["null", kind], "default": null, "field-id": id})
}

fn list_schema() -> Json {
    let long = |name: &str, id: i64| json!({"name": name, "type": "long", "field-id": id});
    let int = |name: &str, id: i64| json!({"name": name, "type": "int", "field-id": id});
    json!({"type": "record", "name": "manifest_file", "fields": [
        {"name": "manifest_path", "type": "string", "field-id": 500},
        long("manifest_length", 501),
        int("partition_spec_id", 502),
        int("content", 517),
        long("sequence_number", 515),
        long("min_sequence_number", 516),
        long("added_snapshot_id", 503),
        int("added_files_count", 504),
        int("existing_files_count", 505),
        int("deleted_files_count", 506),
        long("added_rows_count", 512),
        long("existing_rows_count", 513),
        long("deleted_rows_count", 514),
        {"name": "partitions", "field-id": 507, "default": null, "type": ["null", {
            "type": "array", "element-id": 508, "items": {"type": "record", "name": "r508", "fields": [
                {"name": "contains_null", "type": "boolean", "field-id": 509},
                optional("contains_nan", "boolean", 518),
                optional("lower_bound", "bytes", 510),
                optional("upper_bound", "bytes", 511),
            ]}}]},
        optional("key_metadata", "bytes", 519),
    ]})
}

/// Returns the manifest list of a snapshot.
pub(super) fn write_list(
    entries: &[ManifestEntry],
    (snapshot, parent, sequence): (i64, Option<i64>, i64),
) -> Vec<u8> {
    let mut values = AvroEncoder::default();
    for entry in entries {
        values.text(&entry.address).long(entry.bytes).long(entry.spec).long(entry.content);
        values.long(entry.sequence.unwrap_or(sequence)).long(entry.sequence_min.unwrap_or(sequence));
        values.long(entry.snapshot);
        entry.counts.iter().for_each(|count| {
            values.long(*count);
        });
        let bytes = |values: &mut AvroEncoder, bytes: &Vec<u8>| {
            values.bytes(bytes);
        };
        values.option(entry.partitions.as_ref(), |values, partitions| {
            values.array(partitions.iter(), |values, field| {
                values.bool(field.has_null).option(field.has_nan, |values, nan| {
                    values.bool(nan);
                });
                values.option(field.lower.as_ref(), bytes).option(field.upper.as_ref(), bytes);
            });
        });
        values.option(entry.key_metadata.as_ref(), bytes);
    }
    let pairs = [
        ("snapshot-id", snapshot.to_string()),
        ("parent-snapshot-id", parent.map_or_else(|| "null".to_owned(), |parent| parent.to_string())),
        ("sequence-number", sequence.to_string()),
        ("format-version", "2".to_owned()),
    ];
    write_file(&list_schema(), &pairs, entries.len(), &values)
}

/// Reads a manifest list.
///
/// # Errors
/// The reason why it cannot be read.
pub(super) fn read_list(file: &[u8]) -> Result<Vec<ManifestEntry>, String> {
    let entries = read_file(file)?;
    let entry = |entry: &Datum| {
        let int = |id| entry.field(id).int().unwrap_or_default();
        let bytes = |of: &Datum, id| of.field(id).bytes().map(<[u8]>::to_vec);
        let summary = |field: &Datum| FieldSummary {
            has_null: field.field(509).bool().unwrap_or(true),
            has_nan: field.field(518).bool(),
            lower: bytes(field, 510),
            upper: bytes(field, 511),
        };
        let partitions = match entry.field(507) {
            Datum::Array(fields) => Some(fields.iter().map(summary).collect()),
            _ => None,
        };
        Ok(ManifestEntry {
            address: entry.field(500).text().ok_or("an entry has no path")?,
            bytes: int(501),
            spec: int(502),
            content: int(517),
            sequence: Some(int(515)),
            sequence_min: Some(int(516)),
            snapshot: int(503),
            counts: [504, 505, 506, 512, 513, 514].map(int),
            partitions,
            key_metadata: bytes(entry, 519),
        })
    };
    entries.iter().map(entry).collect()
}

/// Reads which files a manifest names.
///
/// # Errors
/// The reason why it cannot be read.
pub(super) fn read_manifest(file: &[u8]) -> Result<Vec<NamedFile>, String> {
    let entries = read_file(file)?;
    let named = |entry: &Datum| {
        let address = entry.field(2).field(100).text().ok_or("an entry has no path")?;
        Ok(NamedFile { address, is_deleted: entry.field(0).int() == Some(DELETED) })
    };
    entries.iter().map(named).collect()
}

impl ManifestEntry {
    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or_default()
    }

    pub(super) fn sequence(&self) -> i64 {
        self.sequence.unwrap_or_default()
    }

    pub(super) const fn snapshot(&self) -> i64 {
        self.snapshot
    }

    /// Returns whether the manifest has files of rows with this partition, and no key that encrypts it.
    pub(super) const fn is_of_rows(&self, spec: &Spec) -> bool {
        !self.has_deletes() && self.spec == spec.id && self.key_metadata.is_none()
    }

    /// Returns the entry of a manifest with the files of others.
    pub(super) fn merged(
        from: &[&Self],
        (address, bytes): (&str, u64),
        snapshot: i64,
        (files, rows, sequence_min): (u64, i64, Option<i64>),
    ) -> Self {
        Self {
            address: address.to_owned(),
            bytes: signed(bytes),
            spec: from.first().map_or(0, |entry| entry.spec),
            snapshot,
            sequence_min,
            counts: [0, signed(files), 0, 0, rows, 0],
            partitions: merged_summaries(from),
            ..Self::default()
        }
    }

    /// Returns whether the files of the manifest name rows that are deleted.
    pub(super) const fn has_deletes(&self) -> bool {
        self.content != DATA
    }
}

/// Returns what is known of the partitions of several manifests. Bounds are days, months or years.
fn merged_summaries(from: &[&ManifestEntry]) -> Option<Vec<FieldSummary>> {
    let mut all = from.iter().map(|entry| entry.partitions.clone());
    let first = all.next().flatten()?;
    all.try_fold(first, |mut merged, next| {
        let next = next.filter(|next| next.len() == merged.len())?;
        merged.iter_mut().zip(next).for_each(|(merged, next)| merged.widen(next));
        Some(merged)
    })
}

impl FieldSummary {
    fn widen(&mut self, other: Self) {
        let number =
            |bytes: &Vec<u8>| bytes.as_slice().try_into().map(i32::from_le_bytes).unwrap_or_default();
        let ends = |one: &Option<Vec<u8>>, other: Option<Vec<u8>>| one.clone().into_iter().chain(other);
        self.has_null |= other.has_null;
        self.has_nan = self.has_nan.zip(other.has_nan).map(|(one, other)| one || other);
        self.lower = ends(&self.lower, other.lower).min_by_key(number);
        self.upper = ends(&self.upper, other.upper).max_by_key(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iceberg::partition::TIME_COLUMN;
    use crate::partition::Partition;

    #[test]
    fn manifests_and_lists_read_back_as_they_were_written() {
        let fields = Partition::Day.to_fields(&json!(3));
        assert_eq!(fields[0]["name"], format!("{TIME_COLUMN}_day"));
        let spec = Spec::read(&json!({"spec-id": 0, "fields": fields}), 3).unwrap();
        let column = ColumnMetrics { bytes: 9, values: 5, nulls: Some(1), lower: Some(vec![1]), upper: None };
        let metrics = FileMetrics { columns: [(1, column)].into(), groups: vec![4, 900] };
        let file = |day: &str| DataFile {
            address: format!("file:///{day}"),
            day: Date::parse(day).unwrap(),
            rows: 5,
            bytes: 1_000,
            metrics: metrics.clone(),
        };
        let schema = json!({"type": "struct", "schema-id": 0, "fields": []});
        let files = [file("2026-11-28"), file("2026-11-29")];
        let (bytes, entry) = write_manifest(&files, (7, "file:///m"), &schema, &spec);
        let named = read_manifest(&bytes).unwrap();
        assert_eq!(
            named.iter().map(|file| file.address.as_str()).collect::<Vec<_>>(),
            ["file:///2026-11-28", "file:///2026-11-29"]
        );
        assert!(!named[0].is_deleted && !entry.has_deletes());
        assert_eq!(entry.counts, [2, 0, 0, 10, 0, 0]);
        let read = read_list(&write_list(std::slice::from_ref(&entry), (7, None, 12))).unwrap();
        let numbered = ManifestEntry { sequence: Some(12), sequence_min: Some(12), ..entry };
        assert_eq!(read, std::slice::from_ref(&numbered));
        // A later list keeps the number.
        let read = read_list(&write_list(&read, (8, Some(7), 13))).unwrap();
        assert_eq!(read, [numbered]);
    }
}
