//! The spans of a real server: their trace, their redaction, and collectors that are away, slow or refuse.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::Value;

use crate::admin::{get, get_until, sample};
use crate::program::{App, BINARY, KEEP, PATIENCE, Running, eventually};

const SECRET: &str = "0123456789abcdef-secret";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const ROUTES: &str = r#"
[stream.kept]
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "address", type = "text", from = "request.remote_addr", redact = "drop" },
  { name = "agent", type = "text", from = "request.header.user-agent", redact = "drop" },
]
[[route]]
path = "/kept"
script = "keep.luau"
stream = "kept"
[[route]]
path = "/trace/{part}"
script = "trace.luau"
[[route]]
path = "/failing"
reply = { status = 503 }
"#;
const SCRIPTS: [(&str, &str); 2] =
    [("keep.luau", KEEP), ("trace.luau", "return function(req) return req.trace.traceparent end")];

/// A request that a collector got: its head, and its content.
type Post = (String, Value);

/// A collector that answers with the same bytes each time. With no answer, it only reads.
fn collector(listener: TcpListener, answers: Vec<&'static str>) -> Receiver<Post> {
    let (posts, came) = channel();
    let mut answers = answers.into_iter();
    let mut last = None;
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            last = answers.next().or(last);
            open.push(take(stream.unwrap(), &posts, last));
        }
    });
    came
}

fn take(stream: TcpStream, posts: &Sender<Post>, answer: Option<&str>) -> Option<TcpStream> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut content = vec![0; length.expect("a content-length")];
    reader.read_exact(&mut content).ok()?;
    // The receiver is gone at the end of its test.
    let _ = posts.send((head, serde_json::from_slice(&content).expect("JSON")));
    let mut stream = reader.into_inner();
    stream.write_all(answer.unwrap_or_default().as_bytes()).ok()?;
    answer.is_none().then_some(stream)
}

const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const REFUSED: &str = "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn app(address: SocketAddr, keys: &str) -> App {
    let headers = "headers = { authorization = \"Bearer ${SPANS_TOKEN}\" }";
    let otlp = format!("[otlp]\nurl = \"http://{address}/v1/traces?a=1\"\n{headers}\n{keys}\n");
    App::new(&format!("{otlp}{ROUTES}"), &SCRIPTS)
}

fn command() -> Command {
    let mut command = Command::new(BINARY);
    command.env("SPANS_TOKEN", SECRET);
    command
}

fn start(app: &App) -> Running {
    app.begin_as(command()).serving().unwrap_or_else(|end| panic!("no start: {end:?}"))
}

