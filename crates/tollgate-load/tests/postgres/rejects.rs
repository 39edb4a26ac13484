//! Tests of rows that the database refuses for their content, and of errors with other causes.

use std::net::IpAddr;

use tollgate_load::Retried;
use tollgate_log::{ColumnType, Schema, Value};

use crate::cluster::shared;
use crate::site::{PATIENCE, Site, column, eventually, row, unread, visit, visits};

fn with_bad(numbers: &[i64]) -> Site<'static> {
    let site = Site::new(shared());
    let bad = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    site.sql(&format!("CREATE TABLE visits (n bigint CHECK (n NOT IN ({bad})), path text)"));
    site.write_visits(0..200);
    site
}

fn check_bad(numbers: &[i64]) {
    let site = with_bad(numbers);
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (200 - numbers.len() as u64, numbers.len() as u64));
    let rejected = site.sql("SELECT string_agg((convert_from(item, 'UTF8')::json->>'n'), ',' ORDER BY sequence) FROM tollgate.rejects");
    let expected: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    assert_eq!(rejected, expected.join(","));
    let rows = site.audit();
    assert_eq!((rows[0].loaded, rows[0].rejected), (status.rows, status.rejects));
}

#[test]
fn a_bad_row_becomes_a_reject_wherever_it_stands() {
    check_bad(&[0]);
    check_bad(&[100]);
    check_bad(&[199]);
    check_bad(&[0, 1, 77, 78, 150, 199]);
}

#[test]
fn rows_that_are_all_bad_become_rejects() {
    check_bad(&(0..200).collect::<Vec<_>>());
}

#[test]
fn a_reject_says_why_and_shows_the_row() {
    let site = with_bad(&[7]);
    site.load();
    let reject = site.sql("SELECT sequence, stream, reason, text FROM tollgate.rejects");
    assert!(
        reject.starts_with("8|visits|new row for relation \"visits\" violates check constraint"),
        "{reject}"
    );
    assert!(
        reject.contains("(SQLSTATE 23514") && reject.ends_with("{\"n\":7,\"path\":\"/path/000007\"}"),
        "{reject}"
    );
}

#[test]
fn the_first_of_two_equal_keys_stays() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE visits (n bigint PRIMARY KEY, path text)");
    site.write(&[visits()], |appender| {
        for (n, path) in [(1, "first"), (2, "only"), (1, "second")] {
            row(appender, &[Value::Int(n), Value::Text(path)]);
        }
    });
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (2, 1));
    assert_eq!(site.sql("SELECT string_agg(path, ',' ORDER BY n) FROM visits"), "first,only");
}

#[test]
fn a_constraint_that_waits_for_the_commit_rejects_the_row_that_breaks_it() {
    let site = Site::new(shared());
    site.sql(
        "CREATE TABLE known (n bigint PRIMARY KEY); INSERT INTO known SELECT generate_series(0, 198);
         CREATE TABLE visits (n bigint REFERENCES known DEFERRABLE INITIALLY DEFERRED, path text)",
    );
    site.write_visits(0..200);
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (199, 1));
}

/// Returns random text that the server cannot compress.
fn noise(bytes: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'0' + (state >> 40) as u8 % 64)
    };
    (0..bytes).map(|_| next()).collect()
}

fn check_that_the_row_behind_60_is_refused(site: &Site<'_>, state: &str) {
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (100, 1));
    let reject = site.sql("SELECT sequence, reason FROM tollgate.rejects");
    assert!(reject.starts_with("61|") && reject.contains(state), "{reject}");
    assert_eq!((site.audit()[0].loaded, site.audit()[0].rejected), (100, 1));
}

#[test]
fn a_value_that_is_too_long_for_an_index_rejects_its_row_alone() {
    let site = Site::new(shared());
    site.sql("CREATE TABLE visits (n bigint, path text); CREATE INDEX ON visits (path)");
    let long = noise(6_700);
    site.write(&[visits()], |appender| {
        for n in 0..60 {
            visit(appender, n);
        }
        row(appender, &[Value::Int(60), Value::Text(&long)]);
        for n in 60..100 {
            visit(appender, n);
        }
    });
    check_that_the_row_behind_60_is_refused(&site, "(SQLSTATE 54000");
    site.assert_visits(0..100);
}

