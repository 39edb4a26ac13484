//! Sinks of Parquet and of Iceberg in a server, in `tollgate load`, and behind a store: the account is exact,
//! and status and metrics have the files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::load_from::Fleet;
use crate::program::{App, eventually, printed};
use crate::sinks::{STREAMS, record};

const LAKE: &str = "[sink.lake]\nparquet = \"lake\"\nfile_age = \"0ms\"\n";
const TABLES: &str = "[sink.lake]\niceberg = { catalog = \"catalog.sqlite\", warehouse = \"lake\" }\n\
                      file_age = \"0ms\"\n";

/// Returns the paths of all files below a folder that end in this text, sorted.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false if path.to_str().unwrap().ends_with(end) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// Returns the number of rows of a stream in the last commit of each log.
fn committed(app: &App, stream: &str) -> u64 {
    let mut rows = 0;
    for log in fs::read_dir(app.path().join("lake/_tollgate/lake/log")).into_iter().flatten() {
        let commits = files(&log.unwrap().path(), ".commit");
        let Some(last) = commits.last() else { continue };
        let commit: serde_json::Value = serde_json::from_slice(&fs::read(last).unwrap()).unwrap();
        rows += commit["counts"][stream]["loaded"].as_u64().unwrap_or_default();
    }
    rows
}

#[test]
fn a_server_writes_files_and_status_metrics_and_audit_agree() {
    write_in_server(LAKE);
}

#[test]
fn a_server_writes_tables_and_status_metrics_and_audit_agree() {
    let app = write_in_server(TABLES);
    let lake = app.path().join("lake/tollgate");
    assert!(!files(&lake.join("a/data"), ".parquet").is_empty());
    assert!(!files(&lake.join("b/metadata"), ".metadata.json").is_empty());
}

fn write_in_server(sink: &str) -> App {
    let app = App::new(&format!("{STREAMS}{sink}"), &[]);
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..3_000);
    record(&mut client, "/b", 0..500);
    eventually("the sealed segments are files", || (committed(&app, "a") > 1_000).then_some(()));
    let status = app.succeed(&["status"]);
    assert!(status.contains("sink lake made ") && status.contains(" files of "), "{status}");
    let audit = app.run(&["audit"]);
    assert!(audit.status.success(), "{}", printed(&audit));
    assert!(server.stop().0.success());
    // The end of the server seals the last segment.
    let load = app.run(&["load", "--once"]);
    assert!(load.status.success(), "{}", printed(&load));
    assert_eq!((committed(&app, "a"), committed(&app, "b")), (3_000, 500));
    let audit = app.succeed(&["audit"]);
    assert!(audit.contains("exact: "), "{audit}");
    assert!(!files(&app.path().join("lake"), ".parquet").is_empty());
    assert!(files(&app.path().join("lake"), ".part").is_empty());
    let sql = app.run(&["sql", "SELECT 1"]);
    assert!(printed(&sql).contains("sink lake has Parquet files, which have no SQL"), "{}", printed(&sql));
    app
}

#[test]
fn segments_of_a_store_become_files_of_the_database_machine() {
    load_from_store(LAKE);
    load_from_store(TABLES);
}

fn load_from_store(sink: &str) {
    let fleet = Fleet::of(2);
    fleet.run(0, 0..1_000);
    fleet.run(1, 0..2_000);
    let loader = App::new(sink, &[]);
    for _ in 0..2 {
        let output = loader.run(&["load", "--once", "--from", fleet.store()]);
        assert!(output.status.success(), "{}", printed(&output));
        assert_eq!(committed(&loader, "a"), 3_000);
    }
    let audit = loader.run(&["audit", "--store", fleet.store()]);
    assert!(audit.status.success(), "{}", printed(&audit));
}

#[test]
fn load_once_does_not_wait_for_more_segments() {
    let sink = LAKE.replace("0ms", "1h");
    load_from_store(&sink);
    let app = App::new(&format!("{STREAMS}{sink}[load]\nin_server = false\n"), &[]);
    let server = app.start();
    record(&mut server.connect(), "/a", 0..10);
    // The end of the server seals the segment.
    assert!(server.stop().0.success());
    assert_eq!(committed(&app, "a"), 0);
    let load = app.run(&["load", "--once"]);
    assert!(load.status.success(), "{}", printed(&load));
    assert_eq!(committed(&app, "a"), 10);
}

#[test]
fn loaders_of_a_pool_that_run_at_once_write_each_record_once() {
    load_in_pool(LAKE);
    load_in_pool(TABLES);
}

fn load_in_pool(sink: &str) {
    let fleet = Fleet::of(3);
    for machine in 0..3 {
        fleet.run(machine, 0..1_000);
    }
    let loaders = [App::new(sink, &[]), App::new(sink, &[])];
    // Both machines have the same lake and the same catalog.
    let shared = |text: &str, name: &str| {
        let path = loaders[0].path().join(name).display().to_string();
        text.replace(&format!("{name:?}"), &format!("{path:?}"))
    };
    loaders[1].configure(&shared(&shared(sink, "lake"), "catalog.sqlite"));
    std::thread::scope(|scope| {
        for loader in &loaders {
            scope.spawn(|| {
                let output = loader.run(&["load", "--once", "--from", fleet.store()]);
                assert!(output.status.success(), "{}", printed(&output));
            });
        }
    });
    assert_eq!(committed(&loaders[0], "a"), 3_000);
    let audit = loaders[1].run(&["audit", "--store", fleet.store()]);
    assert!(audit.status.success(), "{}", printed(&audit));
}

#[test]
fn a_reload_moves_no_parquet_sink_and_changes_its_age() {
    let app = App::new(&format!("{STREAMS}{}", LAKE.replace("0ms", "1h")), &[]);
    let server = app.start();
    record(&mut server.connect(), "/a", 0..3_000);
    eventually("segments are sealed", || (app.segments().len() > 2).then_some(()));
    app.configure(&format!("{STREAMS}{}", LAKE.replace("\"lake\"", "\"other\"")));
    let reload = app.run(&["reload"]);
    assert!(printed(&reload).contains("another place of files"), "{}", printed(&reload));
    assert_eq!(committed(&app, "a"), 0);
    app.configure(&format!("{STREAMS}{LAKE}"));
    app.succeed(&["reload"]);
    eventually("the age counts at once", || (committed(&app, "a") > 1_000).then_some(()));
    assert!(server.stop().0.success());
}
