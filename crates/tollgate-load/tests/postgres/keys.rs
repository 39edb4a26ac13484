//! Tests of keys: of several records with one key, exactly one becomes a row, whatever fails in between.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_load::{LoadFrom, LoadStatus, Retried, SinkKind, SinkOptions};
use tollgate_log::{
    Appender, Column, ColumnOrigin, ColumnType, Level, LogId, RowEncoder, Schema, SchemaId, Transaction,
    Value,
};

use crate::cluster::shared;
use crate::site::{PATIENCE, Site, column, eventually, unread};

const WINDOW_MS: u64 = 24 * 60 * 60 * 1000;

fn orders() -> Schema {
    let origin = ColumnOrigin::Key { window_ms: WINDOW_MS };
    let key = Column { name: "(key)".to_owned(), kind: ColumnType::Bytes, origin };
    // The key is in the middle, to test that its place among the columns does not matter.
    Schema::new("orders", vec![column("n", ColumnType::Int), key, column("item", ColumnType::Text)]).unwrap()
}

/// A record: its number, and its key.
type Order = (i64, Option<u8>);

impl Site<'_> {
    /// Writes a log of orders with one batch for each group.
    fn write_orders(&self, groups: &[&[Order]]) -> LogId {
        self.write(&[orders()], |appender| groups.iter().for_each(|group| append(appender, group)))
    }

    fn loaded_orders(&self) -> String {
        self.sql("SELECT coalesce(string_agg(n::text, ' ' ORDER BY n), '') FROM orders")
    }

    /// Returns the counts of loaded rows, rejects and duplicates. Checks that nothing is pending.
    fn counted(&self) -> (u64, u64, u64) {
        let rows = self.audit();
        assert!(rows.iter().all(|row| row.pending == 0), "{rows:?}");
        rows.iter()
            .fold((0, 0, 0), |sum, row| (sum.0 + row.loaded, sum.1 + row.rejected, sum.2 + row.duplicates))
    }
}

fn append(appender: &mut Appender, group: &[Order]) {
    let fill = |transaction: &mut Transaction<'_>| {
        for (n, key) in group {
            let bytes = key.map(|key| [key; 32]);
            let key = bytes.as_ref().map_or(Value::Null, |bytes| Value::Bytes(bytes));
            let values = [Value::Int(*n), key, Value::Text("item")];
            let row = |row: &mut RowEncoder<'_>| values.iter().try_for_each(|value| row.push(*value));
            transaction.row(SchemaId(0), row).unwrap();
        }
    };
    appender.append(Level::Synced, fill).unwrap();
    eventually("the writer takes a batch", || appender.hand_over());
}

#[test]
fn a_second_record_of_a_key_is_a_duplicate_in_one_batch_and_across_batches_and_logs() {
    let site = Site::new(shared());
    site.write_orders(&[&[(1, Some(1)), (2, Some(1)), (3, Some(2))], &[(4, Some(2)), (5, Some(3))]]);
    let status = site.load();
    assert_eq!((status.rows, status.rejects, status.duplicates), (3, 0, 2));
    site.write_orders(&[&[(6, Some(1)), (7, None), (8, None), (9, Some(4))]]);
    site.load();
    assert_eq!(site.loaded_orders(), "1 3 5 7 8 9");
    assert_eq!(site.counted(), (6, 0, 3));
    assert_eq!(site.sql("SELECT DISTINCT item FROM orders"), "item");
    assert_eq!(site.sql("SELECT count(*), sum(sequence) FROM tollgate.keys"), "4|13");
}

#[test]
fn a_row_that_the_database_refused_holds_no_key() {
    let site = Site::new(shared());
    site.write_orders(&[&[(1, Some(9))]]);
    site.load();
    site.sql("CREATE UNIQUE INDEX one_of_each ON orders (n)");
    site.write_orders(&[&[(1, Some(1)), (2, Some(1)), (3, Some(1))]]);
    site.load();
    assert_eq!(site.loaded_orders(), "1 2");
    assert_eq!(site.counted(), (2, 1, 1));
    assert_eq!(site.sql("SELECT text FROM tollgate.rejects"), r#"{"item":"item","n":1}"#);
}

#[test]
fn a_reject_that_is_tried_again_asks_for_its_key() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE orders (n bigint CONSTRAINT not_one CHECK (n <> 1), item text)");
    site.write_orders(&[&[(1, Some(1)), (1, Some(2)), (8, Some(8)), (1, Some(2)), (1, None)]]);
    // The client sends a corrected order with the key of the first rejected one.
    site.write_orders(&[&[(2, Some(1))]]);
    site.load();
    assert_eq!(site.counted(), (2, 4, 0));
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 0, duplicates: 1, kept: 3 });
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.keys"), "2");
    site.sql("ALTER TABLE orders DROP CONSTRAINT not_one");
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 2, duplicates: 1, kept: 0 });
    // Later records with the key of a retried reject are duplicates.
    site.write_orders(&[&[(3, Some(2))]]);
    site.load();
    assert_eq!(site.loaded_orders(), "1 1 2 8");
    assert_eq!(site.counted(), (4, 0, 3));
}