#[test]
fn json_that_is_nested_too_deeply_rejects_its_row_alone_and_comes_back_as_it_was() {
    let site = Site::new(shared());
    let schema = Schema::new("docs", vec![column("doc", ColumnType::Json)]).unwrap();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    site.write(&[schema], |appender| {
        for n in 0..101 {
            row(appender, &[Value::Json(if n == 60 { &deep } else { "{\"a\":1}" })]);
        }
    });
    check_that_the_row_behind_60_is_refused(&site, "(SQLSTATE 54001");
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 0, duplicates: 0, kept: 1 });
    site.sql("ALTER TABLE docs ALTER doc TYPE text");
    assert_eq!(site.options.retry_rejects(&unread).unwrap(), Retried { loaded: 1, duplicates: 0, kept: 0 });
    let found = site.sql("SELECT count(*) FROM docs WHERE doc = repeat('[', 100000) || repeat(']', 100000)");
    assert_eq!(found, "1");
}

#[test]
fn a_sequence_at_its_end_stops_the_sink_and_rejects_nothing() {
    let site = Site::new(shared());
    site.sql(
        "CREATE SEQUENCE ids MAXVALUE 5;
         CREATE TABLE visits (id bigint DEFAULT nextval('ids'), n bigint, path text)",
    );
    site.write_visits(0..10);
    let reason = site.load_until_stopped();
    assert!(reason.contains("(SQLSTATE 2200H"), "{reason}");
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.rejects"), "0");
    site.sql("ALTER SEQUENCE ids MAXVALUE 1000");
    site.load();
    site.assert_visits(0..10);
}

#[test]
fn a_missing_grant_rejects_nothing_and_loads_when_it_is_given() {
    let mut site = Site::new(shared());
    let role = format!("poor_{}", site.database);
    site.sql(&format!(
        "CREATE TABLE visits (n bigint, path text); CREATE ROLE {role} LOGIN;
         GRANT CREATE ON DATABASE {} TO {role}",
        site.database
    ));
    site.write_visits(0..50);
    let url = site.cluster.url(&site.database).replace("user=tollgate", &format!("user={role}"));
    site.options = crate::site::sink_at(&url);
    let reason = site.load_until_stopped();
    assert!(reason.contains("permission denied for table visits (SQLSTATE 42501)"), "{reason}");
    let loader = site.start();
    eventually("it stopped", || loader.status().state == tollgate_load::LoadState::Stopped);
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.rejects"), "0");
    site.sql(&format!("GRANT INSERT ON visits TO {role}"));
    eventually("all is loaded", || loader.status().rows == 50);
    site.assert_visits(0..50);
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.rejects"), "0");
}

#[test]
fn an_error_that_a_trigger_raises_stops_the_sink_and_rejects_nothing() {
    let site = Site::new(shared());
    site.sql(
        "CREATE TABLE visits (n bigint, path text);
         CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
         CREATE TRIGGER no BEFORE INSERT ON visits FOR EACH ROW EXECUTE FUNCTION no()",
    );
    site.write_visits(0..10);
    let reason = site.load_until_stopped();
    assert!(reason.contains("not today (SQLSTATE P0001)"), "{reason}");
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.rejects"), "0");
}

#[test]
fn too_many_rejects_stop_the_sink() {
    let mut site = with_bad(&[1, 2, 3, 4, 5]);
    site.options.rejects_max = 4;
    let reason = site.load_until_stopped();
    assert!(reason.contains("database refused 5 rows of one segment for their content, limit 4"), "{reason}");
    assert_eq!(site.sql("SELECT count(*) FROM visits"), "0");
    site.options.rejects_max = 5;
    assert_eq!(site.load().rejects, 5);
}

#[test]
fn too_many_refused_rows_of_a_segment_stop_the_sink_over_any_loads_and_runs() {
    let mut site = Site::new(shared());
    site.sql("CREATE TABLE visits (n bigint CHECK (n % 10 <> 9), path text)");
    // The limit `rejects_max` is lower than the number of rows of a segment.
    let log = site.write_visits(0..60);
    let mut tuned = |rejects_max| {
        site.options.rejects_max = rejects_max;
        let mut options = site.load_options();
        options.tuning.chunk_rows_max = 10;
        site.start_with(options).finish(PATIENCE)
    };
    for _ in 0..2 {
        let reason = tuned(3).unwrap_err().to_string();
        assert!(reason.contains("refused 4 rows of one segment for their content, limit 3"), "{reason}");
        assert!(reason.contains(&format!("log {log} that begins with record 1")), "{reason}");
    }
    let status = tuned(6).unwrap();
    assert_eq!((status.rows, status.rejects), (27, 3), "it goes on where it stopped");
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.rejects"), "6");
    assert_eq!(site.sql("SELECT segment, refused FROM tollgate.refusals"), "1|6");
}

