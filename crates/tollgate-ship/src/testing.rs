//! Functions that the tests of the shipper and of the fetcher share: real logs, and waits for a condition.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::{
    Column, ColumnOrigin, ColumnType, DiskStorage, Level, Log, LogEvent, LogId, LogOptions, Schema, SchemaId,
    Value,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Writes a log with `rows` rows, in several segments.
pub(crate) fn write_log(dir: &Path, node: &str, rows: i64) -> LogId {
    let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
    let schema = Schema::new("visits", vec![column]).unwrap();
    let options = LogOptions { segment_bytes_max: 1 << 10, node: node.to_owned(), ..LogOptions::new(dir) };
    let on_event = |event: &LogEvent| assert!(!matches!(event, LogEvent::Failed(_)), "{event:?}");
    let log = Log::open(Arc::new(DiskStorage), options, vec![schema], on_event).unwrap().0;
    let mut appender = log.appender(|| {});
    for n in 0..rows {
        let (appended, result) = appender
            .append(Level::Synced, |rows| rows.row(SchemaId(0), |row| row.push(Value::Int(n))))
            .unwrap();
        result.unwrap();
        eventually("the writer takes a batch", || appender.hand_over());
        let appended = appended.unwrap();
        eventually("it is written", || appender.reached(appended, Level::Written).is_some());
    }
    drop(appender);
    let id = log.id();
    log.close().unwrap();
    id
}

/// Returns the contents of the files with this extension in a folder, by the names without the extension.
pub(crate) fn files(folder: &Path, extension: &str) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let paths = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    paths
        .filter_map(|path| Some((path.file_stem()?.to_string_lossy().into_owned(), fs::read(&path).ok()?)))
        .collect()
}

/// Writes a shell script that can be run.
///
/// Another process writes it. A file that this process writes is open in each child that another test forks
/// meanwhile, and the system runs no program that is open for writing (ETXTBSY).
pub(crate) fn write_program(path: &Path, script: &str) {
    let text = path.with_extension("text");
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&text, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert!(std::process::Command::new("cp").arg("-p").args([&text, path]).status().unwrap().success());
}

pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
