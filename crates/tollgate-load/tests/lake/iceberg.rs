//! Tables of Iceberg: each record is in its table once, and other engines read it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};
use tollgate_load::{CatalogPlace, Loader, PostgresUrl, RestOptions, SinkOptions};
use tollgate_log::{ColumnType, DiskStorage, Schema, Value};

use crate::cluster::{Cluster, shared};
use crate::cut::Cut;
use crate::logs::{PATIENCE, column};
use crate::readers::{check_types, write_types};
use crate::site::Site;
use crate::tables;

/// A site with tables in a catalog of SQLite.
pub(crate) fn site() -> Site {
    let site = Site::new();
    let catalog = CatalogPlace::Sqlite(site.folder.path().join("catalog.sqlite"));
    Site { catalog: Some(catalog), ..site }
}

/// A site with tables in a catalog of PostgreSQL, and the address of its database for other programs.
fn site_in(cluster: &Cluster, port: u16) -> (Site, String) {
    let database = cluster.database();
    let url = |port| format!("postgres://tollgate@127.0.0.1:{port}/{database}");
    let catalog = PostgresUrl::parse(&url(port)).unwrap();
    let site = Site { catalog: Some(CatalogPlace::Postgres(Box::new(catalog))), ..Site::new() };
    (site, url(cluster.port))
}

/// Returns the address of the catalog of SQLite, as SQLAlchemy writes it.
pub(crate) fn address(site: &Site) -> String {
    format!("sqlite:///{}", site.folder.path().join("catalog.sqlite").display())
}

/// Checks that each engine has each of the visits once.
pub(crate) fn check_engines(site: &Site, rows: u64) {
    check_counts(&tables::read(&address(site), site, "visits"), rows);
}

fn check_counts(found: &Json, rows: u64) {
    assert_eq!(found["count"], json!([rows, rows]));
    assert_eq!(found["duckdb_count"], json!([rows.to_string(), rows.to_string()]));
    assert_eq!(found["summary"]["total-records"], json!(rows.to_string()));
}

#[test]
fn other_engines_count_each_record_of_a_table_once() {
    let site = site();
    let log = site.write(500);
    site.write(300);
    assert_eq!(site.load().rows, 800);
    let found = tables::read(&address(&site), &site, "visits");
    check_counts(&found, 800);
    assert_eq!(found["sum"], json!((0..500).sum::<i64>() + (0..300).sum::<i64>()));
    assert_eq!(found["tables"], json!(["web.tollgate_gaps", "web.tollgate_rejects", "web.visits"]));
    let files = site.files("visits");
    let bytes = files.iter().map(|file| fs::metadata(site.lake().join(file)).unwrap().len());
    assert_eq!((&found["files"], &found["file_rows"]), (&json!(files.len()), &json!(800)));
    assert_eq!(found["file_bytes"], json!(bytes.sum::<u64>()));
    // The filters of this scan match no file.
    assert_eq!((&found["planned_none"], &found["planned_days"]), (&json!(0), &json!(0)));
    assert_eq!(
        found["properties"][format!("tollgate.position.lake.{log}")].as_str().unwrap().split(':').next(),
        Some("500")
    );
    assert_eq!((site.load().rows, site.files("visits")), (0, files));
    site.check_counts(&[500, 300]);
    // A table without rows is read too.
    let found = tables::read(&address(&site), &site, "tollgate_rejects");
    assert_eq!((&found["count"], &found["duckdb_count"]), (&json!([0, 0]), &json!(["0", "0"])));
}

#[test]
fn other_engines_read_each_type_of_a_table_with_its_value() {
    let site = site();
    let count = write_types(&site);
    assert_eq!(site.load().rows, 2);
    let found = tables::read(&address(&site), &site, "all");
    check_types(&found["rows"], count);
    assert_eq!(
        found["types"],
        json!({
            "bool": "boolean", "int": "long", "float": "double", "text": "string", "bytes": "binary",
            "timestamp": "timestamptz", "json": "string", "uuid": "uuid", "inet": "string",
            "decimal": "string", "small": "decimal(12, 2)", "wide": "decimal(38, 4)", "date": "date",
            "time": "time", "ints": "list<long>", "texts": "list<string>", "_key": "binary", "_log": "uuid",
            "_seq": "long", "_time": "timestamptz",
        })
    );
    assert_eq!(found["duckdb_types"]["wide"], json!("DECIMAL(38,4)"));
    assert_eq!(found["duckdb_types"]["_log"], json!("UUID"));
    let bounds = &found["bounds"];
    for (column, value) in [
        ("bool", "True"),
        ("int", "-9223372036854775808"),
        ("float", "-0.5"),
        ("text", "ä\n\""),
        ("timestamp", "1700000000123456"),
        ("small", "-12.30"),
        ("wide", "12345678901234567890123.4567"),
        ("date", "20784"),
        ("time", "45296789000"),
    ] {
        assert_eq!(bounds[column], json!([value, value, 1]), "{column}");
    }
    // A long text has no upper bound. Lists have no bounds.
    assert_eq!(bounds["_seq"], json!(["1", "2", 0]));
    assert!(bounds["ints"].is_null(), "{bounds}");
}

#[test]
fn a_new_column_is_in_the_table_and_a_type_never_changes() {
    let site = site();
    site.write(20);
    site.load();
    site.write_with_more(ColumnType::Text, Value::Text("new"));
    assert_eq!(site.load().rows, 1);
    let found = tables::read(&address(&site), &site, "visits");
    check_counts(&found, 21);
    let more: Vec<_> =
        found["rows"].as_array().unwrap().iter().filter(|row| row[3] == json!("new")).collect();
    assert_eq!(more.len(), 1, "{}", found["rows"]);
    site.write_with_more(ColumnType::Int, Value::Int(1));
    let error = format!("{:?}", site.load_with(site.sink()).unwrap_err());
    assert!(error.contains("a column never changes its type"), "{error}");
    let statement = "ALTER TABLE web.visits RENAME COLUMN more TO more_old` in an engine, remove the file `";
    assert!(
        error.contains(statement) && error.contains("/_tollgate/lake/columns/visits/more`, and start"),
        "{error}"
    );
}