fn everything() -> Schema {
    let columns =
        ColumnType::ALL[..9].iter().map(|kind| column(&format!("a_{}", kind.name()), *kind)).collect();
    Schema::new("everything", columns).unwrap()
}

#[test]
fn extremes_of_all_types_arrive_as_they_are() {
    let site = Site::new(shared());
    let address: [IpAddr; 2] = ["255.255.255.255".parse().unwrap(), "::1".parse().unwrap()];
    let exact = "{\"big\": 9007199254740993123456789.5, \"text\": \"\\u00e9\"}";
    site.write(&[everything()], |appender| {
        let full = |flag, int, float, text, bytes, us, json, uuid, address| {
            [
                Value::Bool(flag),
                Value::Int(int),
                Value::Float(float),
                Value::Text(text),
                Value::Bytes(bytes),
                Value::Timestamp(us),
                Value::Json(json),
                Value::Uuid(uuid),
                Value::Inet(address),
            ]
        };
        row(appender, &full(true, i64::MIN, f64::NAN, "", &[0, 255], 0, exact, [255; 16], address[0]));
        let last_us = 253_402_300_799_999_999;
        row(
            appender,
            &full(false, i64::MAX, f64::NEG_INFINITY, "é\u{1}", &[], last_us, "null", [0; 16], address[1]),
        );
        row(appender, &[Value::Null; 9]);
        let first_us = -62_135_596_800_000_000;
        row(appender, &full(true, 0, -0.0, "first", &[], first_us, "[]", [1; 16], address[0]));
        // The database cannot store these two values: a time before the year 0001, and a U+0000 in jsonb.
        row(appender, &full(true, 1, 0.0, "early", &[], first_us - 1, "[]", [1; 16], address[0]));
        row(appender, &full(true, 2, 0.0, "nul", &[], 0, "\"\\u0000\"", [1; 16], address[0]));
    });
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (4, 2));
    let rows = site.sql("SET timezone = 'UTC'; SELECT * FROM everything ORDER BY a_int NULLS LAST");
    let expected = "t|-9223372036854775808|NaN||\\x00ff|1970-01-01 00:00:00+00|{\"big\": 9007199254740993123456789.5, \"text\": \"é\"}|ffffffff-ffff-ffff-ffff-ffffffffffff|255.255.255.255\n\
        t|0|-0|first|\\x|0001-01-01 00:00:00+00|[]|01010101-0101-0101-0101-010101010101|255.255.255.255\n\
        f|9223372036854775807|-Infinity|é\u{1}|\\x|9999-12-31 23:59:59.999999+00|null|00000000-0000-0000-0000-000000000000|::1\n\
        ||||||||";
    assert_eq!(rows, expected);
    let reasons = site.sql("SELECT reason FROM tollgate.rejects ORDER BY sequence");
    assert!(reasons.starts_with("column \"a_timestamp\": timestamp is -62135596800000001"), "{reasons}");
    assert!(reasons.contains("SQLSTATE 22P05"), "{reasons}");
}

#[test]
fn a_reject_of_ingest_is_kept_whatever_its_bytes() {
    let site = Site::new(shared());
    site.write(&[visits()], |appender| {
        let (appended, ()) = appender
            .append(tollgate_log::Level::Synced, |transaction| {
                transaction.reject(tollgate_log::SchemaId(0), "bad \0 reason", b"\0\xff\xfe raw");
            })
            .unwrap();
        assert!(appended.is_some());
        eventually("the writer takes a batch", || appender.hand_over());
    });
    assert_eq!(site.load().rejects, 1);
    let kept = site.sql("SELECT item, text, reason FROM tollgate.rejects");
    assert_eq!(kept, "\\x00fffe20726177|\u{fffd}\u{fffd}\u{fffd} raw|bad \u{fffd} reason");
}

#[test]
fn a_dropped_table_is_made_again() {
    let site = Site::new(shared());
    site.write_visits(0..50);
    let loader = site.start();
    eventually("all is loaded", || loader.status().rows == 50);
    site.sql("DROP TABLE visits");
    site.write_visits(50..100);
    eventually("all is loaded", || loader.status().rows == 100);
    drop(loader);
    site.assert_visits(50..100);
}
