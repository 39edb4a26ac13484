//! The files of a lake: their names, their bytes, and their bounds.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::sync::Arc;
use std::time::Duration;

use tollgate_lake::parquet::file::metadata::RowGroupMetaData;
use tollgate_lake::parquet::file::reader::{FileReader, SerializedFileReader};
use tollgate_load::{Loader, Retried, SinkOptions, Taken};
use tollgate_log::{Column, ColumnOrigin, ColumnType, DiskStorage, Schema, SchemaId, Value};

use crate::logs::{PATIENCE, add, column, hand_over, unread, visits};
use crate::site::{Site, int, text};

#[test]
fn each_record_is_a_row_of_one_file_of_whole_segments() {
    let site = Site::new();
    let log = site.write(1_000);
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (1_000, 0));
    site.check_all(1_000);
    for row in site.rows("visits") {
        assert_eq!(int(&row, "n") + 1, int(&row, "_seq"));
        assert_eq!(text(&row, "path"), format!("/path/{:06}", int(&row, "n")));
    }
    // Each load ends with a segment. Its name has its first and last record, and loads leave no hole.
    let firsts: BTreeSet<u64> = site
        .segments(log)
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap())
        .collect();
    let files = site.files("visits");
    assert!(files.len() > 3, "{files:?}");
    let mut ranges: Vec<(u64, u64)> = files
        .iter()
        .map(|file| {
            let name = file.rsplit('/').next().unwrap().strip_suffix(".parquet").unwrap();
            let range = name.strip_prefix(&format!("{log}-")).unwrap().split_once('-').unwrap();
            (range.0.parse().unwrap(), range.1.parse().unwrap())
        })
        .collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert_eq!(pair[0].1 + 1, pair[1].0, "{ranges:?}");
    }
    assert!(ranges.iter().all(|(first, _)| firsts.contains(first)), "{ranges:?} {firsts:?}");
    assert!(files.iter().all(|file| file.starts_with("visits/day=20")), "{files:?}");
}

#[test]
fn the_same_log_gives_the_same_bytes() {
    let (one, other) = (Site::new(), Site::new());
    one.write(500);
    copy(&one.dir(), &other.dir());
    one.load();
    other.load();
    let files = one.files("visits");
    assert_eq!(files, other.files("visits"));
    for file in files {
        let bytes = |site: &Site| fs::read(site.lake().join(&file)).unwrap();
        assert!(bytes(&one) == bytes(&other), "{file}");
    }
}

#[test]
fn a_second_load_adds_nothing() {
    let site = Site::new();
    site.write(300);
    site.load();
    let files = site.files("visits");
    assert_eq!(site.load().rows, 0);
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried::default());
    assert_eq!(site.files("visits"), files);
    site.check_all(300);
}

#[test]
fn a_log_that_is_written_is_loaded_up_to_its_last_sealed_segment() {
    let site = Site::new();
    let log = site.open_log(&[visits()]);
    let mut appender = log.appender(|| {});
    for n in 0..200 {
        add(&mut appender, SchemaId(0), &[Value::Int(n), Value::Text("/a/long/path/that/fills/segments")]);
        hand_over(&mut appender);
    }
    let follower = log.add_sink();
    let mut options = site.sink();
    if let tollgate_load::SinkKind::Parquet(parquet) = &mut options.kind {
        parquet.file_age = Duration::from_millis(1);
    }
    let loader = Loader::start(site.options(options), Arc::new(DiskStorage), Some(follower)).unwrap();
    let waited = std::time::Instant::now();
    while site.numbers("visits").values().map(Vec::len).sum::<usize>() < 100 {
        assert!(waited.elapsed() < PATIENCE, "{:?}", loader.status());
        std::thread::yield_now();
    }
    drop(loader);
    drop(appender);
    log.close().unwrap();
    site.load();
    site.check_all(200);
}

#[test]
fn segments_wait_for_more_of_them_until_they_are_old_or_large() {
    let site = Site { file_bytes: 1 << 30, ..Site::new() };
    site.write(300);
    let loader = Loader::start(site.options(site.sink()), Arc::new(DiskStorage), None).unwrap();
    let waited = std::time::Instant::now();
    while loader.status().caught_up < 3 {
        assert!(waited.elapsed() < PATIENCE, "{:?}", loader.status());
        std::thread::yield_now();
    }
    assert_eq!(site.files("visits"), [""; 0]);
    // The end of the loader ends the wait too.
    assert_eq!(loader.finish(PATIENCE).unwrap().rows, 300);
    assert_eq!(site.files("visits").len(), 1);
    site.check_all(300);
}

