//! Tests of keys, rules and sources of columns, with scripts and with collect.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};
use tollgate_log::{ColumnType, Level};
use tollgate_server::{Absent, BytesMax, ColumnRules, DefaultValue, HashKey, Overlong, Redaction, TimeRules};

use crate::site::{Running, Site};

const SECRET: &str = "alice@example.org";

fn request(method: &str, target: &str, fields: &str, body: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len())
}

fn post(target: &str, body: &str) -> String {
    request("POST", target, "", body)
}

/// Sends items to a collect route, and ignores the result.
fn collect(server: &Running, body: &str) {
    let mut peer = server.connect();
    peer.send(post("/", body));
    assert_eq!(peer.reply(false).status, 200, "{body}");
}

/// Returns the key that `records` shows for the parts of a value.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    format!("{:?}", hasher.finalize().to_vec())
}

fn rules(redaction: Redaction) -> ColumnRules {
    ColumnRules { redaction: Some(redaction), ..ColumnRules::default() }
}

fn hash() -> ColumnRules {
    let key = HashKey { variable: "KEY".to_owned(), secret: b"0123456789abcdef".to_vec() };
    rules(Redaction::Hash(key))
}

#[test]
fn the_key_of_a_request_is_the_digest_of_its_header() {
    let server = Site::new()
        .stream("all", Level::Written, &["n int record.n"])
        .key("request.header.idempotency-key")
        .handler("/", "return { record = { n = 1 } }")
        .start();
    server.check(&request("GET", "/", "Idempotency-Key: \"k1\"\r\n", ""), "200", "");
    server.check(&request("GET", "/", "idempotency-key: \r\n", ""), "200", "");
    server.check(&request("GET", "/", "", ""), "200", "");
    let with_key = format!("n=1 (key)={}", key(&[b"\"k1\""]));
    assert_eq!(server.records(), [&with_key, "n=1 (key)=null", "n=1 (key)=null"]);
}

