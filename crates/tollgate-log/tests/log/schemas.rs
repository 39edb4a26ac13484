//! Tests of schemas that are declared while a log is written. The columns of a stream may change in the
//! middle of a segment.

use std::sync::Arc;

use tollgate_log::{
    Column, ColumnOrigin, ColumnType, Cursor, CursorStep, Level, Log, LogId, LogOptions, Position,
    RecordBody, Schema, SchemaId, TooManySchemas, Transaction, Value, scan_segment,
};

use crate::sim::Sim;
use crate::workload::{
    Driver, Step, append, batches_in, dir, file_bytes, mend, read, schema, segment_path, segments_of,
};

/// Makes the schema that the other tests use, with one more column.
fn wider() -> Schema {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored };
    let columns = [("n", ColumnType::Int), ("path", ColumnType::Text), ("took", ColumnType::Float)];
    Schema::new("visits", columns.map(|(name, kind)| column(name, kind)).into()).unwrap()
}

fn open(sim: &Sim, segment_bytes_max: u64) -> Log {
    let options = LogOptions { segment_bytes_max, ..LogOptions::new(&dir()) };
    Log::open(sim.storage(), options, vec![schema()], |_| {}).unwrap().0
}

/// Returns the count of columns of each record, in order.
fn widths(sim: &Sim, log: LogId) -> Vec<usize> {
    let mut cursor = Cursor::new(sim.storage(), &dir(), log, None);
    let mut widths = Vec::new();
    while let CursorStep::Batch(batch) = cursor.step(None).unwrap() {
        for record in batch.records() {
            let RecordBody::Row(values) = record.unwrap().body else { panic!("a row") };
            widths.push(values.len());
        }
    }
    widths
}

fn kinds(bytes: &[u8]) -> Vec<u8> {
    batches_in(bytes).into_iter().map(|(at, _)| bytes[at + 56]).collect()
}

#[test]
fn a_schema_declared_within_a_segment_is_in_it_before_its_use_and_in_all_behind() {
    let sim = Sim::new();
    let log = open(&sim, 4096);
    let mut appender = log.appender(|| {});
    append(&mut appender, Level::Synced, 1..=1).unwrap();
    assert!(appender.hand_over());
    let wide = log.declare(vec![wider()]).unwrap()[0];
    assert_eq!(wide, SchemaId(1));
    for n in 2..=60 {
        let fill = |transaction: &mut Transaction<'_>| {
            let values = [Value::Int(n), Value::Text("of a longer path than before"), Value::Float(0.5)];
            transaction.row(wide, |row| values.into_iter().try_for_each(|value| row.push(value))).unwrap();
        };
        let appended = appender.append(Level::Synced, fill).unwrap().0.unwrap();
        assert!(appender.hand_over());
        sim.wait_until("it is written", || appender.reached(appended, Level::Written).is_some());
    }
    let id = log.id();
    drop(appender);
    log.close().unwrap();
    assert_eq!(widths(&sim, id), [vec![2], vec![3; 59]].concat());
    let segments = segments_of(&sim, id);
    assert!(segments.len() > 1);
    assert_eq!(kinds(&file_bytes(&sim, &segments[0].1))[..4], [2, 1, 2, 1]);
    assert_eq!(kinds(&file_bytes(&sim, &segments[1].1))[..2], [2, 1]);
    assert_eq!(widths_of_last(&sim, id), 3);
}

/// Returns the count of columns that a reader of only the last segment finds.
fn widths_of_last(sim: &Sim, log: LogId) -> usize {
    let first = segments_of(sim, log).last().unwrap().0.first;
    let position = Position { last: first.before(), chain: None };
    let mut cursor = Cursor::new(sim.storage(), &dir(), log, Some(position));
    let CursorStep::Batch(batch) = cursor.step(None).unwrap() else { panic!("a batch") };
    let record = batch.records().next().unwrap().unwrap();
    let RecordBody::Row(values) = record.body else { panic!("a row") };
    values.len()
}

#[test]
fn a_schema_that_the_log_has_keeps_its_number_and_is_not_written_again() {
    let sim = Sim::new();
    let log = open(&sim, 1 << 20);
    let mut appender = log.appender(|| {});
    append(&mut appender, Level::Synced, 1..=1).unwrap();
    assert!(appender.hand_over());
    assert_eq!(
        log.declare(vec![wider(), schema(), wider()]),
        Ok(vec![SchemaId(1), SchemaId(0), SchemaId(1)])
    );
    assert_eq!(log.declare(vec![schema()]), Ok(vec![SchemaId(0)]));
    append(&mut appender, Level::Synced, 2..=2).unwrap();
    assert!(appender.hand_over());
    let id = log.id();
    drop(appender);
    log.close().unwrap();
    assert_eq!(kinds(&file_bytes(&sim, &segment_path(&sim, id, 0))), [2, 1, 2, 1]);
}

