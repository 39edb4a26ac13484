//! Tests of rows that the database refuses. Refused rows are counted by segment, in all loads and runs
//! together.

use super::*;

const CHUNK_ROWS: u64 = 10;

/// Makes a site with a database that refuses each tenth number.
fn picky() -> Site {
    let site = Site::new();
    site.connect()
        .execute_batch("CREATE TABLE visits (n INTEGER CHECK (n % 10 <> 9), path TEXT, seq INTEGER)")
        .unwrap();
    site
}

/// Starts a loader that commits ten rows at a time.
fn start(site: &Site) -> Loader {
    let mut options = site.options();
    options.tuning.chunk_rows_max = CHUNK_ROWS;
    Loader::start(options, site.storage.clone(), None).unwrap()
}

fn stop_reason(site: &Site) -> String {
    start(site).finish(PATIENCE).unwrap_err().to_string()
}

#[test]
fn too_many_refused_rows_of_a_segment_stop_the_sink_over_any_loads_and_runs() {
    let mut site = picky();
    let log = site.write(vec![visits()], 1 << 20, |appender| {
        for n in 0..60 {
            visit(appender, n);
        }
    });
    site.rejects_max = 3;
    for _ in 0..2 {
        let reason = stop_reason(&site);
        assert!(reason.contains("refused 4 rows of one segment for their content, limit 3"), "{reason}");
        assert!(reason.contains(&format!("log {log} that begins with record 1")), "{reason}");
        assert_eq!(site.ask::<i64>("SELECT count(*) FROM tollgate_rejects"), 3);
        assert_eq!(site.ask::<i64>("SELECT count(*) FROM visits"), 27);
    }
    site.rejects_max = 6;
    let status = start(&site).finish(PATIENCE).unwrap();
    assert_eq!((status.rows, status.rejects), (27, 3), "it goes on where it stopped");
    assert_eq!((only_row(&site.audit()).loaded, only_row(&site.audit()).rejected), (54, 6));
}

#[test]
fn a_bad_row_becomes_a_reject_wherever_it_stands() {
    for bad in [0, 17, 29] {
        let site = Site::new();
        let table = format!("CREATE TABLE visits (n INTEGER CHECK (n <> {bad}), path TEXT, seq INTEGER)");
        site.connect().execute_batch(&table).unwrap();
        // All rows are in one batch, so that the test can use its first and its last row.
        let schema = visits();
        site.write(vec![schema], 1 << 20, |appender| {
            for n in 0..30 {
                let fill = |row: &mut tollgate_log::RowEncoder<'_>| {
                    row.push(Value::Int(n)).and_then(|()| row.push(Value::Text("/")))
                };
                appender
                    .append(Level::Synced, |transaction| transaction.row(SchemaId(0), fill))
                    .unwrap()
                    .1
                    .unwrap();
            }
            hand_over(appender);
        });
        let status = site.load();
        assert_eq!((status.rows, status.rejects), (29, 1), "{bad}");
        assert_eq!(site.numbers(), (0..30).filter(|n| *n != bad).collect::<Vec<_>>());
        assert_eq!(site.ask::<i64>("SELECT sequence FROM tollgate_rejects"), bad + 1);
    }
}

#[test]
fn refused_rows_of_several_segments_are_no_reason_to_stop() {
    let mut site = picky();
    let log = site.write_visits(0..200);
    let segments = segments(&*site.storage, &site.dir(), log).unwrap().len();
    assert!(segments > 4, "{segments} segments");
    // The number of refused rows of a segment is exactly `rejects_max`, and all other rows are accepted.
    site.rejects_max = 10;
    assert_eq!(site.load().rejects, 20);
}

