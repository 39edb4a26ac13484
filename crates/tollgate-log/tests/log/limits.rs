//! Tests of the limits of a log: which appends it refuses, and when it closes a segment.

use std::time::Duration;

use tollgate_log::{
    AppendError, Level, Log, LogOptions, OpenError, RecordBody, SchemaId, SegmentState, Sequence, Storage,
    Value, read_footer,
};

use crate::sim::{Call, EIO, PATIENCE, Sim};
use crate::workload::{append, batches_in, dir, file_bytes, names_of, read, schema, segments_of};

/// Opens a log and ignores its events.
fn open(sim: &Sim, change: impl FnOnce(&mut LogOptions)) -> Log {
    let mut options = LogOptions::new(&dir());
    change(&mut options);
    Log::open(sim.storage(), options, vec![schema()], |_| {}).unwrap().0
}

#[test]
fn a_second_log_on_the_same_folder_is_refused_until_the_first_is_closed() {
    let sim = Sim::new();
    let first = open(&sim, |_| {});
    let second = Log::open(sim.storage(), LogOptions::new(&dir()), vec![schema()], |_| {});
    let error = second.err().unwrap();
    assert!(matches!(error, OpenError::Locked(_)), "{error:?}");
    assert_eq!(error.to_string(), "/data/log is locked: another server uses it, stop that server first");
    first.close().unwrap();
    open(&sim, |_| {}).close().unwrap();
}

#[test]
fn a_log_without_a_record_leaves_no_file() {
    let sim = Sim::new();
    open(&sim, |_| {}).close().unwrap();
    assert!(sim.files().is_empty());
}

#[test]
fn a_transaction_limit_that_no_batch_can_hold_is_refused() {
    let sim = Sim::new();
    let mut options = LogOptions::new(&dir());
    options.transaction_bytes_max = (8 << 20) + 1;
    let error = Log::open(sim.storage(), options, vec![schema()], |_| {}).err().unwrap();
    assert_eq!(error.to_string(), "transaction_bytes_max is 8388609, limit 8388608 bytes");
}

#[test]
fn a_transaction_that_is_too_large_leaves_no_trace() {
    let sim = Sim::new();
    let log = open(&sim, |options| options.transaction_bytes_max = 200);
    let mut appender = log.appender(|| {});
    append(&mut appender, Level::Received, 1..=2).unwrap();
    let error = append(&mut appender, Level::Synced, 3..=90).unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { limit: 200, .. }), "{error}");
    append(&mut appender, Level::Received, 3..=4).unwrap();
    assert!(appender.hand_over());
    drop(appender);
    let id = log.id();
    log.close().unwrap();
    assert_eq!(read(&sim, id).numbers, [1, 2, 3, 4]);
}

#[test]
fn a_log_that_is_behind_refuses_and_keeps_no_trace_of_what_it_refused() {
    let sim = Sim::new();
    let log = open(&sim, |options| options.queue_bytes_max = 500);
    let mut appender = log.appender(|| {});
    let mut taken = 0;
    let error = loop {
        match append(&mut appender, Level::Synced, taken + 1..=taken + 1) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AppendError::Busy { limit: 500, queued } if queued > 500), "{error}");
    assert!(appender.hand_over());
    let id = log.id();
    drop(appender);
    log.close().unwrap();
    assert_eq!(read(&sim, id).numbers, (1..=taken).collect::<Vec<_>>());
}

#[test]
fn a_transaction_of_no_record_has_no_ticket() {
    let sim = Sim::new();
    let log = open(&sim, |_| {});
    let mut appender = log.appender(|| {});
    let (appended, ()) = appender.append(Level::Synced, |_| {}).unwrap();
    assert_eq!((appended, appender.pending()), (None, 0));
    drop(appender);
    log.close().unwrap();
}

