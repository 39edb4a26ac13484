//! Reloads of the configuration while requests arrive.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;

use crate::client::Client;
use crate::program::{App, BINARY, PATIENCE, Running, eventually, printed};

const CONNECTIONS: usize = 16;
const RELOADS: usize = 10;
/// Memory that a version of the script holds in each worker.
const BALLAST_MIB: usize = 4;
const WORKERS: usize = 2;

const SCRIPT_ROUTE: &str = "workers = 2\n[[route]]\npath = \"/a\"\nscript = \"a.luau\"\n";

const PLAIN: &str = r#"
[stream.hits]
columns = [{ name = "n", type = "int" }, { name = "note", type = "text" }]
[[route]]
path = "/hit"
collect = true
stream = "hits"
"#;

fn version(number: usize) -> String {
    let ballast = format!("local ballast = string.rep('x', {BALLAST_MIB} * 1024 * 1024)\n");
    format!("{ballast}return function() return '{number} ' .. #ballast end")
}

fn reload(app: &App) -> String {
    app.succeed(&["reload"])
}

/// Checks that a reload is refused with this exit code, and returns its output.
fn refused(app: &App, code: i32) -> String {
    let output: Output = app.run(&["reload"]);
    assert_eq!(output.status.code(), Some(code), "{}", printed(&output));
    String::from_utf8(output.stderr).unwrap()
}

fn resident_mib(server: &Running) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

fn descriptors(server: &Running) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count()
}

/// Returns the processor time of the process, in ticks.
fn ticks(server: &Running) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse().unwrap()
}

/// Ends the load when it is dropped, even if a check fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn every_reply_under_load_is_of_one_version_and_after_the_answer_of_the_new_one() {
    let app = App::new(SCRIPT_ROUTE, &[("a.luau", &version(0))]);
    let server = app.start();
    let is_over = AtomicBool::new(false);
    let mut probes: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    let number = |reply: &str| -> usize { reply.split(' ').next().unwrap().parse().unwrap() };
    let (mut resident, mut open) = (0, 0);
    thread::scope(|scope| {
        let over = Over(&is_over);
        let load = || {
            let (mut client, mut last, mut replies) = (server.connect(), 0, 0);
            while !is_over.load(Ordering::Relaxed) {
                let reply = client.get("/a").unwrap();
                assert_eq!(reply.status, 200, "{reply:?}");
                let found = number(&reply.content);
                assert!((last..=RELOADS).contains(&found), "{found} after {last}");
                (last, replies) = (found, replies + 1);
            }
            (last, replies)
        };
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(load)).collect();
        for reload_number in 1..=RELOADS {
            app.write("a.luau", &version(reload_number));
            let answer = reload(&app);
            assert!(answer.starts_with(&format!("reloaded: version {}, ", reload_number + 1)), "{answer}");
            for probe in &mut probes {
                assert_eq!(number(&probe.get("/a").unwrap().content), reload_number);
            }
            if reload_number == 2 {
                (resident, open) = (resident_mib(&server), descriptors(&server));
            }
        }
        let grown = resident_mib(&server).saturating_sub(resident);
        assert!(grown < RELOADS / 2 * BALLAST_MIB * WORKERS, "{grown} MiB more than {resident} MiB");
        assert!(descriptors(&server) <= open + 2, "{} descriptors, {open} before", descriptors(&server));
        drop(over);
        for client in clients {
            let (_, replies) = client.join().unwrap();
            assert!(replies > RELOADS, "{replies} replies");
        }
    });
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("\"version\":11"), "{log}");
}