#[test]
fn a_row_that_the_database_refuses_becomes_a_reject_and_its_neighbours_load() {
    let site = Site::new();
    site.connect()
        .execute_batch("CREATE TABLE visits (n INTEGER CHECK (n <> 5) UNIQUE ON CONFLICT ROLLBACK, path TEXT, seq INTEGER)")
        .unwrap();
    site.write(vec![visits()], 4 << 10, |appender| {
        for n in (0..10).chain([7, 3]) {
            visit(appender, n);
        }
    });
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (9, 3));
    assert_eq!(site.numbers(), [0, 1, 2, 3, 4, 6, 7, 8, 9]);
    let reject = "SELECT reason || ' ' || CAST(item AS TEXT) FROM tollgate_rejects WHERE sequence = 6";
    let text: String = site.ask(reject);
    assert!(text.starts_with("CHECK constraint failed"), "{text}");
    assert!(text.ends_with(r#"{"n":5,"path":"/path/000005","seq":6}"#), "{text}");
    assert_eq!(site.ask::<String>("SELECT group_concat(sequence) FROM tollgate_rejects"), "6,11,12");
    let rows = site.audit();
    assert_eq!((only_row(&rows).loaded, only_row(&rows).rejected, only_row(&rows).missing), (9, 3, 0));
}

#[test]
fn rejects_made_at_ingest_arrive_with_reason_and_item() {
    let site = Site::new();
    site.write(vec![visits()], 4 << 10, |appender| {
        visit(appender, 1);
        let reject = |transaction: &mut tollgate_log::Transaction<'_>| {
            transaction.reject(SchemaId(0), "column \"n\" takes int", b"{\"n\":\"x\xff\0\"}");
        };
        appender.append(Level::Synced, reject).unwrap();
        hand_over(appender);
        visit(appender, 2);
    });
    assert_eq!(site.load().rejects, 1);
    assert_eq!(
        site.ask::<String>("SELECT reason FROM tollgate_rejects WHERE sequence = 2"),
        "column \"n\" takes int"
    );
    assert_eq!(site.ask::<Vec<u8>>("SELECT item FROM tollgate_rejects"), b"{\"n\":\"x\xff\0\"}");
    assert_eq!(site.ask::<String>("SELECT text FROM tollgate_rejects"), "{\"n\":\"x\u{fffd}\u{fffd}\"}");
    let rows = site.audit();
    let row = only_row(&rows);
    assert_eq!((row.ingested, row.loaded, row.rejected, row.stream.as_str()), (3, 2, 1, "visits"));
}

#[test]
fn too_many_rows_that_the_database_refuses_stop_the_sink() {
    let mut site = Site::new();
    site.connect()
        .execute_batch("CREATE TABLE visits (n INTEGER CHECK (n > 4), path TEXT, seq INTEGER)")
        .unwrap();
    site.write_visits(0..30);
    site.rejects_max = 4;
    let reason = site.start().finish(PATIENCE).unwrap_err().to_string();
    assert!(reason.contains("refused 5 rows of one segment for their content, limit 4"), "{reason}");
    site.rejects_max = 5;
    assert_eq!(site.load().rejects, 5);
}

/// Returns nested JSON arrays with more levels than SQLite reads.
fn too_deep() -> String {
    format!("{}{}", "[".repeat(3_000), "]".repeat(3_000))
}

fn check_that_the_fifth_row_alone_is_refused(tables: &str, reason: &str) {
    let site = Site::new();
    site.connect().execute_batch("CREATE TABLE seen (a); INSERT INTO seen VALUES (0)").unwrap();
    site.connect().execute_batch(tables).unwrap();
    site.write(vec![visits()], 1 << 20, |appender| {
        for n in 0..10 {
            let deep = too_deep();
            row(appender, &[Value::Int(n), Value::Text(if n == 5 { &deep } else { "[1]" })]);
        }
    });
    let status = site.load();
    assert_eq!((status.rows, status.rejects, status.last_error), (9, 1, None), "{tables}");
    assert_eq!(site.numbers(), [0, 1, 2, 3, 4, 6, 7, 8, 9], "{tables}");
    let reject = "SELECT sequence || ' ' || reason FROM tollgate_rejects";
    assert_eq!(site.ask::<String>(reject), format!("6 {reason}"), "{tables}");
    assert_eq!((only_row(&site.audit()).loaded, only_row(&site.audit()).rejected), (9, 1), "{tables}");
}

#[test]
fn an_error_of_a_function_about_a_value_refuses_its_row_alone() {
    for tables in [
        "CREATE TABLE visits (n, path, seq); CREATE INDEX by_a ON visits (json_extract(path, '$.a'))",
        "CREATE TABLE visits (n, path, seq, a AS (json_extract(path, '$.a')) STORED)",
        "CREATE TABLE visits (n, path, seq, CHECK (json_array_length(path) > 0))",
        "CREATE TABLE visits (n, path, seq);
         CREATE TRIGGER look BEFORE INSERT ON visits BEGIN SELECT json_extract(new.path, '$.a'); END",
    ] {
        let tables = tables.replace("(n, path, seq", "(n INTEGER, path TEXT, seq INTEGER");
        check_that_the_fifth_row_alone_is_refused(&tables, "malformed JSON");
    }
}