#[test]
fn a_row_that_does_not_fit_leaves_no_trace_and_a_reject_takes_its_place() {
    let sim = Sim::new();
    let log = open(&sim, |_| {});
    let mut appender = log.appender(|| {});
    let rejected = appender.append(Level::Synced, |transaction| {
        transaction.row(SchemaId(0), |row| row.push(Value::Bool(true))).unwrap_err();
        transaction.reject(SchemaId(0), "no number", b"raw");
    });
    rejected.unwrap();
    appender.hand_over();
    let id = log.id();
    drop(appender);
    log.close().unwrap();
    let mut cursor = tollgate_log::Cursor::new(sim.storage(), &dir(), id, None);
    let tollgate_log::CursorStep::Batch(batch) = cursor.step(None).unwrap() else { panic!("no batch") };
    let records: Vec<_> = batch.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 1);
    let RecordBody::Reject { reason, item } = records[0].body else { panic!("no reject") };
    assert_eq!((records[0].sequence, reason, item), (Sequence(1), "no number", b"raw".as_slice()));
}

#[test]
fn segments_roll_by_size_and_no_transaction_is_split() {
    let sim = Sim::new();
    let log = open(&sim, |options| options.segment_bytes_max = 600);
    let mut appender = log.appender(|| {});
    let mut transactions = Vec::new();
    let mut next = 1;
    for round in 0..40 {
        let last = next + round % 5;
        let appended = append(&mut appender, Level::Written, next..=last).unwrap();
        assert!(appender.hand_over());
        sim.wait_until("it is written", || appender.reached(appended, Level::Written).is_some());
        transactions.push((next, last));
        next = last + 1;
    }
    let id = log.id();
    drop(appender);
    log.close().unwrap();
    let segments = segments_of(&sim, id);
    assert!(segments.len() > 1 && segments.iter().all(|(name, _)| name.state == SegmentState::Sealed));
    let ends: Vec<_> =
        segments.iter().map(|(_, path)| read_footer(&sim, path).unwrap().unwrap().last.0).collect();
    for (first, last) in transactions {
        assert!(!ends.iter().any(|end| (first..last).contains(end)), "{first} to {last} is split: {ends:?}");
    }
    assert_eq!(read(&sim, id).numbers, (1..next).collect::<Vec<_>>());
}

#[test]
fn a_segment_rolls_by_age_though_nothing_more_comes() {
    let sim = Sim::new();
    let log = open(&sim, |options| options.segment_age_max = Duration::from_millis(1));
    let mut appender = log.appender(|| {});
    append(&mut appender, Level::Received, 1..=1).unwrap();
    assert!(appender.hand_over());
    sim.wait_until("the segment is sealed", || names_of(&sim, log.id()) == ["00000000000000000001.sealed"]);
    drop(appender);
    log.close().unwrap();
}

#[test]
fn a_batch_that_no_reply_waits_for_is_synced_when_it_is_old() {
    let sim = Sim::new();
    let log = open(&sim, |options| options.sync_age_max = Duration::from_millis(1));
    let mut appender = log.appender(|| {});
    append(&mut appender, Level::Received, 1..=3).unwrap();
    assert!(appender.hand_over());
    assert_eq!(log.follower().wait_beyond(Sequence(0), PATIENCE).synced, Sequence(3));
    drop(appender);
    log.close().unwrap();
}

#[test]
fn each_segment_shows_its_schemas_before_its_first_record() {
    let sim = Sim::new();
    let log = open(&sim, |options| options.segment_bytes_max = 1);
    let mut appender = log.appender(|| {});
    for n in 1..=4 {
        let appended = append(&mut appender, Level::Written, n..=n).unwrap();
        assert!(appender.hand_over());
        sim.wait_until("it is written", || appender.reached(appended, Level::Written).is_some());
    }
    let id = log.id();
    drop(appender);
    log.close().unwrap();
    let segments = segments_of(&sim, id);
    assert_eq!(segments.len(), 4);
    for (name, path) in segments {
        let bytes = file_bytes(&sim, &path);
        let kinds: Vec<_> = batches_in(&bytes).into_iter().map(|(at, _)| bytes[at + 56]).collect();
        assert_eq!(kinds, [2, 1], "{name}");
    }
}

#[test]
fn a_folder_that_cannot_be_synced_stops_the_start() {
    let sim = Sim::new();
    sim.fail(Call::SyncFolder, 0, EIO);
    let error = Log::open(sim.storage(), LogOptions::new(&dir()), vec![schema()], |_| {}).err().unwrap();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "cannot sync /");
    assert!(!sim.is_folder(&dir()));
}
