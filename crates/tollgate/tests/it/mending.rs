//! `tollgate load --skip` and `--retry-rejects`: records that block a load are skipped by hand, and rejects
//! are tried again.

use std::fs;
use std::path::PathBuf;

use tollgate_log::{DiskStorage, LogId, log_ids, segments};

use crate::cluster::shared;
use crate::program::{App, printed};
use crate::sinks::{STREAMS, all, app, leave_logs, numbers, record};

const RECORDS: u64 = 4000;

/// Makes an app with one log that is not loaded. Returns its id, the file of its first segment, and the last
/// record in that file.
fn with_a_log() -> (App, LogId, PathBuf, u64) {
    let app = app("");
    leave_logs(&app, 1, RECORDS);
    let log = log_ids(&DiskStorage, &app.log_dir()).unwrap()[0];
    let files = segments(&DiskStorage, &app.log_dir(), log).unwrap();
    assert!(files.len() > 2, "{files:?}");
    let last = files[1].0.first.0 - 1;
    (app, log, files[0].1.clone(), last)
}

/// Runs `load --skip`, which must end with this code. Returns its output.
fn skip(app: &App, log: &str, range: &str, code: i32) -> String {
    let output = app.run(&["load", "--skip", log, range]);
    assert_eq!(output.status.code(), Some(code), "{}", printed(&output));
    printed(&output)
}

#[test]
fn records_skipped_while_they_are_readable_count_as_given_up_and_the_rest_is_loaded() {
    let (app, log, _, last) = with_a_log();
    let said = skip(&app, &log.to_string(), &format!("1-{last}"), 0);
    assert!(said.contains(&format!("sink main: records 1-{last} of log {log} are a gap now")), "{said}");
    app.succeed(&["load", "--once"]);
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), (last..RECORDS).collect::<Vec<_>>());
    let reasons = app.query::<String>("SELECT reason FROM tollgate_gaps");
    assert_eq!(reasons, ["skipped by command while readable"]);
    let audit = app.succeed(&["audit"]);
    let range = format!("given up: records 1-{last} of log {log}: skipped by command while readable\n");
    assert!(audit.contains(&range) && !audit.contains("missing:"), "{audit}");
    let account: serde_json::Value = app.succeed(&["audit", "--json"]).parse().unwrap();
    assert_eq!((account["given_up"].as_u64(), account["missing"].as_u64()), (Some(last), Some(0)));
}

#[test]
fn a_load_that_misses_records_ends_with_one_until_an_operator_gives_them_up() {
    let (app, log, file, _) = with_a_log();
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    for _ in 0..2 {
        let output = app.run(&["load", "--once"]);
        let gaps = app.query::<String>("SELECT first || '-' || last FROM tollgate_gaps");
        let [range] = &gaps[..] else { panic!("{gaps:?}") };
        let missing = format!("sink main: missing: records {range} of log {log}: ");
        assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
        assert!(printed(&output).contains(&missing), "{}", printed(&output));
    }
    let range = app.query::<String>("SELECT first || '-' || last FROM tollgate_gaps").remove(0);
    assert_eq!(app.run(&["audit"]).status.code(), Some(1));
    skip(&app, &log.to_string(), &range, 0);
    let output = app.run(&["load", "--once"]);
    let given_up = format!("sink main: given up: records {range} of log {log}: skipped by command: ");
    assert!(output.status.success() && printed(&output).contains(&given_up), "{}", printed(&output));
    assert!(
        app.succeed(&["audit"])
            .contains("exact: every record is pending, loaded, rejected, a duplicate or given up")
    );
}

#[test]
fn records_that_are_skipped_while_they_are_away_are_loaded_when_they_are_back() {
    let (app, log, file, last) = with_a_log();
    let away = app.path().join("away");
    fs::rename(&file, &away).unwrap();
    skip(&app, &log.to_string(), &format!("1-{last}"), 0);
    assert_eq!(app.query::<String>("SELECT reason FROM tollgate_gaps"), ["skipped by command"]);
    app.succeed(&["load", "--once"]);
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), (last..RECORDS).collect::<Vec<_>>());
    fs::rename(&away, &file).unwrap();
    app.succeed(&["load", "--once"]);
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), all(RECORDS));
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

