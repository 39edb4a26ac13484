//! Tests of the access log: each request has one line, whatever its end is, and hidden values are in no line.

use std::sync::Arc;

use tollgate_log::Level;
use tollgate_server::{
    AccessClient, AccessLogOptions, AccessOnly, AccessOutcome, AccessQueue, ColumnRules, RateKey, Redaction,
    ValidateMode,
};

use crate::asking::{get, until};
use crate::auth::{PASSWORD, basic, needs, password};
use crate::site::{Running, Site};
use crate::throttles::hourly;
use crate::validating::REPLIES;

/// The text of a line: method, target, status, bytes, route, ack level, outcome.
const NO_TEXT: &str = "-";

/// The lines of a server, as the writer takes them.
struct Lines(Arc<AccessQueue>);

impl Site {
    fn with_access_log(self, only: AccessOnly) -> Self {
        let omit_query = vec!["token".to_owned()];
        self.tune(|options| options.access_log = Some(AccessLogOptions { sample: 1.0, only, omit_query }))
    }

    fn start_with_lines(self) -> (Running, Lines) {
        let queue = self.options.access_queue.clone();
        (self.start(), Lines(queue))
    }
}

impl Lines {
    /// Waits for this number of lines, and returns their texts.
    fn take(&self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.len() < count {
            let taken = self.0.take();
            let text = |bytes: Option<&[u8]>| match bytes {
                Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                None => NO_TEXT.to_owned(),
            };
            lines.extend(taken.batches.iter().flat_map(|batch| {
                batch.lines().map(|line| {
                    let status = line.status.map_or(NO_TEXT.to_owned(), |status| status.to_string());
                    let words = [line.ack, line.outcome.name()].map(|word| word.unwrap_or(NO_TEXT));
                    let (method, target, route) = (text(line.method), text(line.target), text(line.route));
                    let bytes = line.reply_bytes;
                    format!("{method} {target} {status} {bytes} {route} {} {}", words[0], words[1])
                })
            }));
        }
        lines
    }

