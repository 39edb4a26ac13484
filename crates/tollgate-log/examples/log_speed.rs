//! Measures the throughput of the log, and for comparison of a loop of large writes and fdatasync. Then
//! measures how long a start needs to recover a dead run of this size. The example prints figures, and has no
//! checks.
//!
//! `cargo run --release -p tollgate-log --example log_speed -- [FOLDER [GIBIBYTES]]`

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise, fdatasync};
use tollgate_log::{
    AppendedRecords, Appender, Column, ColumnOrigin, ColumnType, DiskStorage, Level, Log, LogEvent,
    LogOptions, Schema, SchemaId, SegmentDigestAlgorithm, Value, log_ids, recover,
};

const ROW_BYTES: usize = 64 << 10;
const ROWS_PER_BATCH: u64 = 16;
const BATCH_BYTES: u64 = ROW_BYTES as u64 * ROWS_PER_BATCH;
const SEGMENT_BYTES: u64 = 64 << 20;
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "target/log-speed".to_owned()));
    let gibibytes: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let bytes = 1 << 30;
    for round in 1..=ROUNDS {
        let plain = fresh(&folder).and_then(|()| plain_loop(&folder, bytes))?;
        let [none, sha256] = [SegmentDigestAlgorithm::None, SegmentDigestAlgorithm::Sha256].map(|digest| {
            fresh(&folder)?;
            let began = Instant::now();
            let log = write(&folder, bytes, SEGMENT_BYTES, digest)?;
            let synced = rate(bytes, began.elapsed());
            log.close()?;
            Ok::<_, Box<dyn Error>>((synced, rate(bytes, began.elapsed())))
        });
        let (none, sha256) = (none?, sha256?);
        println!("round {round}: write + fdatasync of 1 MiB {plain:.0} MiB/s");
        println!("  log, no digest: synced {:.0} MiB/s, sealed {:.0} MiB/s", none.0, none.1);
        println!("  log, sha256:    synced {:.0} MiB/s, sealed {:.0} MiB/s", sha256.0, sha256.1);
    }
    start_after_a_crash(&folder, gibibytes << 30, SEGMENT_BYTES, "in segments of 64 MiB, the last one open")?;
    start_after_a_crash(&folder, bytes, 2 * bytes, "in one open segment")?;
    Ok(fs::remove_dir_all(&folder)?)
}

fn fresh(folder: &Path) -> Result<(), Box<dyn Error>> {
    let _ = fs::remove_dir_all(folder);
    Ok(fs::create_dir_all(folder)?)
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / f64::from(1 << 20) / time.as_secs_f64()
}

fn plain_loop(folder: &Path, bytes: u64) -> Result<f64, Box<dyn Error>> {
    let mut file = File::create(folder.join("plain"))?;
    let block = vec![b'x'; BATCH_BYTES as usize];
    let began = Instant::now();
    for _ in 0..bytes / BATCH_BYTES {
        file.write_all(&block)?;
        fdatasync(&file)?;
    }
    Ok(rate(bytes, began.elapsed()))
}

/// Writes rows of 64 KiB and waits until all are synced.
fn write(
    folder: &Path,
    bytes: u64,
    segment_bytes: u64,
    digest: SegmentDigestAlgorithm,
) -> Result<Log, Box<dyn Error>> {
    let column = Column { name: "body".to_owned(), kind: ColumnType::Bytes, origin: ColumnOrigin::Stored };
    let options = LogOptions {
        digest,
        segment_bytes_max: segment_bytes,
        segment_age_max: Duration::from_hours(1),
        ..LogOptions::new(&folder.join("log"))
    };
    let tell = |event: &LogEvent| eprintln!("{event:?}");
    let (log, _) =
        Log::open(Arc::new(DiskStorage), options, vec![Schema::new("bodies", vec![column])?], tell)?;
    let mut appender = log.appender(|| {});
    let mut last = None;
    for _ in 0..bytes / BATCH_BYTES {
        last = append_batch(&mut appender)?;
        while !appender.hand_over() {
            std::thread::yield_now();
        }
    }
    while last.is_some_and(|appended| appender.reached(appended, Level::Synced).is_none()) {
        std::thread::yield_now();
    }
    Ok(log)
}

/// Appends one MiB as soon as the queue has space for it.
fn append_batch(appender: &mut Appender) -> Result<Option<AppendedRecords>, Box<dyn Error>> {
    let row = [b'x'; ROW_BYTES];
    let mut last = None;
    for _ in 0..ROWS_PER_BATCH {
        last = loop {
            let fill = |log: &mut tollgate_log::Transaction<'_>| {
                log.row(SchemaId(0), |columns| columns.push(Value::Bytes(&row)))
            };
            match appender.append(Level::Synced, fill) {
                Ok((appended, filled)) => break filled.map(|()| appended)?,
                Err(_) => std::thread::yield_now(),
            }
        };
    }
    Ok(last)
}

/// Copies the files of an open log, which are then as after a crash. Recovers the copy with an empty page
/// cache.
fn start_after_a_crash(
    folder: &Path,
    bytes: u64,
    segment_bytes: u64,
    what: &str,
) -> Result<(), Box<dyn Error>> {
    fresh(folder)?;
    let log = write(folder, bytes, segment_bytes, SegmentDigestAlgorithm::Sha256)?;
    let (from, to) = (folder.join("log"), folder.join("crashed"));
    let id = log_ids(&DiskStorage, &from)?[0];
    wait_for_seals(&from.join(id.to_string()))?;
    fs::create_dir_all(to.join(id.to_string()))?;
    for entry in fs::read_dir(from.join(id.to_string()))? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(id.to_string()).join(entry.file_name()))?;
    }
    log.close()?;
    let read = cold_read(&to.join(id.to_string()))?;
    let began = Instant::now();
    let report = recover(&(Arc::new(DiskStorage) as Arc<_>), &to, SegmentDigestAlgorithm::Sha256)?;
    let took = began.elapsed();
    println!(
        "start after a crash, {} GiB {what}: {:.2} s, {} segments sealed; reading the open one alone: {:.2} s",
        bytes >> 30,
        took.as_secs_f64(),
        report.logs.iter().map(|log| log.sealed).sum::<u64>(),
        read.as_secs_f64(),
    );
    Ok(())
}

/// Waits until the active segment is the only open one.
fn wait_for_seals(folder: &Path) -> Result<(), Box<dyn Error>> {
    loop {
        let mut open = 0;
        for entry in fs::read_dir(folder)? {
            open += usize::from(is_open(&entry?.path()));
        }
        if open <= 1 {
            return Ok(());
        }
        std::thread::yield_now();
    }
}

fn is_open(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "open")
}

/// Drops the page cache of all files. Returns how long a read of the open segment from the disk lasts.
fn cold_read(folder: &Path) -> Result<Duration, Box<dyn Error>> {
    let mut took = Duration::ZERO;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let mut file = File::open(&path)?;
        fdatasync(&file)?;
        fadvise(file.as_fd(), 0, None, Advice::DontNeed)?;
        if is_open(&path) {
            let began = Instant::now();
            let mut block = vec![0; BATCH_BYTES as usize];
            while file.read(&mut block)? > 0 {}
            took = began.elapsed();
            fadvise(file.as_fd(), 0, None, Advice::DontNeed)?;
        }
    }
    Ok(took)
}
