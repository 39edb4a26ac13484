//! Tests of logs that are damaged, lack segments, or differ from the log that was read before.

use tollgate_log::{Cursor, CursorStep, Position};

use super::*;
use crate::load::follow::is_log_of_position;

pub(super) fn flip_byte_of(path: &Path, needle: &str) -> bool {
    let mut bytes = std::fs::read(path).unwrap();
    let Some(at) = bytes.windows(needle.len()).position(|window| window == needle.as_bytes()) else {
        return false;
    };
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
    true
}

#[test]
fn damage_in_a_sealed_segment_is_a_gap_and_the_rest_is_loaded() {
    let site = Site::new();
    let log = site.write_visits(0..300);
    let paths = segments(&*site.storage, &site.dir(), log).unwrap();
    assert!(paths.len() > 2);
    assert!(paths.iter().any(|(_, path)| flip_byte_of(path, "/path/000123")));
    let status = site.load();
    let missing = status.missing;
    assert!(missing >= 1);
    assert_eq!(status.rows + missing, 300);
    assert!(!site.numbers().contains(&123));
    assert_eq!(site.ask::<i64>("SELECT sum(last - first + 1) FROM tollgate_gaps").cast_unsigned(), missing);
    assert!(site.ask::<String>("SELECT reason FROM tollgate_gaps").contains("checksum"));
    let rows = site.audit();
    let row = only_row(&rows);
    assert_eq!((row.ingested, row.loaded, row.missing), (300, status.rows, missing));
}

#[test]
fn a_damaged_end_of_a_live_log_is_told_and_is_a_gap_once_more_is_written() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 64 << 20);
    let mut appender = log.appender(|| {});
    for n in 0..5 {
        visit(&mut appender, n);
        eventually("it is synced", || log.follower().watermark().synced.0 > n.cast_unsigned());
    }
    let (_, path) = segments(&*site.storage, &site.dir(), log.id()).unwrap().remove(0);
    assert!(flip_byte_of(&path, "/path/000004"));
    let mut options = site.options();
    options.tuning.backoff_max = Duration::from_millis(50);
    let loader = Loader::start(options, site.storage.clone(), Some(log.follower())).unwrap();
    eventually("it is told", || loader.status().state == LoadState::Retrying);
    let error = loader.status().last_error.unwrap();
    assert!(error.contains("is damaged at byte") && error.contains("checksum"), "{error}");
    assert_eq!(site.numbers(), [0, 1, 2, 3]);
    visit(&mut appender, 5);
    eventually("all is loaded", || loader.status().state == LoadState::CaughtUp && loader.status().rows == 5);
    assert_eq!(loader.status().missing, 1);
    assert_eq!(site.numbers(), [0, 1, 2, 3, 5]);
    // Flips the byte back, because the sealer reads the segment back and would find the damage.
    assert!(flip_byte_of(&path, ".path/000004"));
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
}

#[test]
fn a_segment_that_is_gone_in_the_middle_is_missing_of_an_unknown_stream() {
    let site = Site::new();
    let log = site.write_visits(0..300);
    let paths = segments(&*site.storage, &site.dir(), log).unwrap();
    let lost = paths[2].0.first.0 - paths[1].0.first.0;
    std::fs::remove_file(&paths[1].1).unwrap();
    let status = site.load();
    assert_eq!((status.rows, status.missing), (300 - lost, lost));
    let rows = site.audit();
    let unknown = rows.iter().find(|row| row.stream == STREAM_UNKNOWN).unwrap();
    assert_eq!((unknown.ingested, unknown.missing), (lost, lost));
}

#[test]
fn a_log_that_a_crash_ended_behind_schemas_is_the_one_of_the_position_before_them() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 64 << 20);
    let mut appender = log.appender(|| {});
    for n in 0..2 {
        visit(&mut appender, n);
        eventually("it is synced", || log.follower().watermark().synced.0 > n.cast_unsigned());
        log.declare(vec![Schema::new("other", visits().columns().to_vec()).unwrap()]).unwrap();
    }
    let id = log.id();
    drop(appender);
    log.close().unwrap();
    let mut cursor = Cursor::new(site.storage.clone(), &site.dir(), id, None);
    let CursorStep::Batch(batch) = cursor.step(None).unwrap() else { panic!("a batch") };
    let position = batch.end();
    // The batches are: schemas, a record, schemas, a record. The test removes the last one.
    let (_, path) = segments(&*site.storage, &site.dir(), id).unwrap().remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let is_batch = |at: &usize| bytes[*at..].starts_with(&bytes[48..56]);
    let last = (128..bytes.len() - 64).step_by(8).filter(is_batch).nth(3).unwrap();
    bytes.truncate(last);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(path.with_extension("open"), bytes).unwrap();
    site.open_log(vec![visits()], 64 << 20).close().unwrap();
    let is_it = |position| is_log_of_position(&site.storage, &site.dir(), id, position).unwrap();
    assert!(is_it(position));
    assert!(!is_it(Position { chain: position.chain.map(|chain| chain ^ 1), ..position }));
}

#[test]
fn a_log_that_is_not_the_one_that_was_read_is_stopped_and_others_load() {
    let site = Site::new();
    let first = site.write_visits(0..10);
    site.load();
    site.connect().execute_batch("UPDATE tollgate_positions SET last = 4, chain = 12345").unwrap();
    site.write_visits(10..20);
    let status = site.load();
    assert_eq!(status.rows, 10);
    assert_eq!(status.stopped_logs.keys().collect::<Vec<_>>(), [&first]);
    assert!(status.stopped_logs[&first].contains("chain"), "{:?}", status.stopped_logs);
    assert_eq!(site.numbers(), (0..20).collect::<Vec<_>>());
}