#[test]
fn a_row_that_a_trigger_fails_behind_its_insert_is_not_in_the_table() {
    let check = |does: &str, reason| {
        let tables = format!(
            "CREATE TABLE visits (n INTEGER, path TEXT, seq INTEGER);
             CREATE TRIGGER look AFTER INSERT ON visits BEGIN {does}; END"
        );
        check_that_the_fifth_row_alone_is_refused(&tables, reason);
    };
    check("UPDATE seen SET a = (SELECT sum(value) FROM json_each(new.path))", "malformed JSON");
    check("UPDATE seen SET a = length(zeroblob((new.n = 5) * 2000000000))", "string or blob too big");
    check("SELECT RAISE(FAIL, 'no') WHERE new.n = 5", "no");
}

#[test]
fn a_trigger_of_the_connection_leaves_no_row_that_it_failed_either() {
    let mut site = Site::new();
    let tables = "CREATE TABLE seen (a); INSERT INTO seen VALUES (0);
         CREATE TABLE visits (n INTEGER, path TEXT, seq INTEGER)";
    site.connect().execute_batch(tables).unwrap();
    let file = site.folder.path().join("after.sql");
    let trigger = "CREATE TEMP TRIGGER IF NOT EXISTS look AFTER INSERT ON main.visits
         BEGIN UPDATE seen SET a = (SELECT sum(value) FROM json_each(new.path)); END";
    std::fs::write(&file, trigger).unwrap();
    site.after_load = Some(file);
    let loader = site.start();
    site.write_visits(0..1);
    eventually("the trigger is there", || loader.status().rows == 1);
    site.write_visits(1..2);
    eventually("it failed", || loader.status().rejects == 1);
    assert_eq!(site.numbers(), [0]);
}

#[test]
fn a_trigger_that_misses_its_table_rejects_nothing_and_rows_load_when_it_is_there() {
    let site = Site::new();
    let loader = site.start();
    site.write_visits(0..10);
    eventually("the first are loaded", || loader.status().rows == 10);
    let trigger = "CREATE TRIGGER look AFTER INSERT ON visits BEGIN INSERT INTO seen VALUES (new.n); END";
    site.connect().execute_batch(trigger).unwrap();
    site.write_visits(10..20);
    let is_told = |error: String| error.contains("no such table: main.seen");
    eventually("it is told", || loader.status().last_error.is_some_and(is_told));
    assert_eq!(loader.status().rejects, 0);
    site.connect().execute_batch("CREATE TABLE seen (n)").unwrap();
    eventually("all are loaded", || loader.status().rows == 20);
    assert_eq!(site.numbers(), (0..20).collect::<Vec<_>>());
    assert_eq!(site.ask::<i64>("SELECT count(*) FROM seen"), 10);
}

/// Statements that create a table with a foreign key that is checked at the commit. Each of the rows 1 to 9
/// has a parent. Row 5 is its own parent, and row 6 refers to row 8.
const DEFERRED: &str = "CREATE TABLE visits (n INTEGER PRIMARY KEY, path TEXT, seq INTEGER,
         up INTEGER AS (CASE n WHEN 6 THEN 8 ELSE 5 END) STORED REFERENCES visits DEFERRABLE INITIALLY DEFERRED)";

#[test]
fn a_parent_may_come_later_in_the_same_load() {
    let site = Site::new();
    site.connect().execute_batch(DEFERRED).unwrap();
    site.write_visits(1..10);
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (9, 0));
}

#[test]
fn a_row_whose_parent_never_comes_is_refused_and_those_around_it_load() {
    let site = Site::new();
    let tables = "CREATE TABLE known (n INTEGER PRIMARY KEY); INSERT INTO known VALUES (1), (2), (3), (5), (6), (8), (9);
         CREATE TABLE visits (n INTEGER REFERENCES known DEFERRABLE INITIALLY DEFERRED, path TEXT, seq INTEGER)";
    site.connect().execute_batch(tables).unwrap();
    site.write_visits(1..10);
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (7, 2));
    assert_eq!(site.numbers(), [1, 2, 3, 5, 6, 8, 9]);
    let reasons = "SELECT group_concat(sequence || ' ' || reason) FROM tollgate_rejects";
    let told = "4 FOREIGN KEY constraint failed,7 FOREIGN KEY constraint failed";
    assert_eq!(site.ask::<String>(reasons), told);
    site.connect().execute_batch("INSERT INTO known VALUES (7)").unwrap();
    let retried = site.sink().retry_rejects(&unread).unwrap();
    assert_eq!((retried.loaded, retried.kept), (1, 1));
    assert_eq!(site.numbers(), [1, 2, 3, 5, 6, 7, 8, 9]);
    site.write_visits(20..21);
    assert_eq!(site.load().rejects, 1, "the next log too");
}
