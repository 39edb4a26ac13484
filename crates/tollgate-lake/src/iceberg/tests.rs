//! Commits to a table while the catalog loses answers and other programs commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_log::{Column, ColumnOrigin, ColumnType, LogId, Position, Schema, Sequence, Value};

use super::avro::read_file;
use super::{
    FileCatalog, FileFacts, FolderObjects, Locations, Objects, Settled, Swept, TableName, TableOptions,
    Tables,
};
use crate::error::LakeError;
use crate::folder::FolderPlace;
use crate::ledger::{Ledger, NotedType};
use crate::names::LoadName;
use crate::partition::Partition;
use crate::place::{FileStamp, Place};
use crate::plan::{Plan, Streams};
use crate::table::table_columns;
use crate::writers::Writers;

/// What the catalog does at its next commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It commits, and its answer is lost.
    Lost,
    /// Another program commits first.
    Beaten,
    /// It does not commit.
    Away,
}

#[derive(Debug, Default)]
struct State {
    locations: BTreeMap<TableName, String>,
    turns: Vec<Turn>,
    commits: u64,
}

#[derive(Debug, Clone, Default)]
struct MemoryCatalog(Arc<Mutex<State>>);

impl MemoryCatalog {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

fn away() -> LakeError {
    LakeError::call("reach", "the catalog")(std::io::Error::from(std::io::ErrorKind::TimedOut))
}

impl Locations for MemoryCatalog {
    fn location(&mut self, table: &TableName) -> Result<Option<String>, LakeError> {
        Ok(self.state().locations.get(table).cloned())
    }

    fn tables(&mut self, namespace: &str) -> Result<Vec<String>, LakeError> {
        let state = self.state();
        let tables = state.locations.keys().filter(|table| table.namespace == namespace);
        Ok(tables.map(|table| table.table.clone()).collect())
    }

    fn add(&mut self, table: &TableName, location: &str) -> Result<bool, LakeError> {
        let mut state = self.state();
        let is_new = !state.locations.contains_key(table);
        state.locations.entry(table.clone()).or_insert_with(|| location.to_owned());
        Ok(is_new)
    }

    fn replace(&mut self, table: &TableName, old: &str, new: &str) -> Result<bool, LakeError> {
        let mut state = self.state();
        let turn = state.turns.pop();
        if turn == Some(Turn::Away) {
            return Err(away());
        }
        if turn == Some(Turn::Beaten) || state.locations.get(table).map(String::as_str) != Some(old) {
            return Ok(false);
        }
        state.locations.insert(table.clone(), new.to_owned());
        state.commits += 1;
        if turn == Some(Turn::Lost) { Err(away()) } else { Ok(true) }
    }
}

/// The loads and the logs that are settled.
#[derive(Default)]
struct Done {
    loads: Vec<LoadName>,
    logs: BTreeMap<LogId, u64>,
}

impl Settled for Done {
    fn has(&mut self, load: LoadName) -> Result<bool, LakeError> {
        Ok(self.loads.contains(&load))
    }

    fn is_past(&mut self, log: LogId, last: Sequence) -> Result<bool, LakeError> {
        Ok(self.logs.get(&log).is_some_and(|found| *found >= last.0))
    }
}

struct Site {
    folder: TempDir,
    catalog: MemoryCatalog,
    schema: Arc<Schema>,
    log: LogId,
}

fn now_ms() -> i64 {
    1_800_000_000_000
}

impl Site {
    fn new() -> Self {
        let column = |name: &str| Column {
            name: name.to_owned(),
            kind: ColumnType::Int,
            origin: ColumnOrigin::Stored,
        };
        let schema = Arc::new(Schema::new("visits", vec![column("n")]).unwrap());
        Self {
            folder: tempfile::tempdir().unwrap(),
            catalog: MemoryCatalog::default(),
            schema,
            log: LogId::random(),
        }
    }

    fn objects(&self) -> FolderObjects {
        FolderObjects::new(&self.folder.path().join("lake"))
    }

    fn tables(&self) -> Tables {
        self.tables_of("lake")
    }

