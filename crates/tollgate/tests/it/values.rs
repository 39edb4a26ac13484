//! Values that no column accepts, in the first, the middle and the last place of a body. Each such item is a
//! reject, and the other items are rows.

use crate::cluster::shared;
use crate::program::{App, Running, eventually};

const STREAM: &str = r#"
[stream.a]
columns = [
  { name = "n", type = "int" },
  { name = "i", type = "int" },
  { name = "f", type = "float" },
  { name = "t", type = "text" },
  { name = "at", type = "timestamp" },
  { name = "ms", type = "timestamp", unit = "ms" },
  { name = "local", type = "timestamp", zone = "+02:00" },
]
[[route]]
path = "/a"
collect = true
stream = "a"
"#;

/// Fields of items that fit their columns, each with an SQL condition that selects the resulting row.
const GOOD: [(&str, &str); 10] = [
    (r#""i": 9223372036854775807"#, "i = 9223372036854775807"),
    (r#""i": -9223372036854775808"#, "i < -9223372036854775807"),
    (r#""f": 1.7976931348623157e308"#, "f = 1.7976931348623157e308"),
    (r#""f": 5e-324"#, "f = 5e-324"),
    (r#""t": "\ud83d\ude00""#, "t = '\u{1f600}'"),
    (r#""at": "9999-12-31T23:59:59.999999Z""#, "CAST(at AS text) LIKE '9999-12-31%23:59:59.999999%'"),
    (r#""at": "0001-01-01T00:00:00Z""#, "CAST(at AS text) LIKE '0001-01-01%00:00:00%'"),
    (r#""t": "\ud800""#, "t = '\u{fffd}'"),
    (r#""ms": 1767225600123.5"#, "CAST(ms AS text) LIKE '2026-01-01%00:00:00.1235%'"),
    (r#""local": "2026-01-01T00:00:00""#, "CAST(local AS text) LIKE '2025-12-31%22:00:00%'"),
];

/// Items that do not fit.
const BAD: [&[u8]; 13] = [
    br#""t": "a\u0000b""#,
    br#""i": 9223372036854775808"#,
    br#""i": -9223372036854775809"#,
    br#""f": 1e999"#,
    br#""f": "NaN""#,
    br#""at": "294277-01-01T00:00:00Z""#,
    br#""at": "0000-12-31T23:59:59Z""#,
    br#""at": 253402300800000000"#,
    br#""at": 1767225600123"#,
    br#""at": "2026-01-01T00:00:00""#,
    br#""at": "+294276-12-31T23:59:59.999999Z""#,
    b"\"f\": NaN",
    b"\"f\": -Infinity",
];

/// Returns a body of three items, with the bad item in one of the three places.
fn body(bad: &[u8], place: usize, n: usize) -> Vec<u8> {
    let mut body = b"[".to_vec();
    for at in 0..3 {
        body.extend_from_slice(format!("{}{{\"n\": {}, ", if at > 0 { "," } else { "" }, n + at).as_bytes());
        body.extend_from_slice(if at == place { bad } else { GOOD[(n / 10 + at) % GOOD.len()].0.as_bytes() });
        body.push(b'}');
    }
    body.push(b']');
    body
}

fn status_of(server: &Running, content: &[u8]) -> u16 {
    let head = format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len());
    let mut client = server.connect();
    assert!(client.send_bytes(&[head.as_bytes(), content].concat()));
    client.reply().unwrap().status
}

/// Posts each bad item in each place. `ask` runs an SQL statement and returns its output.
fn check(app: &App, ask: impl Fn(&str) -> String, rejects: &str) {
    let server = app.start();
    let mut expected = Vec::new();
    for (index, bad) in BAD.iter().enumerate() {
        for place in 0..3 {
            let n = 10 * (3 * index + place);
            let content = body(bad, place, n);
            let status = status_of(&server, &content);
            assert_eq!(status, 200, "{}", String::from_utf8_lossy(&content));
            expected.extend((0..3).filter(|at| *at != place).map(|at| (n + at).to_string()));
        }
    }
    let count = expected.len();
    eventually("all is loaded", || (ask("SELECT count(*) FROM a") == count.to_string()).then_some(()));
    assert!(server.stop().0.success());
    assert_eq!(ask("SELECT n FROM a ORDER BY n").lines().collect::<Vec<_>>(), expected);
    assert_eq!(ask(&format!("SELECT count(*) FROM {rejects}")), (3 * BAD.len()).to_string());
    for (item, found) in GOOD {
        assert_ne!(ask(&format!("SELECT count(*) FROM a WHERE {found}")), "0", "{item}");
    }
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

#[test]
fn bad_values_become_rejects_wherever_they_stand_and_their_neighbours_rows() {
    let app = App::new(STREAM, &[]);
    let ask = |statement: &str| {
        if !app.has_table("a") {
            return String::new();
        }
        let database = app.database();
        let mut statement = database.prepare(statement).unwrap();
        let text = |row: &rusqlite::Row<'_>| {
            row.get(0).map(|value: rusqlite::types::Value| match value {
                rusqlite::types::Value::Integer(value) => value.to_string(),
                rusqlite::types::Value::Text(value) => value,
                other => format!("{other:?}"),
            })
        };
        let rows = statement.query_map([], text).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>().join("\n")
    };
    check(&app, ask, "tollgate_rejects");
}

#[test]
fn bad_values_become_rejects_in_postgresql_and_their_neighbours_become_rows() {
    let database = shared().database();
    let app = App::new(&format!("{STREAM}[sink.main]\npostgres = \"{}\"\n", shared().url(&database)), &[]);
    let ask = |statement: &str| match shared().sql(&database, "SELECT to_regclass('a') IS NULL").as_str() {
        "t" => String::new(),
        _ => shared().sql(&database, statement),
    };
    check(&app, ask, "tollgate.rejects");
}
