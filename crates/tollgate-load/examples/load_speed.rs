//! Measures the rate of rows from a log into SQLite, and for comparison of a loop of inserts. The example
//! prints figures, and has no checks.
//!
//! `cargo run --release -p tollgate-load --example load_speed`

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;
use tollgate_load::{LoadOptions, Loader, SinkKind, SinkOptions};
use tollgate_log::{
    AppendError, Appender, Column, ColumnOrigin, ColumnType, DiskStorage, Level, Log, LogEvent, LogOptions,
    RowEncoder, Schema, SchemaId, Value, ValueError,
};

const ROWS: i64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = TempDir::new()?;
    write_log(&folder.path().join("log"))?;
    for round in 0..3 {
        let (loader, commits) = load(folder.path())?;
        let bare_one = bare_inserts(folder.path(), ROWS)?;
        let bare_chunks = bare_inserts(folder.path(), 20_000)?;
        println!(
            "round {round}: loader {loader:.0} rows/s in {commits} commits; bare inserts, one transaction \
             {bare_one:.0}, 20,000 rows each {bare_chunks:.0}"
        );
    }
    Ok(())
}

fn visits() -> Result<Schema, Box<dyn Error>> {
    let column = |name: &str, kind, origin| Column { name: name.to_owned(), kind, origin };
    let columns = vec![
        column("n", ColumnType::Int, ColumnOrigin::Stored),
        column("path", ColumnType::Text, ColumnOrigin::Stored),
        column("seq", ColumnType::Int, ColumnOrigin::Sequence),
    ];
    Ok(Schema::new("visits", columns)?)
}

fn path_of(n: i64) -> String {
    format!("/path/{n:06}")
}

fn write_log(dir: &Path) -> Result<(), Box<dyn Error>> {
    let failed = |event: &LogEvent| eprintln!("{event:?}");
    let (log, _) = Log::open(Arc::new(DiskStorage), LogOptions::new(dir), vec![visits()?], failed)?;
    let mut appender = log.appender(|| {});
    for n in 0..ROWS {
        append(&mut appender, n)?;
        if n % 64 == 0 {
            hand_over(&mut appender);
        }
    }
    hand_over(&mut appender);
    drop(appender);
    Ok(log.close()?)
}

/// Appends one row as soon as the queue has space.
fn append(appender: &mut Appender, n: i64) -> Result<(), Box<dyn Error>> {
    let path = path_of(n);
    let fill = |row: &mut RowEncoder<'_>| -> Result<(), ValueError> {
        row.push(Value::Int(n))?;
        row.push(Value::Text(&path))
    };
    loop {
        match appender.append(Level::Written, |transaction| transaction.row(SchemaId(0), fill)) {
            Ok((_, result)) => return Ok(result?),
            Err(AppendError::Busy { .. }) => hand_over(appender),
            Err(error) => return Err(error.into()),
        }
    }
}

fn hand_over(appender: &mut Appender) {
    while !appender.hand_over() {
        std::thread::yield_now();
    }
}

/// Loads the log into a new database. Returns the number of rows per second, and the number of commits.
fn load(folder: &Path) -> Result<(f64, u64), Box<dyn Error>> {
    let database = new_database(folder, "app.db");
    let sink = SinkOptions::new("main", SinkKind::Sqlite { path: database });
    let began = Instant::now();
    let loader = Loader::start(LoadOptions::new(folder.join("log"), sink), Arc::new(DiskStorage), None)?;
    let status = loader.finish(Duration::from_mins(10))?;
    Ok((status.rows as f64 / began.elapsed().as_secs_f64(), status.commits))
}

/// Inserts the same rows without a log. Returns the number of rows per second.
fn bare_inserts(folder: &Path, rows_each: i64) -> Result<f64, Box<dyn Error>> {
    let connection = Connection::open(new_database(folder, "bare.db"))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE visits (n INTEGER, path TEXT, seq INTEGER)",
    )?;
    let paths: Vec<_> = (0..ROWS).map(path_of).collect();
    let began = Instant::now();
    let mut statement = connection.prepare("INSERT INTO visits (n, path, seq) VALUES (?, ?, ?)")?;
    for (n, path) in (0..ROWS).zip(&paths) {
        if n % rows_each == 0 {
            connection.execute_batch("BEGIN")?;
        }
        statement.execute(rusqlite::params![n, path, n + 1])?;
        if (n + 1) % rows_each == 0 || n + 1 == ROWS {
            connection.execute_batch("COMMIT")?;
        }
    }
    Ok(ROWS as f64 / began.elapsed().as_secs_f64())
}

/// Returns the path of a database that does not exist.
fn new_database(folder: &Path, name: &str) -> PathBuf {
    for suffix in ["", "-wal", "-shm"] {
        // In the first round, there is no file to remove.
        let _ = std::fs::remove_file(folder.join(format!("{name}{suffix}")));
    }
    folder.join(name)
}