#[test]
fn a_name_in_another_case_is_the_column_of_the_table_or_is_refused() {
    let site = site();
    site.write_with("more", ColumnType::Text, Value::Text("old"));
    site.write_with("More", ColumnType::Text, Value::Text("new"));
    assert_eq!(site.load().rows, 2);
    let found = tables::read(&address(&site), &site, "visits");
    let names: Vec<_> = found["types"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["_log", "_seq", "_time", "more", "n"]);
    let rows = found["rows"].as_array().unwrap();
    let has = |text: &str| rows.iter().any(|row| row.as_array().unwrap().contains(&json!(text)));
    assert!(has("old") && has("new"), "{rows:?}");
    site.write_with("MORE", ColumnType::Int, Value::Int(1));
    let error = format!("{:?}", site.load_with(site.sink()).unwrap_err());
    assert!(error.contains("a column never changes its type"), "{error}");
    assert!(error.contains("/_tollgate/lake/columns/visits/more`"), "{error}");
}

#[test]
fn a_check_asks_the_catalog_and_changes_nothing() {
    let site = site();
    let sink = |kind| {
        let columns = vec![column("n", ColumnType::Int), column("more", kind)];
        let declared = [Schema::new("visits", columns).unwrap()].into_iter().collect();
        SinkOptions { declared, ..site.sink() }
    };
    // A catalog without a file has no tables.
    sink(ColumnType::Uuid).check().unwrap();
    assert!(!site.folder.path().join("catalog.sqlite").exists());
    site.write_with_more(ColumnType::Int, Value::Int(1));
    site.load();
    // An engine added the column, so the sink has no note of it.
    fs::remove_file(site.lake().join("_tollgate/lake/columns/visits/more")).unwrap();
    sink(ColumnType::Int).check().unwrap();
    let error = sink(ColumnType::Uuid).check().unwrap_err();
    assert!(error.is_of_configuration(), "{error}");
    let start = "column \"more\" of table \"web.visits\" is long, the stream has uuid: a column never";
    assert!(error.to_string().starts_with(start), "{error}");
    // A table of a sink with another name is found before its records are loaded again.
    let mut renamed = sink(ColumnType::Int);
    renamed.name = "lake2".to_owned();
    let error = format!("{:?}", renamed.check().unwrap_err());
    assert!(error.contains("has rows of the sink"), "{error}");
}

#[test]
fn a_catalog_that_does_not_answer_fails_a_check() {
    let address = "127.0.0.1:1";
    let postgres = PostgresUrl::parse(&format!("postgres://tollgate@{address}/none")).unwrap();
    let rest = RestOptions::new(&format!("http://{address}"));
    for catalog in [CatalogPlace::Postgres(Box::new(postgres)), CatalogPlace::Rest(Box::new(rest))] {
        let site = Site { catalog: Some(catalog.clone()), ..Site::new() };
        let error = site.sink().check().unwrap_err();
        assert!(!error.is_of_configuration(), "{catalog}: {error}");
    }
}

#[test]
fn a_catalog_of_postgresql_has_the_tables_too() {
    let (site, address) = site_in(shared(), shared().port);
    site.sink().check().unwrap();
    let database = address.rsplit('/').next().unwrap();
    let made = shared().sql(database, "SELECT to_regclass('iceberg_tables') IS NULL");
    assert_eq!(made.trim(), "t");
    site.write(400);
    assert_eq!(site.load().rows, 400);
    let address = address.replace("postgres://", "postgresql+psycopg2://");
    check_counts(&tables::read(&address, &site, "visits"), 400);
    site.check_all(400);
}

#[test]
fn a_catalog_whose_answers_are_lost_after_its_commits_has_each_load_once() {
    let cut = Cut::start(shared().port, 10);
    let (mut site, _) = site_in(shared(), cut.port);
    site.file_bytes = 1;
    site.write(1_500);
    site.load();
    assert!(cut.lost.load(Ordering::SeqCst) >= 5, "{} answers were lost", cut.lost.load(Ordering::SeqCst));
    site.check_all(1_500);
}

#[test]
fn loaders_that_race_commit_each_load_once() {
    let (mut site, _) = site_in(shared(), shared().port);
    site.file_bytes = 1;
    site.write(400);
    site.write(200);
    site.load_with_four();
    site.check_counts(&[400, 200]);
}

#[test]
fn servers_that_share_tables_keep_the_commits_of_each_other() {
    let (mut tables, _) = site_in(shared(), shared().port);
    tables.file_bytes = 1;
    let sites: Vec<_> = (0..4).map(|_| Site::new()).collect();
    for site in &sites {
        site.write(400);
    }
    let start =
        |site: &Site| Loader::start(site.options(tables.sink()), Arc::new(DiskStorage), None).unwrap();
    let loaders: Vec<_> = sites.iter().map(start).collect();
    std::thread::scope(|scope| {
        for loader in loaders {
            scope.spawn(|| loader.finish(PATIENCE).unwrap());
        }
    });
    let numbers = tables.numbers("visits");
    assert_eq!(numbers.len(), sites.len());
    for (log, found) in numbers {
        assert_eq!(found, (1..=400).collect::<Vec<_>>(), "log {log}");
    }
}
