//! `tollgate.sql`: scripts that read SQLite and PostgreSQL.

use rusqlite::Connection;

use crate::cluster::shared;
use crate::program::{App, Running};

const SCRIPT: &str = r#"
return function(req)
  local name = req.query.db or "main"
  local case = req.query.case
  if case == "types" then
    return { json = tollgate.sql(name, "SELECT * FROM things WHERE id = $1", 1) }
  elseif case == "parameters" then
    local sql = if name == "main"
      then "SELECT ?1 AS t, ?2 AS i, ?3 AS f, ?4 AS n, ?5 AS b"
      else "SELECT $1::text AS t, $2::bigint AS i, $3::float8 AS f, $4::text AS n, $5::boolean AS b"
    return { json = tollgate.sql(name, sql, "o'x; DROP TABLE things", tollgate.json.decode("[9007199254740993]")[1], 1.5, nil, true)[1] }
  elseif case == "bytes" then
    local row = tollgate.sql(name, if name == "main" then "SELECT blob FROM things" else "SELECT 1 AS blob")[1]
    return tollgate.hex.encode(tostring(row.blob))
  elseif case == "reversed" then
    return { json = tollgate.sql(name, "SELECT name FROM things WHERE name = $2 AND id = $1", 1, "first") }
  end
  local ok, problem = pcall(tollgate.sql, name, req.query.sql, table.unpack(req:all("query", "p")))
  if ok then
    return { json = tollgate.json.array(problem) }
  end
  return { status = 422, body = string.match(tostring(problem), "tollgate.sql[^\n]*") or tostring(problem) }
end
"#;

fn app(databases: &str) -> App {
    let routes = "[[route]]\npath = \"/\"\nscript = \"ask.luau\"\ndatabases = [\"main\", \"pg\"]\n[[route]]\npath = \"/none\"\nscript = \"ask.luau\"\n";
    let app = App::new(&format!("{routes}{databases}"), &[("ask.luau", SCRIPT)]);
    let database = Connection::open(app.path().join("things.sqlite")).unwrap();
    let made = "CREATE TABLE things (id INTEGER, name TEXT, big INTEGER, part REAL, gone TEXT, blob BLOB);
        INSERT INTO things VALUES (1, 'first', 9007199254740993, 0.5, NULL, x'00ff');
        INSERT INTO things VALUES (2, 'second', -9223372036854775808, 2, NULL, x'');";
    database.execute_batch(made).unwrap();
    app
}

fn ask(server: &Running, query: &str) -> (u16, String) {
    let reply = server.connect().get(&format!("/?{query}")).unwrap();
    (reply.status, reply.content)
}