#[test]
fn records_that_cannot_be_skipped_are_reported_and_nothing_changes() {
    let (app, log, _, last) = with_a_log();
    let log = &*log.to_string();
    for (range, code, expected) in [
        ("2", 2, "--skip needs the id of a log and a range of records"),
        ("7-x", 2, "--skip needs the id of a log and a range of records"),
        ("0-7", 1, "cannot be skipped: the next record to load is"),
        ("9-7", 1, "cannot be skipped: the next record to load is"),
        ("1-1000000", 1, "its sealed segments end at"),
        ("1-7", 1, "cannot be the last that is skipped: it is inside batch"),
    ] {
        let said = skip(&app, log, range, code);
        assert!(said.contains(expected), "{range}: {said}");
    }
    let said = skip(&app, "main", "1-7", 2);
    assert!(said.contains("--skip needs the id of a log"), "{said}");
    app.succeed(&["load", "--once"]);
    let said = skip(&app, log, &format!("1-{last}"), 1);
    assert!(said.contains(&format!("the next record to load is {}", RECORDS + 1)), "{said}");
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), all(RECORDS));
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

/// Loads ten numbers, then ten more while the table refuses odd numbers. Then the table allows odd numbers,
/// and the rejects are tried again.
fn check_retry(app: &App, change: impl Fn(Change), numbers: impl Fn() -> Vec<u64>) {
    let load = |range| {
        let server = app.start_with(&["--no-load"]);
        record(&mut server.connect(), "/a", range);
        assert!(server.stop().0.success());
        app.succeed(&["load", "--once"]);
    };
    let retry = |expected: &str| {
        let output = app.run(&["load", "--retry-rejects"]);
        assert!(output.status.success() && printed(&output).contains(expected), "{}", printed(&output));
    };
    load(0..10);
    change(Change::Refuse);
    load(10..20);
    assert_eq!(numbers(), (0..20).filter(|n| *n < 10 || n % 2 == 0).collect::<Vec<_>>());
    retry("sink main: 0 rejects became rows, 5 remain rejects");
    change(Change::Allow);
    retry("sink main: 5 rejects became rows, 0 remain rejects");
    assert_eq!(numbers(), all(20));
    retry("sink main: 0 rejects became rows, 0 remain rejects");
    let audit = app.succeed(&["audit"]);
    let sum = audit.lines().find(|line| line.starts_with("all ")).expect(&audit);
    assert_eq!(sum.split_whitespace().collect::<Vec<_>>(), ["all", "a", "20", "0", "20", "0", "0", "0", "0"]);
}

#[test]
fn a_sink_that_fails_does_not_keep_the_rejects_of_other_sinks() {
    let app = app("[sink.broken]\nsqlite = \"broken.sqlite\"\n[sink.other]\nsqlite = \"other.sqlite\"\n");
    fs::write(app.path().join("broken.sqlite"), "no database").unwrap();
    let output = app.run(&["load", "--retry-rejects"]);
    let told = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("sink broken: cannot "), "{told}");
    for sink in ["main", "other"] {
        assert!(told.contains(&format!("sink {sink}: 0 rejects became rows, 0 remain rejects")), "{told}");
    }
}

/// A change of the table: it refuses odd numbers, or allows them again.
enum Change {
    Refuse,
    Allow,
}

#[test]
fn rejects_of_sqlite_become_rows_when_the_table_takes_them() {
    let app = app("");
    let change = |change| {
        let trigger = "CREATE TRIGGER odd BEFORE INSERT ON a WHEN NEW.n % 2 = 1 \
             BEGIN SELECT RAISE(ABORT, 'odd'); END";
        let statement = match change {
            Change::Refuse => trigger,
            Change::Allow => "DROP TRIGGER odd",
        };
        app.database().execute_batch(statement).unwrap();
    };
    check_retry(&app, change, || numbers(&app, "tollgate.sqlite", "a"));
}

