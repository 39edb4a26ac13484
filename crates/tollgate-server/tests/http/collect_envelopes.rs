//! Tests of collected items in envelopes: nested fields, values around the items, base64, and replies.

use bytes::Bytes;
use tollgate_log::Level;
use tollgate_server::{
    CollectContent, CollectReply, CollectSpec, ColumnRules, FieldPath, Redaction, UnknownFields,
};

use crate::collect_bodies::{check, post};
use crate::site::{Running, Site};

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).unwrap()
}

fn site(columns: &[&str], spec: CollectSpec) -> Running {
    let site = Site::new().stream("events", Level::Synced, columns);
    let site = site.tune(|options| options.streams[0].unknown = UnknownFields::Ignore);
    site.collect_with("/", spec).start()
}

fn items(text: &str) -> CollectSpec {
    CollectSpec { items: Some(path(text)), ..CollectSpec::default() }
}

#[test]
fn nested_fields_fill_columns() {
    let columns = ["b int record./a/b", "first text record./list/0/x", "a json record.a"];
    let server = Site::new().stream("events", Level::Synced, &columns).collect("/").start();
    check(&server, r#"{"a":{"b":1,"c":2},"list":[{"x":"y"}]}"#, r#"{"recorded":1}"#);
    check(&server, r#"{"a":null}"#, r#"{"recorded":1}"#);
    let expect = [r#"b=1 first=y a={"b":1,"c":2}"#, "b=null first=null a=null"];
    assert_eq!(server.records(), expect);
}

#[test]
fn nested_fields_without_a_column_are_told_by_their_pointer() {
    let server = Site::new().stream("events", Level::Synced, &["b int record./a/b"]).collect("/").start();
    let told = |names: &str| {
        let reason = format!("record has unknown fields: {names}").replace('"', "\\\"");
        format!(r#"{{"recorded":0,"rejected_count":1,"rejected":[{{"index":0,"reason":"{reason}"}}]}}"#)
    };
    check(&server, r#"{"a":{"b":1,"c":2},"d":3}"#, &told(r#""d", "/a/c""#));
    check(&server, r#"{"a":5}"#, &told(r#""/a""#));
    check(&server, r#"{"a":{"b":1}}"#, r#"{"recorded":1}"#);
    let found = server.records();
    assert_eq!(found[2], "b=1");
}

#[test]
fn a_record_of_a_script_has_nested_fields_too() {
    let site = Site::new().stream("events", Level::Synced, &["b int record./a/b", "x text record./l/1"]);
    let server = site.handler("/", "return { record = req:json() }").start();
    assert_eq!(post(&server, "", r#"{"a":{"b":7},"l":["p","q"]}"#).status, 200);
    assert_eq!(post(&server, "", r#"{"a":{"c":7}}"#).status, 200);
    assert_eq!(post(&server, "", r#"{"a":{"b":7},"l":null}"#).status, 200);
    let expect = [
        // The list has an element without a column.
        r#"reject record has unknown fields: "/l/0": {"a":{"b":7},"l":["p","q"]}"#,
        r#"reject record has unknown fields: "/a/c": {"a":{"c":7},"l":null}"#,
        "b=7 x=null",
    ];
    assert_eq!(server.records(), expect);
}

#[test]
fn a_nested_key_marks_retries() {
    let site = Site::new().stream("events", Level::Synced, &["n int record.n"]).key("record./event/id");
    let site = site.tune(|options| options.streams[0].unknown = UnknownFields::Ignore);
    let server = site.collect("/").start();
    check(
        &server,
        r#"[{"event":{"id":"x"}},{"event":{"id":"x"}},{"event":{"id":"y"}}]"#,
        r#"{"recorded":3}"#,
    );
    let records = server.records();
    assert_eq!(records[0], records[1]);
    assert!(records[0] != records[2] && !records[2].contains("(key)=null"), "{records:?}");
}

/// The shape of `POST /v1/batch` of Segment and RudderStack.
#[test]
fn a_batch_of_segment_becomes_rows_with_the_values_around_them() {
    let columns = [
        "sent_at timestamp envelope.sentAt",
        "library text envelope./context/library/name",
        "kind text record.type",
        "url text record./context/page/url",
        "message text record.messageId",
    ];
    let spec = CollectSpec {
        reply: CollectReply {
            status: 200,
            content: CollectContent::Body {
                content_type: "application/json".to_owned(),
                body: Bytes::from_static(b"{\"success\":true}"),
            },
        },
        ..items("batch")
    };
    let server = site(&columns, spec);
    let body = r#"{
        "batch": [
            {"type":"track","event":"Signed Up","messageId":"m1","context":{"page":{"url":"https://a.example/"}}},
            {"type":"identify","userId":"u","traits":{},"messageId":"m2"}
        ],
        "context": {"library":{"name":"analytics-python","version":"2.3.2"}},
        "sentAt": "2026-01-01T00:00:00Z", "writeKey": "k"
    }"#;
    let reply = post(&server, "Content-Type: application/json\r\n", body);
    assert_eq!((reply.status, reply.content.as_str()), (200, "{\"success\":true}"));
    assert_eq!(reply.field("content-type"), Some("application/json"));
    let around = "sent_at=1767225600000000 library=analytics-python";
    let expect = [
        format!("{around} kind=track url=https://a.example/ message=m1"),
        format!("{around} kind=identify url=null message=m2"),
    ];
    assert_eq!(server.records(), expect);
}

/// The shape of `POST /batch/` of PostHog, with a property that is no JSON.
#[test]
fn a_batch_of_posthog_loses_only_the_event_with_nan() {
    let server = site(&["event text record.event", "key text envelope.api_key"], items("/batch"));
    let body = r#"{"api_key":"phc","historical_migration":false,"batch":[
        {"event":"a","properties":{"load":NaN}},{"event":"b","properties":{"load":1}}]}"#;
    let reason = "item is not JSON: expected value at line 1 column 35";
    let told =
        format!(r#"{{"recorded":1,"rejected_count":1,"rejected":[{{"index":0,"reason":"{reason}"}}]}}"#);
    check(&server, body, &told);
    let records = server.records();
    assert_eq!(records[1], "event=b key=phc");
}

/// The shape of a request of Amazon Data Firehose: the items are base64 texts, and the reply repeats an id.
#[test]
fn records_of_firehose_are_decoded_and_its_id_is_a_key_and_comes_back() {
    let spec = CollectSpec {
        base64: Some(path("data")),
        reply: CollectReply {
            status: 200,
            content: CollectContent::Echo(vec![path("requestId"), path("/timestamp"), path("absent")]),
        },
        ..items("records")
    };
    let site = Site::new().stream("events", Level::Synced, &["i int record.i"]).key("envelope.requestId");
    let server = site.collect_with("/", spec).start();
    // The texts are {"i":1} and {"i":2}. The third text is no base64, and the fourth is no JSON.
    let body = r#"{"requestId":"r-1","timestamp":1578090903599,"records":[
        {"data":"eyJpIjoxfQ=="},{"data":"eyJpIjoyfQ=="},{"data":"?"},{"data":"eA=="},{}]}"#;
    for _ in 0..2 {
        let reply = post(&server, "Content-Type: application/json\r\n", body);
        assert_eq!(reply.content, "{\"requestId\":\"r-1\",\"timestamp\":1578090903599}\n");
        assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
    }
    let records = server.records();
    let (first, second) = records.split_at(5);
    assert_eq!(first, second, "a retry has the same keys");
    assert!(first[0].starts_with("i=1 (key)=[") && first[1].starts_with("i=2 (key)=["), "{first:?}");
    assert_ne!(first[0][3..], first[1][3..], "each item has its own key");
    assert!(first[2].starts_with("reject item has a text that is not base64"), "{first:?}");
    assert!(first[3].starts_with("reject item is not JSON") && first[3].ends_with(": x"), "{first:?}");
    assert_eq!(first[4], "reject item has no text at the path of base64: {}");
}

/// The shape of Splunk HEC: events follow each other without a separator.
#[test]
fn events_of_splunk_are_concatenated() {
    let spec = CollectSpec {
        reply: CollectReply {
            status: 200,
            content: CollectContent::Body {
                content_type: "application/json".to_owned(),
                body: Bytes::from_static(b"{\"text\":\"Success\",\"code\":0}"),
            },
        },
        ..CollectSpec::default()
    };
    let server = site(&["message text record./event/message", "host text record.host"], spec);
    let body =
        r#"{"time":1426279439,"host":"h","event":{"message":"a"}}{"host":"h","event":{"message":"b"}}"#;
    assert_eq!(post(&server, "", body).content, "{\"text\":\"Success\",\"code\":0}");
    assert_eq!(server.records(), ["message=a host=h", "message=b host=h"]);
}

/// The batched mode of CloudEvents over HTTP.
#[test]
fn a_batch_of_cloud_events_is_an_array() {
    let server = site(&["kind text record.type", "n int record./data/n"], CollectSpec::default());
    let body = r#"[{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"n":1}}]"#;
    let reply = post(&server, "Content-Type: application/cloudevents-batch+json; charset=utf-8\r\n", body);
    assert_eq!(reply.status, 200);
    assert_eq!(server.records(), ["kind=t n=1"]);
}

#[test]
fn a_document_without_items_is_a_reject_and_spoils_no_other() {
    let server = site(&["n int record.n"], items("batch"));
    let reason = "document has no array or object at the path of items";
    let told =
        format!(r#"{{"recorded":1,"rejected_count":1,"rejected":[{{"index":0,"reason":"{reason}"}}]}}"#);
    check(&server, "{\"bat\":[]}\n{\"batch\":{\"n\":1}}\n", &told);
    assert_eq!(server.records(), [format!("reject {reason}: {{\"bat\":[]}}"), "n=1".to_owned()]);
}

#[test]
fn a_value_of_an_envelope_that_a_column_hides_is_in_no_reject() {
    let site = Site::new().stream("events", Level::Synced, &["n int record.n", "who text envelope.user"]);
    let hidden = ColumnRules { redaction: Some(Redaction::Drop), ..ColumnRules::default() };
    let server = site.rules("who", hidden).collect_with("/", items("batch")).start();
    let body = "{\"user\":\"anna\",\"batch\":[{\"n\":1},{\"n\":\"x\"}]}\n{\"user\":\"anna\"}\n";
    assert_eq!(post(&server, "", body).status, 200);
    let expect = [
        "n=1 who=null",
        r#"reject column "n" takes int, found "x": {"n":"x"}"#,
        r#"reject document has no array or object at the path of items: "(redacted)""#,
    ];
    assert_eq!(server.records(), expect);
}

#[test]
fn a_reply_may_be_empty_or_a_pixel_or_have_another_status() {
    let reply =
        |status, content| CollectSpec { reply: CollectReply { status, content }, ..CollectSpec::default() };
    let check = |spec, status: u16, content_type: Option<&str>, bytes: Option<&str>| {
        let server = site(&["n int record.n", "status int reply.status"], spec);
        let mut peer = server.connect();
        peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n{\"n\":1}");
        // The pixel is no text.
        let found = peer.reply(true);
        assert_eq!((found.status, found.field("content-type")), (status, content_type));
        assert_eq!(found.field("content-length"), bytes);
        assert_eq!(server.records(), [format!("n=1 status={status}")]);
    };
    check(reply(204, CollectContent::Empty), 204, None, None);
    check(reply(202, CollectContent::Empty), 202, None, Some("0"));
    check(reply(201, CollectContent::Summary), 201, Some("application/json"), Some("15"));
    check(reply(200, CollectContent::Gif), 200, Some("image/gif"), Some("43"));
}

#[test]
fn a_reply_repeats_only_short_values_of_the_first_document() {
    let spec = CollectSpec {
        reply: CollectReply { status: 200, content: CollectContent::Echo(vec![path("challenge")]) },
        ..CollectSpec::default()
    };
    let server = site(&["kind text record.type"], spec);
    check(&server, r#"{"type":"url_verification","challenge":"3eZ\"b"}"#, r#"{"challenge":"3eZ\"b"}"#);
    check(&server, r#"{"type":"event_callback"}"#, "{}");
    let long = format!(r#"{{"challenge":"{}"}}"#, "x".repeat(5000));
    check(&server, long, "{}");
    check(&server, r#"[{"challenge":1},{"challenge":2}]"#, r#"{"challenge":1}"#);
    check(&server, r#"{"challenge":1}{"challenge":2}"#, r#"{"challenge":1}"#);
}
