//! Tests of repairs by an operator: filled gaps, skipped records, retried rejects.

use std::fs;

use tollgate_log::{OwnedArray, Sequence};
use tollgate_value::{Date, Decimal, TimeOfDay};

use super::damage::flip_byte_of;
use super::kills::load_with_slow_fills;
use super::*;
use crate::load::skip::SkipError;
use crate::sink::{ItemRow, Retried};

/// Writes a log, and moves its second segment away. Returns both paths of the segment, and its records.
fn with_a_lost_segment(site: &Site) -> (PathBuf, PathBuf, std::ops::Range<u64>) {
    let log = site.write_visits(0..500);
    let names = segments(&*site.storage, &site.dir(), log).unwrap();
    assert!(names.len() > 3);
    let (place, away) = (names[1].1.clone(), site.folder.path().join("away"));
    fs::rename(&place, &away).unwrap();
    (place, away, names[1].0.first.0..names[2].0.first.0)
}

fn gaps(site: &Site) -> Vec<String> {
    let connection = site.connect();
    let mut statement =
        connection.prepare("SELECT first || '-' || last FROM tollgate_gaps ORDER BY first").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_segment_that_comes_late_fills_its_gap() {
    let site = Site::new();
    let (place, away, lost) = with_a_lost_segment(&site);
    assert_eq!(site.load().missing, lost.end - lost.start);
    assert_eq!(gaps(&site), [format!("{}-{}", lost.start, lost.end - 1)]);
    fs::rename(&away, &place).unwrap();
    assert_eq!(site.load().filled, lost.end - lost.start);
    assert_eq!(gaps(&site), [""; 0]);
    assert_eq!(site.numbers(), (0..500).collect::<Vec<_>>());
    let rows = site.audit();
    assert_eq!((only_row(&rows).loaded, only_row(&rows).missing), (500, 0));
    assert_eq!(site.load().filled, 0);
}

#[test]
fn a_loader_that_runs_fills_a_gap_as_soon_as_its_segment_is_back() {
    let site = Site::new();
    let (place, away, _) = with_a_lost_segment(&site);
    let loader = site.start();
    eventually("the gap is noted", || loader.status().missing > 0);
    fs::rename(&away, &place).unwrap();
    eventually("the gap is filled", || loader.status().filled > 0);
    loader.finish(PATIENCE).unwrap();
    assert_eq!(site.numbers(), (0..500).collect::<Vec<_>>());
}

#[test]
fn a_segment_that_comes_back_damaged_fills_what_it_can_and_the_gap_shrinks() {
    let site = Site::new();
    let (place, away, lost) = with_a_lost_segment(&site);
    site.load();
    // The third record of the segment is damaged.
    let damaged = lost.start + 2;
    assert!(flip_byte_of(&away, &format!("/path/{:06}", damaged - 1)));
    fs::rename(&away, &place).unwrap();
    let status = site.load();
    let left: u64 = only_row(&site.audit()).missing;
    assert!(status.filled > 0 && left > 0, "{status:?}, {left} left");
    assert_eq!(status.filled + left, lost.end - lost.start);
    let numbers = site.numbers();
    assert_eq!(numbers.len() as u64, 500 - left);
    assert!(!numbers.contains(&(damaged.cast_signed() - 1)));
    let sum: i64 = site.ask("SELECT sum(last - first + 1) FROM tollgate_gaps");
    assert_eq!(sum.cast_unsigned(), left);
}

#[test]
fn a_gap_is_filled_in_smaller_parts_if_the_sink_is_too_slow_for_the_whole() {
    let site = Site::new();
    let path = "x".repeat(2_000);
    let log = site.write(vec![visits()], 256 << 10, |appender| {
        for n in 0..400 {
            let appended = row(appender, &[Value::Int(n), Value::Text(&path)]);
            eventually("it is written", || appender.reached(appended, Level::Written).is_some());
        }
    });
    let (_, place) = segments(&*site.storage, &site.dir(), log).unwrap().swap_remove(1);
    let away = site.folder.path().join("away");
    fs::rename(&place, &away).unwrap();
    let missing = site.load().missing;
    assert!(missing > 100, "{missing} missing");
    fs::rename(&away, &place).unwrap();
    let (status, too_slow) = load_with_slow_fills(&site, 100 << 10);
    // A fill of the whole segment fails, and one of the half of it. The fills of a quarter arrive.
    assert_eq!((status.filled, too_slow), (missing, 2));
    assert!(status.commits > 2, "{} commits", status.commits);
    assert_eq!(gaps(&site), [""; 0]);
    assert_eq!(site.numbers(), (0..400).collect::<Vec<_>>());
    assert_eq!((only_row(&site.audit()).loaded, only_row(&site.audit()).missing), (400, 0));
}

fn skip_of(site: &Site, log: LogId, first: u64, last: u64) -> Result<(), String> {
    let range = (Sequence(first), Sequence(last));
    skip(&site.storage, &site.dir(), &site.sink(), log, range).map_err(|error: SkipError| error.to_string())
}

#[test]
fn records_that_are_skipped_are_a_gap_that_stays_and_the_rest_is_loaded() {
    let site = Site::new();
    let log = site.write_visits(0..100);
    assert_eq!(skip_of(&site, log, 1, 10), Ok(()));
    let refused = format!("records 1-10 of log {log} cannot be skipped: the next record to load is 11");
    assert_eq!(skip_of(&site, log, 1, 10), Err(refused));
    let beyond = format!("record 101 of log {log} cannot be skipped: its sealed segments end at 100");
    assert_eq!(skip_of(&site, log, 11, 101), Err(beyond));
    let status = site.load();
    assert_eq!((status.rows, status.filled), (90, 0));
    assert_eq!(site.load().filled, 0);
    assert_eq!(gaps(&site), ["1-10"]);
    assert_eq!(site.ask::<String>("SELECT reason FROM tollgate_gaps"), "skipped by command while readable");
    let rows = site.audit();
    assert_eq!((only_row(&rows).given_up, only_row(&rows).missing), (10, 0));
}

#[test]
fn rejects_that_fit_by_now_become_rows_and_the_others_keep_the_reason_of_today() {
    let site = Site::new();
    site.write_visits(0..3);
    site.connect()
        .execute_batch("CREATE TABLE visits (n INTEGER CHECK (n <> 1), path TEXT, seq INTEGER UNIQUE)")
        .unwrap();
    site.load();
    let count = |rows: &[AuditRow]| (only_row(rows).loaded, only_row(rows).rejected);
    assert_eq!(count(&site.audit()), (2, 1));
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 0, duplicates: 0, kept: 1 });
    // The table is created again without the check, so that one reject now fits. The other reject never fits.
    site.connect()
        .execute_batch(
            "ALTER TABLE visits RENAME TO old; \
             CREATE TABLE visits (n INTEGER, path TEXT, seq INTEGER); \
             INSERT INTO visits SELECT * FROM old; DROP TABLE old; \
             INSERT INTO tollgate_rejects (sink, log, sequence, stream, reason, item, text, loaded_at) \
             SELECT sink, log, 99, stream, 'old', CAST('{\"n\":\"x\"}' AS BLOB), '', '' FROM tollgate_rejects;",
        )
        .unwrap();
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 1 });
    assert_eq!(site.numbers(), [0, 1, 2]);
    assert_eq!(site.ask::<String>("SELECT path FROM visits WHERE n = 1"), "/path/000001");
    let reason = "column \"n\" takes int, found \"x\"";
    assert_eq!(site.ask::<String>("SELECT reason FROM tollgate_rejects WHERE sequence = 99"), reason);
    assert_eq!(count(&site.audit()), (3, 0));
}