    fn tables_of(&self, sink: &str) -> Tables {
        self.tables_by(sink, now_ms)
    }

    fn tables_by(&self, sink: &str, clock: fn() -> i64) -> Tables {
        let options = TableOptions {
            sink: sink.to_owned(),
            namespace: "web".to_owned(),
            partition: Partition::Day,
            snapshots_kept: Some(Duration::from_secs(3_600)),
        };
        let objects: Arc<dyn Objects> = Arc::new(self.objects());
        let catalog = FileCatalog::new(Box::new(self.catalog.clone()), objects.clone(), clock);
        Tables::new(objects, Box::new(catalog), options, clock)
    }

    /// Makes the file of a load, and gives it its name.
    fn file(&self, tables: &mut Tables, first: u64, last: u64) -> (LoadName, Plan, Vec<FileFacts>) {
        let parts = self.folder.path().join(format!("parts-{}", LogId::random()));
        std::fs::create_dir_all(&parts).unwrap();
        let mut writers = Writers::new(parts, 1 << 20).of_tables("web");
        writers.set_ids("visits", tables.ensure("visits", &table_columns(&self.schema)).unwrap());
        for sequence in first..=last {
            let value = Value::Int(sequence.cast_signed());
            writers
                .row(&self.schema, 1_800_000_000_000_000, &[value], (self.log, Sequence(sequence)))
                .unwrap();
        }
        let load = LoadName::Next { log: self.log, first: Sequence(first) };
        let made = writers.finish(load, Sequence(last), "digest").unwrap();
        let place = FolderPlace::new(self.folder.path().join("lake"));
        for (file, part) in made.facts.iter().zip(&made.parts) {
            let stamp = FileStamp { rows: file.rows, digest: file.digest.clone() };
            place.create_file(&file.name, part, &stamp).unwrap();
        }
        let plan = Plan::new(Position { last: Sequence(last), chain: Some(1) }, Streams::All);
        (load, plan, made.facts)
    }

    fn append(&self, first: u64, last: u64) -> Result<(), LakeError> {
        let mut tables = self.tables();
        let (load, plan, files) = self.file(&mut tables, first, last);
        tables.append(load, &plan, &files, &mut Done::default())
    }

    /// Returns the number of files and the number of rows that the table says it has.
    fn totals(&self) -> (usize, String) {
        let mut tables = self.tables();
        let files = tables.files("visits").unwrap().len();
        let name = TableName { namespace: "web".to_owned(), table: "visits".to_owned() };
        let table = tables.load(&name).unwrap().unwrap();
        let rows =
            table.table.metadata.snapshot().unwrap()["summary"]["total-records"].as_str().unwrap().to_owned();
        (files, rows)
    }
}

#[test]
fn a_commit_whose_answer_is_lost_is_found_by_the_next_try() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    site.catalog.state().turns = vec![Turn::Lost];
    assert!(site.append(11, 20).unwrap_err().is_retriable());
    for _ in 0..2 {
        site.append(11, 20).unwrap();
    }
    assert_eq!((site.totals(), site.catalog.state().commits), ((2, "20".to_owned()), 2));
}

#[test]
fn a_catalog_that_is_away_or_beaten_is_tried_again_with_the_table_of_that_time() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    site.catalog.state().turns = vec![Turn::Beaten; 5];
    site.append(11, 20).unwrap();
    site.catalog.state().turns = vec![Turn::Away];
    assert!(site.append(21, 30).unwrap_err().is_retriable());
    site.append(21, 30).unwrap();
    assert_eq!(site.totals(), (3, "30".to_owned()));
    site.catalog.state().turns = vec![Turn::Beaten; 100];
    let error = site.append(31, 40).unwrap_err();
    assert!(error.is_retriable(), "{error}");
}

