//! Tests of repairs by an operator: filled gaps, skipped records, retried rejects.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_load::{ItemRow, Retried, skip};
use tollgate_log::{
    ArrayBuffer, ColumnType, DiskStorage, Level, OwnedArray, Schema, SchemaId, Sequence, Transaction, Value,
    segments,
};
use tollgate_value::{Date, Decimal, TimeOfDay};

use crate::cluster::shared;
use crate::site::{PATIENCE, Site, column, eventually, row, unread, visits};

const GAPS: &str =
    "SELECT coalesce(string_agg(first || '-' || last, ' ' ORDER BY first), '') FROM tollgate.gaps";

/// Writes a log, and moves its second segment away. Returns both paths of the segment, and its records.
fn with_a_lost_segment(site: &Site<'_>) -> (PathBuf, PathBuf, Range<u64>) {
    let log = site.write_visits(0..500);
    let names = segments(&DiskStorage, &site.dir(), log).unwrap();
    assert!(names.len() > 2, "{names:?}");
    let (place, away) = (names[1].1.clone(), site.file("away"));
    fs::rename(&place, &away).unwrap();
    (place, away, names[1].0.first.0..names[2].0.first.0)
}

#[test]
fn a_segment_that_comes_late_fills_its_gap() {
    let site = Site::new(shared());
    let (place, away, lost) = with_a_lost_segment(&site);
    assert_eq!(site.load().missing, lost.end - lost.start);
    assert_eq!(site.sql(GAPS), format!("{}-{}", lost.start, lost.end - 1));
    fs::rename(&away, &place).unwrap();
    assert_eq!(site.load().filled, lost.end - lost.start);
    assert_eq!(site.sql(GAPS), "");
    site.assert_visits(0..500);
    assert_eq!(site.audit()[0].loaded, 500);
    assert_eq!(site.load().filled, 0);
}

#[test]
fn two_loaders_that_find_the_segment_of_a_gap_fill_it_once() {
    let site = Site::new(shared());
    let (place, away, lost) = with_a_lost_segment(&site);
    site.load();
    fs::rename(&away, &place).unwrap();
    let filled = [site.start(), site.start()].map(|loader| loader.finish(PATIENCE).unwrap().filled);
    assert_eq!(filled.iter().sum::<u64>(), lost.end - lost.start);
    site.assert_visits(0..500);
    assert_eq!(site.audit()[0].loaded, 500);
}

#[test]
fn a_gap_that_fills_by_parts_shrinks_and_keeps_its_reason_and_age() {
    let site = Site::new(shared());
    let (place, away, lost) = with_a_lost_segment(&site);
    site.load();
    site.sql("UPDATE tollgate.gaps SET since = '2001-02-03 04:05:06.789012+00'");
    let kept = "SELECT DISTINCT reason, since AT TIME ZONE 'UTC' FROM tollgate.gaps";
    let before = site.sql(kept);
    // The records of a damaged batch stay a gap.
    let mut bytes = fs::read(&away).unwrap();
    let text = format!("/path/{:06}", lost.start + 1);
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    bytes[at] ^= 1;
    fs::write(&place, bytes).unwrap();
    let filled = site.load().filled;
    let left: u64 = site.sql("SELECT sum(last - first + 1) FROM tollgate.gaps").parse().unwrap();
    assert!(filled > 0 && left > 0);
    assert_eq!(filled + left, lost.end - lost.start);
    assert_eq!(site.sql(kept), before);
    assert_eq!(site.sql("SELECT count(*), count(DISTINCT n) FROM visits"), format!("{0}|{0}", 500 - left));
    assert_eq!(site.audit_of(&site.options)[0].missing, left);
}

#[test]
fn records_that_are_skipped_are_a_gap_that_stays_and_the_rest_is_loaded() {
    let site = Site::new(shared());
    let log = site.write_visits(0..100);
    skip(
        &(Arc::new(DiskStorage) as Arc<dyn tollgate_log::Storage>),
        &site.dir(),
        &site.options,
        log,
        (Sequence(1), Sequence(10)),
    )
    .unwrap();
    let status = site.load();
    assert_eq!((status.rows, status.filled), (90, 0));
    assert_eq!(site.sql(GAPS), "1-10");
    let row = &site.audit_of(&site.options)[0];
    assert_eq!((row.missing, row.given_up), (0, 10));
}

