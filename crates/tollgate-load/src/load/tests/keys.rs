//! Tests of keys: of several records with one key, exactly one becomes a row, whatever fails in between.

use std::collections::HashSet;

use super::kills::{KILLS, load_with_kills};
use super::*;
use crate::sink::{Retried, sqlite_with_clock};

const WINDOW: Duration = Duration::from_hours(24);

fn orders() -> Schema {
    let origin = ColumnOrigin::Key { window_ms: WINDOW.as_millis() as u64 };
    let key = Column { name: "(key)".to_owned(), kind: ColumnType::Bytes, origin };
    // The key is in the middle, to test that its place among the columns does not matter.
    Schema::new("orders", vec![column("n", ColumnType::Int), key, column("item", ColumnType::Text)]).unwrap()
}

/// A record: its number, and its key.
type Order = (i64, Option<u8>);

impl Site {
    /// Writes a log of orders with one batch for each group.
    fn write_orders(&self, groups: &[&[Order]]) -> LogId {
        self.write(vec![orders()], 64 << 10, |appender| {
            groups.iter().for_each(|group| append(appender, group));
        })
    }

    fn loaded_orders(&self) -> Vec<i64> {
        let connection = self.connect();
        let mut statement = connection.prepare("SELECT n FROM orders ORDER BY rowid").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// Returns the counts of loaded rows, rejects and duplicates. Checks that nothing is pending or missing.
    fn counted(&self) -> (u64, u64, u64) {
        let rows = self.audit();
        assert!(rows.iter().all(|row| (row.pending, row.missing) == (0, 0)), "{rows:?}");
        let sum = |of: fn(&AuditRow) -> u64| rows.iter().map(of).sum();
        (sum(|row| row.loaded), sum(|row| row.rejected), sum(|row| row.duplicates))
    }
}

fn append(appender: &mut Appender, group: &[Order]) {
    let fill = |transaction: &mut tollgate_log::Transaction<'_>| {
        for (n, key) in group {
            let bytes = key.map(|key| [key; 32]);
            let key = bytes.as_ref().map_or(Value::Null, |bytes| Value::Bytes(bytes));
            let values = [Value::Int(*n), key, Value::Text("item")];
            transaction.row(SchemaId(0), |row| values.iter().try_for_each(|value| row.push(*value))).unwrap();
        }
    };
    appender.append(Level::Synced, fill).unwrap();
    hand_over(appender);
}

#[test]
fn a_second_record_of_a_key_is_a_duplicate_in_one_batch_and_across_batches() {
    let site = Site::new();
    site.write_orders(&[&[(1, Some(1)), (2, Some(1)), (3, Some(2))], &[(4, Some(2)), (5, Some(3))]]);
    let status = site.load();
    assert_eq!((status.rows, status.rejects, status.duplicates), (3, 0, 2));
    assert_eq!(site.loaded_orders(), [1, 3, 5]);
    assert_eq!(site.counted(), (3, 0, 2));
    assert_eq!(site.ask::<String>("SELECT item FROM orders WHERE n = 5"), "item");
}

#[test]
fn a_gap_that_is_filled_counts_its_duplicates() {
    let site = Site::new();
    let log = site.write(vec![orders()], 4 << 10, |appender| {
        for n in 0..300 {
            let appended = row(appender, &[Value::Int(n), Value::Bytes(&[1; 32]), Value::Text("item")]);
            // A segment is closed only between writes, and one write takes all waiting batches. So the test
            // waits for a write after every 20 records.
            if n % 20 == 0 {
                eventually("it is written", || appender.reached(appended, Level::Written).is_some());
            }
        }
    });
    let names = segments(&*site.storage, &site.dir(), log).unwrap();
    let (place, away) = (&names[1].1, site.folder.path().join("away"));
    let lost = names[2].0.first.0 - names[1].0.first.0;
    std::fs::rename(place, &away).unwrap();
    site.load();
    std::fs::rename(&away, place).unwrap();
    let status = site.load();
    assert_eq!((status.rows, status.duplicates, status.filled), (0, lost, lost));
    assert_eq!(site.counted(), (1, 0, 299));
}

