//! A server whose rows go to PostgreSQL.

use crate::cluster::{Cluster, shared};
use crate::program::{App, eventually, printed};
use crate::sinks::{Numbers, STREAMS, check_kills, check_loaders_at_once};

const ITEMS: i64 = 500;
const CONFIG: &str = r#"
[stream.events]
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "at", type = "timestamp", from = "request.time" },
  { name = "extra", type = "json", from = "record.extra" },
]
[[route]]
path = "/collect"
collect = true
stream = "events"
[sink.main]
"#;

#[test]
fn rows_reach_postgresql_by_one_line_of_configuration_and_the_audit_is_exact() {
    let database = shared().database();
    let app = App::new(&format!("{CONFIG}postgres = \"{}\"\n", shared().url(&database)), &[]);
    let server = app.start();
    let mut client = server.connect();
    for n in 0..ITEMS {
        let item = format!("{{\"n\": {n}, \"extra\": {{\"big\": 9007199254740993}}}}");
        assert_eq!(client.post("/collect", &item).unwrap().status, 200);
    }
    let ask = |question: &str| shared().sql(&database, question);
    let expected = format!("{ITEMS}|{ITEMS}|{}", ITEMS * (ITEMS - 1) / 2);
    eventually("all rows are there", || {
        (ask("SELECT to_regclass('events') IS NOT NULL") == "t"
            && ask("SELECT count(*), count(DISTINCT n), sum(n) FROM events") == expected)
            .then_some(())
    });
    server.stop();
    assert_eq!(ask("SELECT DISTINCT extra->>'big' FROM events"), "9007199254740993");
    let audit = app.succeed(&["audit"]);
    assert!(audit.contains(&ITEMS.to_string()), "{audit}");
    let verified = app.succeed(&["log", "verify"]);
    assert!(!verified.contains("cannot compare with"), "{verified}");
    check_statements(&app);
    assert_eq!(ask("SELECT count(*) FROM events"), ITEMS.to_string(), "no statement wrote");
}

/// Checks what `tollgate sql` prints of PostgreSQL, and which statements it refuses.
fn check_statements(app: &App) {
    let values = "SELECT 9007199254740993 AS i, 0.5::float8 AS r, 'NaN'::float8 AS x, true AS b, \
                  'a,\"b\"' AS s, NULL AS z, '{\"a\": 1}'::jsonb AS j, 1.50::numeric(4, 2) AS d";
    let check = |format: &str, expected: &str| {
        assert_eq!(app.succeed(&["sql", "--format", format, values]), expected);
    };
    check(
        "json",
        "{\"i\":9007199254740993,\"r\":0.5,\"x\":\"NaN\",\"b\":true,\"s\":\"a,\\\"b\\\"\",\"z\":null,\
         \"j\":\"{\\\"a\\\": 1}\",\"d\":\"1.50\"}\n",
    );
    check("csv", "i,r,x,b,s,z,j,d\n9007199254740993,0.5,NaN,true,\"a,\"\"b\"\"\",,\"{\"\"a\"\": 1}\",1.50\n");
    check(
        "table",
        "i                 r    x    b     s      z  j         d\n\
                    9007199254740993  0.5  NaN  true  a,\"b\"     {\"a\": 1}  1.50\n(1 row)\n",
    );
    let count = app.succeed(&["sql", "--format", "csv", "SELECT count(*) FROM events"]);
    assert_eq!(count, format!("count\n{ITEMS}\n"));
    let many = app.succeed(&["sql", "SELECT generate_series(1, 20000)"]);
    assert!(many.ends_with("\n10000\n(10000 rows, and there are more: --format csv or json prints all)\n"));
    for bookkeeping in [
        "SELECT stream, reason, text FROM tollgate.rejects",
        "SELECT sequence, reason, text FROM tollgate.rejects WHERE stream = 'events'",
        "SELECT stream, reason, count(*) FROM tollgate.rejects GROUP BY 1, 2",
        "SELECT log, first, last, reason, since FROM tollgate.gaps",
    ] {
        assert!(app.succeed(&["sql", bookkeeping]).ends_with("(0 rows)\n"), "{bookkeeping}");
    }
    let no_rows = "returns no rows, allowed is a statement that returns rows";
    for (statement, reason) in [
        ("DELETE FROM events", no_rows),
        ("DELETE FROM events RETURNING n", "cannot execute DELETE in a read-only transaction"),
        ("SELECT 1; DELETE FROM events", "cannot insert multiple commands into a prepared statement"),
        ("COMMIT", no_rows),
        ("SELECT x FROM events", "column \"x\" does not exist (SQLSTATE 42703)"),
    ] {
        let refused = app.run(&["sql", statement]);
        let text = printed(&refused);
        assert!(refused.status.code() == Some(1) && text.contains(reason), "{statement}: {text}");
    }
}