#[test]
fn memory_bounds_the_row_groups_whatever_the_number_of_streams() {
    let site = Site { file_bytes: 1 << 30, row_group_bytes: 4 << 10, ..Site::new() };
    let streams = 40;
    let schema = |number: u16| {
        let columns = vec![column("n", ColumnType::Int), column("path", ColumnType::Text)];
        Schema::new(&format!("stream_{number}"), columns).unwrap()
    };
    let log = site.open_log(&(0..streams).map(schema).collect::<Vec<_>>());
    let mut appender = log.appender(|| {});
    for n in 0..2_000_i64 {
        let schema = SchemaId(u16::try_from(n % i64::from(streams)).unwrap());
        add(&mut appender, schema, &[Value::Int(n), Value::Text("0123456789012345678901234567890123456789")]);
        hand_over(&mut appender);
    }
    drop(appender);
    log.close().unwrap();
    assert_eq!(site.load().rows, 2_000);
    let (mut rows, mut groups) = (0, 0);
    for number in 0..streams {
        for file in site.files(&format!("stream_{number}")) {
            let file = SerializedFileReader::new(File::open(site.lake().join(file)).unwrap()).unwrap();
            rows += file.metadata().file_metadata().num_rows();
            groups += file.num_row_groups();
            let largest = file.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).max().unwrap();
            assert!(largest <= 40, "{largest} rows in a row group");
        }
    }
    assert_eq!(rows, 2_000);
    assert!(groups > usize::from(streams) + 20, "{groups}");
}

#[test]
fn a_stream_with_other_columns_later_has_a_second_file() {
    let site = Site { file_bytes: 1 << 30, ..Site::new() };
    let log = site.open_log(&[visits()]);
    let mut appender = log.appender(|| {});
    add(&mut appender, SchemaId(0), &[Value::Int(1), Value::Text("a")]);
    hand_over(&mut appender);
    let mut columns = visits().columns().to_vec();
    columns.push(column("more", ColumnType::Float));
    let wide = Schema::new("visits", columns).unwrap();
    let ids = log.declare(vec![wide]).unwrap();
    add(&mut appender, ids[0], &[Value::Int(2), Value::Text("b"), Value::Float(0.5)]);
    hand_over(&mut appender);
    drop(appender);
    log.close().unwrap();
    assert_eq!(site.load().rows, 2);
    let files = site.files("visits");
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.iter().any(|file| file.ends_with("-2.2.parquet")), "{files:?}");
    site.check_all(2);
}

#[test]
fn a_column_never_changes_its_type() {
    let site = Site::new();
    site.write(3);
    site.load();
    let columns = vec![column("n", ColumnType::Text), column("path", ColumnType::Text)];
    let log = site.open_log(&[Schema::new("visits", columns).unwrap()]);
    let mut appender = log.appender(|| {});
    add(&mut appender, SchemaId(0), &[Value::Text("1"), Value::Text("a")]);
    hand_over(&mut appender);
    drop(appender);
    log.close().unwrap();
    let error = site.load_with(site.sink()).unwrap_err().to_string();
    assert!(error.contains("column \"n\" of table \"visits\" is int, the stream has text"), "{error}");
    assert_eq!(site.rows("visits").len(), 3);
}

#[test]
fn a_column_with_a_name_of_the_files_is_refused() {
    let site = Site::new();
    for name in ["_log", "_SEQ", "_key", "day"] {
        let schema = Schema::new("s", vec![column(name, ColumnType::Int)]).unwrap();
        let sink = SinkOptions { declared: [schema].into_iter().collect(), ..site.sink() };
        let error = sink.check().unwrap_err().to_string();
        assert!(error.contains(&format!("column {name:?} of table \"s\"")), "{error}");
    }
}

#[test]
fn only_the_streams_of_the_sink_become_files() {
    let site = Site::new();
    let other = Schema::new("other", vec![column("n", ColumnType::Int)]).unwrap();
    let log = site.open_log(&[visits(), other]);
    let mut appender = log.appender(|| {});
    for n in 0..50 {
        add(&mut appender, SchemaId(0), &[Value::Int(n), Value::Text("a")]);
        add(&mut appender, SchemaId(1), &[Value::Int(n)]);
        hand_over(&mut appender);
    }
    drop(appender);
    log.close().unwrap();
    let sink = SinkOptions { taken: Taken::Only(["visits".to_owned()].into()), ..site.sink() };
    assert_eq!(site.load_with(sink).unwrap().rows, 50);
    assert_eq!((site.rows("visits").len(), site.files("other").len()), (50, 0));
}

#[test]
fn the_key_of_a_row_is_a_column_and_retries_stay() {
    let site = Site::new();
    let key = Column {
        name: "(key)".to_owned(),
        kind: ColumnType::Bytes,
        origin: ColumnOrigin::Key { window_ms: 1_000 },
    };
    let schema = Schema::new("visits", vec![column("n", ColumnType::Int), key]).unwrap();
    let log = site.open_log(&[schema]);
    let mut appender = log.appender(|| {});
    for (n, key) in [(1, "a"), (2, "a"), (3, "b")] {
        add(&mut appender, SchemaId(0), &[Value::Int(n), Value::Bytes(key.as_bytes())]);
    }
    hand_over(&mut appender);
    drop(appender);
    log.close().unwrap();
    let status = site.load();
    assert_eq!((status.rows, status.duplicates), (3, 0));
    let keys: Vec<_> =
        site.rows("visits").iter().map(|row| format!("{}", crate::site::field(row, "_key"))).collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[1], keys[2]);
}

pub(crate) fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.path().is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
