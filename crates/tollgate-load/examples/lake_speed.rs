//! Measures the rate of rows from a sealed log into Parquet files. The example prints figures, and has no
//! checks. `tools/lake_bench.py` compares them with pyarrow and DuckDB.
//!
//! `cargo run --release -p tollgate-load --features lake --example lake_speed FOLDER ROWS ROUNDS`

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_load::{LoadOptions, Loader, ParquetOptions, SinkKind, SinkOptions};
use tollgate_log::{
    AppendError, Appender, Column, ColumnOrigin, ColumnType, DiskStorage, Level, Log, LogEvent, LogOptions,
    RowEncoder, Schema, SchemaId, Value, ValueError,
};

/// Microseconds from 1970 to 2026-11-27.
const BEGIN_US: i64 = 1_795_737_600_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: lake_speed FOLDER ROWS ROUNDS")?);
    let rows: i64 = arguments.next().ok_or("ROWS is missing")?.parse()?;
    let rounds: u32 = arguments.next().ok_or("ROUNDS is missing")?.parse()?;
    let log = folder.join("log");
    if !log.exists() {
        write_log(&log, rows)?;
    }
    for _ in 0..rounds {
        let lake = folder.join("lake");
        // In the first round, there is nothing to remove.
        drop(fs::remove_dir_all(&lake));
        let (rate, commits) = load(&log, &lake)?;
        println!("{rate:.0} rows/s {commits} commits {} MiB", peak_mib()?);
    }
    Ok(())
}

fn events() -> Result<Schema, Box<dyn Error>> {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored };
    let columns = vec![
        column("n", ColumnType::Int),
        column("at", ColumnType::Timestamp),
        column("path", ColumnType::Text),
        column("agent", ColumnType::Text),
        column("took", ColumnType::Float),
        column("id", ColumnType::Uuid),
        column("body", ColumnType::Json),
    ];
    Ok(Schema::new("events", columns)?)
}

/// Returns a number that looks random (SplitMix64), so that columns do not compress to nothing.
fn mixed(n: i64) -> u64 {
    let mut mixed = n.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 31)
}

fn write_log(dir: &Path, rows: i64) -> Result<(), Box<dyn Error>> {
    let failed = |event: &LogEvent| eprintln!("{event:?}");
    let (log, _) = Log::open(Arc::new(DiskStorage), LogOptions::new(dir), vec![events()?], failed)?;
    let mut appender = log.appender(|| {});
    for n in 0..rows {
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
    let random = mixed(n);
    let path = format!("/shop/item/{}", random % 5_000);
    let agent = format!("Mozilla/5.0 (X11; Linux x86_64) Firefox/{}.0", 100 + random % 40);
    let body = format!("{{\"cart\":{},\"step\":\"{}\"}}", random % 100_000, random % 7);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&random.to_le_bytes());
    id[8..].copy_from_slice(&mixed(n + 1).to_le_bytes());
    let fill = |row: &mut RowEncoder<'_>| -> Result<(), ValueError> {
        row.push(Value::Int(n))?;
        row.push(Value::Timestamp(BEGIN_US + n * 113))?;
        row.push(Value::Text(&path))?;
        row.push(Value::Text(&agent))?;
        row.push(Value::Float((random % 100_000) as f64 / 1_000.0))?;
        row.push(Value::Uuid(id))?;
        row.push(Value::Json(&body))
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

/// Loads the log into a new lake. Returns the number of rows per second, and the number of commits.
fn load(log: &Path, lake: &Path) -> Result<(f64, u64), Box<dyn Error>> {
    let parquet = SinkKind::Parquet(Box::new(ParquetOptions::in_folder(lake)));
    let options = LoadOptions::new(log, SinkOptions::new("lake", parquet));
    let began = Instant::now();
    let loader = Loader::start(options, Arc::new(DiskStorage), None)?;
    let status = loader.finish(Duration::from_mins(30))?;
    Ok((status.rows as f64 / began.elapsed().as_secs_f64(), status.commits))
}

/// Returns the largest resident memory of this process so far.
fn peak_mib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? >> 10)
}