#[test]
fn a_committer_with_an_old_view_is_refused_or_finds_its_load() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    // Both loaders made the same file before one of them committed.
    let mut tables = site.tables();
    let (load, plan, files) = site.file(&mut tables, 11, 20);
    site.append(11, 20).unwrap();
    site.append(21, 30).unwrap();
    tables.append(load, &plan, &files, &mut Done::default()).unwrap();
    assert_eq!(site.totals(), (3, "30".to_owned()));
    // A loader that decided otherwise, in a store without conditions, is refused.
    let error = site.append(21, 25).map(drop);
    assert!(error.is_ok(), "its records are in the table: {error:?}");
    let error = site.append(25, 40).unwrap_err();
    assert!(!error.is_retriable() && error.to_string().contains("has tollgate.position.lake."), "{error}");
    assert_eq!(site.totals(), (3, "30".to_owned()));
}

#[test]
fn threads_that_commit_at_once_bring_each_load_once() {
    let site = Site::new();
    site.append(1, 1).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (mut tables, site) = (site.tables(), &site);
            // All threads have the same loads, each of a log of its own.
            scope.spawn(move || {
                for number in 0..5 {
                    let log = LogId::from_bytes([number + 1; 16]);
                    let load = LoadName::Next { log, first: Sequence(1) };
                    let (_, plan, files) =
                        site.file(&mut tables, 100 + u64::from(number), 100 + u64::from(number));
                    while let Err(error) = tables.append(load, &plan, &files, &mut Done::default()) {
                        assert!(error.is_retriable(), "thread {thread}: {error}");
                    }
                }
            });
        }
    });
    assert_eq!((site.totals(), site.catalog.state().commits), ((6, "6".to_owned()), 6));
}

#[test]
fn a_sweep_removes_what_no_snapshot_needs_and_keeps_loads_that_are_not_committed() {
    let site = Site::new();
    for first in [1, 11, 21] {
        site.catalog.state().turns = vec![Turn::Beaten; 2];
        site.append(first, first + 9).unwrap();
    }
    let objects = site.objects();
    let waiting = format!("web/visits/data/day=2027-01-15/{}-31-40.parquet", site.log);
    let merged = format!("web/visits/data/day=2027-01-15/{}-1-3.parquet", site.log);
    for name in [&waiting, &merged, "web/visits/data/other.parquet", "web/elsewhere/x"] {
        objects.create(name, b"x").unwrap();
    }
    let mut tables = site.tables();
    let first = LoadName::Next { log: site.log, first: Sequence(1) };
    let mut done = Done { loads: vec![first], ..Done::default() };
    assert_eq!(tables.sweep(Duration::from_secs(3_600), &mut done).unwrap().removed, 0);
    let removed = tables.sweep(Duration::ZERO, &mut done).unwrap().removed;
    // Six commits lost: each has a metadata file, a manifest and a list. Two data files are of no snapshot.
    assert_eq!(removed, 6 * 3 + 2);
    let left = objects.walk("web/").unwrap();
    let has = |name: &str| left.iter().any(|found| found.name == name);
    assert!(
        has(&waiting) && has("web/elsewhere/x") && !has(&merged) && !has("web/visits/data/other.parquet")
    );
    assert_eq!(site.totals(), (3, "30".to_owned()));
    site.append(31, 40).unwrap();
    assert_eq!(tables.sweep(Duration::ZERO, &mut done).unwrap().removed, 0);
    // Another sink leaves the table alone.
    objects.create("web/visits/data/other.parquet", b"x").unwrap();
    tables.options.sink = "other".to_owned();
    assert_eq!(tables.sweep(Duration::ZERO, &mut done).unwrap().removed, 0);
}

#[test]
fn a_sweep_goes_on_after_a_table_without_metadata_and_keeps_the_files_it_may_need() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    let (objects, orphan) = (site.objects(), "web/visits/data/other.parquet");
    let sweep = || site.tables().sweep(Duration::ZERO, &mut Done::default()).unwrap();
    let lose = |folder: &str| {
        let name = TableName { namespace: "web".to_owned(), table: "lost".to_owned() };
        let address = format!("{}/{folder}/metadata/1.metadata.json", objects.address());
        site.catalog.state().locations.insert(name, address);
    };
    objects.create(orphan, b"x").unwrap();
    lose("web/visits");
    assert_eq!(sweep(), Swept { removed: 0, left: vec!["web.visits".to_owned()] });
    lose("web/other");
    assert_eq!(sweep(), Swept { removed: 1, left: Vec::new() });
    assert_eq!(objects.read(orphan).unwrap(), None);
}