#[test]
fn a_broken_script_changes_nothing_and_is_told_by_file_line_and_text() {
    let two = format!("{SCRIPT_ROUTE}[[route]]\npath = \"/b\"\nscript = \"b.luau\"\n");
    let app = App::new(
        &two,
        &[
            ("a.luau", "return function() return 'old a' end"),
            ("b.luau", "return function() return 'old b' end"),
        ],
    );
    let server = app.start();
    app.write("a.luau", "return function() return 'new a' end");
    app.write("b.luau", "return function()\n  return 'new b\nend");
    let answer = refused(&app, 2);
    assert!(
        answer.contains("not reloaded, version 1 still serves, process ")
            && answer.contains("b.luau does not compile: line 2: Malformed string"),
        "{answer}"
    );
    let mut client = server.connect();
    for (path, content) in [("/a", "old a"), ("/b", "old b")] {
        assert_eq!(client.get(path).unwrap().content, content);
    }
    app.write("b.luau", "return function() return 'new b' end");
    server.signal(Signal::HUP);
    eventually("the new version", || (client.get("/b").unwrap().content == "new b").then_some(()));
    eventually("the new version", || (client.get("/a").unwrap().content == "new a").then_some(()));
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    for line in [
        "not reloaded: ",
        "b.luau does not compile: line 2: ",
        "SIGHUP: reloading",
        "\"message\":\"reloaded\",\"version\":2",
    ] {
        assert!(log.contains(line), "{line:?} in {log}");
    }
}

#[test]
fn all_faults_of_a_configuration_are_told_and_it_serves_on() {
    let app = App::new(SCRIPT_ROUTE, &[("a.luau", "return function() return 'old' end")]);
    let server = app.start();
    app.configure(&format!("fields_max = 0\nnonsense = 1\n{SCRIPT_ROUTE}"));
    let answer = refused(&app, 2);
    assert!(answer.contains("fields_max in [server] is 0") && answer.contains("\"nonsense\""), "{answer}");
    app.write("tollgate.toml", "[server\n");
    let answer = refused(&app, 2);
    assert!(answer.contains("tollgate.toml:1:"), "{answer}");
    assert_eq!(server.connect().get("/a").unwrap().content, "old");
    server.signal(Signal::HUP);
    app.configure(SCRIPT_ROUTE);
    assert!(reload(&app).starts_with("reloaded: "));
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("not reloaded: ") && log.contains("nonsense"), "{log}");
    assert!(refused(&app, 1).contains("no server answers at "));
}

#[test]
fn a_server_is_found_by_its_log_folder_also_with_a_faulty_configuration() {
    let elsewhere = "[admin]\ntoken = \"${WORD_OF_NOBODY}\"\n[log]\ndir = \"elsewhere/log\"\n";
    let app =
        App::new(&format!("{SCRIPT_ROUTE}{elsewhere}"), &[("a.luau", "return function() return 'a' end")]);
    let sound = app.config();
    let mut command = Command::new(BINARY);
    command.env("WORD_OF_NOBODY", "0123456789abcdef");
    let Ok(server) = app.begin_as(command).serving() else { panic!("no start") };
    assert!(app.succeed(&["status"]).starts_with("ALL WELL"));
    assert!(reload(&app).starts_with("reloaded: version 2, "));
    for (number, fault) in ["[server]\nbaklog = 4\n", "[server\n"].into_iter().enumerate() {
        app.write("tollgate.toml", &sound.replace("[server]\n", fault));
        let answer = refused(&app, 2);
        assert!(
            answer.contains("not reloaded, version 2 still serves, process ") && !answer.contains("NOBODY"),
            "{answer}"
        );
        let told = app.succeed(&["status", "--json"]);
        assert!(told.contains(&format!("\"reloads_refused\":{}", number + 1)), "{told}");
        assert!(told.contains("\"reload_refused\""), "{told}");
    }
    server.stop();
    let socket = app.path().join("elsewhere/log/control.sock");
    let nobody = format!("no server answers at {}", socket.display());
    for command in ["status", "reload"] {
        let output = app.run(&[command]);
        assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
        assert!(
            printed(&output).contains(&nobody) && printed(&output).contains("tollgate.toml:1:"),
            "{}",
            printed(&output)
        );
    }
}