fn encoded(sql: &str) -> String {
    sql.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn check(server: &Running, query: &str, status: u16, content: &str) {
    assert_eq!(ask(server, query), (status, content.to_owned()), "{query}");
}

/// Checks that a statement is refused with a text like this.
fn check_refused(server: &Running, database: &str, sql: &str, text: &str) {
    let (status, content) = ask(server, &format!("db={database}&sql={}", encoded(sql)));
    assert!(status == 422 && content.contains(text), "{sql}: {status} {content}");
}

#[test]
fn a_script_reads_sqlite() {
    let bounds = "rows_max = 3\nbytes_max = \"1KiB\"\ntimeout = \"300ms\"\n";
    let app = app(&format!(
        "[database.main]\nsqlite = \"things.sqlite\"\n{bounds}[database.pg]\nsqlite = \"absent.sqlite\"\n"
    ));
    let server = app.start();
    check(&server, "case=reversed", 200, "[{\"name\":\"first\"}]");
    check(&server, "case=bytes", 200, "00ff");
    let row = "{\"b\":1,\"f\":1.5,\"i\":9007199254740993,\"t\":\"o'x; DROP TABLE things\"}";
    check(&server, "case=parameters", 200, row);
    let sql = encoded("SELECT id, big, part, gone FROM things ORDER BY id");
    let rows = "[{\"big\":9007199254740993,\"id\":1,\"part\":0.5},{\"big\":-9223372036854775808,\"id\":2,\"part\":2}]";
    check(&server, &format!("sql={sql}"), 200, rows);
    check(&server, &format!("sql={}", encoded("SELECT 1 AS x WHERE 0")), 200, "[]");

    let refused = |sql: &str, text: &str| check_refused(&server, "main", sql, text);
    refused("SELECT absent FROM things", "tollgate.sql: main: no such column: absent");
    refused("INSERT INTO things VALUES (3, '', 0, 0, '', '') RETURNING id", "the statement is not a query");
    refused("ATTACH 'other.sqlite' AS other", "the statement is not a query");
    for pragma in ["hard_heap_limit=50000", "locking_mode=EXCLUSIVE", "busy_timeout=60000", "table_list"] {
        refused(&format!("PRAGMA {pragma}"), "the statement is not a query");
    }
    refused("SELECT * FROM pragma_table_list", "not authorized");
    refused("SELECT zeroblob(900000000)", "too big");
    refused("SELECT 1 WHERE $1", "the query has 1 parameters, but 0 were given");
    refused(
        "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4",
        "the answer exceeds a limit: 3 rows, 1024 bytes",
    );
    refused("SELECT hex(zeroblob(600))", "the answer exceeds a limit");
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    refused(endless, "tollgate.sql: main: no answer within 300 ms");
    check_refused(&server, "pg", "SELECT 1", "unable to open database file");
    check_refused(
        &server,
        "mian",
        "SELECT 1",
        "the route may not read a database \"mian\", did you mean \"main\"?",
    );
    let reply = server.connect().get("/none?case=types").unwrap();
    assert_eq!(reply.status, 500);
    check(&server, "case=reversed", 200, "[{\"name\":\"first\"}]");
}

#[test]
fn a_script_reads_the_file_that_is_at_the_path_now() {
    let databases = "[database.main]\nsqlite = \"things.sqlite\"\nconnections = 1\n[database.pg]\nsqlite = \"absent.sqlite\"\n";
    let app = app(databases);
    let server = app.start();
    let sql = format!("sql={}", encoded("SELECT name FROM things WHERE id = 1"));
    check(&server, &sql, 200, "[{\"name\":\"first\"}]");
    for n in 0..3 {
        let other = app.path().join("other.sqlite");
        // The first database uses a write-ahead log, and the others do not.
        let made = format!(
            "PRAGMA journal_mode = {}; CREATE TABLE things (id INTEGER, name TEXT); INSERT INTO things VALUES (1, 'other {n}')",
            if n == 1 { "WAL" } else { "DELETE" }
        );
        Connection::open(&other).unwrap().execute_batch(&made).unwrap();
        std::fs::rename(&other, app.path().join("things.sqlite")).unwrap();
        check(&server, &sql, 200, &format!("[{{\"name\":\"other {n}\"}}]"));
    }
    std::fs::remove_file(app.path().join("things.sqlite")).unwrap();
    check_refused(&server, "main", "SELECT 1", "unable to open database file");
}

#[test]
fn a_script_reads_postgresql() {
    let database = shared().database();
    let made = "CREATE TABLE things (id int, name text, big bigint, price numeric, gone text, tags text[], doc jsonb);
        INSERT INTO things VALUES (1, 'first', 9007199254740993, 1.5, NULL, '{a,b}', '{\"x\": [1]}')";
    shared().sql(&database, made);
    let url = shared().url(&database);
    let app = app(&format!(
        "[database.main]\nsqlite = \"things.sqlite\"\n[database.pg]\npostgres = \"{url}\"\ntimeout = \"1s\"\nconnections = 2\nrows_max = 3\n"
    ));
    let server = app.start();
    let row = "[{\"big\":9007199254740993,\"doc\":{\"x\":[1]},\"id\":1,\"name\":\"first\",\"price\":1.5,\"tags\":[\"a\",\"b\"]}]";
    check(&server, "db=pg&case=types", 200, row);
    check(&server, "db=pg&case=reversed", 200, "[{\"name\":\"first\"}]");
    let row = "{\"b\":true,\"f\":1.5,\"i\":9007199254740993,\"t\":\"o'x; DROP TABLE things\"}";
    check(&server, "db=pg&case=parameters", 200, row);

    let refused = |sql: &str, text: &str| check_refused(&server, "pg", sql, text);
    refused("SELECT absent FROM things", "column \"absent\" does not exist (SQLSTATE 42703)");
    refused("DELETE FROM things", "syntax error");
    refused("SELECT 1) x; DELETE FROM things; --", "(SQLSTATE 42601)");
    refused("WITH gone AS (DELETE FROM things RETURNING id) SELECT * FROM gone", "must be at the top level");
    refused("SELECT setval('s', 1) FROM (SELECT 1) x", "does not exist");
    refused("SELECT pg_sleep(30)", "tollgate.sql: pg: no answer within 1000 ms");
    refused("SELECT generate_series(1, 4) AS n", "the answer exceeds a limit: 3 rows");
    refused("SELECT $1::int", "the query has 1 parameters, but 0 were given");
    check(
        &server,
        &format!("db=pg&sql={}", encoded("SELECT current_setting('transaction_read_only') AS r")),
        200,
        "[{\"r\":\"on\"}]",
    );
    shared().sql(
        &database,
        "CREATE FUNCTION sneak() RETURNS int LANGUAGE sql AS 'DELETE FROM things RETURNING id'",
    );
    refused("SELECT sneak()", "cannot execute DELETE in a read-only transaction (SQLSTATE 25006)");
    assert_eq!(shared().sql(&database, "SELECT count(*) FROM things"), "1");
    check(&server, "db=pg&case=reversed", 200, "[{\"name\":\"first\"}]");
}

#[test]
fn a_fault_of_a_database_is_reported_before_the_start() {
    let check = |databases: &str, text: &str| {
        let app = app(databases);
        let output = app.run(&["check"]);
        let told = crate::program::printed(&output);
        assert!(output.status.code() == Some(2) && told.contains(text), "{databases}: {told}");
    };
    check("", "unknown database \"main\"");
    let main = "[database.main]\nsqlite = \"things.sqlite\"\n";
    check(
        &format!("{main}[database.pgs]\nsqlite = \"x\"\n"),
        "unknown database \"pg\", did you mean \"pgs\"?",
    );
    check(
        &format!("{main}[database.pg]\n"),
        "[database.pg] needs one database, found none, allowed is one of sqlite, postgres",
    );
    check(&format!("{main}[database.pg]\nsqlite = \"x\"\nconnections = 0\n"), "connections");
    let printed = app(&format!("{main}[database.pg]\npostgres = \"postgres://me:sesame@127.0.0.1:1/x\"\n"));
    let printed = printed.succeed(&["check", "--print"]);
    assert!(printed.contains("me:***@127.0.0.1:1/x") && !printed.contains("sesame"), "{printed}");
}