#[test]
fn a_server_whose_postgresql_is_away_serves_and_shows_no_password() {
    let url = "postgres://me:sesame@127.0.0.1:1/app";
    let app = App::new(&format!("{CONFIG}postgres = \"{url}\"\n"), &[]);
    let server = app.start();
    assert_eq!(server.connect().post("/collect", "{\"n\": 1}").unwrap().status, 200);
    let (_, log) = server.stop();
    assert!(log.contains("me@127.0.0.1:1/app") && !log.contains("sesame"), "{log}");
    let printed = app.succeed(&["check", "--print"]);
    assert!(printed.contains("me:***@127.0.0.1:1/app") && !printed.contains("sesame"), "{printed}");
    for command in [&["check", "--sinks"][..], &["sql", "SELECT 1"]] {
        let away = app.run(command);
        let text = crate::program::printed(&away);
        assert!(away.status.code() == Some(1) && text.contains("me@127.0.0.1:1/app"), "{text}");
        assert!(!text.contains("sesame"), "{text}");
    }
    let summary = app.succeed(&["check"]);
    assert!(summary.contains("sink me@127.0.0.1:1/app"), "{summary}");
}

/// Makes an app that loads into a database of its own, and a function that reads its numbers.
fn app_and_numbers() -> (App, Numbers) {
    let database = shared().database();
    let app = App::new(&format!("{STREAMS}[sink.main]\npostgres = \"{}\"\n", shared().url(&database)), &[]);
    (app, Box::new(move |stream| numbers_of(&database, stream)))
}

/// Returns the numbers of a stream, in order. Returns none while there is no table.
pub(crate) fn numbers_of(database: &str, stream: &str) -> Vec<u64> {
    numbers_in(shared(), database, stream)
}

/// Returns the numbers of a stream in a database of this server, in order. Returns none while there is no
/// table.
pub(crate) fn numbers_in(cluster: &Cluster, database: &str, stream: &str) -> Vec<u64> {
    let ask = |question: &str| cluster.sql(database, question);
    if ask(&format!("SELECT to_regclass('{stream}') IS NOT NULL")) == "f" {
        return Vec::new();
    }
    ask(&format!("SELECT n FROM {stream} ORDER BY n")).lines().map(|n| n.parse().unwrap()).collect()
}

#[test]
fn two_and_four_loaders_at_once_load_every_record_of_several_logs_once() {
    check_loaders_at_once(app_and_numbers);
}

#[test]
fn a_loader_that_is_killed_at_any_moment_loads_every_record_once() {
    check_kills(app_and_numbers);
}

#[test]
fn lines_of_a_library_are_few_and_name_no_folder_of_the_build() {
    let database = shared().database();
    let sink = format!("postgres = \"{}\"\nafter_load = \"after.sql\"\n", shared().url(&database));
    // The notices of one load are more than a library may log in a second.
    let notices =
        "DO $$ BEGIN FOR i IN 1..40 LOOP RAISE NOTICE 'notice % of a \"trigger\"', i; END LOOP; END $$";
    let app = App::new(&format!("{CONFIG}{sink}"), &[("after.sql", notices)]);
    let server = app.start();
    assert_eq!(server.connect().post("/collect", "{\"n\": 1}").unwrap().status, 200);
    eventually("the notices are logged", || server.has_logged("notice 1 of").then_some(()));
    let (_, log) = server.stop();
    let lines: Vec<serde_json::Value> =
        log.lines().filter(|line| line.starts_with('{')).map(|line| line.parse().unwrap()).collect();
    let notices = lines.iter().filter(|line| line["message"].as_str().unwrap().contains("notice "));
    let notices: Vec<_> = notices.collect();
    assert!(notices[0]["message"].as_str().unwrap().ends_with("notice 1 of a \"trigger\""), "{log}");
    assert_eq!(notices[0]["target"], "tokio_postgres::connection", "{log}");
    assert!(notices.len() < 40, "{} notices", notices.len());
    assert!(!log.contains("\"log.") && !log.contains("/registry/"), "{log}");
    assert!(log.contains("\"message\":\"serving\""), "{log}");
}