/// Makes schemas with more than 16 MiB together, the limit of a batch.
fn many_wide_ones() -> Vec<Schema> {
    let column = |n| Column { name: format!("{n:060}"), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
    let columns: Vec<_> = (0..1_000).map(column).collect();
    (0..270).map(|n| Schema::new(&format!("s{n}"), columns.clone()).unwrap()).collect()
}

#[test]
fn schemas_larger_than_a_batch_are_in_several_batches_and_read_in_every_segment() {
    let sim = Sim::new();
    let log = open(&sim, 4096);
    let mut appender = log.appender(|| {});
    append(&mut appender, Level::Synced, 1..=1).unwrap();
    assert!(appender.hand_over());
    let last = *log.declare(many_wide_ones()).unwrap().last().unwrap();
    for _ in 0..3 {
        let fill = |transaction: &mut Transaction<'_>| {
            transaction.row(last, |row| row.push(Value::Int(1))).unwrap();
        };
        let appended = appender.append(Level::Synced, fill).unwrap().0.unwrap();
        assert!(appender.hand_over());
        sim.wait_until("it is synced", || appender.reached(appended, Level::Synced).is_some());
    }
    let id = log.id();
    drop(appender);
    log.close().unwrap();
    assert_eq!(widths(&sim, id), [2, 1000, 1000, 1000]);
    let segments = segments_of(&sim, id);
    assert_eq!(segments.len(), 3);
    for (_, path) in &segments {
        assert_eq!(scan_segment(&sim, path).unwrap().failure, None, "{path:?}");
    }
    // A segment with damaged schemas gets them from its neighbour.
    let at = batches_in(&file_bytes(&sim, &segments[1].1)).iter().rev().nth(1).unwrap().0;
    sim.edit(&segments[1].1, |bytes| bytes[at + 70] ^= 1);
    assert_eq!(widths(&sim, id), [2, 1000, 1000, 1000]);
}

#[test]
fn more_schemas_than_there_are_numbers_are_refused_and_leave_those_that_are() {
    let sim = Sim::new();
    let log = open(&sim, 1 << 20);
    let other = |n: u32| {
        let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
        Schema::new(&format!("s{n}"), vec![column]).unwrap()
    };
    // One schema is declared from the beginning.
    assert_eq!(log.declare((0..4_096).map(other).collect()), Err(TooManySchemas));
    assert_eq!(log.declare(vec![wider()]), Ok(vec![SchemaId(1)]));
    assert!(log.declare((0..4_094).map(other).collect()).is_ok());
    assert_eq!(log.declare(vec![other(4_094)]), Err(TooManySchemas));
    log.close().unwrap();
}

#[test]
fn a_schema_behind_the_last_record_of_a_segment_keeps_no_reader_from_the_next() {
    let sim = Sim::new();
    let mut driver = Driver::new(&sim);
    driver.run(&[Step::Write(2), Step::Sync]).unwrap();
    driver.declare(vec![(SchemaId(1), Arc::new(wider()))]);
    driver.run(&[Step::Close, Step::Seal, Step::Write(1), Step::Sync, Step::Close, Step::Seal]).unwrap();
    let log = driver.law.log;
    let found = read(&sim, log);
    assert_eq!((found.numbers, found.gaps), (vec![1, 2, 3, 4, 5], vec![]));
    let segments = segments_of(&sim, log);
    assert_eq!(kinds(&file_bytes(&sim, &segments[0].1)), [2, 1, 1]);
    assert_eq!(kinds(&file_bytes(&sim, &segments[1].1)), [2, 1, 1]);
}

#[test]
fn a_run_that_dies_behind_a_declaration_is_mended_with_all_its_records() {
    let sim = Sim::new();
    let mut driver = Driver::with_runway(&sim, 700);
    driver.run(&[Step::Write(2), Step::Sync]).unwrap();
    driver.declare(vec![(SchemaId(1), Arc::new(wider()))]);
    driver.run(&[Step::Write(1)]).unwrap();
    let law = driver.law.clone();
    drop(driver);
    for seed in 0..20 {
        let disk = sim.power_cut(seed);
        law.check(&disk, &mend(&disk), &format!("declared, seed {seed}"));
    }
}