/// Returns the reason why the sink refuses the next load.
fn refusal(site: &Site) -> String {
    let mut tables = site.tables();
    let error = tables.ensure("visits", &table_columns(&site.schema)).unwrap_err();
    assert!(!error.is_retriable(), "{error}");
    error.to_string()
}

/// Checks that a sweep removes nothing, although everything is old and settled.
fn expect_all_kept(site: &Site) {
    let load = |first| LoadName::Next { log: site.log, first: Sequence(first) };
    let mut done = Done { loads: [1, 11, 21].map(load).into(), ..Done::default() };
    assert_eq!(site.tables().sweep(Duration::ZERO, &mut done).unwrap().removed, 0);
}

fn name_of(table: &str) -> TableName {
    TableName { namespace: "web".to_owned(), table: table.to_owned() }
}

const NOTE: &str = "_tollgate/lake/tables/web/visits";

#[test]
fn a_table_that_the_catalog_lost_is_not_made_again_and_its_files_stay() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    let location = site.catalog.state().locations.remove(&name_of("visits")).unwrap();
    assert!(refusal(&site).contains("is not in the catalog, and the sink has loaded into it"));
    expect_all_kept(&site);
    // Without the note, the files of the folder still tell.
    site.objects().remove(NOTE).unwrap();
    assert!(refusal(&site).contains("the folder web/visits of the warehouse has data files"));
    // A table with another name has the files.
    site.catalog.state().locations.insert(name_of("renamed"), location.clone());
    expect_all_kept(&site);
    site.catalog.state().locations = BTreeMap::from([(name_of("visits"), location)]);
    site.append(11, 20).unwrap();
}

#[test]
fn another_table_with_the_name_gets_no_rows_until_an_operator_agrees() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    // The catalog has a table that another program made in the same folder.
    let location = site.catalog.state().locations[&name_of("visits")].clone();
    let folder = site.folder.path().join("lake");
    let path = location.strip_prefix("file://").unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    json["table-uuid"] = "11111111-2222-4333-8444-555555555555".into();
    let replaced = folder.join("web/visits/metadata/other.metadata.json");
    std::fs::write(&replaced, json.to_string()).unwrap();
    site.catalog.state().locations.insert(name_of("visits"), format!("file://{}", replaced.display()));
    assert!(refusal(&site).contains("is another table (11111111-2222-4333-8444-555555555555)"));
    expect_all_kept(&site);
    site.objects().remove(NOTE).unwrap();
    site.append(11, 20).unwrap();
}

#[test]
fn a_sink_with_another_name_gets_no_table_of_the_first_sink() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    let columns = table_columns(&site.schema);
    let refusals = [
        site.tables_of("lake2").ensure("visits", &columns).unwrap_err().to_string(),
        site.tables_of("lake2").files("visits").unwrap_err().to_string(),
    ];
    for error in refusals {
        assert!(
            error.starts_with("table web.visits has rows of the sink \"lake\", and this sink is named"),
            "{error}"
        );
        assert!(error.contains("name the sink \"lake\" as before"), "{error}");
    }
    // Another machine with the same sink, and a sink that lost its notes, go on.
    std::fs::remove_dir_all(site.folder.path().join("lake/_tollgate/lake/tables")).unwrap();
    site.tables().ensure("visits", &columns).unwrap();
    site.append(11, 20).unwrap();
    assert_eq!(site.totals(), (2, "20".to_owned()));
}

#[test]
fn a_catalog_that_was_restored_to_an_older_state_gets_no_rows() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    let older = site.catalog.state().locations.clone();
    site.append(11, 20).unwrap();
    let newer = std::mem::replace(&mut site.catalog.state().locations, older);
    assert!(refusal(&site).contains("has 1 commits, and the sink has seen 2"));
    expect_all_kept(&site);
    // A loader that has asked for the columns before is stopped at its commit.
    site.catalog.state().locations = newer.clone();
    let mut tables = site.tables();
    let (load, plan, files) = site.file(&mut tables, 21, 30);
    site.catalog.state().locations.clear();
    assert!(tables.append(load, &plan, &files, &mut Done::default()).is_err());
    site.catalog.state().locations = newer;
    tables.append(load, &plan, &files, &mut Done::default()).unwrap();
}