#[test]
fn every_type_comes_back_from_a_reject_as_it_would_have_been_loaded() {
    let site = Site::new();
    let scalars = [
        Value::Bool(true),
        Value::Int(i64::MAX),
        Value::Float(f64::NEG_INFINITY),
        Value::Text("ü\"\\"),
        Value::Bytes(&[0, 255]),
        Value::Timestamp(1_700_000_000_123_456),
        Value::Json("{\"a\":[1]}"),
        Value::Uuid([7; 16]),
        Value::Inet("2001:db8::1".parse().unwrap()),
        Value::Decimal(Decimal::parse("-12345678901234567890.0100").unwrap()),
        Value::Date(Date::FIRST),
        Value::Time(TimeOfDay::LAST),
    ];
    let list = |value: &Value<'_>| {
        let element = value.column_type()?.as_element()?;
        Some(super::values::array(element, &[*value, Value::Null, *value]))
    };
    let lists: Vec<_> = scalars.iter().filter_map(list).collect();
    let values: Vec<_> = scalars.into_iter().chain(lists.iter().map(OwnedArray::value)).collect();
    let columns = ColumnType::ALL.iter().map(|kind| column(&kind.name(), *kind)).collect();
    let everything = Schema::new("everything", columns).unwrap();
    let quoted = ColumnType::ALL.map(|kind| format!("quote(\"{}\")", kind.name())).join(" || ' ' || ");
    let shown = &format!("SELECT {quoted} FROM everything");
    site.write(vec![everything], 1 << 20, |appender| row(appender, &values));
    site.load();
    let expected: String = site.ask(shown);
    assert!(!expected.contains("NULL"), "{expected}");
    let refuse = "DELETE FROM everything; DELETE FROM tollgate_positions; \
                  CREATE TRIGGER refuse BEFORE INSERT ON everything BEGIN SELECT RAISE(ABORT, 'no'); END;";
    site.connect().execute_batch(refuse).unwrap();
    assert_eq!(site.load().rejects, 1);
    site.connect().execute_batch("DROP TRIGGER refuse").unwrap();
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 0 });
    assert_eq!(site.ask::<String>(shown), expected);
}

