//! Tests of several sinks in one database. Each sink has its own streams, positions and account.

use tollgate_load::{LoadFrom, SinkKind, SinkOptions, Taken};
use tollgate_log::{ColumnType, Level, LogId, Schema, SchemaId, Value};

use crate::cluster::shared;
use crate::site::{Site, column, eventually};

fn numbers_of(name: &str) -> Schema {
    Schema::new(name, vec![column("n", ColumnType::Int)]).unwrap()
}

/// Writes `count` records in turn to the streams `a` and `b`.
fn write_both(site: &Site<'_>, count: i64) -> LogId {
    site.write(&[numbers_of("a"), numbers_of("b")], |appender| {
        for n in 0..count {
            let schema = SchemaId(u16::from(n % 2 == 1));
            appender
                .append(Level::Synced, |transaction| transaction.row(schema, |row| row.push(Value::Int(n))))
                .unwrap()
                .1
                .unwrap();
            eventually("the writer takes a batch", || appender.hand_over());
        }
    })
}

/// Makes the options of another sink of the same database, with its tables in another schema.
fn beside(site: &Site<'_>, name: &str, taken: &[&str]) -> SinkOptions {
    site.sql(&format!("CREATE SCHEMA IF NOT EXISTS {name}"));
    let mut sink = SinkOptions { name: name.to_owned(), ..site.options.clone() };
    let SinkKind::Postgres(options) = &mut sink.kind else { unreachable!() };
    options.table_schema = name.to_owned();
    if !taken.is_empty() {
        sink.taken = Taken::Only(taken.iter().map(|stream| (*stream).to_owned()).collect());
    }
    sink
}

/// Returns stream, ingested, pending, loaded and missing of each row of the audit.
fn account(site: &Site<'_>, sink: &SinkOptions) -> Vec<(String, [u64; 4])> {
    let rows = site.audit_of(sink).into_iter();
    rows.map(|row| (row.stream, [row.ingested, row.pending, row.loaded, row.missing])).collect()
}

fn row(stream: &str, counts: [u64; 4]) -> (String, [u64; 4]) {
    (stream.to_owned(), counts)
}

#[test]
fn sinks_of_one_database_have_their_streams_and_exact_accounts_of_them() {
    let site = Site::new(shared());
    let (all, of_b) = (beside(&site, "all_of_it", &[]), beside(&site, "of_b", &["b"]));
    write_both(&site, 300);
    site.load_into(&of_b);
    assert_eq!(account(&site, &all), [row("a", [150, 150, 0, 0]), row("b", [150, 150, 0, 0])]);
    site.load_into(&all);
    assert_eq!(account(&site, &all), [row("a", [150, 0, 150, 0]), row("b", [150, 0, 150, 0])]);
    assert_eq!(account(&site, &of_b), [row("b", [150, 0, 150, 0])]);
    assert_eq!(site.sql("SELECT count(*), count(DISTINCT n), min(n % 2) FROM of_b.b"), "150|150|1");
    assert_eq!(site.sql("SELECT to_regclass('of_b.a') IS NULL"), "t");
    let skipped = "SELECT stream, loaded, skipped FROM tollgate.counts WHERE sink = 'of_b' ORDER BY stream";
    assert_eq!(site.sql(skipped), "a|0|150\nb|150|0");
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.sinks"), "2");
}

#[test]
fn a_stream_that_is_taken_later_is_loaded_from_then_on_and_nothing_is_missing() {
    let site = Site::new(shared());
    let mut sink = beside(&site, "changing", &["b"]);
    write_both(&site, 100);
    site.load_into(&sink);
    sink.taken = Taken::All;
    write_both(&site, 60);
    site.load_into(&sink);
    assert_eq!(
        site.sql("SELECT (SELECT count(*) FROM changing.a), (SELECT count(*) FROM changing.b)"),
        "30|80"
    );
    let missing: u64 = site.audit_of(&sink).iter().map(|row| row.missing + row.pending).sum();
    assert_eq!(missing, 0);
}

#[test]
fn a_sink_from_now_begins_behind_what_is_there_once() {
    let site = Site::new(shared());
    let sink = SinkOptions { from: LoadFrom::Now, ..beside(&site, "fresh", &[]) };
    write_both(&site, 100);
    assert_eq!(site.load_into(&sink).rows, 0);
    assert_eq!(account(&site, &sink), []);
    write_both(&site, 40);
    assert_eq!(site.load_into(&sink).rows, 40);
    assert_eq!(account(&site, &sink), [row("a", [20, 0, 20, 0]), row("b", [20, 0, 20, 0])]);
    site.load();
    assert_eq!(site.sql("SELECT count(*) FROM a"), "70", "the other sink has all");
}