#[test]
fn a_configuration_that_serves_nothing_is_refused_and_the_one_before_serves_on() {
    let app = App::new(SCRIPT_ROUTE, &[("a.luau", "return function() return 'a' end")]);
    let server = app.start();
    for nothing in [
        "",
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[stream.s]\ncolumns = [{ name = \"n\", type = \"int\" }]\n",
    ] {
        app.write("tollgate.toml", nothing);
        for command in ["reload", "check", "serve"] {
            let output = app.run(&[command]);
            assert_eq!(output.status.code(), Some(2), "{command}: {}", printed(&output));
            assert!(printed(&output).contains("nothing to serve"), "{command}: {}", printed(&output));
        }
        assert_eq!(server.connect().get("/a").unwrap().content, "a");
    }
    // Commands other than `serve` need no routes.
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

#[test]
fn a_server_that_stops_says_so_to_whoever_asks_for_a_reload() {
    let app = App::new(
        &format!("drain_delay = \"1h\"\n{SCRIPT_ROUTE}"),
        &[("a.luau", "return function() return 'a' end")],
    );
    let server = app.start();
    server.signal(Signal::TERM);
    let said = eventually("it stops", || {
        let output = app.run(&["reload"]);
        (output.status.code() == Some(1)).then(|| printed(&output))
    });
    assert!(said.contains("not reloaded: the server stops"), "{said}");
    server.kill();
}

#[test]
fn a_reload_in_a_drain_is_refused_at_once() {
    let (begin, end) = ("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx", "y");
    let app = App::new(SCRIPT_ROUTE, &[("a.luau", "return function() return 'a' end")]);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.send(begin));
    server.signal(Signal::TERM);
    let address = server.address();
    eventually("nobody is accepted any more", || Client::try_connect(address).is_none().then_some(()));
    server.signal(Signal::HUP);
    let refusal = "not reloaded: the server stops";
    eventually("SIGHUP is answered", || server.has_logged(refusal).then_some(()));
    let said = refused(&app, 1);
    assert!(said.contains(refusal), "{said}");
    assert!(client.send(end));
    assert_eq!(client.reply().unwrap().content, "a");
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
}

#[test]
fn changes_that_need_a_restart_are_named_and_the_rest_is_served() {
    let app = App::new(SCRIPT_ROUTE, &[("a.luau", "return function() return 'a' end")]);
    let server = app.start();
    let other =
        "workers = 1\nrequests_per_connection_max = 1\n[[route]]\npath = \"/b\"\nreply = { body = \"b\" }\n";
    app.configure(&format!("{other}[log]\nretain = \"1h\"\n[sink.other]\nsqlite = \"other.sqlite\"\n"));
    for reload_number in 0..2 {
        let answer = reload(&app);
        let are_sinks_named = answer.contains("changed: sink.other: added\n");
        assert_eq!(are_sinks_named, reload_number == 0, "they change once: {answer}");
        for line in
            ["needs a restart: server.workers: 2 -> 1\n", "needs a restart: log.retain: \"24h\" -> \"1h\"\n"]
        {
            assert!(answer.contains(line), "{line} in {answer}");
        }
    }
    let mut client = server.connect();
    let reply = client.get("/b").unwrap();
    assert_eq!((reply.content.as_str(), reply.field("connection")), ("b", Some("close")));
    assert_eq!(server.connect().get("/a").unwrap().status, 404);
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("changed: route \\\"/b\\\": added"), "{log}");
}

#[test]
fn streams_change_in_the_middle_of_a_log_and_every_row_has_the_shape_of_its_time() {
    let app = App::new(PLAIN, &[]);
    let server = app.start();
    let mut client = server.connect();
    let mut hit = |body: &str| assert_eq!(client.post("/hit", body).unwrap().status, 200, "{body}");
    hit(r#"{"n": 1, "note": "both"}"#);
    let gained = PLAIN.replace("columns = [", "columns = [{ name = \"extra\", type = \"float\" }, ");
    app.configure(&gained);
    assert!(reload(&app).contains("changed: stream.hits column \"extra\": added\n"));
    hit(r#"{"n": 2, "note": "all", "extra": 0.5}"#);
    let retyped = gained.replace("\"note\", type = \"text\"", "\"note\", type = \"int\"");
    app.configure(&retyped);
    let answer = refused(&app, 2);
    assert!(answer.contains("column \"note\" of [stream.hits] is int, but text in the log"), "{answer}");
    let lost = gained.replace(", { name = \"note\", type = \"text\" }", "");
    let further = "[stream.more]\ncolumns = [{ name = \"x\", type = \"int\" }]\n[[route]]\npath = \"/more\"\ncollect = true\nstream = \"more\"\n";
    app.configure(&format!("{further}{lost}"));
    let answer = reload(&app);
    assert!(answer.contains("changed: stream.hits column \"note\": removed\n"), "{answer}");
    hit(r#"{"n": 3, "extra": 1.5}"#);
    // The type of a column in the table is fixed. Another type is refused, even if a configuration in between
    // did not have the column.
    app.configure(&format!("{further}{retyped}"));
    refused(&app, 2);
    app.configure(&format!("{further}{lost}"));
    assert_eq!(server.connect().post("/more", r#"{"x": 7}"#).unwrap().status, 200);
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let rows = app.query::<String>(
        "SELECT n || ' ' || coalesce(note, '-') || ' ' || coalesce(extra, '-') FROM hits ORDER BY n",
    );
    assert_eq!(rows, ["1 both -", "2 all 0.5", "3 - 1.5"]);
    assert_eq!(app.query::<i64>("SELECT x FROM more"), [7]);
    assert_eq!(app.segments().len(), 1);
    let cat = app.succeed(&["log", "cat"]);
    let records: Vec<serde_json::Value> =
        cat.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 4, "{cat}");
    for (part, count) in [("\"both\"", 1), ("\"extra\"", 2), ("\"x\"", 1)] {
        assert_eq!(cat.matches(part).count(), count, "{part} in {cat}");
    }
    app.settle();
}

#[test]
fn a_request_in_flight_ends_with_what_it_began_with() {
    let slow = |version: &str| {
        format!(
            "return {{ GET = function() local n = 0 for i = 1, 60000000 do n = n + i % 7 end return '{version}' end, \
             POST = function(req) return '{version} ' .. req:body() end }}"
        )
    };
    let route = format!("{SCRIPT_ROUTE}[script]\ncpu_budget = \"10m\"\n");
    let app = App::new(&route, &[("a.luau", &slow("old"))]);
    let server = app.start();
    let mut posting = TcpStream::connect(server.address()).unwrap();
    posting.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    posting.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    posting.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    let (mut calling, before) = (server.connect(), ticks(&server));
    assert!(calling.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n"));
    eventually("the script runs", || (ticks(&server) >= before + 5).then_some(()));
    app.write("a.luau", &slow("new"));
    reload(&app);
    assert_eq!(server.connect().post("/a", "now").unwrap().content, "new now");
    posting.write_all(b"body").unwrap();
    let mut reply = String::new();
    posting.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("\r\n\r\nold body"), "{reply}");
    assert_eq!(calling.reply().unwrap().content, "old");
    assert_eq!(calling.post("/a", "next").unwrap().content, "new next");
    assert!(server.stop().0.success());
}

#[test]
fn a_call_that_waits_goes_on_with_the_scripts_it_began_with() {
    let script = |version: &str| {
        format!(
            "local is_free, is_held = false, false return {{ GET = function(req)
                if req.query.q == 'held' then return tostring(is_held) end
                if req.query.q == 'hold' then is_held = true while not is_free do tollgate.sleep(0.005) end end
                return '{version}' end,
            POST = function(req) is_free = true return '{version} ' .. req:body() end }}"
        )
    };
    // With two workers, the worker that is not blocked could get the request.
    let app = App::new(&SCRIPT_ROUTE.replace("workers = 2", "workers = 1"), &[("a.luau", &script("old"))]);
    let server = app.start();
    let mut waiting = server.connect();
    assert!(waiting.send("GET /a?q=hold HTTP/1.1\r\nHost: a\r\n\r\n"));
    eventually("the script waits", || {
        (server.connect().get("/a?q=held").unwrap().content == "true").then_some(())
    });
    // The script of this request is chosen before the reload. Its body arrives after the reload.
    let mut posting = TcpStream::connect(server.address()).unwrap();
    posting.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    posting.write_all(head.as_bytes()).unwrap();
    posting.read_exact(&mut [0; 25]).unwrap();
    app.write("a.luau", &script("new"));
    reload(&app);
    assert_eq!(server.connect().get("/a?q=held").unwrap().content, "false");
    posting.write_all(b"free").unwrap();
    assert_eq!(waiting.reply().unwrap().content, "old");
    assert_eq!(waiting.get("/a").unwrap().content, "new");
    assert!(server.stop().0.success());
}

#[test]
fn a_folder_without_a_file_is_looked_through_anew() {
    let app = App::bare(&[("routes/index.luau", "return function() return 'here' end")]);
    app.write(
        "tollgate.toml",
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[[route]]\npath = \"/\"\nscript = \"routes/index.luau\"\n",
    );
    let server = app.start();
    let mut client = server.connect();
    assert_eq!(client.get("/there").unwrap().status, 404);
    fs::remove_file(app.path().join("tollgate.toml")).unwrap();
    app.write("routes/there.luau", "return function() return { json = 1, record = { n = 1 } } end");
    let answer = app.succeed(&["reload", "."]);
    assert!(answer.contains("needs a restart: server.listen: "), "{answer}");
    assert_eq!(client.get("/there").unwrap().content, "1");
    assert!(server.stop().0.success());
    assert_eq!(app.query::<String>("SELECT record FROM requests WHERE path = '/there'"), ["{\"n\":1}"]);
}

#[test]
fn values_that_scripts_share_outlive_a_reload() {
    let count = |name: &str| {
        let hits = "tollgate.shared.incr('hits')";
        format!("return function() return {{ json = {{ '{name}', {hits} }} }} end")
    };
    let app = App::new(SCRIPT_ROUTE, &[("a.luau", &count("old"))]);
    let server = app.start();
    let get = || server.connect().get("/a").unwrap().content;
    assert_eq!(get(), "[\"old\",1]");
    app.write("a.luau", &count("new"));
    reload(&app);
    assert_eq!(get(), "[\"new\",2]");
}

#[test]
fn a_decimal_gets_another_size_by_a_reload_and_no_other_type() {
    let with = |kind: &str| {
        PLAIN.replace("columns = [", &format!("columns = [{{ name = \"price\", type = \"{kind}\" }}, "))
    };
    let app = App::new(&with("decimal(5,2)"), &[]);
    let server = app.start();
    let mut client = server.connect();
    let mut hit = |body: &str| assert_eq!(client.post("/hit", body).unwrap().status, 200, "{body}");
    hit(r#"{"n": 1, "price": 1.5}"#);
    hit(r#"{"n": 2, "price": 1.555}"#);
    app.configure(&with("decimal(8,3)"));
    reload(&app);
    hit(r#"{"n": 3, "price": 1.555}"#);
    app.configure(&with("float"));
    let answer = refused(&app, 2);
    assert!(
        answer.contains("column \"price\" of [stream.hits] is float, but decimal(8,3) in the log"),
        "{answer}"
    );
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    assert_eq!(app.query::<String>("SELECT n || ' ' || price FROM hits ORDER BY n"), ["1 1.50", "3 1.555"]);
}