#[test]
fn records_without_a_key_are_loaded_always() {
    let site = Site::new();
    site.write_orders(&[&[(1, None), (1, None)], &[(1, None)]]);
    assert_eq!(site.load().rows, 3);
    assert_eq!(site.ask::<i64>("SELECT count(*) FROM tollgate_keys"), 0);
}

#[test]
fn a_retry_that_went_to_the_log_of_another_run_is_a_duplicate() {
    let site = Site::new();
    site.write_orders(&[&[(1, Some(1))]]);
    site.load();
    site.write_orders(&[&[(2, Some(1)), (3, Some(2))]]);
    site.load();
    assert_eq!(site.loaded_orders(), [1, 3]);
    assert_eq!(site.counted(), (2, 0, 1));
}

#[test]
fn a_log_that_holds_retries_alone_is_in_the_account() {
    let site = Site::new();
    for n in 0..2 {
        site.write_orders(&[&[(n, Some(1))]]);
        site.load();
    }
    assert_eq!(site.counted(), (1, 0, 1));
}

#[test]
fn streams_have_keys_of_their_own() {
    let site = Site::new();
    site.write_orders(&[&[(1, Some(1))]]);
    let other = Schema::new("returns", orders().columns().to_vec()).unwrap();
    site.write(vec![other], 64 << 10, |appender| append(appender, &[(1, Some(1))]));
    site.load();
    assert_eq!(site.counted(), (2, 0, 0));
}

#[test]
fn a_row_that_the_database_refused_holds_no_key() {
    let site = Site::new();
    site.write_orders(&[&[(1, Some(9))]]);
    site.load();
    site.connect().execute_batch("CREATE UNIQUE INDEX one_of_each ON orders (n)").unwrap();
    site.write_orders(&[&[(1, Some(1)), (2, Some(1)), (3, Some(1))]]);
    site.load();
    assert_eq!(site.loaded_orders(), [1, 2]);
    assert_eq!(site.counted(), (2, 1, 1));
    let item: String = site.ask("SELECT text FROM tollgate_rejects");
    assert_eq!(item, r#"{"item":"item","n":1}"#);
}

/// A trigger that refuses orders with the number 1.
const REFUSE_ONE: &str = "CREATE TRIGGER not_one BEFORE INSERT ON orders WHEN NEW.n = 1 \
     BEGIN SELECT RAISE(ABORT, 'not one'); END";

#[test]
fn a_reject_that_is_tried_again_asks_for_its_key() {
    let site = Site::new();
    site.write_orders(&[&[(9, Some(9))]]);
    site.load();
    site.connect().execute_batch(REFUSE_ONE).unwrap();
    site.write_orders(&[&[(1, Some(1)), (1, Some(2)), (1, Some(2)), (1, None)]]);
    // The client sends a corrected order with the key of the first rejected one.
    site.write_orders(&[&[(2, Some(1))]]);
    site.load();
    assert_eq!(site.counted(), (2, 4, 0));
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 0, duplicates: 1, kept: 3 });
    assert_eq!(site.ask::<i64>("SELECT count(*) FROM tollgate_keys"), 2);
    site.connect().execute_batch("DROP TRIGGER not_one").unwrap();
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 2, duplicates: 1, kept: 0 });
    // Later records with the key of a retried reject are duplicates.
    site.write_orders(&[&[(3, Some(2))]]);
    site.load();
    assert_eq!(site.loaded_orders(), [9, 2, 1, 1]);
    assert_eq!(site.counted(), (4, 0, 3));
}

#[test]
fn a_database_whose_rejects_have_no_keys_yet_gains_them() {
    let site = Site::new();
    site.write_orders(&[&[(9, Some(9))]]);
    site.load();
    site.connect()
        .execute_batch(
            "ALTER TABLE tollgate_rejects DROP COLUMN key; \
             ALTER TABLE tollgate_rejects DROP COLUMN key_window_ms",
        )
        .unwrap();
    site.connect().execute_batch(REFUSE_ONE).unwrap();
    site.write_orders(&[&[(1, Some(1)), (2, Some(1))]]);
    site.load();
    site.connect().execute_batch("DROP TRIGGER not_one").unwrap();
    assert_eq!(site.sink().retry_rejects(&unread).unwrap(), Retried { loaded: 0, duplicates: 1, kept: 0 });
    assert_eq!(site.loaded_orders(), [9, 2]);
}