#[test]
fn rows_never_get_into_a_column_that_was_made_again() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    let mut tables = site.tables();
    let (load, plan, files) = site.file(&mut tables, 11, 20);
    // Another engine drops the column `n`, and adds it again.
    let location = site.catalog.state().locations[&name_of("visits")].clone();
    let path = location.strip_prefix("file://").unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let fields = json["schemas"][0]["fields"].as_array_mut().unwrap();
    let field = fields.iter_mut().find(|field| field["name"] == "n").unwrap();
    field["id"] = 99.into();
    std::fs::write(path, json.to_string()).unwrap();
    let error = tables.append(load, &plan, &files, &mut Done::default()).unwrap_err().to_string();
    assert!(
        error.contains("had a column dropped, renamed or made again") && error.contains(&files[0].name),
        "{error}"
    );
    // The load that is written again is another file, so the old one has to be moved away.
    let mut tables = site.tables();
    std::fs::rename(
        site.folder.path().join("lake").join(&files[0].name),
        site.folder.path().join("old.parquet"),
    )
    .unwrap();
    let (load, plan, again) = site.file(&mut tables, 11, 20);
    assert_eq!(again[0].name, files[0].name);
    assert_ne!(again[0].digest, files[0].digest);
    let stamp = FolderPlace::new(site.folder.path().join("lake")).stamp(&again[0].name).unwrap().unwrap();
    assert_eq!(stamp.digest, again[0].digest);
    tables.append(load, &plan, &again, &mut Done::default()).unwrap();
}

#[test]
fn a_load_whose_columns_get_other_ids_before_its_end_is_written_again() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    let mut tables = site.tables();
    let first = tables.ensure("visits", &table_columns(&site.schema)).unwrap()["n"];
    // Another engine drops the column `n`. Then the load meets a schema with one more column.
    let location = site.catalog.state().locations[&name_of("visits")].clone();
    let path = location.strip_prefix("file://").unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    json["schemas"][0]["fields"].as_array_mut().unwrap().retain(|field| field["name"] != "n");
    std::fs::write(path, json.to_string()).unwrap();
    let column =
        |name: &str| Column { name: name.to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
    let wider = table_columns(&Schema::new("visits", vec![column("n"), column("m")]).unwrap());
    let error = tables.ensure("visits", &wider).unwrap_err();
    assert!(error.is_retriable(), "{error}");
    let error = tollgate_log::join_chain(&error);
    assert!(error.contains("web.visits") && error.contains("the sink writes the load again"), "{error}");
    // The next try has the ids of now.
    let ids = tables.ensure("visits", &wider).unwrap();
    assert_ne!(ids["n"], first);
    assert!(tables.load(&name_of("visits")).unwrap().unwrap().table.metadata.has_ids(&ids));
}

#[test]
fn a_loader_whose_clock_is_behind_keeps_all_snapshots() {
    let site = Site::new();
    for first in [1, 11, 21] {
        site.append(first, first + 9).unwrap();
    }
    let mut tables = site.tables_by("lake", || now_ms() - 2 * 24 * 60 * 60 * 1_000);
    let (load, plan, files) = site.file(&mut tables, 31, 40);
    tables.append(load, &plan, &files, &mut Done::default()).unwrap();
    let metadata = tables.load(&name_of("visits")).unwrap().unwrap().table.metadata;
    assert_eq!(metadata.snapshots().len(), 4);
    assert_eq!(metadata.snapshot().unwrap()["timestamp-ms"], now_ms());
}

