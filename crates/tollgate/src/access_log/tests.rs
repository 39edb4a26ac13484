//! Tests of the formats: each field, missing values, and clients that try to forge lines.

use serde_json::Value;
use tollgate_server::{AccessClient, AccessLine, AccessOutcome};

use super::format::push_line;
use crate::config::{ACCESS_FIELDS, AccessFormat};

const LINE: AccessLine<'_> = AccessLine {
    time_us: 1_795_896_000_123_456,
    took_us: 12_345_678,
    reply_bytes: 512,
    status: Some(201),
    protocol: Some("HTTP/1.1"),
    ack: Some("synced"),
    outcome: AccessOutcome::Acknowledged,
    client: AccessClient::Unknown,
    method: Some(b"POST"),
    target: Some(b"/score?a=1"),
    user_agent: Some(b"curl/8"),
    referer: Some(b"http://a/"),
    user: Some(b"ann"),
    route: Some(b"/{name}"),
    id: Some(b"id-1"),
    span: None,
};

/// The line of bytes that are no valid head.
const UNREAD: AccessLine<'_> = AccessLine {
    status: Some(400),
    protocol: None,
    ack: None,
    outcome: AccessOutcome::Replied,
    method: None,
    target: None,
    user_agent: None,
    referer: None,
    user: None,
    route: None,
    id: None,
    ..LINE
};

/// Texts by which a client could try to end a field or a line, or to control a terminal.
const HOSTILE: [&[u8]; 9] = [
    b"a\nGET /forged HTTP/1.1",
    b"a\r\n127.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 0",
    b"a\" 200 0 \"b",
    b"a\\\" b\\",
    b"\x1b[2Ja\x7f\x00\x9b",
    b"\xff\xfe\xc3\x28",
    "\u{202e}\u{2028}\u{85}\u{200f}".as_bytes(),
    b"a b  c",
    b"\",\"status\":200,\"x\":\"",
];

fn line(format: &str, line: &AccessLine<'_>) -> String {
    let mut out = String::new();
    push_line(&mut out, &AccessFormat::parse(format).unwrap(), line);
    out.strip_suffix('\n').unwrap().to_owned()
}

#[test]
fn the_combined_format_is_the_one_of_nginx_and_apache() {
    let client = AccessClient::Address([192, 0, 2, 1].into());
    let expected = "192.0.2.1 - ann [28/Nov/2026:20:00:00 +0000] \"POST /score?a=1 HTTP/1.1\" 201 512 \
                    \"http://a/\" \"curl/8\"";
    assert_eq!(line("combined", &AccessLine { client, ..LINE }), expected);
    let expected = "- - - [28/Nov/2026:20:00:00 +0000] \"-\" 400 512 \"-\" \"-\"";
    assert_eq!(line("combined", &UNREAD), expected);
}

#[test]
fn each_field_of_a_template_has_its_value() {
    let check = |field: &str, expected: &str, missing: &str| {
        assert_eq!(
            (line(field, &LINE).as_str(), line(field, &UNREAD).as_str()),
            (expected, missing),
            "{field}"
        );
    };
    check("$remote_addr", "-", "-");
    check("$remote_user", "ann", "-");
    check("$time_iso8601", "2026-11-28T20:00:00.123456Z", "2026-11-28T20:00:00.123456Z");
    check("$msec", "1795896000.123", "1795896000.123");
    check("\"$request\"", "\"POST /score?a=1 HTTP/1.1\"", "\"-\"");
    check("$request_method", "POST", "-");
    check("$request_uri", "/score?a=1", "-");
    check("$server_protocol", "HTTP/1.1", "-");
    check("$status", "201", "400");
    check("$body_bytes_sent", "512", "512");
    check("$request_time", "12.345", "12.345");
    check("$took_us", "12345678", "12345678");
    check("$http_referer", "http://a/", "-");
    check("$http_user_agent", "curl/8", "-");
    check("$request_id", "id-1", "-");
    check("$route", "/{name}", "-");
    check("$ack/$outcome", "synced/acknowledged", "-/-");
    check("$$5 ü $status.", "$5 ü 201.", "$5 ü 400.");
    for (name, _) in ACCESS_FIELDS {
        assert!(AccessFormat::parse(&format!("${name}")).is_ok(), "{name}");
    }
}

#[test]
fn a_wrong_format_is_refused_with_the_remedy() {
    let check = |format: &str, part: &str| {
        let fault = AccessFormat::parse(format).unwrap_err();
        assert!(fault.contains(part), "{format}: {fault}");
    };
    check("combine", "allowed is \"combined\", \"json\", \"short\", or a text with fields like $status");
    check("$stats", "unknown field \"$stats\", did you mean \"status\"?");
    check("$status $", "unknown field \"$\", allowed: remote_addr");
    check("$status\n$ack", "control character");
}

#[test]
fn a_line_of_json_has_every_field_and_null_for_missing_values() {
    let client = AccessClient::Address("2001:db8::1".parse().unwrap());
    let expected = r#"{"time":"2026-11-28T20:00:00.123456Z","remote_addr":"2001:db8::1","user":"ann","method":"POST","target":"/score?a=1","protocol":"HTTP/1.1","status":201,"reply_bytes":512,"took_us":12345678,"route":"/{name}","ack":"synced","outcome":"acknowledged","user_agent":"curl/8","referer":"http://a/","request_id":"id-1"}"#;
    assert_eq!(line("json", &AccessLine { client, ..LINE }), expected);
    let cancelled = AccessLine { status: None, outcome: AccessOutcome::Cancelled, ..UNREAD };
    let shown: Value =
        line("json", &AccessLine { client: AccessClient::Hidden, ..cancelled }).parse().unwrap();
    assert_eq!((&shown["status"], &shown["method"]), (&Value::Null, &Value::Null));
    assert_eq!((&shown["outcome"], &shown["remote_addr"]), (&"cancelled".into(), &"***".into()));
}

#[test]
fn a_short_line_leaves_out_what_a_request_does_not_have() {
    assert_eq!(line("short", &LINE), "POST /score?a=1 201 512 B 12345.7 ms synced acknowledged");
    assert_eq!(line("short", &UNREAD), "- - 400 512 B 12345.7 ms");
}

#[test]
fn no_value_of_a_client_forges_a_line_or_a_field() {
    for hostile in HOSTILE {
        let text = Some(hostile);
        let forged = AccessLine { target: text, user_agent: text, referer: text, user: text, ..LINE };
        for format in ["combined", "json", "short", "$remote_user $status \"$http_user_agent\" $http_referer"]
        {
            let shown = line(format, &forged);
            let is_shown =
                |character: char| !character.is_control() && !"\u{202e}\u{2028}\u{200f}".contains(character);
            assert!(shown.chars().all(is_shown), "{format}: {shown:?}");
        }
        let combined = line("combined", &forged);
        let parts: Vec<_> = combined.split('"').collect();
        assert_eq!((parts.len(), parts[2]), (7, " 201 512 "), "{combined}");
        assert_eq!(parts[0].split(' ').count(), 6, "{combined}");
        assert_eq!(line("$remote_user $http_referer $status", &forged).split(' ').count(), 3);
        let json: Value = line("json", &forged).parse().unwrap();
        assert_eq!((&json["status"], json.as_object().unwrap().len()), (&201.into(), 15));
        assert_eq!(json["user_agent"], String::from_utf8_lossy(hostile).as_ref());
        assert!(line("short", &forged).ends_with(" 201 512 B 12345.7 ms synced acknowledged"));
    }
}
