//! A column whose type changes in the configuration: who finds it, and whether the printed advice works.

use crate::cluster::shared;
use crate::program::{App, eventually, printed};

/// Returns the configuration of a stream whose column `n` has a type.
fn config(kind: &str, sink: &str) -> String {
    format!(
        "[stream.s]\ncolumns = [{{ name = \"n\", type = \"{kind}\" }}, {{ name = \"k\", type = \"int\" }}]\n\
         [[route]]\npath = \"/s\"\ncollect = true\nstream = \"s\"\n[sink.main]\n{sink}\n"
    )
}

/// Waits until the table has this number of rows.
fn expect_rows(app: &App, count: u64) {
    let expected = format!("c\n{count}\n");
    eventually("the rows are loaded", || {
        let output = app.run(&["sql", "--format", "csv", "SELECT count(*) AS c FROM s"]);
        (output.stdout == expected.as_bytes()).then_some(())
    });
}

/// Changes the type of a column while a server runs, and follows the advice that is printed.
fn check_advice(sink: &str, run_sql: impl Fn(&App, &str)) {
    let app = App::new(&config("int", sink), &[]);
    let server = app.start();
    app.succeed(&["check", "--sinks"]);
    assert!(server.connect().post("/s", r#"{"n": 1, "k": 1}"#).unwrap().is_success());
    expect_rows(&app, 1);
    app.configure(&config("text", sink));
    app.succeed(&["check"]);
    let refused = |command: &[&str]| {
        let output = app.run(command);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        text
    };
    for command in [&["reload"][..], &["check", "--sinks"]] {
        let text = refused(command);
        for part in ["is text, but int in the log", "sink main: column \"n\" of table", "the stream has text"]
        {
            assert!(text.contains(part), "{command:?}: {text}");
        }
    }
    // A record of the old type that comes now must be loaded too.
    assert!(server.connect().post("/s", r#"{"n": 2, "k": 2}"#).unwrap().is_success());
    assert!(server.stop().0.success());
    let text = refused(&["check", "--sinks"]);
    let (_, statement) = text.split_once("run `").expect(&text);
    let (statement, _) = statement.split_once('`').expect(&text);
    run_sql(&app, statement);
    app.succeed(&["check", "--sinks"]);
    let server = app.start();
    assert!(server.connect().post("/s", r#"{"n": "x", "k": 3}"#).unwrap().is_success());
    expect_rows(&app, 3);
    let rows = app.succeed(&["sql", "--format", "json", "SELECT n_old, n FROM s ORDER BY k"]);
    let expected = ["{\"n_old\":1,\"n\":null}", "{\"n_old\":2,\"n\":null}", "{\"n_old\":null,\"n\":\"x\"}"];
    assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
    app.succeed(&["status", "--exit-code"]);
    // The other advice is a new name in the configuration.
    app.configure(&config("bool", sink).replace("\"n\"", "\"m\""));
    app.succeed(&["check", "--sinks"]);
    app.succeed(&["reload"]);
    assert!(server.connect().post("/s", r#"{"m": true, "k": 4}"#).unwrap().is_success());
    expect_rows(&app, 4);
    server.stop();
}

#[test]
fn the_advice_for_a_changed_type_works_in_sqlite() {
    check_advice("sqlite = \"rows.db\"", |app, statement| {
        let connection = rusqlite::Connection::open(app.path().join("rows.db")).unwrap();
        connection.execute_batch(statement).unwrap();
    });
}

#[test]
fn the_advice_for_a_changed_type_works_in_postgresql() {
    let database = shared().database();
    let sink = format!("postgres = \"{}\"", shared().url(&database));
    check_advice(&sink, |_, statement| drop(shared().sql(&database, statement)));
}
