//! Tests of the metadata of a table.

use tollgate_log::{ColumnType, ElementType};

use super::*;
use crate::iceberg::change::Change;
use crate::iceberg::partition::TIME_COLUMN;
use crate::partition::Partition;

fn column(name: &str, kind: ColumnType) -> TableColumn {
    TableColumn { name: name.to_owned(), kind }
}

fn table() -> Metadata {
    let columns = [column("a", ColumnType::Int), column(TIME_COLUMN, ColumnType::Timestamp)];
    let new = NewTable::new("file:///lake/n/t".to_owned(), &columns, Partition::Day, "s");
    Metadata::of(&new, 5)
}

fn change(table: &mut Metadata, change: impl FnOnce(&mut Change)) {
    let mut made = Change::new(table);
    change(&mut made);
    made.commit.updates.iter().for_each(|update| table.apply(update));
}

fn append(table: &mut Metadata, id: i64, now_ms: i64) {
    change(table, |change| change.append(&snapshot(id), ("p", "1"), now_ms));
}

fn expire(table: &mut Metadata, kept: Duration, clock_ms: i64) {
    change(table, |change| change.expire(kept, clock_ms));
}

fn snapshot(id: i64) -> NewSnapshot {
    let list = format!("file:///lake/n/t/metadata/{id}.avro");
    NewSnapshot { id, list, summary: vec![("tollgate.sink", "s".to_owned())], files: 1, rows: 2, bytes: 3 }
}

#[test]
fn columns_are_added_and_never_retyped() {
    let mut table = table();
    let list = column("l", ColumnType::Array(ElementType::Text));
    let wanted = [column("a", ColumnType::Int), list.clone()];
    assert_eq!(table.ids_of(&wanted), Ok(None));
    change(&mut table, |change| change.add_columns(&wanted));
    let ids = table.ids_of(&wanted).unwrap().unwrap();
    assert_eq!((ids["a"].id, ids["l"]), (1, super::super::types::FieldId { id: 3, element: Some(4) }));
    assert_eq!(table.schema()["schema-id"], 1);
    assert_eq!(table.json["schemas"].as_array().unwrap().len(), 2);
    let (name, found, wanted) = table.ids_of(&[column("a", ColumnType::Text)]).unwrap_err();
    assert_eq!((name.as_str(), found.as_str(), wanted.as_str()), ("a", "long", "string"));
    let (_, found, _) = table.ids_of(&[column("l", ColumnType::Text)]).unwrap_err();
    assert_eq!(found, "list<string>");
}

#[test]
fn a_snapshot_has_the_totals_of_all_before_it() {
    let mut table = table();
    for id in 1..=3 {
        append(&mut table, id, 10 * id);
        table.follow("m", 10 * id);
    }
    let last = table.snapshot().unwrap();
    assert_eq!((&last["sequence-number"], &last["parent-snapshot-id"]), (&json!(3), &json!(2)));
    assert_eq!(
        (&last["summary"]["total-records"], &last["summary"]["tollgate.sink"]),
        (&json!("6"), &json!("s"))
    );
    assert_eq!((table.updated_ms(), table.last_sequence()), (30, 3));
    assert_eq!(table.check(), Ok(()));
}

#[test]
fn old_snapshots_expire_without_heads_and_tags() {
    let mut table = table();
    for id in 1..=5 {
        append(&mut table, id, 1_000 * id);
    }
    table.json["refs"]["tag"] = json!({"snapshot-id": 1, "type": "tag"});
    table.json["statistics"] = json!([{"snapshot-id": 2, "statistics-path": "p"}]);
    expire(&mut table, Duration::from_millis(1_500), 5_000);
    let ids: Vec<_> = table.snapshots().iter().map(|one| one["snapshot-id"].as_i64().unwrap()).collect();
    assert_eq!(ids, [1, 4, 5]);
    let log: Vec<_> =
        table.list("snapshot-log").iter().map(|one| one["snapshot-id"].as_i64().unwrap()).collect();
    assert_eq!((log, table.list("statistics").len()), (vec![4, 5], 0));
    // The current snapshot stays at any age.
    expire(&mut table, Duration::ZERO, 100_000);
    assert_eq!(table.snapshots().len(), 2);
    assert_eq!(table.snapshot().unwrap()["snapshot-id"], 5);
}

/// Adds snapshots with these ids, each by a writer with this clock.
fn append_by(table: &mut Metadata, snapshots: impl IntoIterator<Item = (i64, i64)>) {
    for (id, clock_ms) in snapshots {
        append(table, id, clock_ms);
        table.follow("m", clock_ms);
    }
}

