//! Tests of collected items. Each item becomes a typed record, or a reject that the reply reports.

use tollgate_log::Level;

use crate::site::{Running, Site};

fn site(columns: &[&str]) -> Running {
    Site::new().stream("events", Level::Synced, columns).collect("/collect").start()
}

fn post(server: &Running, body: &str, status: &str, content: &str) {
    let length = body.len();
    server.check(
        &format!("POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"),
        status,
        content,
    );
}

#[test]
fn objects_arrays_and_lines_become_records() {
    let server = site(&["n int record.n", "t text record.t"]);
    post(&server, r#"{"n":1,"t":"a"}"#, "200", "{\"recorded\":1}\n");
    post(&server, r#"[{"n":2},{"t":"b"},{}]"#, "200", "{\"recorded\":3}\n");
    post(&server, "{\"n\":3}\n{\"n\":4}\n", "200", "{\"recorded\":2}\n");
    post(&server, "[]", "200", "{\"recorded\":0}\n");
    let expect = ["n=1 t=a", "n=2 t=null", "n=null t=b", "n=null t=null", "n=3 t=null", "n=4 t=null"];
    assert_eq!(server.records(), expect);
}

#[test]
fn a_body_that_does_not_parse_is_400_and_leaves_nothing() {
    let server = site(&["n int record.n"]);
    post(
        &server,
        "{\"n\":1",
        "400",
        "the content is not JSON: EOF while parsing an object at line 1 column 6\n",
    );
    post(
        &server,
        "5",
        "400",
        "the content is not a JSON object, an array of objects, or one object per line\n",
    );
    assert_eq!(server.records(), [""; 0]);
}

#[test]
fn items_that_do_not_fit_are_told_by_index_and_kept() {
    let server = site(&["n int record.n"]);
    let told = r#"{"recorded":1,"rejected_count":3,"rejected":[{"index":0,"reason":"column \"n\" takes int, found \"x\""},{"index":2,"reason":"record has unknown fields: \"m\""},{"index":3,"reason":"item is not a JSON object"}]}"#;
    post(&server, r#"[{"n":"x"},{"n":1},{"m":1},5]"#, "200", &format!("{told}\n"));
    let expect = [
        r#"reject column "n" takes int, found "x": {"n":"x"}"#,
        "n=1",
        r#"reject record has unknown fields: "m": {"m":1}"#,
        "reject item is not a JSON object: 5",
    ];
    assert_eq!(server.records(), expect);
}

#[test]
fn a_line_that_is_no_json_spoils_nothing_but_itself() {
    let server = site(&["n int record.n"]);
    let told = r#"{"recorded":2,"rejected_count":1,"rejected":[{"index":1,"reason":"item is not JSON: expected ident at line 1 column 2"}]}"#;
    post(&server, "{\"n\":1}\nnot json\n{\"n\":2}\n", "200", &format!("{told}\n"));
    let reject = "reject item is not JSON: expected ident at line 1 column 2: not json";
    assert_eq!(server.records(), ["n=1", reject, "n=2"]);
}

#[test]
fn integers_never_pass_through_a_double() {
    let server = site(&["n int record.n", "j json record.j"]);
    post(
        &server,
        r#"{"n":9007199254740993,"j":{"big":123456789012345678901234567890}}"#,
        "200",
        "{\"recorded\":1}\n",
    );
    post(
        &server,
        r#"[{"n":-9223372036854775808},{"n":9223372036854775808},{"n":1.0}]"#,
        "200",
        concat!(
            r#"{"recorded":1,"rejected_count":2,"rejected":[{"index":1,"reason":"column \"n\" takes int, found 9223372036854775808"},"#,
            r#"{"index":2,"reason":"column \"n\" takes int, found 1.0"}]}"#,
            "\n"
        ),
    );
    let records = server.records();
    assert_eq!(records[0], r#"n=9007199254740993 j={"big":123456789012345678901234567890}"#);
    assert_eq!(records[1], "n=-9223372036854775808 j=null");
}

#[test]
fn every_type_takes_its_form_in_json() {
    let columns = [
        "b bool record.b",
        "f float record.f",
        "x bytes record.x",
        "at timestamp record.at",
        "id uuid record.id",
        "ip inet record.ip",
        "all json record",
    ];
    let server = site(&columns);
    let item = r#"{"b":true,"f":2,"x":"AP8=","at":"2024-01-01T01:00:00+01:00","id":"00000000-0000-0000-0000-000000000001","ip":"::1"}"#;
    post(&server, item, "200", "{\"recorded\":1}\n");
    let id = "[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]";
    let expect = format!("b=true f=2.0 x=[0, 255] at=1704067200000000 id={id} ip=::1 all={item}");
    assert_eq!(server.records(), [expect]);
}

#[test]
fn json_of_more_than_128_levels_is_a_reject_of_its_item_alone() {
    let server = site(&["n int record.n", "j json record.j"]);
    let item = |n, levels| format!("{{\"n\":{n},\"j\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    let told = r#"{"recorded":2,"rejected_count":1,"rejected":[{"index":1,"reason":"column \"j\" takes json with at most 128 levels, found more"}]}"#;
    let body = format!("[{},{},{}]", item(1, 128), item(2, 129), item(3, 1));
    post(&server, &body, "200", &format!("{told}\n"));
    let records = server.records();
    assert_eq!(
        records[1],
        format!("reject column \"j\" takes json with at most 128 levels, found more: {}", item(2, 129))
    );
    assert_eq!((records.len(), records[2].as_str()), (3, "n=3 j=[]"));
    let server = site(&["whole json record"]);
    let told = r#"{"recorded":0,"rejected_count":1,"rejected":[{"index":0,"reason":"column \"whole\" takes json with at most 128 levels, found more"}]}"#;
    post(&server, &item(1, 127), "200", "{\"recorded\":1}\n");
    post(&server, &item(1, 100_000), "200", &format!("{told}\n"));
}

#[test]
fn text_that_is_not_unicode_spoils_neither_its_item_nor_another() {
    let server = site(&["t text record.t", "j json record.j"]);
    let bodies: [&[u8]; 2] = [
        b"[{\"t\":\"Zo\xeb\",\"j\":\"\\ud83d\"},{\"t\":\"a\\ud83d\"},{\"t\":\"\\ude00\\ud83d\\ude00\"}]",
        b"{\"t\":\"Zo\xeb\",\"j\":\"\\ud83d\"}\n{\"t\":\"a\\ud83d\"}\n{\"t\":\"\\ude00\\ud83d\\ude00\"}",
    ];
    for body in bodies {
        let mut peer = server.connect();
        peer.send(format!("POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
        peer.send(body);
        peer.expect("200", "{\"recorded\":3}\n");
    }
    let told = "{\"recorded\":0,\"rejected_count\":1,\"rejected\":[{\"index\":0,\
                \"reason\":\"record has unknown fields: \\\"x\u{fffd}\\\"\"}]}\n";
    post(&server, r#"{"x\ud83d":1}"#, "200", told);
    let expected = ["t=Zo\u{fffd} j=\"\\ud83d\"", "t=a\u{fffd} j=null", "t=\u{fffd}\u{1f600} j=null"];
    assert_eq!(server.records()[..6], [expected, expected].concat());
}

#[test]
fn repeated_fields_and_nul_are_rejects() {
    let server = site(&["t text record.t"]);
    let told = r#"{"recorded":0,"rejected_count":2,"rejected":[{"index":0,"reason":"item: field \"t\" is repeated at line 1 column 17"},{"index":1,"reason":"column \"t\" takes no U+0000, found one at byte 1"}]}"#;
    post(&server, r#"[{"t":"a","t":"b"},{"t":"a\u0000"}]"#, "200", &format!("{told}\n"));
    assert_eq!(server.records().len(), 2);
}

#[test]
fn only_post_is_collected() {
    let server = site(&["n int record.n"]);
    let mut peer = server.connect();
    peer.send("GET /collect HTTP/1.1\r\nHost: a\r\n\r\n");
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("allow")), (405, Some("POST, OPTIONS")));
}

#[test]
fn each_of_several_content_types_has_to_be_accepted() {
    let server = Site::new().stream("all", Level::Synced, &["n int record.n"]).collect("/").start();
    for (types, status) in [
        (["application/json", "application/x-ndjson"], 200),
        (["application/json", "text/html"], 415),
        (["text/html", "application/json"], 415),
    ] {
        let [first, second] = types;
        let mut peer = server.connect();
        peer.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: {first}\r\nContent-Type: {second}\r\nContent-Length: 7\r\n\r\n{{\"n\":1}}"
        ));
        assert_eq!(peer.reply(false).status, status, "{types:?}");
    }
    assert_eq!(server.records(), ["n=1"]);
}