    /// Returns the only line that waits, after it has come.
    fn one<R>(&self, read: impl Fn(&tollgate_server::AccessLine<'_>) -> R) -> R {
        let taken = self.0.take();
        let lines: Vec<_> = taken.batches.iter().flat_map(tollgate_server::AccessBatch::lines).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        read(&lines[0])
    }
}

#[test]
fn each_request_has_a_line_in_the_order_of_the_replies() {
    let site = Site::new().fixed("/plain", "plain").handler("/script", "return 'script'");
    let (server, lines) = site.with_access_log(AccessOnly::All).start_with_lines();
    let mut peer = server.connect();
    peer.send([get("/plain"), get("/script?token=1"), get("/absent"), get("/plain")].concat());
    for (status, content) in [("200", "plain"), ("200", "script"), ("404", ""), ("200", "plain")] {
        let reply = peer.reply(false);
        assert!(reply.status.to_string() == status && reply.content.starts_with(content), "{reply:?}");
    }
    peer.send("HEAD /plain HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.reply(true).status, 200);
    peer.send("GET / HTTP/9.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.reply(false).status, 505);
    let expected = [
        "GET /plain 200 5 /plain - -",
        "GET /script?token=*** 200 6 /script - -",
        "GET /absent 404 26 - - -",
        "GET /plain 200 5 /plain - -",
        "HEAD /plain 200 0 /plain - -",
    ];
    let told = lines.take(6);
    assert_eq!(told[..5], expected);
    assert!(told[5].starts_with("- - 505 "), "{told:?}");
}

#[test]
fn a_line_has_the_client_the_fields_and_the_id_of_its_request() {
    let (server, lines) =
        Site::new().handler("/", "return 'a'").with_access_log(AccessOnly::All).start_with_lines();
    let mut peer = server.connect();
    peer.send(
        "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: me \"\u{fc}\"\r\n\
         Referer: http://b/?token=1\r\nAuthorization: Basic c2VjcmV0\r\nCookie: secret=1\r\n\r\n",
    );
    let id = peer.reply(false).field("x-request-id").unwrap().to_owned();
    lines.one(|line| {
        assert_eq!(line.client, AccessClient::Address([127, 0, 0, 1].into()));
        assert_eq!((line.protocol, line.user), (Some("HTTP/1.1"), None));
        assert_eq!(line.user_agent, Some("me \"\u{fc}\"".as_bytes()));
        assert_eq!(line.referer, Some(&b"http://b/?token=***"[..]));
        assert_eq!(line.id, Some(id.as_bytes()));
        assert!(!format!("{line:?}").contains("secret"));
    });
}

#[test]
fn a_line_names_the_caller_only_if_the_credentials_are_valid() {
    let site = Site::new().fixed("/staff", "a").tune_route(needs(basic()));
    let (server, lines) = site.with_access_log(AccessOnly::All).start_with_lines();
    for (given, status, user) in [(PASSWORD, 200, Some(&b"anna"[..])), ("wrong", 401, None)] {
        let mut peer = server.connect();
        let credentials = password("anna", given);
        peer.send(format!("GET /staff HTTP/1.1\r\nHost: a\r\n{credentials}\r\n"));
        assert_eq!(peer.reply(false).status, status);
        lines.one(|line| {
            assert_eq!((line.status, line.user), (Some(status), user));
            assert_eq!((line.route, line.target), (Some(&b"/staff"[..]), Some(&b"/staff"[..])));
        });
    }
}

#[test]
fn a_line_tells_the_ack_level_and_the_outcome_of_the_records() {
    let (record, columns) = ("return { status = 201, record = { n = 1 } }", ["n int record.n"]);
    let start = || {
        let site = Site::new().log_may_fail().stream("kept", Level::Synced, &columns);
        site.handler("/kept", record).with_access_log(AccessOnly::All).start_with_lines()
    };
    let (server, lines) = start();
    assert_eq!(server.connect_and_ask("/kept"), 201);
    assert_eq!(lines.take(1), ["GET /kept 201 0 /kept synced acknowledged"]);
    let (server, lines) = start();
    server.take_log_folder();
    assert_eq!(server.connect_and_ask("/kept"), 503);
    let lost = lines.take(1).remove(0);
    assert!(lost.starts_with("GET /kept 503 ") && lost.ends_with(" /kept synced unknown"), "{lost}");
    assert_eq!(server.connect_and_ask("/kept"), 503);
    let refused = lines.take(1).remove(0);
    assert!(refused.ends_with(" /kept - refused"), "{refused}");
}

#[test]
fn only_errors_leaves_out_successes_and_faults_of_clients() {
    let site = Site::new().handler("/fails", "error('x')").fixed("/seldom", "a");
    let site = site.tune_route(|route| route.limits.rates.push(hourly(1, RateKey::Route)));
    let (server, lines) = site.with_access_log(AccessOnly::Errors).start_with_lines();
    for (target, status) in [("/seldom", 200), ("/absent", 404), ("/seldom", 429), ("/fails", 500)] {
        assert_eq!(server.connect_and_ask(target), status, "{target}");
    }
    let told = lines.take(2);
    assert!(told[0].starts_with("GET /seldom 429 ") && told[0].ends_with(" /seldom - refused"), "{told:?}");
    assert!(told[1].starts_with("GET /fails 500 ") && told[1].ends_with(" /fails - -"), "{told:?}");
}

#[test]
fn each_refused_connection_has_a_line() {
    const REFUSED: usize = 200;
    let site = Site::new().fixed("/", "a").tune(|options| options.capacity.connections_max = 1);
    let (server, lines) = site.with_access_log(AccessOnly::All).start_with_lines();
    let mut only = server.connect();
    only.send(get("/"));
    only.expect("200", "a");
    let mut peers: Vec<_> = (0..REFUSED).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| assert_eq!(peer.reply(false).status, 503));
    let told = lines.take(REFUSED + 1);
    assert_eq!(told[0], "GET / 200 1 / - -");
    assert!(told[1..].iter().all(|line| line.starts_with("- - 503 ") && line.ends_with(" - - refused")));
}

#[test]
fn a_client_that_leaves_has_a_line_with_the_state_of_its_reply() {
    let waits = "local begun = 'no'
        return function(req)
            if req.query.begun then return begun end
            begun = 'yes'
            while true do tollgate.sleep(0.01) end
        end";
    let pours = "return { write = function(out) while out:write(string.rep('x', 65536)) do end end }";
    let site = Site::new().script("/waits", waits).handler("/pours", pours).fixed("/body", "a");
    let (server, lines) = site.with_access_log(AccessOnly::All).start_with_lines();
    let mut peer = server.connect();
    peer.send(get("/pours"));
    assert_eq!(peer.head().status, 200);
    peer.reset();
    let told = lines.take(1).remove(0);
    assert!(told.starts_with("GET /pours 200 ") && told.ends_with(" /pours - aborted"), "{told}");
    let mut peer = server.connect();
    peer.send(get("/waits"));
    until(&server, "/waits?begun=1", "yes");
    peer.reset();
    // The requests of `until` have lines, too.
    let mut told = lines.take(1);
    while told.last().is_some_and(|line| line.starts_with("GET /waits?begun=1 200 ")) {
        told = lines.take(1);
    }
    assert_eq!(told.last().unwrap(), "GET /waits - 0 /waits - cancelled");
    let mut peer = server.connect();
    peer.send("POST /absent HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
    peer.finish();
    let told = lines.take(1).remove(0);
    assert!(told.starts_with("POST /absent 4"), "{told}");
}

#[test]
fn streamed_content_counts_with_the_bytes_that_left() {
    let streams = "return { write = function(out) out:write('12345') out:write('678') end }";
    let (server, lines) =
        Site::new().handler("/", streams).with_access_log(AccessOnly::All).start_with_lines();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.0\r\n\r\n");
    assert!(peer.rest().ends_with("12345678"));
    assert_eq!(lines.take(1), ["GET / 200 8 / - -"]);
}

/// The record is on disk before the content, so only the line knows the end of the content.
#[test]
fn a_reply_that_validation_refuses_or_cuts_has_the_outcome_invalid() {
    let content = |write: &str| {
        format!(
            "return {{ headers = {{ [\"content-type\"] = \"text/xml\" }},
                 write = function(out) out:write(\"<order id='1'><item sku='a'>1</item>\") {write} end }}"
        )
    };
    let later = "tollgate.sleep(0.001) out:write(string.rep(' ', 70000))";
    let columns = ["path text request.path", "outcome text reply.outcome", "id text request.id"];
    let mut site = Site::new().stream("kept", Level::Synced, &columns);
    for (path, end, mode) in [
        ("/cut", "out:write('<itme/></order>')", ValidateMode::Stream),
        ("/whole", "out:write('</order>')", ValidateMode::Stream),
        ("/refused", "out:write('<itme/></order>')", ValidateMode::Whole),
    ] {
        site = site.handler(path, &content(&format!("{later} {end}"))).validate(REPLIES, mode);
    }
    let (server, lines) = site.with_access_log(AccessOnly::Errors).start_with_lines();
    let ask = |path: &str| {
        let mut peer = server.connect();
        peer.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        peer.rest_or_reset()
    };
    assert!(ask("/whole").ends_with("\r\n0\r\n\r\n"), "a valid reply is no error");
    let cut = ask("/cut");
    assert!(cut.starts_with("HTTP/1.1 200 ") && !cut.ends_with("0\r\n\r\n"), "{cut:.200}");
    let id = lines.one(|line| {
        assert_eq!(
            (line.status, line.ack, line.outcome.name()),
            (Some(200), Some("synced"), Some("invalid"))
        );
        String::from_utf8(line.id.unwrap().to_vec()).unwrap()
    });
    assert!(ask("/refused").starts_with("HTTP/1.1 500 "));
    let refused = lines.take(1).remove(0);
    assert!(refused.starts_with("GET /refused 500 ") && refused.ends_with(" synced invalid"), "{refused}");
    let records = server.records();
    for (record, expected) in
        records.iter().zip(["/whole outcome=streamed", "/cut outcome=streamed", "/refused outcome=invalid"])
    {
        assert!(record.starts_with(&format!("path={expected} id=")), "{records:?}");
    }
    assert!(records.len() == 3 && records[1].ends_with(&format!(" id={id}")), "{id} in {records:?}");
}

#[test]
fn what_a_stream_redacts_is_in_no_line_of_its_routes_or_of_requests_without_a_route() {
    let hidden = || ColumnRules { redaction: Some(Redaction::Drop), ..ColumnRules::default() };
    let columns =
        ["q text request.query.q", "h text request.header.user-agent", "c inet request.remote_addr"];
    let site = Site::new().handler("/open", "return 'a'");
    let site = site.stream("kept", Level::Written, &columns);
    let site = site.rules("q", hidden()).rules("h", hidden()).rules("c", hidden());
    let site = site.handler("/kept", "return 'a'").handler("/*", "return 'all'");
    let site = site.tune(|options| options.routes[2].stream = None);
    let site = site.handler("/passed/x", "return tollgate.pass").tune_route(|route| route.stream = None);
    let site = site.handler("/passed/*", "return 'next'");
    let (server, lines) = site.with_access_log(AccessOnly::All).start_with_lines();
    let ask = |target: &str| {
        let mut peer = server.connect();
        peer.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: me\r\nReferer: /r?q=1\r\n\r\n"));
        peer.reply(false);
        lines.one(|line| {
            let text = |text: Option<&[u8]>| String::from_utf8_lossy(text.unwrap()).into_owned();
            let [target, agent, referer] = [line.target, line.user_agent, line.referer].map(text);
            format!("{target} {agent} {referer} {}", line.client == AccessClient::Hidden)
        })
    };
    assert_eq!(ask("/open?q=1"), "/open?q=1 me /r?q=*** false");
    assert_eq!(ask("/kept?q=1&a=2"), "/kept?q=***&a=2 *** /r?q=*** true");
    assert_eq!(ask("/passed/x?q=1"), "/passed/x?q=*** *** /r?q=*** true");
    let mut peer = server.connect();
    peer.send("DELETE /kept?q=secret HTTP/1.1\r\nHost: a\r\nExpect: 200\r\n\r\n");
    peer.reply(false);
    let told = lines.take(1).remove(0);
    assert!(!told.contains("secret"), "{told}");
}

#[test]
fn a_reload_begins_and_ends_the_access_log() {
    let site = Site::new().fixed("/", "a");
    let (off, on) = (site.options.clone(), site.options.clone());
    let (server, lines) = site.start_with_lines();
    server.check(&get("/"), "200", "a");
    let sample = |sample| {
        let log = AccessLogOptions { sample, only: AccessOnly::All, omit_query: Vec::new() };
        tollgate_server::ServerOptions { access_log: Some(log), ..on.clone() }
    };
    server.reload(sample(1.0));
    server.check(&get("/?on"), "200", "a");
    server.reload(sample(0.0));
    server.check(&get("/?none"), "200", "a");
    server.reload(off);
    server.check(&get("/?off"), "200", "a");
    server.reload(sample(1.0));
    server.check(&get("/?again"), "200", "a");
    assert_eq!(lines.take(2), ["GET /?on 200 1 / - -", "GET /?again 200 1 / - -"]);
    server.reload(sample(0.5));
    let mut peer = server.connect();
    for _ in 0..200 {
        peer.send(get("/"));
        peer.expect("200", "a");
    }
    server.drain();
    lines.0.close();
    let half = lines.0.take().batches.iter().map(|batch| batch.lines().count()).sum::<usize>();
    assert!((40..160).contains(&half), "{half} of 200");
    assert_eq!(AccessOutcome::Replied.name(), None);
}

impl Running {
    /// Sends a request on a new connection, and returns the status of the reply.
    fn connect_and_ask(&self, target: &str) -> u16 {
        let mut peer = self.connect();
        peer.send(get(target));
        peer.reply(false).status
    }
}