#[test]
fn the_items_of_one_request_have_keys_of_their_own() {
    let server = Site::new()
        .stream("all", Level::Written, &["n int record.n"])
        .key("request.header.idempotency-key")
        .collect("/")
        .start();
    let sent = request("POST", "/", "Idempotency-Key: k\r\n", r#"[{"n":1},{"n":2}]"#);
    server.check(&sent, "200", "{\"recorded\":2}\n");
    server.check(&sent, "200", "{\"recorded\":2}\n");
    let first = format!("n=1 (key)={}", key(&[b"k"]));
    let second = format!("n=2 (key)={}", key(&[b"k", &[0], &1_u64.to_le_bytes()]));
    assert_eq!(server.records(), [first.as_str(), &second, &first, &second]);
}

#[test]
fn a_key_may_be_a_field_of_the_record_that_no_column_takes() {
    let site = || Site::new().stream("all", Level::Written, &["n int record.n"]).key("record.id");
    let server = site().collect("/").start();
    collect(&server, r#"[{"n":1,"id":"a"},{"n":2,"id":7},{"n":3,"id":null},{"n":4}]"#);
    collect(&server, r#"{"n":5,"id":[1]}"#);
    let expect = [
        format!("n=1 (key)={}", key(&[b"a"])),
        format!("n=2 (key)={}", key(&[b"7"])),
        "n=3 (key)=null".to_owned(),
        "n=4 (key)=null".to_owned(),
        r#"reject column "(key)" takes a text or an integer, found another value: {"n":5,"id":[1]}"#
            .to_owned(),
    ];
    assert_eq!(server.records(), expect);
    let server = site()
        .handler("/text", "return { record = { n = 1, id = 'a' } }")
        .handler("/number", "return { record = { n = 2, id = 7 } }")
        .handler("/none", "return { record = { n = 3 } }")
        .handler("/other", "return { record = { n = 5, id = true } }")
        .start();
    for path in ["/text", "/number", "/none"] {
        server.check(&request("GET", path, "", ""), "200", "");
    }
    assert_eq!(server.records(), expect[..3]);
}

#[test]
fn sources_of_the_request_are_read_as_the_type_of_their_column() {
    let columns = [
        "id int request.param.id",
        "deep bool request.query.deep",
        "ratio float request.query.ratio",
        "at timestamp request.query.at",
        "session uuid request.cookie.session",
        "peer inet request.header.x-peer",
        "name text request.query.name",
        "bytes int request.body_bytes",
        "none int request.query.none",
        "price decimal(5,2) request.query.price",
        "day date request.query.day",
        "hour time request.query.hour",
    ];
    let server = Site::new().stream("all", Level::Written, &columns).handler("/{id}", "return 204").start();
    let fields = "Cookie: a=b; session=00000000-0000-0000-0000-000000000001\r\nX-Peer: 192.0.2.7\r\n";
    let target =
        "/42?deep=true&ratio=0.5&at=1970-01-01T00:00:01Z&name=a+b&name=c&price=1.5&day=2024-02-29&hour=10:00";
    server.check(&request("POST", target, fields, "1234"), "204", "");
    server.check(&request("GET", "/x", "", ""), "204", "");
    let uuid = format!("{:?}", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let row = format!(
        "id=42 deep=true ratio=0.5 at=1000000 session={uuid} peer=192.0.2.7 name=a b bytes=4 none=null \
         price=1.50 day=2024-02-29 hour=10:00:00"
    );
    assert_eq!(server.records(), [row, r#"reject column "id" takes int, found "x": {}"#.to_owned()]);
}

#[test]
fn rules_hold_for_scripts_and_for_collect() {
    let required = ColumnRules { absent: Absent::Reject, ..ColumnRules::default() };
    let default = Absent::Default(DefaultValue::new(ColumnType::Int, &TimeRules::default(), "7").unwrap());
    let default = ColumnRules { absent: default, ..ColumnRules::default() };
    let bounded =
        |overlong| ColumnRules { bytes_max: Some(BytesMax { bytes: 3, overlong }), ..ColumnRules::default() };
    let site = || {
        let columns = ["a text record.a", "b int record.b", "c text record.c", "d text record.d"];
        Site::new()
            .stream("all", Level::Written, &columns)
            .rules("a", required.clone())
            .rules("b", default.clone())
            .rules("c", bounded(Overlong::Truncate))
            .rules("d", bounded(Overlong::Reject))
    };
    let expect = [
        "a=x b=7 c=abc d=abc",
        "a=x b=1 c=null d=null",
        "reject column \"a\" is required, found nothing",
        "reject column \"d\" takes at most 3 bytes, found 4 bytes",
    ];
    let check = |server: Running| {
        let records = server.records();
        let without_item = records.iter().map(|record| record.split(": {").next().unwrap());
        assert_eq!(without_item.collect::<Vec<_>>(), expect);
    };
    let server = site().collect("/").start();
    for item in [
        r#"{"a":"x","c":"abcd","d":"abc"}"#,
        r#"{"a":"x","b":1}"#,
        r#"{"a":null}"#,
        r#"{"a":"x","d":"abcd"}"#,
    ] {
        collect(&server, item);
    }
    check(server);
    let server = site()
        .handler("/1", "return { record = { a = 'x', c = 'abcd', d = 'abc' } }")
        .handler("/2", "return { record = { a = 'x', b = 1 } }")
        .handler("/3", "return 200")
        .handler("/4", "return { record = { a = 'x', d = 'abcd' } }")
        .start();
    (1..=4).for_each(|n| server.check(&request("GET", &format!("/{n}"), "", ""), "200", ""));
    check(server);
}

/// Returns the bytes of all files of a log.
fn log_bytes(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { bytes.extend(log_bytes(&path)) } else { bytes.extend(fs::read(path).unwrap()) }
    }
    bytes
}

fn check_nothing_is_left(server: Running, records: u64) {
    let folder = server.drain();
    let bytes = log_bytes(&folder.path().join("log"));
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("kept") && records > 0, "the log holds what is not redacted");
    for secret in [SECRET, "alice", "192.0.2.77", "deadbeef"] {
        assert!(!has(secret), "{secret} is in the log");
    }
}

#[test]
fn redacted_values_are_nowhere_in_the_log_and_not_in_rejects() {
    let columns =
        ["note text record.note", "email text record.email", "token text record.token", "ip inet record.ip"];
    let site = || {
        Site::new()
            .stream("all", Level::Written, &columns)
            .rules("email", hash())
            .rules("token", rules(Redaction::Drop))
            .rules("ip", rules(Redaction::Truncate))
    };
    let server = site().collect("/").start();
    let items = [
        format!(r#"{{"note":"kept","email":"{SECRET}","token":"deadbeef","ip":"192.0.2.77"}}"#),
        format!(r#"{{"note":5,"email":"{SECRET}","token":"deadbeef","ip":"192.0.2.77"}}"#),
        format!(r#"{{"note":"kept","email":["{SECRET}"]}}"#),
        format!(r#"{{"note":"kept","ip":"{SECRET}"}}"#),
        format!(r#"{{"note":"kept","emial":"{SECRET}"}}"#),
        format!(r#"["{SECRET}"]"#),
        format!("{{\"note\":\"kept\"}}\n{{\"email\":\"{SECRET}\""),
    ];
    items.iter().for_each(|item| collect(&server, item));
    check_nothing_is_left(server, items.len() as u64);

    let server = site()
        .handler(
            "/row",
            &format!("return {{ record = {{ note = 'kept', email = '{SECRET}', ip = '192.0.2.77' }} }}"),
        )
        .handler("/type", &format!("return {{ record = {{ note = 5, email = '{SECRET}' }} }}"))
        .handler("/table", &format!("return {{ record = {{ note = 'kept', email = {{ '{SECRET}' }} }} }}"))
        .handler("/unknown", &format!("return {{ record = {{ note = 'kept', emial = '{SECRET}' }} }}"))
        .handler("/bytes", &format!("return {{ record = {{ note = 'kept', email = '\\255{SECRET}' }} }}"))
        .start();
    for path in ["/row", "/type", "/table", "/unknown", "/bytes"] {
        server.check(&request("GET", path, "", ""), "200", "");
    }
    check_nothing_is_left(server, 5);
}

#[test]
fn redacted_parts_of_the_request_are_nowhere_in_the_log() {
    let columns = [
        "note text request.query.note",
        "email text request.query.email",
        "auth text request.header.authorization",
        "ip inet request.header.x-real-ip",
        "client text request.remote_addr",
    ];
    let server = Site::new()
        .stream("all", Level::Written, &columns)
        .rules("email", hash())
        .rules("auth", rules(Redaction::Drop))
        .rules("ip", rules(Redaction::Truncate))
        .rules("client", rules(Redaction::Truncate))
        .handler("/", "return 204")
        .start();
    let target = format!("/?note=kept&email={SECRET}");
    let fields = "Authorization: Bearer deadbeef\r\nX-Real-IP: 192.0.2.77\r\n";
    server.check(&request("GET", &target, fields, ""), "204", "");
    let fields = format!("X-Real-IP: {SECRET}\r\n");
    server.check(&request("GET", &target, &fields, ""), "204", "");
    check_nothing_is_left(server, 2);
}

#[test]
fn redacted_values_can_still_be_told_apart() {
    let columns =
        ["email text request.query.email", "ip inet request.header.x-ip", "client text request.remote_addr"];
    let server = Site::new()
        .stream("all", Level::Written, &columns)
        .rules("email", hash())
        .rules("ip", rules(Redaction::Truncate))
        .rules("client", rules(Redaction::Truncate))
        .handler("/", "return 204")
        .start();
    server.check(&request("GET", &format!("/?email={SECRET}"), "X-IP: 2001:db8:1:2::3\r\n", ""), "204", "");
    // printf '%s' alice@example.org | openssl dgst -sha256 -hmac 0123456789abcdef
    let digest = "bc55b6f5fdc8ddc19d55842db3456c44fab6167acadac9cb71deb86ee883fd8d";
    assert_eq!(server.records(), [format!("email={digest} ip=2001:db8:1:: client=127.0.0.0")]);
}