#[test]
fn a_table_whose_files_must_stay_keeps_them() {
    let site = Site::new();
    site.append(1, 10).unwrap();
    site.objects().create("web/visits/data/old.parquet", b"").unwrap();
    let set = |value: &str| {
        let location = site.catalog.state().locations[&name_of("visits")].clone();
        let path = location.strip_prefix("file://").unwrap();
        let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        json["properties"]["gc.enabled"] = value.into();
        std::fs::write(path, json.to_string()).unwrap();
    };
    set("false");
    expect_all_kept(&site);
    set("true");
    assert_eq!(site.tables().sweep(Duration::ZERO, &mut Done::default()).unwrap().removed, 1);
}

#[test]
fn a_new_column_is_added_and_another_type_is_refused() {
    let mut site = Site::new();
    site.append(1, 10).unwrap();
    let column = |name: &str, kind| Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored };
    site.schema = Arc::new(Schema::new("visits", vec![column("m", ColumnType::Int)]).unwrap());
    site.append(11, 20).unwrap();
    assert_eq!(site.totals(), (2, "20".to_owned()));
    let schema = Schema::new("visits", vec![column("n", ColumnType::Text)]).unwrap();
    let error = site.tables().ensure("visits", &table_columns(&schema)).unwrap_err();
    assert_eq!(error.to_string(), "column \"n\" of table web.visits is long, the stream needs string");
    assert!(!error.is_retriable());
}

#[test]
fn a_name_in_another_case_is_the_same_column() {
    let mut site = Site::new();
    site.append(1, 10).unwrap();
    let column = |kind| Column { name: "N".to_owned(), kind, origin: ColumnOrigin::Stored };
    let first = site.tables().ensure("visits", &table_columns(&site.schema)).unwrap()["n"];
    site.schema = Arc::new(Schema::new("visits", vec![column(ColumnType::Int)]).unwrap());
    site.append(11, 20).unwrap();
    let ids = site.tables().ensure("visits", &table_columns(&site.schema)).unwrap();
    assert_eq!((ids["N"], site.totals()), (first, (2, "20".to_owned())));
    let schema = Schema::new("visits", vec![column(ColumnType::Text)]).unwrap();
    let error = site.tables().ensure("visits", &table_columns(&schema)).unwrap_err();
    assert_eq!(error.to_string(), "column \"N\" of table web.visits is long, the stream needs string");
}

#[test]
fn the_note_of_a_type_is_found_by_a_name_in_any_case() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(Box::new(FolderPlace::new(folder.path())), "lake");
    let noted = |note: &str, kind: &str| NotedType { note: note.to_owned(), kind: kind.to_owned() };
    assert_eq!(ledger.column_type("visits", "Name", "text").unwrap(), noted("name", "text"));
    for name in ["name", "NAME", "Name"] {
        assert_eq!(ledger.column_type("visits", name, "int").unwrap(), noted("name", "text"), "{name}");
    }
    assert_eq!(ledger.known_type("visits", "other").unwrap(), None);
    // An earlier version noted the name as it was.
    let folder = folder.path().join("_tollgate/lake/columns/visits");
    std::fs::write(folder.join("Old"), "int").unwrap();
    for name in ["old", "Old", "OLD"] {
        assert_eq!(ledger.column_type("visits", name, "text").unwrap(), noted("Old", "int"), "{name}");
    }
}

#[test]
fn positions_of_settled_logs_are_removed_and_their_loads_stay_in_the_table_once() {
    let site = Site::new();
    let mut tables = site.tables();
    let (mut done, mut loads) = (Done::default(), Vec::new());
    for number in 0..70_u8 {
        let log = LogId::from_bytes([number + 1; 16]);
        let (_, plan, files) = site.file(&mut tables, 100, 109);
        // The last logs are not settled.
        if number < 60 {
            done.logs.insert(log, 109);
        }
        let load = LoadName::Next { log, first: Sequence(100) };
        tables.append(load, &plan, &files, &mut done).unwrap();
        loads.push((load, plan, files));
    }
    let name = TableName { namespace: "web".to_owned(), table: "visits".to_owned() };
    let metadata = tables.load(&name).unwrap().unwrap().table.metadata;
    let positions = metadata.properties_below("tollgate.position.lake.");
    assert_eq!(positions.len(), 10, "{positions:?}");
    // A loader that slept since the first load finds it settled.
    let (load, plan, files) = &loads[0];
    done.loads.push(*load);
    tables.append(*load, plan, files, &mut done).unwrap();
    assert_eq!(site.totals().1, "700");
}