#[test]
fn rejects_of_postgresql_become_rows_when_the_table_takes_them() {
    let database = shared().database();
    let app = App::new(&format!("{STREAMS}[sink.main]\npostgres = \"{}\"\n", shared().url(&database)), &[]);
    let change = |change| {
        let action = match change {
            Change::Refuse => "ADD CONSTRAINT even CHECK (n % 2 = 0) NOT VALID",
            Change::Allow => "DROP CONSTRAINT even",
        };
        shared().sql(&database, &format!("ALTER TABLE a {action}"));
    };
    let numbers = || {
        let rows = shared().sql(&database, "SELECT n FROM a ORDER BY n");
        rows.lines().map(|n| n.parse().unwrap()).collect()
    };
    check_retry(&app, change, numbers);
}

/// The configuration of streams with fields whose names differ from their columns, redacted fields, and
/// values that only a script can record.
const ITEMS: &str = r#"
[[route]]
path = "/c"
collect = true
stream = "c"
[[route]]
path = "/hidden"
collect = true
stream = "hidden"
[[route]]
path = "/s"
script = "s.luau"
stream = "s"
[stream.c]
key = "record.id"
columns = [
  { name = "a", type = "text", from = "record.b" },
  { name = "b", type = "text", from = "record.a", max = "4B" },
  { name = "n", type = "float", from = "record.n" },
  { name = "needed", type = "int", from = "record.needed", required = true },
]
[stream.hidden]
columns = [
  { name = "tag", type = "text", from = "record.tag", max = "4B" },
  { name = "mail", type = "text", from = "record.mail", redact = "drop" },
]
[stream.s]
columns = [
  { name = "tag", type = "text", from = "record.tag", max = "4B" },
  { name = "raw", type = "bytes", from = "record.raw" },
  { name = "shown", type = "text", from = "record.shown" },
]
"#;

/// A script that records bytes which are also valid base64, and values for which JSON has no form.
const SCRIPT: &str = r#"return function(req)
    local values = { f = print, b = "\xff" }
    return { record = { tag = "too long", raw = "AAAA", shown = values[req.query.shown] } }
end"#;

#[test]
fn an_item_that_was_refused_when_it_came_fills_the_columns_of_its_fields_or_stays() {
    let app = App::new(&format!("{STREAMS}{ITEMS}"), &[("s.luau", SCRIPT)]);
    let server = app.start_with(&["--no-load"]);
    let mut client = server.connect();
    let items = [
        r#"{"a":"too long","b":"B","needed":1,"id":"1"}"#,
        r#"{"a":"too long","b":"of a retry","needed":1,"id":"1"}"#,
        r#"{"a":"A","id":"3"}"#,
        r#"{"a":"A","n":"NaN","needed":1,"id":"4"}"#,
        r#"{"a":"A","a":"B","needed":1,"id":"5"}"#,
    ];
    assert!(client.post("/c", &format!("[{}]", items.join(","))).unwrap().is_success());
    assert!(
        client.post("/hidden", r#"[{"tag":"too long","mail":"x"},{"tag":"too long"}]"#).unwrap().is_success()
    );
    for target in ["/s", "/s?shown=f", "/s?shown=b"] {
        assert!(client.get(target).unwrap().is_success());
    }
    assert!(server.stop().0.success());
    assert!(printed(&app.run(&["load", "--once"])).contains("sink main: 0 rows, 10 rejects"));
    // The table of a stream is made with its first row, so it does not exist yet.
    let output = app.run(&["load", "--retry-rejects"]);
    let told = printed(&output);
    assert!(
        told.contains("sink main: 4 rejects became rows, 1 are duplicates of rows, 5 remain rejects"),
        "{told}"
    );
    let rows = app.query::<String>("SELECT a || '|' || b || '|' || ifnull(n, '-') || '|' || needed FROM c");
    assert_eq!(rows, ["B|too long|-|1"]);
    assert_eq!(app.query::<String>("SELECT tag || '|' || ifnull(mail, '-') FROM hidden"), ["too long|-"]);
    let rows =
        app.query::<String>("SELECT tag || '|' || CAST(raw AS TEXT) || '|' || ifnull(shown, '-') FROM s");
    // U+FFFD replaces the byte of the script that is not UTF-8.
    assert_eq!(rows, ["too long|AAAA|-", "too long|AAAA|\u{fffd}"]);
    assert!(app.succeed(&["audit"]).contains("exact: "));
}
