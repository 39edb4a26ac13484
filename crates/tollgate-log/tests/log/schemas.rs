//! Schemas that are declared while a log is written: what rows look like may change in the middle of a segment.

use std::sync::Arc;

use tollgate_log::{
    Column, ColumnOrigin, ColumnType, Cursor, CursorStep, Level, Log, LogId, LogOptions, Position,
    RecordBody, Schema, SchemaId, TooManySchemas, Transaction, Value,
};

use crate::sim::Sim;
use crate::workload::{
    Driver, Step, append, batches_in, dir, file_bytes, mend, schema, segment_path, segments_of,
};

/// The stream of the other tests with another column.
fn wider() -> Schema {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored };
    let columns = [("n", ColumnType::Int), ("path", ColumnType::Text), ("took", ColumnType::Float)];
    Schema::new("visits", columns.map(|(name, kind)| column(name, kind)).into()).unwrap()
}

fn open(sim: &Sim, segment_bytes_max: u64) -> Log {
    let options = LogOptions { segment_bytes_max, ..LogOptions::new(&dir()) };
    Log::open(sim.storage(), options, vec![schema()], |_| {}).unwrap().0
}

/// The numbers of the columns of each record, in order.
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
fn what_is_declared_in_the_middle_of_a_segment_is_in_it_before_its_first_use_and_in_all_behind() {
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
        let ticket = appender.append(Level::Synced, fill).unwrap().0.unwrap();
        assert!(appender.hand_over());
        sim.wait_until("it is written", || appender.reached(ticket, Level::Written).is_some());
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

/// A reader that begins in the last segment knows its schemas from that segment alone.
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

#[test]
fn more_schemas_than_there_are_numbers_are_refused_and_leave_those_that_are() {
    let sim = Sim::new();
    let log = open(&sim, 1 << 20);
    let other = |n: u32| {
        let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
        Schema::new(&format!("s{n}"), vec![column]).unwrap()
    };
    assert_eq!(log.declare((0..65_536).map(other).collect()), Err(TooManySchemas));
    assert_eq!(log.declare(vec![wider()]), Ok(vec![SchemaId(1)]));
    log.close().unwrap();
}

#[test]
fn a_run_that_dies_behind_a_declaration_is_mended_with_all_its_records() {
    let sim = Sim::new();
    let mut driver = Driver::with_runway(&sim, 700);
    driver.run(&[Step::Write(2), Step::Sync]).unwrap();
    driver.declare(vec![(SchemaId(1), Arc::new(wider()))]).unwrap();
    let law = driver.law.clone();
    drop(driver);
    for seed in 0..20 {
        let disk = sim.power_cut(seed);
        law.check(&disk, &mend(&disk), &format!("declared, seed {seed}"));
    }
}