#[test]
fn a_row_that_waits_for_its_parent_keeps_its_key_and_one_without_gives_it_back() {
    let site = Site::new(shared());
    // The parent of each order is the next number, but multiples of ten have none.
    site.sql(
        "CREATE TABLE orders (n bigint PRIMARY KEY, item text, parent bigint REFERENCES orders
         GENERATED ALWAYS AS (CASE WHEN n % 10 = 0 THEN NULL ELSE n + 1 END) STORED)",
    );
    site.write_orders(&[
        &[(8, Some(1)), (25, Some(2)), (9, Some(3)), (30, Some(2))],
        &[(10, Some(4)), (40, Some(1))],
    ]);
    site.load();
    assert_eq!(site.loaded_orders(), "8 9 10 30");
    assert_eq!(site.counted(), (4, 1, 1));
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.keys"), "4");
}

#[test]
fn a_row_that_no_column_takes_keeps_its_key_as_a_reject() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE orders (n integer, item text)");
    site.write_orders(&[&[(i64::MAX, Some(1))]]);
    site.load();
    let kept = "SELECT length(key), key_window_ms FROM tollgate.rejects";
    assert_eq!(site.sql(kept), format!("32|{WINDOW_MS}"));
}

#[test]
fn a_database_whose_rejects_have_no_keys_yet_gains_them() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE orders (n bigint CONSTRAINT not_one CHECK (n <> 1), item text)");
    site.write_orders(&[&[(9, Some(9))]]);
    site.load();
    site.sql(
        "ALTER TABLE tollgate.rejects DROP COLUMN key, DROP COLUMN key_window_ms, DROP COLUMN refused_by",
    );
    site.write_orders(&[&[(1, Some(1)), (2, Some(1))]]);
    site.load();
    site.sql("ALTER TABLE orders DROP CONSTRAINT not_one");
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 0, duplicates: 1, kept: 0 });
    assert_eq!(site.loaded_orders(), "2 9");
}

#[test]
fn a_key_whose_rows_are_all_refused_is_free_for_another_log() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE orders (n bigint CHECK (n > 3), item text)");
    site.write_orders(&[&[(1, Some(1)), (2, Some(1)), (3, Some(1))]]);
    site.load();
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.keys"), "0");
    site.write_orders(&[&[(4, Some(1))]]);
    site.load();
    assert_eq!(site.counted(), (1, 3, 0));
    assert_eq!(site.loaded_orders(), "4");
}

#[test]
fn a_log_whose_position_was_taken_back_is_loaded_again_in_full() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE orders (n bigint CHECK (n <> 1), item text)");
    site.write_orders(&[&[(1, Some(1)), (2, Some(1)), (3, Some(1)), (4, Some(2))]]);
    site.load();
    assert_eq!(site.loaded_orders(), "2 4");
    let back = "DELETE FROM tollgate.positions; DELETE FROM tollgate.counts; DELETE FROM tollgate.rejects; \
                DELETE FROM orders";
    // The second order holds the key. So the first order is the duplicate, although it would fit now.
    site.sql(&format!("{back}; ALTER TABLE orders DROP CONSTRAINT orders_n_check"));
    site.load();
    assert_eq!(site.loaded_orders(), "2 4");
    assert_eq!(site.counted(), (2, 0, 2));
}

#[test]
fn a_key_is_loaded_again_when_its_window_is_over_and_then_it_is_deleted_too() {
    let site = Site::new(shared());
    site.write_orders(&[&[(1, Some(1)), (2, Some(2))]]);
    site.load();
    let run_on = |ms: u64| site.sql(&format!("UPDATE tollgate.ticks SET ms = ms + {ms}"));
    run_on(WINDOW_MS - 3_600_000);
    site.write_orders(&[&[(3, Some(1))]]);
    site.load();
    assert_eq!(site.loaded_orders(), "1 2");
    run_on(3_600_000);
    site.write_orders(&[&[(4, Some(1))]]);
    site.load();
    assert_eq!(site.loaded_orders(), "1 2 4");
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.keys"), "1");
    assert_eq!(site.counted(), (3, 0, 1));
}

