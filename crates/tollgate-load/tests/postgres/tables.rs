//! Tests of tables that the sink creates or extends, or that existed before.

use tollgate_log::{ColumnType, Schema, Value};

use crate::cluster::shared;
use crate::site::{Site, column, eventually, row, visit, visits};

fn measures(columns: &[(&str, ColumnType)]) -> Schema {
    Schema::new("measures", columns.iter().map(|(name, kind)| column(name, *kind)).collect()).unwrap()
}

#[test]
fn a_table_of_other_types_takes_what_fits_and_rejects_values_that_do_not() {
    let site = Site::new(shared());
    site.sql(
        "CREATE TYPE mood AS ENUM ('good', 'bad');
         CREATE DOMAIN percent AS smallint CHECK (VALUE BETWEEN 0 AND 100);
         CREATE TABLE measures (
             id bigint GENERATED ALWAYS AS IDENTITY, small percent, middle integer, exact numeric(20), name varchar(5),
             state mood, single real, at timestamp, doc json, note text NOT NULL DEFAULT 'none')",
    );
    let schema = measures(&[
        ("small", ColumnType::Int),
        ("middle", ColumnType::Int),
        ("exact", ColumnType::Int),
        ("name", ColumnType::Text),
        ("state", ColumnType::Text),
        ("single", ColumnType::Float),
        ("at", ColumnType::Timestamp),
        ("doc", ColumnType::Json),
    ]);
    site.write(&[schema], |appender| {
        let mut put = |small, middle, name, state, single| {
            let (at, doc) = (Value::Timestamp(1_000_000), Value::Json("{ \"a\":1.10 }"));
            let (small, middle, exact) = (Value::Int(small), Value::Int(middle), Value::Int(i64::MIN));
            row(
                appender,
                &[small, middle, exact, Value::Text(name), Value::Text(state), Value::Float(single), at, doc],
            );
        };
        put(100, -5, "short", "good", 0.5);
        put(101, 0, "a", "good", 0.0);
        put(40_000, 0, "b", "good", 0.0);
        put(1, 1 << 40, "c", "good", 0.0);
        put(2, 2, "too long", "good", 0.0);
        put(3, 3, "d", "ugly", 0.0);
        put(4, 4, "e", "bad", 1e300);
        put(5, 5, "f", "bad", f64::NAN);
    });
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (2, 6));
    let rows = site
        .sql("SELECT small, middle, exact, name, state, single, at, doc, note FROM measures ORDER BY middle");
    let expected = "100|-5|-9223372036854775808|short|good|0.5|1970-01-01 00:00:01|{ \"a\":1.10 }|none\n\
        5|5|-9223372036854775808|f|bad|NaN|1970-01-01 00:00:01|{ \"a\":1.10 }|none";
    assert_eq!(rows, expected);
    assert_eq!(site.sql("SELECT count(DISTINCT id) FROM measures"), "2");
}

fn refused(table: &str) -> String {
    let site = Site::new(shared());
    site.sql(table);
    site.write_visits(0..10);
    let reason = site.load_until_stopped();
    assert_eq!(site.sql("SELECT count(*) FROM visits"), "0");
    reason
}

#[test]
fn a_column_that_does_not_fit_is_told_with_both_types_before_anything_is_loaded() {
    let reason = refused("CREATE TABLE visits (n integer[], path text)");
    let expected = "column \"n\" of table \"public.visits\" is integer[], the stream has int";
    assert!(reason.contains(expected), "{reason}");
    let reason = refused("CREATE TABLE visits (n bigint, path text, owner text NOT NULL)");
    assert!(
        reason.contains("column \"owner\" of table \"public.visits\" is NOT NULL without a default"),
        "{reason}"
    );
    let reason =
        refused("CREATE TABLE visits (m bigint, n bigint GENERATED ALWAYS AS (m + 1) STORED, path text)");
    assert!(reason.contains("column \"n\" of table \"public.visits\" is generated"), "{reason}");
}

#[test]
fn a_partitioned_table_of_another_schema_and_name_is_loaded() {
    let mut site = Site::new(shared());
    site.sql(
        "CREATE SCHEMA \"My Web\";
         CREATE TABLE \"My Web\".\"all.visits\" (n bigint NOT NULL, path text) PARTITION BY RANGE (n);
         CREATE TABLE \"My Web\".low PARTITION OF \"My Web\".\"all.visits\" FOR VALUES FROM (0) TO (50);
         CREATE TABLE \"My Web\".high PARTITION OF \"My Web\".\"all.visits\" FOR VALUES FROM (50) TO (90)",
    );
    let name = tollgate_load::TableName::parse("\"My Web\".\"all.visits\"", "public").unwrap();
    site.postgres().tables.insert("visits".to_owned(), name);
    site.postgres().schema = "Own \"books\"".to_owned();
    site.write_visits(0..100);
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (90, 10));
    assert_eq!(site.sql("SELECT count(*) FROM \"My Web\".low"), "50");
    assert_eq!(
        site.sql("SELECT count(*) FROM \"Own \"\"books\"\"\".rejects WHERE reason LIKE 'no partition%'"),
        "10"
    );
    assert_eq!(site.audit()[0].rejected, 10);
}

#[test]
fn a_column_that_a_stream_gained_is_added_while_two_loaders_run() {
    let site = Site::new(shared());
    let wide = || {
        let mut columns = visits().columns().to_vec();
        columns.push(column("extra", ColumnType::Float));
        Schema::new("visits", columns).unwrap()
    };
    site.write_visits(0..50);
    let loaders = [site.start(), site.start()];
    let loaded = || loaders.iter().map(|loader| loader.status().rows).sum::<u64>();
    eventually("the first are loaded", || loaded() == 50);
    for n in 50..60 {
        site.write(&[wide()], |appender| {
            row(appender, &[Value::Int(n), Value::Text(&format!("/path/{n:06}")), Value::Float(0.5)]);
        });
    }
    eventually("all are loaded", || loaded() == 60);
    site.assert_visits(0..60);
    assert_eq!(site.sql("SELECT count(*) FROM visits WHERE extra = 0.5"), "10");
    assert_eq!(loaders.iter().filter_map(|loader| loader.status().last_error).count(), 0);
}

#[test]
fn a_column_retyped_under_the_loader_is_seen_before_the_next_rows() {
    let site = Site::new(shared());
    let log = site.open_log(&[visits()]);
    let mut appender = log.appender(|| {});
    visit(&mut appender, 1);
    let follower = log.sink_followers(1).pop();
    let loader = tollgate_load::Loader::start(
        site.load_options(),
        std::sync::Arc::new(tollgate_log::DiskStorage),
        follower,
    )
    .unwrap();
    eventually("the first is loaded", || loader.status().rows == 1);
    // The new type has as many bytes, but another meaning.
    site.sql("ALTER TABLE visits ALTER n TYPE double precision");
    visit(&mut appender, 2);
    eventually("it stopped", || loader.status().state == tollgate_load::LoadState::Stopped);
    let error = loader.status().last_error.unwrap();
    assert!(error.contains("is double precision, the stream has int"), "{error}");
    site.sql("ALTER TABLE visits ALTER n TYPE bigint");
    eventually("the second is loaded", || loader.status().rows == 2);
    assert_eq!(site.sql("SELECT string_agg(n::text, ',' ORDER BY n) FROM visits"), "1,2");
}
