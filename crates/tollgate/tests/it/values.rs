//! Values that no column accepts, in the first, the middle and the last place of a body. Each such item is a
//! reject, and the other items are rows.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tollgate_value::{Date, Decimal, TimeOfDay};

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
  { name = "d", type = "decimal(12,2)" },
  { name = "x", type = "decimal" },
  { name = "day", type = "date" },
  { name = "tod", type = "time" },
  { name = "ns", type = "int[]" },
  { name = "ts", type = "text[]" },
  { name = "ds", type = "decimal(12,2)[]" },
]
[[route]]
path = "/a"
collect = true
stream = "a"
"#;

/// Fields of items that fit their columns, each with an SQL condition that selects the resulting row.
const GOOD: [(&str, &str); 19] = [
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
    (r#""d": 12.3"#, "CAST(d AS text) = '12.30'"),
    (r#""d": "-9999999999.99""#, "CAST(d AS text) = '-9999999999.99'"),
    (r#""x": 123456789012345678901234.50"#, "CAST(x AS text) = '123456789012345678901234.50'"),
    (r#""day": "2024-02-29""#, "CAST(day AS text) = '2024-02-29'"),
    (r#""tod": "23:59:59.5""#, "CAST(tod AS text) = '23:59:59.5'"),
    (r#""ns": []"#, "CAST(ns AS text) IN ('{}', '[]')"),
    (r#""ns": [1, null]"#, "CAST(ns AS text) IN ('{1,NULL}', '[1,null]')"),
    (r#""ts": ["a", "\ud800"]"#, "CAST(ts AS text) IN ('{a,\u{fffd}}', '[\"a\",\"\u{fffd}\"]')"),
    (r#""ds": [1.1, "2"]"#, "CAST(ds AS text) IN ('{1.10,2.00}', '[\"1.10\",\"2.00\"]')"),
];

/// Items that do not fit.
const BAD: [&[u8]; 24] = [
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
    br#""d": 1.234"#,
    br#""d": 10000000000"#,
    br#""d": "12,50""#,
    br#""x": 1e400"#,
    br#""day": "2023-02-29""#,
    br#""day": "2024-02-29T00:00:00Z""#,
    br#""tod": "24:00""#,
    br#""ns": [1, "2"]"#,
    br#""ns": 5"#,
    br#""ts": ["a\u0000"]"#,
    br#""ds": [1.234]"#,
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

/// Number of items with random values.
const RANDOM_ITEMS: i64 = 200;

/// Returns an item with random values, and its row: the values of the item as text.
fn random_item() -> impl Strategy<Value = (String, String)> {
    let coefficient = |digits: u32| -10_i128.pow(digits) + 1..10_i128.pow(digits);
    let decimal = |(coefficient, scale)| Decimal::new(coefficient, scale).unwrap().to_string();
    let exact = (prop_oneof![coefficient(38), coefficient(6)], 0..=38_u8).prop_map(decimal);
    let sized = coefficient(12).prop_map(move |coefficient| decimal((coefficient, 2)));
    let day = (Date::FIRST.days()..=Date::LAST.days()).prop_map(|days| Date::from_days(days).unwrap());
    let time = (0..=TimeOfDay::LAST.microseconds()).prop_map(|us| TimeOfDay::from_microseconds(us).unwrap());
    let integers = prop::collection::vec(prop::option::of(any::<i64>()), 0..9);
    (exact, sized, day, time, integers).prop_map(|(exact, sized, day, time, integers)| {
        let integer = |one: &Option<i64>| one.map_or("null".to_owned(), |one| one.to_string());
        let list = format!("[{}]", integers.iter().map(integer).collect::<Vec<_>>().join(","));
        let item = format!(r#""x": {exact}, "d": "{sized}", "day": "{day}", "tod": "{time}", "ns": {list}"#);
        (item, format!("{exact} {sized} {day} {time} {list}"))
    })
}

/// Posts items with random values, and compares each row with its item.
fn check_random(app: &App, ask: impl Fn(&str) -> String) {
    let mut runner = TestRunner::deterministic();
    let items: Vec<_> =
        (0..RANDOM_ITEMS).map(|_| random_item().new_tree(&mut runner).unwrap().current()).collect();
    let numbered = items.iter().enumerate().map(|(n, (item, _))| format!("{{\"n\": {n}, {item}}}"));
    let body = format!("[{}]", numbered.collect::<Vec<_>>().join(","));
    let server = app.start();
    assert_eq!(status_of(&server, body.as_bytes()), 200);
    eventually("all is loaded", || (ask("SELECT count(*) FROM a") == RANDOM_ITEMS.to_string()).then_some(()));
    assert!(server.stop().0.success());
    let columns =
        ["x", "d", "day", "tod", "ns"].map(|name| format!("CAST({name} AS text)")).join(" || ' ' || ");
    let found = ask(&format!("SELECT {columns} FROM a ORDER BY n"));
    // PostgreSQL shows an array as {1,NULL}.
    let found = found.replace('{', "[").replace('}', "]").replace("NULL", "null");
    assert_eq!(found.lines().count(), items.len());
    for (line, (item, row)) in found.lines().zip(&items) {
        assert_eq!(line, row, "{item}");
    }
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
    check(&app, |statement| ask_sqlite(&app, statement), "tollgate_rejects");
}

#[test]
fn random_decimals_dates_times_and_lists_are_the_same_in_sqlite() {
    let app = App::new(STREAM, &[]);
    check_random(&app, |statement| ask_sqlite(&app, statement));
}

fn ask_sqlite(app: &App, statement: &str) -> String {
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
}

#[test]
fn bad_values_become_rejects_in_postgresql_and_their_neighbours_become_rows() {
    let database = shared().database();
    check(&with_postgres(&database), |statement| ask_postgres(&database, statement), "tollgate.rejects");
}

#[test]
fn random_decimals_dates_times_and_lists_are_the_same_in_postgresql() {
    let database = shared().database();
    check_random(&with_postgres(&database), |statement| ask_postgres(&database, statement));
}

fn with_postgres(database: &str) -> App {
    App::new(&format!("{STREAM}[sink.main]\npostgres = \"{}\"\n", shared().url(database)), &[])
}

fn ask_postgres(database: &str, statement: &str) -> String {
    match shared().sql(database, "SELECT to_regclass('a') IS NULL").as_str() {
        "t" => String::new(),
        _ => shared().sql(database, statement),
    }
}