#[test]
fn properties_of_settled_fills_are_removed_and_a_late_retry_of_one_changes_nothing() {
    let site = Site::new();
    let mut tables = site.tables();
    let (mut done, mut loads) = (Done::default(), Vec::new());
    for number in 0..70_u64 {
        let (first, last) = (1 + number * 10, 5 + number * 10);
        let (_, plan, files) = site.file(&mut tables, first, last);
        let load = LoadName::Fill { log: site.log, first: Sequence(first), last: Sequence(last) };
        tables.append(load, &plan, &files, &mut done).unwrap();
        // The last fills are not settled.
        if number < 60 {
            done.loads.push(load);
        }
        loads.push((load, plan, files));
    }
    let name = TableName { namespace: "web".to_owned(), table: "visits".to_owned() };
    let metadata = tables.load(&name).unwrap().unwrap().table.metadata;
    assert_eq!(metadata.properties_below("tollgate.fill.lake.").len(), 10);
    for (load, plan, files) in &loads {
        tables.append(*load, plan, files, &mut done).unwrap();
    }
    assert_eq!(site.totals().1, "350");
}

#[test]
fn small_manifests_are_merged_and_each_file_keeps_its_number() {
    let site = Site::new();
    let name = TableName { namespace: "web".to_owned(), table: "visits".to_owned() };
    let mut counts = Vec::new();
    for number in 0..105 {
        site.append(1 + number * 10, 10 + number * 10).unwrap();
        let mut tables = site.tables();
        let metadata = tables.load(&name).unwrap().unwrap().table.metadata;
        counts.push(tables.manifests(&metadata).unwrap().len());
    }
    // The 101st append finds 100 manifests.
    assert_eq!((counts[99], counts[100], counts[104]), (100, 2, 6));
    assert_eq!(site.totals(), (105, "1050".to_owned()));
    let mut tables = site.tables();
    let metadata = tables.load(&name).unwrap().unwrap().table.metadata;
    let mut numbers = Vec::new();
    for manifest in tables.manifests(&metadata).unwrap() {
        for entry in read_file(&tables.needed_at(&manifest.address).unwrap()).unwrap() {
            let number = entry.field(3).int().unwrap_or_else(|| manifest.sequence());
            let is_existing = entry.field(0).int() == Some(0);
            assert_eq!(is_existing, number <= 100, "{entry:?}");
            assert_eq!(entry.field(4).int().unwrap_or(number), number);
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=105).collect::<Vec<_>>());
    // Of 106 metadata files, the last one names 50. All snapshots and their manifests stay.
    assert_eq!(tables.sweep(Duration::ZERO, &mut Done::default()).unwrap().removed, 106 - 51);
    assert_eq!(site.totals(), (105, "1050".to_owned()));
}

#[test]
fn a_stream_that_gets_a_key_needs_the_ids_of_its_columns_again() {
    let site = Site::new();
    let mut tables = site.tables();
    let mut writers = Writers::new(site.folder.path().join("parts"), 1 << 20).of_tables("web");
    assert!(!writers.has_ids(&site.schema));
    writers.set_ids("visits", tables.ensure("visits", &table_columns(&site.schema)).unwrap());
    assert!(writers.has_ids(&site.schema));
    let column = |name: &str, kind, origin| Column { name: name.to_owned(), kind, origin };
    let key = column("(key)", ColumnType::Bytes, ColumnOrigin::Key { window_ms: 1 });
    let keyed = Schema::new("visits", vec![column("n", ColumnType::Int, ColumnOrigin::Stored), key]).unwrap();
    assert!(!writers.has_ids(&keyed));
    writers.set_ids("visits", tables.ensure("visits", &table_columns(&keyed)).unwrap());
    assert!(writers.has_ids(&keyed) && writers.has_ids(&site.schema));
}
