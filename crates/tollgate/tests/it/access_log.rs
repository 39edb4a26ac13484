//! The access log of a real server: its file and its formats, rotation, readers that are slow, and reloads.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::Value;

use crate::admin::{get, get_until, sample};
use crate::client::Client;
use crate::program::{App, KEEP, Running, eventually, printed};

const ROUTES: &str = r#"
[stream.kept]
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "email", type = "text", from = "request.query.email", redact = "drop" },
]
[[route]]
path = "/kept"
script = "keep.luau"
stream = "kept"
[[route]]
path = "/plain"
reply = { body = "plain" }
"#;

fn app(access_log: &str) -> App {
    App::new(&format!("{access_log}{ROUTES}"), &[("keep.luau", KEEP)])
}

fn text(app: &App, name: &str) -> String {
    fs::read_to_string(app.path().join(name)).unwrap_or_default()
}

/// Waits until a file has this number of lines, and returns the lines.
fn lines(app: &App, name: &str, count: usize) -> Vec<String> {
    let lines = eventually(&format!("{count} lines in {name}"), || {
        let lines: Vec<_> = text(app, name).lines().map(str::to_owned).collect();
        (lines.len() >= count).then_some(lines)
    });
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

fn ask(client: &mut Client, target: &str) -> u16 {
    client.get(target).unwrap().status
}

/// Sends bytes on a new connection, and reads to its end.
fn send_raw(server: &Running, bytes: &[u8]) -> String {
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn a_file_has_a_line_for_each_request_also_for_those_that_fail_before_routing() {
    let app = app("[access_log]\nfile = \"access.log\"\nformat = \"json\"\nomit_query = [\"token\"]\n");
    let server = app.start();
    let mut client = server.connect();
    for target in ["/kept?n=1&email=me@a", "/plain?token=1", "/absent?email=you@a"] {
        ask(&mut client, target);
    }
    // Another worker may serve the next connection, and lines of different workers have no order.
    lines(&app, "access.log", 3);
    let reply = send_raw(&server, b"GET /plain HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
    let lines: Vec<Value> = lines(&app, "access.log", 4).iter().map(|line| line.parse().unwrap()).collect();
    let shown = |line: &Value| {
        let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        let (target, status) = (text("target"), &line["status"]);
        format!("{target} {status} {} {} {}", text("route"), text("ack"), text("outcome"))
    };
    let expected = [
        "/kept?n=1&email=*** 200 /kept synced acknowledged",
        "/plain?token=*** 200 /plain - -",
        "/absent?email=*** 404 - - -",
        "- 400 - - -",
    ];
    assert_eq!(lines.iter().map(shown).collect::<Vec<_>>(), expected);
    assert!(lines.iter().all(|line| line["remote_addr"] == "127.0.0.1"), "{lines:?}");
    assert!(server.stop().0.success());
    assert_eq!(text(&app, "access.log").lines().count(), 4);
    let metadata = fs::metadata(app.path().join("access.log")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o007, 0);
}

#[test]
fn hostile_requests_stay_on_one_line_in_every_format() {
    for format in ["combined", "json", "short", "$remote_addr '$http_user_agent' \\\"$request\\\" $status"] {
        let app = app(&format!("[access_log]\nfile = \"access.log\"\nformat = \"{format}\"\n"));
        let server = app.start();
        let agents: [&[u8]; 4] =
            [b"a\" 200 0 \"b", b"\xff\xfe\t\\", "\u{202e}\u{9b}2J".as_bytes(), b"a \\\" b"];
        for agent in agents {
            let head = b"GET /plain?a='%0a[]| HTTP/1.1\r\nHost: a\r\nConnection: close\r\nUser-Agent: ";
            let reply = send_raw(&server, &[head, agent, b"\r\nReferer: x\"y\r\n\r\n"].concat());
            assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
        }
        for line in lines(&app, "access.log", agents.len()) {
            assert!(
                line.chars().all(|character| !character.is_control() && character != '\u{202e}'),
                "{line:?}"
            );
            if format == "json" {
                let line: Value = line.parse().unwrap();
                assert_eq!((&line["status"], &line["referer"]), (&200.into(), &"x\"y".into()));
            }
        }
        assert!(server.stop().0.success());
    }
}

#[test]
fn a_file_that_is_moved_and_a_signal_split_the_lines_and_lose_none() {
    const ROUNDS: usize = 5;
    const EACH: usize = 200;
    let app = app("[access_log]\nfile = \"access.log\"\nformat = \"$request_uri\"\n");
    let server = app.start();
    let mut client = server.connect();
    for round in 0..ROUNDS {
        for number in 0..EACH {
            assert_eq!(ask(&mut client, &format!("/plain?{}", round * EACH + number)), 200);
            if number == EACH / 2 {
                let moved = app.path().join(format!("access.log.{round}"));
                fs::rename(app.path().join("access.log"), moved).unwrap();
                server.signal(Signal::USR1);
            }
        }
        // The signal may arrive while the server writes. The next round moves the new file.
        eventually("the file is there again", || app.path().join("access.log").exists().then_some(()));
        assert_eq!(ask(&mut client, &format!("/plain?after{round}")), 200);
        let after = format!("/plain?after{round}");
        eventually("a later line is in the new file", || {
            text(&app, "access.log").contains(&after).then_some(())
        });
    }
    assert!(server.stop().0.success());
    let names = (0..ROUNDS).map(|round| format!("access.log.{round}")).chain(["access.log".to_owned()]);
    let all: Vec<_> =
        names.flat_map(|name| text(&app, &name).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let numbers: Vec<_> =
        all.iter().filter_map(|line| line.strip_prefix("/plain?")?.parse::<usize>().ok()).collect();
    assert_eq!(numbers, (0..ROUNDS * EACH).collect::<Vec<_>>());
    assert_eq!(all.len(), ROUNDS * EACH + ROUNDS);
}

#[test]
fn a_signal_without_an_access_log_changes_nothing() {
    let app = app("");
    let server = app.start();
    server.signal(Signal::USR1);
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "/plain"), 200);
    server.signal(Signal::USR1);
    assert_eq!(ask(&mut client, "/plain"), 200);
    assert!(server.stop().0.success());
}

#[test]
fn a_reader_that_reads_nothing_loses_lines_and_holds_no_request_up() {
    let app = app("[access_log]\nfile = \"pipe\"\nformat = \"json\"\n");
    let pipe = app.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let refused = app.begin().serving().err().expect("a pipe without a reader is no access log");
    assert!(format!("{refused:?}").contains("cannot open the access log"), "{refused:?}");
    let mut held = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let server = app.start();
    let mut client = server.connect();
    let target = format!("/plain?{}", "x".repeat(7000));
    eventually("lines are lost", || {
        (0..100).for_each(|_| assert_eq!(ask(&mut client, &target), 200));
        (sample(&get(&app, "/metrics").content, "tollgate_access_log_lost_total") > 0).then_some(())
    });
    get_until(&app, "/readyz", 200, "access_log_losing");
    // The lines that wait are written as soon as they are read.
    let before = sample(&get(&app, "/metrics").content, "tollgate_access_log_lines_total");
    let mut bytes = vec![0; 1 << 20];
    let mut read_to = |end: &[u8]| {
        let mut last = Vec::new();
        while !last.windows(end.len()).any(|window| window == end) {
            let count = held.read(&mut bytes).unwrap();
            last = [&last[last.len().saturating_sub(end.len())..], &bytes[..count]].concat();
        }
    };
    eventually("a line is accepted again", || {
        assert_eq!(ask(&mut client, "/plain?the-last"), 200);
        read_to(b"\"target\":\"/plain?");
        let written = sample(&get(&app, "/metrics").content, "tollgate_access_log_lines_total");
        (written > before).then_some(())
    });
    // The reader hangs again. The end of the server does not wait for it.
    assert!(server.stop().0.success());
}

#[test]
fn a_full_disk_loses_lines_and_counts_them() {
    let app = app("[access_log]\nfile = \"/dev/full\"\n");
    let server = app.start();
    let mut client = server.connect();
    (0..3).for_each(|_| assert_eq!(ask(&mut client, "/plain"), 200));
    eventually("the lines are lost", || {
        (sample(&get(&app, "/metrics").content, "tollgate_access_log_lost_total") == 3).then_some(())
    });
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("the access log cannot be written"), "{log}");
}

#[test]
fn a_reload_changes_the_file_the_format_and_the_requests_that_get_a_line() {
    let app = app("");
    let server = app.start();
    let mut client = server.connect();
    let mut reloaded = |section: &str, target: &str| {
        app.configure(&format!("{section}{ROUTES}"));
        app.succeed(&["reload"]);
        ask(&mut client, target)
    };
    let one = "[access_log]\nfile = \"one.log\"\nformat = \"$status\"\n";
    assert_eq!(reloaded(one, "/plain"), 200);
    assert_eq!(lines(&app, "one.log", 1), ["200"]);
    assert_eq!(reloaded("[access_log]\nfile = \"one.log\"\nformat = \"$route $status\"\n", "/plain"), 200);
    assert_eq!(lines(&app, "one.log", 2)[1], "/plain 200");
    let two = "[access_log]\nfile = \"two.log\"\nformat = \"$status\"\n";
    assert_eq!(reloaded(two, "/absent"), 404);
    assert_eq!(lines(&app, "two.log", 1), ["404"]);
    assert_eq!(reloaded(&format!("{two}only = \"errors\"\n"), "/absent"), 404);
    assert_eq!(reloaded(&format!("{two}sample = 0.0\n"), "/plain"), 200);
    assert_eq!(reloaded("", "/plain"), 200);
    app.configure(&format!("[access_log]\nfile = \"absent/three.log\"\n{ROUTES}"));
    let refused = app.run(&["reload"]);
    assert!(!refused.status.success(), "{}", printed(&refused));
    assert!(printed(&refused).contains("cannot open the access log"), "{}", printed(&refused));
    assert_eq!(reloaded(one, "/plain"), 200);
    assert_eq!(lines(&app, "one.log", 3)[2], "200");
    assert_eq!(lines(&app, "two.log", 1), ["404"]);
    assert!(server.stop().0.success());
}

#[test]
fn development_prints_a_short_line_for_each_request() {
    let app = app("");
    let mut command = std::process::Command::new(crate::program::BINARY);
    command.args(["serve", "--dev", "--listen", "127.0.0.1:0"]);
    let server = app.follow_as(command);
    let address = eventually("it serves", || {
        let line = server.line();
        Some(line.strip_prefix("serving http://")?.split(' ').next()?.to_owned())
    });
    let mut client = Client::connect(address.parse().unwrap());
    assert_eq!(ask(&mut client, "/kept?n=1"), 200);
    let line = eventually("a line", || Some(server.line()).filter(|line| line.starts_with("GET ")));
    assert!(
        line.starts_with("GET /kept?n=1 200 0 B ") && line.ends_with(" ms synced acknowledged"),
        "{line}"
    );
    assert_eq!(ask(&mut client, "/absent"), 404);
    let line = server.line();
    assert!(line.starts_with("GET /absent 404 26 B ") && line.ends_with(" ms"), "{line}");
    assert!(server.end(Signal::TERM).0.success());
}

#[test]
fn a_wrong_section_is_refused_with_the_place_and_the_remedy() {
    let check = |section: &str, part: &str| {
        let output = app(&format!("[access_log]\n{section}\n")).run(&["check"]);
        assert_eq!(output.status.code(), Some(2), "{section}");
        assert!(printed(&output).contains(part), "{section}: {}", printed(&output));
    };
    check("format = \"$stats\"", "did you mean \"status\"?");
    check("sample = 1.5", "sample in [access_log] is 1.5, allowed is a number from 0 to 1");
    check("sample = \"1\"", "allowed is a number from 0 to 1");
    check("only = \"failures\"", "only in [access_log] is \"failures\"");
    check("path = \"a\"", "unknown key \"path\" in [access_log]");
    let served = "[access_log]\nfile = \"pub/access.log\"\n[[route]]\npath = \"/*\"\nfiles = \"pub\"\n";
    let app = App::new(served, &[("pub/a.txt", "a")]);
    let output = app.run(&["check"]);
    assert!(printed(&output).contains("file in [access_log]"), "{}", printed(&output));
}

#[test]
fn many_clients_have_each_of_their_requests_in_the_log() {
    const CLIENTS: usize = 4;
    const EACH: usize = 300;
    let app = app("workers = 2\n[access_log]\nfile = \"access.log\"\nformat = \"$request_uri\"\n");
    let server = app.start();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut client = server.connect();
            scope.spawn(move || {
                (0..EACH).for_each(|n| assert_eq!(ask(&mut client, &format!("/plain?{number}-{n}")), 200));
            });
        }
    });
    assert!(server.stop().0.success());
    let text = text(&app, "access.log");
    let lines: BTreeSet<_> = text.lines().collect();
    assert_eq!((lines.len(), text.lines().count()), (CLIENTS * EACH, CLIENTS * EACH));
}