#[test]
fn a_log_whose_position_was_taken_back_is_loaded_again_in_full() {
    let site = Site::new();
    site.write_orders(&[&[(1, Some(1)), (2, Some(1)), (3, Some(2))]]);
    site.load();
    site.connect()
        .execute_batch("DELETE FROM tollgate_positions; DELETE FROM tollgate_counts; DELETE FROM orders")
        .unwrap();
    site.load();
    assert_eq!(site.loaded_orders(), [1, 3]);
    assert_eq!(site.counted(), (2, 0, 1));
}

#[test]
fn a_key_is_loaded_by_one_of_two_loaders_and_counted_by_the_other() {
    let site = Site::new();
    let of_a: Vec<_> = (0..200).map(|n| (i64::from(n), Some(n))).collect();
    let of_b: Vec<_> = (0..200).map(|n| (1000 + i64::from(n), Some(n))).collect();
    let groups = |orders: &'static [Order]| orders.chunks(7).collect::<Vec<_>>();
    let (a, b) = (Vec::leak(of_a), Vec::leak(of_b));
    // Each loader has one of the two logs.
    let other = Site::new();
    site.write_orders(&groups(a));
    other.write_orders(&groups(b));
    let start = |site: &Site, database: SinkOptions| {
        let mut options = LoadOptions::new(site.dir(), database);
        options.tuning.backoff_min = Duration::from_millis(1);
        options.tuning.chunk_rows_max = 10;
        Loader::start(options, site.storage.clone(), None).unwrap()
    };
    let loaders = [start(&site, site.sink()), start(&other, site.sink())];
    let statuses = loaders.map(|loader| loader.finish(PATIENCE).unwrap());
    let sum = |of: fn(&LoadStatus) -> u64| statuses.iter().map(of).sum::<u64>();
    assert_eq!((sum(|status| status.rows), sum(|status| status.duplicates)), (200, 200));
    let kept: HashSet<_> = site.loaded_orders().into_iter().map(|n| n % 1000).collect();
    assert_eq!(kept.len(), 200);
}

#[test]
fn a_key_is_loaded_again_when_its_window_is_over_whatever_the_wall_clock_says() {
    let site = Site::new();
    // The hours are the running time of each loader. The windows of keys use only the loader's clock, which
    // starts at zero and cannot be set.
    for (hours, expected) in [(0, 1), (23, 1), (1, 2)] {
        site.write_orders(&[&[(1, Some(1))]]);
        let path = site.database();
        let open = Box::new(move |_: &SinkOptions| {
            let looks = AtomicUsize::new(0);
            let clock = move || match looks.fetch_add(1, Ordering::SeqCst) {
                0 => Duration::ZERO,
                _ => Duration::from_hours(hours),
            };
            sqlite_with_clock(&path, "main", clock)
        });
        let loader = Loader::start_with(site.options(), site.storage.clone(), None, open).unwrap();
        loader.finish(PATIENCE).unwrap();
        assert_eq!(site.loaded_orders().len(), expected, "{hours} hours more");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_first_record_of_each_key_is_loaded(
        logs in prop::collection::vec(prop::collection::vec(prop::option::of(0..12u8), 1..40), 1..4),
        batch in 1..9usize,
        kills in prop::collection::vec((0..4usize, 0..8usize, any::<bool>()), 0..4),
        chunk_rows_max in 1..20u64,
    ) {
        let site = Site::new();
        let (mut model, mut seen, mut n) = (Vec::new(), HashSet::new(), 0);
        let mut records = 0;
        for log in &logs {
            let mut orders = Vec::new();
            for key in log {
                n += 1;
                orders.push((n, *key));
                if key.is_none_or(|key| seen.insert(key)) {
                    model.push(n);
                }
            }
            records += orders.len() as u64;
            site.write_orders(&orders.chunks(batch).collect::<Vec<_>>());
            let kills = kills.iter().map(|(kill, count, is_panic)| (KILLS[*kill], *count, *is_panic)).collect();
            load_with_kills(&site, chunk_rows_max, kills);
        }
        prop_assert_eq!(site.loaded_orders(), model.clone());
        let loaded = model.len() as u64;
        prop_assert_eq!(site.counted(), (loaded, 0, records - loaded));
    }
}