fn ids(table: &Metadata) -> Vec<i64> {
    table.snapshots().iter().map(|one| one["snapshot-id"].as_i64().unwrap()).collect()
}

const MINUTE_MS: i64 = 60_000;
const KEPT: Duration = Duration::from_hours(1);

#[test]
fn snapshots_of_a_clock_that_was_ahead_expire_by_the_clocks_of_later_writers() {
    let mut table = table();
    let (now, ahead) = (MINUTE_MS, MINUTE_MS + 2 * AHEAD_MAX_MS);
    append_by(&mut table, [(1, now), (2, ahead), (3, ahead), (4, now + MINUTE_MS)]);
    assert_eq!(table.snapshot().unwrap()["timestamp-ms"], ahead, "the time of a table never goes back");
    expire(&mut table, KEPT, now + MINUTE_MS);
    assert_eq!(ids(&table), [1, 2, 3, 4]);
    append_by(&mut table, [(5, now + 30 * MINUTE_MS)]);
    expire(&mut table, KEPT, now + 62 * MINUTE_MS);
    assert_eq!(ids(&table), [5]);
    append_by(&mut table, [(6, now + 89 * MINUTE_MS)]);
    expire(&mut table, KEPT, now + 89 * MINUTE_MS);
    assert_eq!(ids(&table), [5, 6]);
    expire(&mut table, KEPT, now + 91 * MINUTE_MS);
    assert_eq!(ids(&table), [6]);
}

#[test]
fn a_clock_that_is_behind_expires_no_snapshot_before_its_age() {
    let mut table = table();
    let now = 10 * AHEAD_MAX_MS;
    let behind = now - 2 * AHEAD_MAX_MS;
    append_by(&mut table, [(1, now), (2, now + MINUTE_MS), (3, now + 2 * MINUTE_MS)]);
    expire(&mut table, KEPT, behind);
    append_by(&mut table, [(4, behind), (5, behind + 30 * MINUTE_MS)]);
    expire(&mut table, KEPT, behind + 59 * MINUTE_MS);
    // The next writer has the right clock.
    append_by(&mut table, [(6, now + 59 * MINUTE_MS)]);
    expire(&mut table, KEPT, now + 59 * MINUTE_MS);
    assert_eq!(ids(&table), [1, 2, 3, 4, 5, 6]);
    expire(&mut table, KEPT, now + 63 * MINUTE_MS);
    assert_eq!(ids(&table), [6]);
}

#[test]
fn a_metadata_file_names_a_bounded_number_of_earlier_ones() {
    let mut table = table();
    for version in 0..60 {
        table.follow(&version.to_string(), 0);
    }
    let addresses = table.addresses();
    assert_eq!((addresses.len(), addresses[0].as_str()), (VERSIONS_MAX, "10"));
}

#[test]
fn an_append_keeps_the_retention_of_its_branch() {
    let mut table = table();
    append(&mut table, 1, 10);
    let kept = [("min-snapshots-to-keep", 5), ("max-snapshot-age-ms", 86_400_000), ("max-ref-age-ms", 7)];
    kept.iter().for_each(|(key, value)| table.json["refs"][MAIN][key] = Json::from(*value));
    let mut made = Change::new(&table);
    made.append(&snapshot(2), ("p", "1"), 20);
    let updates = serde_json::to_value(&made.commit.updates).unwrap();
    let expected = json!({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
        "snapshot-id": 2, "min-snapshots-to-keep": 5, "max-snapshot-age-ms": 86_400_000,
        "max-ref-age-ms": 7});
    assert_eq!(updates[1], expected);
    made.commit.updates.iter().for_each(|update| table.apply(update));
    assert_eq!(kept.map(|(key, _)| table.json["refs"][MAIN][key].as_i64()), kept.map(|(_, n)| Some(n)));
}

#[test]
fn metadata_of_another_form_is_refused() {
    assert!(Metadata::new(json!([])).check().is_err());
    for (key, value) in [
        ("refs", json!([])),
        ("refs", json!({"main": 7})),
        ("properties", json!("x")),
        ("schemas", json!([])),
        ("schemas", json!([0])),
    ] {
        let mut table = table();
        table.json[key] = value;
        let reason = table.check().unwrap_err();
        assert!(reason.starts_with("has damaged metadata"), "{reason}");
    }
    let mut table = table();
    table.json.as_object_mut().unwrap().remove("refs");
    assert_eq!(table.check(), Ok(()));
}

#[test]
fn another_format_version_is_refused_with_both_versions() {
    let mut table = table();
    table.json["format-version"] = 3.into();
    let reason = table.check().unwrap_err();
    assert_eq!(reason, "has format version 3, this program writes version 2");
}