#[test]
fn a_load_deletes_a_bounded_number_of_old_keys() {
    let site = Site::new(shared());
    site.write_orders(&[&[(1, Some(1))]]);
    site.load();
    site.sql(
        "INSERT INTO tollgate.keys SELECT 'main', 'orders', n::text::bytea, gen_random_uuid(), n, 0 \
         FROM generate_series(1, 3000) AS n",
    );
    site.write_orders(&[&[(2, Some(2))]]);
    site.load();
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.keys WHERE expires = 0"), "1998");
}

#[test]
fn a_key_is_loaded_by_one_of_two_loaders_and_counted_by_the_other() {
    let cluster = shared();
    let (site, mut other) = (Site::new(cluster), Site::new(cluster));
    other.options = site.options.clone();
    let keys: Vec<u8> = (0..200).collect();
    let a: Vec<Order> = keys.iter().map(|key| (i64::from(*key), Some(*key))).collect();
    // The other log has the keys in reverse order. Without a fixed order of claims, the two loaders would
    // wait for each other.
    let b: Vec<Order> = keys.iter().rev().map(|key| (1000 + i64::from(*key), Some(*key))).collect();
    site.write_orders(&a.chunks(7).collect::<Vec<_>>());
    other.write_orders(&b.chunks(7).collect::<Vec<_>>());
    let start = |site: &Site<'_>| {
        let mut options = site.load_options();
        options.tuning.backoff_min = Duration::from_millis(1);
        options.tuning.chunk_rows_max = 10;
        site.start_with(options)
    };
    let statuses = [start(&site), start(&other)].map(|loader| loader.finish(PATIENCE).unwrap());
    let sum = |of: fn(&LoadStatus) -> u64| statuses.iter().map(of).sum::<u64>();
    assert_eq!((sum(|status| status.rows), sum(|status| status.duplicates)), (200, 200));
    assert_eq!(site.sql("SELECT count(DISTINCT n % 1000) FROM orders"), "200");
}

#[test]
fn sinks_of_one_database_have_keys_of_their_own() {
    let site = Site::new(shared());
    site.write_orders(&[&[(1, Some(1))]]);
    site.load();
    let mut copy = SinkOptions { name: "copy".to_owned(), from: LoadFrom::Now, ..site.options.clone() };
    let SinkKind::Postgres(options) = &mut copy.kind else { unreachable!() };
    options.table_schema = "copy".to_owned();
    site.sql("CREATE SCHEMA copy");
    assert_eq!(site.load_into(&copy).rows, 0);
    // The first record becomes a row in only one of the two sinks.
    site.write_orders(&[&[(2, Some(1)), (3, Some(1))]]);
    assert_eq!(site.load().duplicates, 2);
    let status = site.load_into(&copy);
    assert_eq!((status.rows, status.duplicates), (1, 1));
    assert_eq!(site.sql("SELECT n FROM copy.orders"), "2");
}

/// Returns the expected result if records are loaded one by one: the loaded numbers, and the counts of loaded
/// records, rejects and duplicates.
fn model(orders: &[Order], refuses: impl Fn(i64) -> bool) -> (Vec<i64>, (u64, u64, u64)) {
    let (mut seen, mut loaded, mut rejects, mut duplicates) = (HashSet::new(), Vec::new(), 0, 0);
    for (n, key) in orders {
        match key {
            Some(key) if seen.contains(key) => duplicates += 1,
            _ if refuses(*n) => rejects += 1,
            _ => {
                loaded.push(*n);
                seen.extend(*key);
            }
        }
    }
    let count = loaded.len() as u64;
    (loaded, (count, rejects, duplicates))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_first_record_of_each_key_that_the_table_takes_is_loaded(
        logs in prop::collection::vec(prop::collection::vec(prop::option::of(0..9u8), 1..40), 1..4),
        batch in 1..9usize,
        chunk_rows_max in 1..60u64,
        refused in 2..6i64,
    ) {
        let site = Site::new(shared());
        site.sql(&format!("CREATE TABLE orders (n bigint CHECK (n % {refused} <> 0), item text)"));
        let mut orders: Vec<Order> = Vec::new();
        for log in logs {
            let first = orders.len();
            orders.extend((first as i64..).zip(log));
            site.write_orders(&orders[first..].chunks(batch).collect::<Vec<_>>());
            let mut options = site.load_options();
            options.tuning.chunk_rows_max = chunk_rows_max;
            site.start_with(options).finish(PATIENCE).unwrap();
        }
        let (loaded, counts) = model(&orders, |n| n % refused == 0);
        let loaded: Vec<_> = loaded.iter().map(ToString::to_string).collect();
        prop_assert_eq!(site.loaded_orders(), loaded.join(" "));
        prop_assert_eq!(site.counted(), counts);
    }
}