#[test]
fn json_of_a_refused_row_comes_back_as_it_was_written_however_deep() {
    let site = Site::new();
    site.connect()
        .execute_batch("CREATE TABLE docs (doc TEXT); CREATE INDEX by_a ON docs (json_extract(doc, '$.a'))")
        .unwrap();
    let deep = format!("{{\"b\": 9007199254740993.50, \"b\":{}{}}}", "[".repeat(3_000), "]".repeat(3_000));
    site.write(
        vec![Schema::new("docs", vec![column("doc", ColumnType::Json)]).unwrap()],
        1 << 20,
        |appender| {
            row(appender, &[Value::Json(&deep)]);
        },
    );
    assert_eq!(site.load().rejects, 1);
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 0, duplicates: 0, kept: 1 });
    site.connect().execute_batch("DROP INDEX by_a").unwrap();
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 0 });
    assert_eq!(site.ask::<String>("SELECT doc FROM docs"), deep);
    assert_eq!((only_row(&site.audit()).loaded, only_row(&site.audit()).rejected), (1, 0));
}

#[test]
fn a_gap_is_told_by_each_run_until_its_records_are_given_up_or_found() {
    let site = Site::new();
    let log = site.write_visits(0..100);
    let (_, path) = segments(&*site.storage, &site.dir(), log).unwrap().swap_remove(1);
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let missing = site.load().missing;
    assert!(missing > 0);
    for _ in 0..2 {
        let status = site.load();
        assert_eq!((status.missing, status.in_gaps), (0, missing));
    }
    let gap = |column: &str| site.ask::<i64>(&format!("SELECT {column} FROM tollgate_gaps")).cast_unsigned();
    let (first, last) = (gap("first"), gap("last"));
    let why = site.ask::<String>("SELECT reason FROM tollgate_gaps");
    let loader = site.start();
    eventually("it is told", || loader.status().in_gaps == missing);
    assert_eq!(skip_of(&site, log, first, last), Ok(()));
    eventually("a loader that runs tells it no more", || loader.status().in_gaps == 0);
    drop(loader);
    let reason = site.ask::<String>("SELECT reason FROM tollgate_gaps");
    assert_eq!(reason, format!("skipped by command: {why}"));
    assert_eq!(site.load().in_gaps, 0);
    let rows = site.audit();
    assert_eq!((only_row(&rows).given_up, only_row(&rows).missing), (missing, 0), "the account counts them");
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(site.load().filled, missing, "what turns up is loaded all the same");
    assert_eq!((only_row(&site.audit()).given_up, only_row(&site.audit()).missing), (0, 0));
}

