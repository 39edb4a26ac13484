//! Tests of the records of scripted transactions in the log.

use tollgate_log::Level;

use crate::site::Site;

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: example.org:80\r\nX-Tag: t\r\n\r\n")
}

/// Runs handlers that return `record = { v = VALUE }` into a column of type `kind`, and compares the records.
fn check_values(kind: &str, values: &[(&str, &str)]) {
    let mut site = Site::new().stream("all", Level::Written, &[&format!("v {kind} record.v")]);
    for (index, (value, _)) in values.iter().enumerate() {
        site = site.handler(&format!("/{index}"), &format!("return {{ record = {{ v = {value} }} }}"));
    }
    let server = site.start();
    for index in 0..values.len() {
        server.check(&get(&format!("/{index}")), "200", "");
    }
    let expect: Vec<_> = values.iter().map(|(_, expect)| (*expect).to_owned()).collect();
    assert_eq!(server.records(), expect, "{kind}");
}

#[test]
fn values_of_scripts_go_into_columns_of_their_type_or_become_rejects() {
    check_values(
        "int",
        &[
            ("1", "v=1"),
            ("-2.0", "v=-2"),
            ("nil", "v=null"),
            ("1.5", r#"reject column "v" takes int, found 1.5: {"v":1.5}"#),
            ("'1'", r#"reject column "v" takes int, found "1": {"v":"1"}"#),
            ("true", r#"reject column "v" takes int, found true: {"v":true}"#),
            ("{1}", r#"reject column "v" takes int, found [1]: {"v":[1]}"#),
        ],
    );
    check_values(
        "float",
        &[
            ("1", "v=1.0"),
            ("0.5", "v=0.5"),
            ("0/0", r#"reject column "v" takes float, found NaN: {"v":"(not kept: NaN)"}"#),
        ],
    );
    check_values("bool", &[("false", "v=false"), ("0", r#"reject column "v" takes bool, found 0: {"v":0}"#)]);
    check_values(
        "text",
        &[
            ("'\u{fc}'", "v=\u{fc}"),
            ("''", "v="),
            ("'\\0'", "reject column \"v\" takes no U+0000, found one at byte 0: {\"v\":\"\\u0000\"}"),
            ("'a\\255'", "v=a\u{fffd}"),
        ],
    );
    check_values("bytes", &[("'\\255'", "v=[255]")]);
    check_values(
        "json",
        &[("{a = 1}", r#"v={"a":1}"#), ("'x'", r#"v="x""#), ("1.5", "v=1.5"), ("true", "v=true")],
    );
    check_values(
        "timestamp",
        &[
            ("'2024-01-01T00:00:00.5Z'", "v=1704067200500000"),
            ("1704067200500000", "v=1704067200500000"),
            ("0", "v=0"),
            ("'soon'", r#"reject column "v" takes timestamp, found "soon": {"v":"soon"}"#),
        ],
    );
    check_values("inet", &[("'::1'", "v=::1"), ("'10.0.0.1'", "v=10.0.0.1")]);
}

#[test]
fn decimals_dates_times_and_lists_of_scripts_are_exact_or_rejects() {
    let double = "reject column \"v\" takes decimal(12,2) as a string, because a number of a script is a double, \
                  found 12.34: {\"v\":12.34}";
    check_values(
        "decimal(12,2)",
        &[
            ("'12.30'", "v=12.30"),
            ("tostring(12.34)", "v=12.34"),
            ("5", "v=5.00"),
            ("'1.234'", r#"reject column "v" takes decimal(12,2), found "1.234": {"v":"1.234"}"#),
            ("12.34", double),
        ],
    );
    check_values(
        "date",
        &[("'2024-02-29'", "v=2024-02-29"), ("1", r#"reject column "v" takes date, found 1: {"v":1}"#)],
    );
    check_values("time", &[("'23:59'", "v=23:59:00")]);
    check_values(
        "int[]",
        &[
            ("{1, 2.0}", "v=[1,2]"),
            ("{}", "v=[]"),
            ("tollgate.json.array()", "v=[]"),
            ("{1, tollgate.json.null}", "v=[1,null]"),
            ("nil", "v=null"),
            ("{'1'}", r#"reject column "v" takes int[], found "1" at index 0: {"v":["1"]}"#),
            ("1", r#"reject column "v" takes int[], found 1: {"v":1}"#),
        ],
    );
    check_values("text[]", &[("{'a', ''}", "v=[a,]"), ("{'a\\255'}", "v=[a\u{fffd}]")]);
    check_values("decimal(5,1)[]", &[("{'1.5', 2}", "v=[1.5,2.0]")]);
}

#[test]
fn bytes_that_are_no_text_are_the_same_text_for_columns_and_scripts() {
    let script = "return {
        json = { agent = req.headers['user-agent'], all = req:all('headers', 'user-agent'),
                 cookie = req.cookies.a, name = req.query.name, body = req:body() },
        record = { by_script = req.headers['user-agent'], raw = req:body() },
    }";
    let columns = [
        "by_column text request.header.user-agent",
        "by_script text record.by_script",
        "raw bytes record.raw",
    ];
    let server = Site::new().stream("all", Level::Synced, &columns).handler("/", script).start();
    let mut peer = server.connect();
    peer.send(
        b"POST /?name=Zo\xc3\xab HTTP/1.1\r\nHost: a\r\nUser-Agent: Caf\xe9Bot\r\nCookie: a=\xff\r\nContent-Length: 1\r\n\r\n\xff",
    );
    let agent = "Caf\u{fffd}Bot";
    let lost = "\u{fffd}";
    let expected =
        format!(r#"{{"agent":"{agent}","all":["{agent}"],"body":"{lost}","cookie":"{lost}","name":"Zoë"}}"#);
    peer.expect("200", &expected);
    assert_eq!(server.records(), [format!("by_column={agent} by_script={agent} raw=[255]")]);
}

#[test]
fn columns_are_filled_from_request_reply_and_record() {
    let columns = [
        "method text request.method",
        "path text request.path",
        "query text request.query",
        "host text request.host",
        "tag text request.header.x-tag",
        "none text request.header.x-none",
        "client inet request.remote_addr",
        "body text body",
        "status int reply.status",
        "bytes int reply.bytes",
        "outcome text reply.outcome",
        "n int record.n",
        "again int record.n",
        "seq int log.sequence",
        "node text log.node",
    ];
    let server = Site::new()
        .tune_log(|log| log.node = "web-ü".to_owned())
        .stream("all", Level::Synced, &columns)
        .handler("/a/{x}", "return { status = 201, body = 'hi', record = { n = 5 } }")
        .start();
    let request = "POST /a/%C3%BC?q=%31 HTTP/1.1\r\nHost: example.org:80\r\nX-Tag: caf\u{e9}\r\nContent-Length: 2\r\n\r\n";
    let mut peer = server.connect();
    peer.send(request);
    peer.send(b"\xffb");
    peer.expect("201", "hi");
    let expect = "method=POST path=/a/\u{fc} query=q=%31 host=example.org:80 tag=caf\u{e9} none=null client=127.0.0.1 \
                  body=\u{fffd}b status=201 bytes=2 outcome=complete n=5 again=5 seq=1 node=web-ü";
    assert_eq!(server.records(), [expect]);
}

#[test]
fn a_machine_without_a_name_is_null() {
    let server =
        Site::new().stream("all", Level::Synced, &["node text log.node"]).handler("/", "return {}").start();
    server.check(&get("/"), "200", "");
    assert_eq!(server.records(), ["node=null"]);
}

#[test]
fn every_transaction_on_a_stream_leaves_one_record_whatever_its_status() {
    let server = Site::new()
        .stream(
            "all",
            Level::Synced,
            &["method text request.method", "status int reply.status", "n int record.n"],
        )
        .handler("/fail", "error('broken')")
        .handler("/teapot", "return { status = 418, record = { n = 1 } }")
        .handler("/nothing", "local x = 1")
        .start();
    server.check(&get("/fail"), "500", "the script failed\n");
    server.check(&get("/teapot"), "418", "");
    server.check(&get("/nothing"), "500", "the script failed\n");
    let mut peer = server.connect();
    peer.send("HEAD /teapot HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.reply(true).status, 418);
    // A request that the server answers without a route is not a transaction.
    server.check(&get("/else"), "404", "no resource has this path\n");
    let expect = [
        "method=GET status=500 n=null",
        "method=GET status=418 n=1",
        "method=GET status=500 n=null",
        "method=HEAD status=418 n=1",
    ];
    assert_eq!(server.records(), expect);
}

#[test]
fn unknown_fields_of_a_record_make_a_reject_that_holds_them() {
    let script = "return { record = { n = 1, m = 2 } }";
    let site = || Site::new().stream("all", Level::Synced, &["n int record.n"]).handler("/", script);
    let server = site().start();
    server.check(&get("/"), "200", "");
    assert_eq!(server.records(), [r#"reject record has unknown fields: "m": {"m":2,"n":1}"#]);
    let ignore = |options: &mut tollgate_server::ServerOptions| {
        options.streams[0].unknown = tollgate_server::UnknownFields::Ignore;
    };
    let server = site().tune(ignore).start();
    server.check(&get("/"), "200", "");
    assert_eq!(server.records(), ["n=1"]);
}

#[test]
fn a_reply_that_stands_on_less_than_the_disk_says_so() {
    for (ack, said) in
        [(Level::Received, Some("received")), (Level::Written, Some("written")), (Level::Synced, None)]
    {
        let server = Site::new()
            .stream("all", ack, &["n int record.n"])
            .handler("/good", "return 204")
            .handler("/bad", "return 400")
            .start();
        let mut peer = server.connect();
        peer.send(get("/good"));
        assert_eq!(peer.reply(false).field("tollgate-ack"), said);
        peer.send(get("/bad"));
        assert_eq!(peer.reply(false).field("tollgate-ack"), None);
    }
}

#[test]
fn a_script_that_runs_over_its_budgets_is_500_and_recorded() {
    let server = Site::new()
        .stream("all", Level::Synced, &["status int reply.status"])
        .handler("/loop", "while true do end")
        .handler("/bomb", "local t = {} while true do table.insert(t, string.rep('x', 100000)) end")
        .handler("/good", "return 'good'")
        .start();
    server.check(&get("/loop"), "500", "the script failed\n");
    server.check(&get("/bomb"), "500", "the script failed\n");
    server.check(&get("/good"), "200", "good");
    assert_eq!(server.records(), ["status=500", "status=500", "status=200"]);
}

#[test]
fn a_record_too_large_for_the_log_is_a_reject_that_says_so() {
    let server = Site::new()
        .stream("all", Level::Synced, &["t text record.t"])
        .handler("/", "return { record = { t = string.rep('x', 5000000) } }")
        .start();
    server.check(&get("/"), "200", "");
    let records = server.records();
    assert_eq!(records.len(), 1);
    assert!(records[0].starts_with("reject the record has 50000"), "{}", records[0]);
}