#[test]
fn a_gap_is_told_by_each_run_until_it_is_given_up() {
    let site = Site::new(shared());
    let (place, away, lost) = with_a_lost_segment(&site);
    let missing = lost.end - lost.start;
    assert_eq!(site.load().missing, missing);
    let status = site.load();
    assert_eq!((status.missing, status.in_gaps), (0, missing));
    let log = site.sql("SELECT log FROM tollgate.gaps").parse().unwrap();
    let storage = Arc::new(DiskStorage) as Arc<dyn tollgate_log::Storage>;
    let range = (Sequence(lost.start), Sequence(lost.end - 1));
    skip(&storage, &site.dir(), &site.options, log, range).unwrap();
    assert!(site.sql("SELECT reason FROM tollgate.gaps").starts_with("skipped by command: "));
    assert_eq!(site.load().in_gaps, 0);
    fs::rename(&away, &place).unwrap();
    assert_eq!(site.load().filled, missing);
    site.assert_visits(0..500);
}

#[test]
fn a_file_runs_after_a_gap_was_filled_too() {
    let mut site = Site::new(shared());
    let (place, away, lost) = with_a_lost_segment(&site);
    site.load();
    let file = site.file("after.sql");
    fs::write(&file, "CREATE TABLE seen AS SELECT current_setting('tollgate.first') || '-' || current_setting('tollgate.last')")
        .unwrap();
    site.options.after_load = Some(file);
    fs::rename(&away, &place).unwrap();
    site.load();
    assert_eq!(site.sql("SELECT * FROM seen"), format!("{}-{}", lost.start, lost.end - 1));
}

#[test]
fn rejects_that_fit_by_now_become_rows_and_the_others_keep_the_reason_of_today() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE visits (n bigint CHECK (n <> 1), path text)");
    site.write_visits(0..3);
    site.load();
    let count = || (site.audit()[0].loaded, site.audit()[0].rejected);
    assert_eq!(count(), (2, 1));
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 0, duplicates: 0, kept: 1 });
    site.sql(
        "ALTER TABLE visits DROP CONSTRAINT visits_n_check;
         INSERT INTO tollgate.rejects SELECT sink, log, 99, stream, 'old', '{\"n\":\"x\"}', '' FROM tollgate.rejects;
         INSERT INTO tollgate.rejects SELECT sink, log, 98, stream, 'old', '{\"m\":1}', '' FROM tollgate.rejects LIMIT 1;
         INSERT INTO tollgate.rejects SELECT sink, log, 97, stream, 'old', 'raw', '' FROM tollgate.rejects LIMIT 1",
    );
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 3 });
    site.assert_visits(0..3);
    let reasons = site.sql("SELECT reason FROM tollgate.rejects ORDER BY sequence");
    let expected = "record has unknown fields: \"m\"\ncolumn \"n\" takes int, found \"x\"";
    assert!(reasons.starts_with("item is not a JSON object") && reasons.ends_with(expected), "{reasons}");
    assert_eq!(count(), (3, 0));
}

#[test]
fn rejects_that_two_try_at_once_become_one_row_each() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE visits (n bigint CHECK (n < 0), path text)");
    site.write_visits(0..700);
    assert_eq!(site.load().rejects, 700);
    site.sql("ALTER TABLE visits DROP CONSTRAINT visits_n_check");
    let retried = std::thread::scope(|scope| {
        let retry = || site.options.retry_rejects(&unread).unwrap().loaded;
        let both = [scope.spawn(retry), scope.spawn(retry)];
        both.map(|one| one.join().unwrap())
    });
    assert_eq!(retried.iter().sum::<u64>(), 700);
    site.assert_visits(0..700);
    assert_eq!(site.audit()[0].loaded, 700);
}