#[test]
fn a_trigger_that_ends_the_transaction_of_a_retry_leaves_all_as_it_was() {
    let site = Site::new();
    site.write_visits(0..10);
    let refuse = "CREATE TABLE visits (n INTEGER, path TEXT, seq INTEGER UNIQUE); \
         CREATE TRIGGER refuses BEFORE INSERT ON visits BEGIN SELECT RAISE(ABORT, 'not yet'); END";
    site.connect().execute_batch(refuse).unwrap();
    site.load();
    let trigger = "DROP TRIGGER refuses; \
         CREATE TRIGGER ends AFTER INSERT ON visits WHEN new.n = 5 BEGIN SELECT RAISE(ROLLBACK, 'no'); END;";
    site.connect().execute_batch(trigger).unwrap();
    let error = site.sink().retry_rejects(&unread).unwrap_err();
    assert!(error.to_string().contains("use RAISE(ABORT)"), "{error}");
    let count = |rows: &[AuditRow]| (only_row(rows).loaded, only_row(rows).rejected);
    assert_eq!((site.numbers().len(), count(&site.audit())), (0, (0, 10)));
    site.connect().execute_batch("DROP TRIGGER ends").unwrap();
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 10, duplicates: 0, kept: 0 });
    assert_eq!((site.numbers(), count(&site.audit())), ((0..10).collect(), (10, 0)));
}

/// Appends an item that is refused at ingest.
fn refuse_item(appender: &mut Appender, id: SchemaId, item: &[u8]) {
    appender.append(Level::Synced, |transaction| transaction.reject(id, "refused", item)).unwrap();
    hand_over(appender);
}

#[test]
fn an_item_that_ingest_refused_is_tried_as_the_streams_of_today_read_it() {
    let site = Site::new();
    site.write(vec![visits()], 4 << 10, |appender| {
        refuse_item(appender, SchemaId(0), br#"{"n":1,"path":"of another field"}"#);
        refuse_item(appender, SchemaId(0), br#"{"n":2}"#);
        refuse_item(appender, SchemaId(0), br#"{"n":3}"#);
    });
    assert_eq!(site.load().rejects, 3);
    let read = |stream: &str, item: &[u8]| {
        assert_eq!(stream, "visits");
        let mut row = ItemRow::default();
        match item {
            br#"{"n":2}"# => return Err("still no row".to_owned()),
            br#"{"n":3}"# => row.push("n", &Value::Int(30)),
            _ => row.push("n", &Value::Int(10)),
        }
        row.set_key(b"one key", Duration::from_mins(1));
        Ok(row)
    };
    let told = Retried { loaded: 1, duplicates: 1, kept: 1 };
    assert_eq!(site.sink().retry_rejects(&read).unwrap(), told);
    assert_eq!(site.ask::<String>("SELECT group_concat(n || coalesce(path, '-')) FROM visits"), "10-");
    assert_eq!(site.ask::<String>("SELECT reason FROM tollgate_rejects"), "still no row");
    let rows = site.audit();
    assert_eq!((only_row(&rows).loaded, only_row(&rows).rejected, only_row(&rows).duplicates), (1, 1, 1));
}

#[test]
fn a_table_that_is_gone_keeps_its_rejects_and_those_of_others_are_tried() {
    let site = Site::new();
    let orders = Schema::new("orders", vec![column("n", ColumnType::Int)]).unwrap();
    let tables = "CREATE TABLE orders (n INTEGER CHECK (n > 9)); \
                  CREATE TABLE visits (n INTEGER CHECK (n > 9), path TEXT, seq INTEGER)";
    site.connect().execute_batch(tables).unwrap();
    site.write(vec![orders, visits()], 1 << 20, |appender| {
        for id in [SchemaId(0), SchemaId(1)] {
            let fill = |row: &mut tollgate_log::RowEncoder<'_>| {
                row.push(Value::Int(1))?;
                if id == SchemaId(1) { row.push(Value::Null) } else { Ok(()) }
            };
            appender.append(Level::Synced, |transaction| transaction.row(id, fill)).unwrap().1.unwrap();
            hand_over(appender);
        }
    });
    assert_eq!(site.load().rejects, 2);
    let change =
        "DROP TABLE orders; DROP TABLE visits; CREATE TABLE visits (n INTEGER, path TEXT, seq INTEGER)";
    site.connect().execute_batch(change).unwrap();
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 1 });
    assert_eq!(site.numbers(), [1]);
    let reason: String = site.ask("SELECT reason FROM tollgate_rejects WHERE stream = 'orders'");
    assert!(reason.contains("no such table: orders"), "{reason}");
}
