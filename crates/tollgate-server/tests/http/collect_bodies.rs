//! Tests of the types and the framing of collected bodies.

use tollgate_log::Level;
use tollgate_server::{CollectSpec, MediaRange, MediaTypes};

use crate::peer::Reply;
use crate::site::{Running, Site};

fn site() -> Running {
    Site::new().stream("events", Level::Synced, &["n int record.n"]).collect("/").start()
}

pub(crate) fn post(server: &Running, fields: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut peer = server.connect();
    peer.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {}\r\n\r\n", body.len()));
    peer.send(body);
    peer.reply(false)
}

/// Checks the content of a reply 200.
pub(crate) fn check(server: &Running, body: impl AsRef<[u8]>, content: &str) {
    let body = body.as_ref();
    let reply = post(server, "", body);
    let shown = body.escape_ascii();
    assert_eq!((reply.status, reply.content.as_str()), (200, format!("{content}\n").as_str()), "{shown}");
}

#[test]
fn every_framing_of_several_items_is_collected() {
    let server = site();
    for body in [
        "{\"n\":1}{\"n\":2}",
        "{\"n\":1} {\"n\":2}\n",
        "{\n  \"n\": 1\n}\n{\n  \"n\": 2\n}\n",
        "\u{1e}{\"n\":1}\n\u{1e}{\"n\":2}\n",
        "\u{1e}{\n\"n\":1}\n\u{1e}\u{1e}{\"n\":2}\n",
        "{\"n\":1}\r\n\r\n{\"n\":2}\r\n",
        "[{\"n\":1},{\"n\":2}]",
    ] {
        check(&server, body, "{\"recorded\":2}");
    }
    assert_eq!(server.records(), ["n=1", "n=2"].repeat(7));
}

#[test]
fn a_byte_order_mark_before_a_value_is_left_out() {
    let server = site();
    for body in ["\u{feff}{\"n\":1}", "\u{feff}[{\"n\":1}]", "\u{feff}{\"n\":1}\n\u{feff}{\"n\":1}\n"] {
        assert_eq!(post(&server, "", body).status, 200, "{body:?}");
    }
    assert_eq!(server.records(), ["n=1"; 4]);
}

#[test]
fn a_number_that_is_no_json_costs_only_its_item() {
    let server = site();
    let told = |line| {
        let reason = format!("item is not JSON: expected value at line {line} column 6");
        format!(r#"{{"recorded":2,"rejected_count":1,"rejected":[{{"index":1,"reason":"{reason}"}}]}}"#)
    };
    let items = [r#"{"n":1}"#, r#"{"n":NaN}"#, r#"{"n":3}"#];
    check(&server, format!("[{}]", items.join(",")), &told(1));
    check(&server, items.join("\n"), &told(1));
    check(&server, items.concat(), &told(1));
    check(&server, format!("\u{1e}{}", items.join("\n\u{1e}")), &told(1));
    let reject = "reject item is not JSON: expected value at line 1 column 6: {\"n\":NaN}";
    assert_eq!(server.records(), ["n=1", reject, "n=3"].repeat(4));
}

#[test]
fn a_body_without_an_item_that_is_json_is_400() {
    let server = site();
    for body in ["{\"n\":NaN}", "[{\"n\":NaN}]", "[NaN,NaN]", "{\"n\":NaN}{\"n\":NaN}", "\u{1e}", "\u{feff}"]
    {
        assert_eq!(post(&server, "", body).status, 400, "{body:?}");
    }
    assert_eq!(server.records(), [""; 0]);
}

#[test]
fn a_list_of_types_narrows_them_or_adds_to_them() {
    let types = |entries: &[&str]| CollectSpec {
        types: MediaTypes::new(entries.iter().map(|entry| MediaRange::parse(entry).unwrap()).collect()),
        ..CollectSpec::default()
    };
    let server = |entries| {
        let site = Site::new().stream("events", Level::Synced, &["n int record.n"]);
        site.collect_with("/", types(entries)).start()
    };
    let check = |server: &Running, content_type: &str, status: u16, accept: Option<&str>| {
        let fields = format!("Content-Type: {content_type}\r\n");
        let reply = post(server, if content_type.is_empty() { "" } else { &fields }, "{}");
        assert_eq!((reply.status, reply.field("accept")), (status, accept), "{content_type}");
    };
    let narrow = server(&["application/json"]);
    check(&narrow, "application/json; charset=utf-8", 200, None);
    check(&narrow, "text/plain", 415, Some("application/json"));
    check(&narrow, "", 415, Some("application/json"));
    let wide = server(&["default", "application/octet-stream", "none"]);
    check(&wide, "application/octet-stream", 200, None);
    check(&wide, "application/csp-report", 200, None);
    let accept = "application/json, application/x-ndjson, text/plain, application/octet-stream";
    check(&wide, "image/png", 415, Some(accept));
}