/// Sends a GET with further field lines, and returns status and content.
fn ask(server: &Running, target: &str, fields: &str) -> (u16, String) {
    let mut client = server.connect();
    assert!(client.send(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")));
    let reply = client.reply().unwrap();
    (reply.status, reply.content)
}

fn traceparent(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\n")
}

/// Waits for this number of spans.
fn spans(posts: &Receiver<Post>, count: usize) -> Vec<Value> {
    let mut spans = Vec::new();
    while spans.len() < count {
        let (head, content) = posts.recv_timeout(PATIENCE).expect("spans in time");
        assert!(head.starts_with("POST /v1/traces?a=1 HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("content-type: application/json\r\n"), "{head}");
        assert!(head.contains(&format!("authorization: Bearer {SECRET}\r\n")), "{head}");
        let new = content["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        assert!((1..=512).contains(&new.len()));
        spans.extend(new.iter().cloned());
    }
    assert_eq!(spans.len(), count, "{spans:#?}");
    spans
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a str> {
    let attribute = span["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    attribute["value"].as_object()?.values().next()?.as_str()
}

fn named<'a>(spans: &'a [Value], path: &str) -> &'a Value {
    let found = spans.iter().find(|span| attribute(span, "url.path") == Some(path));
    found.unwrap_or_else(|| panic!("no span of {path}: {spans:#?}"))
}

fn nanoseconds(span: &Value, key: &str) -> u64 {
    span[key].as_str().expect("a text").parse().expect("a number")
}

fn count(app: &App, series: &str) -> u64 {
    sample(&get(app, "/metrics").content, series)
}

#[test]
fn spans_have_the_trace_of_their_request_and_hide_what_its_stream_redacts() {
    let (listener, address) = listen();
    let posts = collector(listener, vec![TAKEN]);
    let app = app(address, "service_name = \"scores\"");
    let server = start(&app);
    let (_, sent) = ask(&server, "/trace/a?token=1", &traceparent("01"));
    let (_, begun) = ask(&server, "/trace/b", "");
    ask(&server, "/trace/c", &traceparent("00"));
    ask(&server, "/kept?n=1", "User-Agent: me\r\n");
    ask(&server, "/failing", "User-Agent: you\r\n");
    ask(&server, "/absent", "");
    let spans = spans(&posts, 5);
    let child = named(&spans, "/trace/a");
    assert_eq!((&child["traceId"], &child["parentSpanId"]), (&TRACE.into(), &PARENT.into()));
    let own = |span: &Value| {
        let id = |key: &str| span[key].as_str().unwrap().to_owned();
        format!("00-{}-{}-01", id("traceId"), id("spanId"))
    };
    assert_eq!(own(child), sent, "a backend gets the span as its parent");
    let root = named(&spans, "/trace/b");
    assert_eq!((own(root), root.get("parentSpanId")), (begun, None));
    assert_eq!((&root["name"], &root["kind"]), (&"GET /trace/{part}".into(), &2.into()));
    let kept = named(&spans, "/kept");
    for (key, expected) in [
        ("client.address", Some("***")),
        ("user_agent.original", Some("***")),
        ("tollgate.ack", Some("synced")),
        ("tollgate.outcome", Some("acknowledged")),
        ("http.response.status_code", Some("200")),
        ("error.type", None),
    ] {
        assert_eq!(attribute(kept, key), expected, "{key}");
    }
    let failing = named(&spans, "/failing");
    assert_eq!((attribute(failing, "error.type"), &failing["status"]["code"]), (Some("503"), &2.into()));
    assert_eq!(attribute(failing, "user_agent.original"), Some("you"));
    assert_eq!(
        (&named(&spans, "/absent")["name"], attribute(kept, "url.scheme")),
        (&"GET".into(), Some("http"))
    );
    for span in &spans {
        let (begun, ended) = (nanoseconds(span, "startTimeUnixNano"), nanoseconds(span, "endTimeUnixNano"));
        assert!(begun <= ended && ended - begun < 600_000_000_000, "{span:#?}");
        assert!(!span.to_string().contains("token"), "{span:#?}");
    }
    eventually("five spans are counted", || (count(&app, "tollgate_spans_sent_total") == 5).then_some(()));
    assert_eq!(count(&app, "tollgate_spans_lost_total"), 0);
    let printed = command().args(["check", "--print"]).current_dir(app.path()).output();
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    assert!(printed.contains("\"authorization\" = \"Bearer ${SPANS_TOKEN}\""), "{printed}");
    let status = get(&app, "/status").content;
    let (end, log) = server.stop();
    assert!(end.success(), "{log}");
    assert!([printed, status, log].iter().all(|text| !text.contains(SECRET)));
}

#[test]
fn a_collector_that_is_away_loses_counted_spans_and_gets_later_ones() {
    const LARGE: usize = 300;
    let (listener, address) = listen();
    drop(listener);
    let app = app(address, "queue_bytes_max = \"256KiB\"");
    let server = start(&app);
    let agent = format!("User-Agent: {}\r\n", "a".repeat(2000));
    for _ in 0..LARGE {
        assert_eq!(ask(&server, "/kept?n=1", "").0, 200);
        assert_eq!(ask(&server, "/failing", &agent).0, 503);
    }
    get_until(&app, "/metrics", 200, "tollgate_finding{code=\"spans_failing\",severity=\"warning\"} 1");
    let lost = count(&app, "tollgate_spans_lost_total");
    assert!(lost > 0 && count(&app, "tollgate_spans_sent_total") == 0, "{lost}");
    let posts = collector(TcpListener::bind(address).unwrap(), vec![TAKEN]);
    get_until(&app, "/metrics", 200, "tollgate_finding{code=\"spans_failing\",severity=\"warning\"} 0");
    assert!(posts.recv_timeout(PATIENCE).is_ok());
    eventually("each span is sent or lost", || {
        let sum = count(&app, "tollgate_spans_sent_total") + count(&app, "tollgate_spans_lost_total");
        (sum == 2 * LARGE as u64).then_some(())
    });
    let (end, log) = server.stop();
    assert!(end.success(), "{log}");
}

#[test]
fn a_collector_that_never_answers_holds_neither_requests_nor_the_end_up() {
    let (listener, address) = listen();
    let posts = collector(listener, vec![]);
    let app = app(address, "timeout = \"1m\"");
    let server = start(&app);
    ask(&server, "/trace/a", "");
    assert!(posts.recv_timeout(PATIENCE).is_ok());
    for _ in 0..100 {
        assert_eq!(ask(&server, "/kept?n=1", "").0, 200);
    }
    let begun = std::time::Instant::now();
    let (end, log) = server.stop();
    assert!(end.success(), "{log}");
    assert!(begun.elapsed().as_secs() < 50, "the end waits for the collector");
}

#[test]
fn spans_are_sent_again_after_503_and_lost_after_400() {
    let (listener, address) = listen();
    let posts = collector(listener, vec![BUSY, TAKEN, REFUSED]);
    let app = app(address, "");
    let server = start(&app);
    ask(&server, "/trace/a", "");
    let first = spans(&posts, 1);
    assert_eq!(first, spans(&posts, 1), "the same span comes again");
    eventually("the span is counted", || (count(&app, "tollgate_spans_sent_total") == 1).then_some(()));
    ask(&server, "/trace/b", "");
    spans(&posts, 1);
    eventually("the span is lost", || (count(&app, "tollgate_spans_lost_total") == 1).then_some(()));
    assert!(server.stop().0.success());
}

#[test]
fn a_reload_starts_changes_and_ends_the_export() {
    let (listener, address) = listen();
    let posts = collector(listener, vec![TAKEN]);
    let app = App::new(ROUTES, &SCRIPTS);
    let server = start(&app);
    let reload = |keys: &str| {
        let otlp = format!("[otlp]\nurl = \"http://{address}/v1/traces?a=1\"\n");
        let headers = format!("headers = {{ authorization = \"Bearer {SECRET}\" }}\n");
        app.configure(&if keys == "off" {
            ROUTES.to_owned()
        } else {
            format!("{otlp}{headers}{keys}\n{ROUTES}")
        });
        let text = app.succeed(&["reload"]);
        assert!(!text.contains(SECRET), "{text}");
    };
    reload("");
    ask(&server, "/trace/a", "");
    named(&spans(&posts, 1), "/trace/a");
    // A trace that begins here is not sampled, and one that its caller sampled is.
    reload("sample = 0.0");
    let (_, begun) = ask(&server, "/trace/b", "");
    assert!(begun.ends_with("-00"), "{begun}");
    ask(&server, "/trace/c", &traceparent("01"));
    named(&spans(&posts, 1), "/trace/c");
    reload("off");
    ask(&server, "/trace/d", &traceparent("01"));
    let (end, log) = server.stop();
    assert!(end.success(), "{log}");
    assert!(posts.try_recv().is_err() && !log.contains(SECRET), "{log}");
}
