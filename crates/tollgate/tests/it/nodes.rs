//! Tests of the name of the machine that wrote a record: in its row, in the position of its log, and in the
//! audit.

use std::fs;

use serde_json::Value;

use crate::cluster::shared;
use crate::program::{App, KEEP, eventually};

const STREAM: &str = r#"
[log]
node = "web-1"
[stream.a]
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "machine", type = "text", from = "log.node" },
]
[[route]]
path = "/a"
script = "keep.luau"
stream = "a"
"#;

/// Queries a database. Returns a line for each row. The values are separated by `|`, and null is empty.
type Ask = Box<dyn Fn(&str) -> String>;

fn app(sink: &str) -> App {
    App::new(&format!("{STREAM}[sink.main]\n{sink}\n"), &[("keep.luau", KEEP)])
}

fn send(app: &App, n: i64) {
    let server = app.start();
    assert!(server.connect().get(&format!("/a?n={n}")).unwrap().is_success());
    assert!(server.stop().0.success());
}

/// Returns the lines of `audit --json`.
fn accounts(app: &App) -> Vec<Value> {
    app.succeed(&["audit", "--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check(app: &App, positions: &str, ask: &Ask) {
    send(app, 1);
    let nodes = format!("SELECT node FROM {positions} ORDER BY log");
    assert_eq!(ask("SELECT n, machine FROM a"), "1|web-1");
    assert_eq!(ask(&nodes), "web-1");
    let audit = app.succeed(&["audit"]);
    let line = audit.lines().find(|line| line.contains(" a ")).unwrap();
    assert!(line.ends_with(" web-1") && audit.contains("  node\n"), "{audit}");

    // `audit` reads a database of an earlier version without a change. The next load adds the column `node`.
    ask(&format!("ALTER TABLE {positions} DROP COLUMN node"));
    assert_eq!(accounts(app)[0]["node"], "web-1", "the segments have it");
    send(app, 2);
    assert_eq!(ask(&nodes), "\nweb-1");

    // A loader of an earlier version writes a position without the machine. The next load adds the machine.
    let server = app.start();
    let mut client = server.connect();
    assert!(client.get("/a?n=3").unwrap().is_success());
    eventually("it is loaded", || (ask("SELECT count(*) FROM a") == "3").then_some(()));
    ask(&format!("UPDATE {positions} SET node = NULL"));
    assert!(client.get("/a?n=4").unwrap().is_success());
    eventually("the position has it again", || (ask(&nodes) == "\n\nweb-1").then_some(()));
    assert!(server.stop().0.success());

    // The sink still has the machine after the log was deleted.
    for entry in fs::read_dir(app.log_dir()).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    let nodes: Vec<_> = accounts(app).iter().map(|account| account["node"].clone()).collect();
    assert_eq!(nodes, [Value::Null, Value::Null, "web-1".into()]);
}

#[test]
fn the_machine_is_in_rows_positions_and_account_with_sqlite() {
    let app = app("sqlite = \"data/tollgate.sqlite\"");
    let path = app.path().join("data/tollgate.sqlite");
    let ask: Ask = Box::new(move |statement| {
        let database = rusqlite::Connection::open(&path).unwrap();
        database.busy_timeout(crate::program::PATIENCE).unwrap();
        let mut statement = database.prepare(statement).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut lines = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let value = |column| match row.get::<_, rusqlite::types::Value>(column).unwrap() {
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                _ => String::new(),
            };
            lines.push((0..columns).map(value).collect::<Vec<_>>().join("|"));
        }
        lines.join("\n")
    });
    check(&app, "tollgate_positions", &ask);
}

#[test]
fn the_machine_is_in_rows_positions_and_account_with_postgresql() {
    let database = shared().database();
    let app = app(&format!("postgres = \"{}\"", shared().url(&database)));
    let ask: Ask = Box::new(move |statement| shared().sql(&database, statement));
    check(&app, "tollgate.positions", &ask);
}