#[test]
fn every_type_comes_back_from_a_reject_as_it_would_have_been_loaded() {
    let site = Site::new(shared());
    let columns = ColumnType::ALL.iter().map(|kind| column(&kind.name(), *kind)).collect();
    let everything = Schema::new("everything", columns).unwrap();
    let values = |kind: &ColumnType| match kind {
        ColumnType::Bool => Value::Bool(true),
        ColumnType::Int => Value::Int(i64::MAX),
        ColumnType::Float => Value::Float(f64::NEG_INFINITY),
        ColumnType::Text => Value::Text("ü\"\\"),
        ColumnType::Bytes => Value::Bytes(&[0, 255]),
        ColumnType::Timestamp => Value::Timestamp(1_700_000_000_123_456),
        ColumnType::Json => Value::Json("{\"a\": [1]}"),
        ColumnType::Uuid => Value::Uuid([7; 16]),
        ColumnType::Inet => Value::Inet("2001:db8::1".parse().unwrap()),
        ColumnType::Decimal(_) => Value::Decimal(Decimal::parse("-12345678901234567890.0100").unwrap()),
        ColumnType::Date => Value::Date(Date::FIRST),
        ColumnType::Time => Value::Time(TimeOfDay::LAST),
        ColumnType::Array(_) => Value::Null,
    };
    let list = |kind: &ColumnType| {
        let ColumnType::Array(element) = kind else { return None };
        let mut buffer = ArrayBuffer::new(*element);
        let value = values(&kind.scalar());
        [value, Value::Null, value].into_iter().for_each(|value| buffer.push(value).unwrap());
        Some(buffer.finish())
    };
    let lists: Vec<_> = ColumnType::ALL.iter().map(list).collect();
    let values: Vec<_> = ColumnType::ALL
        .iter()
        .zip(&lists)
        .map(|(kind, list)| list.as_ref().map_or_else(|| values(kind), OwnedArray::value))
        .collect();
    let write = || site.write(std::slice::from_ref(&everything), |appender| row(appender, &values));
    write();
    site.load();
    let loaded = site.sql("SELECT * FROM everything");
    site.sql("DELETE FROM everything; ALTER TABLE everything ADD CONSTRAINT never CHECK (\"int\" < 0)");
    write();
    assert_eq!(site.load().rejects, 1);
    site.sql("ALTER TABLE everything DROP CONSTRAINT never");
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 0 });
    assert_eq!(site.sql("SELECT * FROM everything"), loaded);
}

#[test]
fn a_role_with_the_grants_that_are_told_loads_fills_and_tries_again() {
    let mut site = Site::new(shared());
    let role = format!("small_{}", site.database);
    let (place, away, _) = with_a_lost_segment(&site);
    site.load();
    site.sql(&format!(
        "ALTER TABLE visits ADD CONSTRAINT small CHECK (n <> 501);
         CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA public, tollgate TO {role}; GRANT INSERT ON visits TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tollgate TO {role}"
    ));
    let url = site.cluster.url(&site.database).replace("user=tollgate", &format!("user={role}"));
    site.options = crate::site::sink_at(&url);
    fs::rename(&away, &place).unwrap();
    site.write_visits(500..520);
    assert_eq!(site.load().rejects, 1);
    site.sql("ALTER TABLE visits DROP CONSTRAINT small");
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 0 });
    site.assert_visits(0..520);
}

#[test]
fn an_item_that_ingest_refused_is_tried_as_the_streams_of_today_read_it() {
    let site = Site::new(shared());
    site.write(&[visits()], |appender| {
        for item in [&br#"{"n":1}"#[..], br#"{"n":2}"#, br#"{"n":3}"#] {
            let reject = |transaction: &mut Transaction<'_>| transaction.reject(SchemaId(0), "refused", item);
            appender.append(Level::Synced, reject).unwrap();
            eventually("the writer takes a batch", || appender.hand_over());
        }
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
    assert_eq!(site.options.retry_rejects(&read).unwrap(), told);
    assert_eq!(site.sql("SELECT n, path FROM visits"), "10|");
    assert_eq!(site.sql("SELECT reason FROM tollgate.rejects"), "still no row");
    assert_eq!((site.audit()[0].loaded, site.audit()[0].rejected, site.audit()[0].duplicates), (1, 1, 1));
}

#[test]
fn a_table_that_changed_keeps_its_rejects_and_those_of_others_are_tried() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE visits (n bigint CHECK (n > 9), path text); CREATE TABLE orders (n bigint CHECK (n > 9))");
    let orders = Schema::new("orders", vec![column("n", ColumnType::Int)]).unwrap();
    site.write(&[orders], |appender| row(appender, &[Value::Int(1)]));
    site.write_visits(1..2);
    assert_eq!(site.load().rejects, 2);
    site.sql(
        "ALTER TABLE orders DROP CONSTRAINT orders_n_check, ALTER n TYPE bytea USING NULL; ALTER TABLE visits DROP CONSTRAINT visits_n_check",
    );
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 1 });
    site.assert_visits(1..2);
}
