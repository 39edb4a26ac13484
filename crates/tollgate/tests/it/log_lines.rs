//! Log lines and their readers. A hung reader blocks no thread. A slow reader gets the number of dropped
//! lines. The number of lines per second is bounded.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::Value;
use tollgate_faults::{Backend, Fault};

use crate::admin::{get, get_until, sample};
use crate::program::{App, BINARY, PATIENCE, Running, eventually};

/// Time for the end of the server: one second for the reader of the lines, and the delay of a busy machine.
const PROMPT: Duration = Duration::from_secs(10);

const CHATTY: &str = "[[route]]\npath = \"/\"\nscript = \"chatty.luau\"\n";
/// A script that logs a line of about 4 KiB. The pipe and the server together hold a few hundred such lines.
const CHATTY_SCRIPT: &str =
    "return function(req)\n  tollgate.log.info((\"x\"):rep(4000))\n  return \"told\"\nend\n";
const LINES: u64 = 600;

/// The stderr of a server: a pipe that no process reads.
struct Stalled {
    pipe: PathBuf,
    /// The reading end of the pipe. It is held open so that the server can open the other end.
    held: File,
}

impl Stalled {
    /// Starts a server that writes to such a pipe.
    fn start(app: &App) -> (Running, Self) {
        let pipe = app.path().join("stderr");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let held = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 2> \"$STALLED\"", "sh", BINARY]).env("STALLED", &pipe);
        let server = app.begin_as(command).serving().unwrap();
        (server, Self { pipe, held })
    }

    /// Reads the lines from the pipe from now on.
    fn read(self) -> Receiver<Value> {
        let (sender, lines) = channel();
        let pipe = File::open(self.pipe).unwrap();
        drop(self.held);
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                drop(sender.send(line.parse().unwrap_or(Value::String(line))));
            }
        });
        lines
    }
}

fn flood(server: &Running) {
    let mut client = server.connect();
    for _ in 0..LINES {
        assert!(client.get("/").expect("a reply, whoever reads the log").is_success());
    }
}

#[test]
fn requests_are_answered_while_nobody_reads_the_log_and_what_was_left_out_is_told() {
    let app = App::new(CHATTY, &[("chatty.luau", CHATTY_SCRIPT)]);
    let (server, stalled) = Stalled::start(&app);
    flood(&server);
    let left_out = sample(&get(&app, "/metrics").content, "tollgate_lines_left_out_total");
    assert!((1..LINES).contains(&left_out), "{left_out}");
    let lines = stalled.read();
    let mut told = 0;
    loop {
        let line = lines.recv_timeout(PATIENCE).expect("a line in time");
        match line["message"].as_str() {
            Some(text) if text.starts_with("xxx") => told += 1,
            Some(text) if text.starts_with("log lines were dropped") => {
                assert_eq!(
                    (line["level"].as_str(), line["left_out"].as_u64()),
                    (Some("WARN"), Some(left_out))
                );
                break;
            }
            _ => {}
        }
    }
    assert_eq!(told + left_out, LINES);
    assert!(server.stop().0.success());
    let rest: Vec<_> = lines.iter().collect();
    assert!(rest.iter().any(|line| line["message"] == "SIGTERM: draining"), "{rest:?}");
}

#[test]
fn a_server_whose_log_nobody_reads_ends_as_it_is_told() {
    let app = App::new(CHATTY, &[("chatty.luau", CHATTY_SCRIPT)]);
    let (server, stalled) = Stalled::start(&app);
    flood(&server);
    let begun = Instant::now();
    assert_eq!(server.stop().0.code(), Some(0));
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    drop(stalled);

    let app = App::new(&format!("drain_delay = \"1h\"\n{CHATTY}"), &[("chatty.luau", CHATTY_SCRIPT)]);
    let (server, _stalled) = Stalled::start(&app);
    flood(&server);
    server.signal(Signal::TERM);
    get_until(&app, "/readyz", 503, "reason: draining");
    let begun = Instant::now();
    assert_eq!(server.stop().0.code(), Some(1));
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
}

/// Number of failures of each route.
const FAILURES: u64 = 300;
const FAILING: &str = r#"
workers = 1
[[route]]
path = "/script"
script = "fail.luau"
[[route]]
path = "/backend"
proxy = "app"
[[route]]
path = "/other"
script = "fail.luau"
"#;

/// Number of checks between two failures. During these checks, a line arrives before the next failure.
const LOOKS_BETWEEN_FAILURES: u64 = 100;

/// Returns the lines of a log that contain the path of a route.
fn lines_of(log: &str, route: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| line.parse::<Value>().unwrap());
    lines.filter(|line| line["route"] == route).collect()
}

#[test]
fn failures_of_a_route_are_logged_a_few_a_second_with_the_number_of_those_left_out() {
    let backend = Backend::start(Fault::Close).unwrap();
    let of_backend =
        format!("[backend.app]\nurls = [\"http://{}\"]\nbreaker_requests_min = 1000000\n", backend.address());
    let script = "return function(req)\n  error(\"broken on purpose\")\nend\n";
    let app = App::new(&format!("{FAILING}{of_backend}"), &[("fail.luau", script)]);
    let server = app.start();
    let mut client = server.connect();
    for (path, status) in [("/script", 500), ("/backend", 502)] {
        let mut fail = || assert_eq!(client.get(path).unwrap().status, status, "{path}");
        (0..FAILURES).for_each(|_| fail());
        // The first failure after each second reports the lines that were left out in this second. The test
        // therefore causes a failure from time to time.
        let (mut asked, mut looks) = (FAILURES, 0);
        let told = eventually("every failure is told or left out", || {
            let told = lines_of(&server.logged(), path);
            let left_out: u64 = told.iter().map(|line| line["left_out"].as_u64().unwrap()).sum();
            if left_out > 0 && told.len() as u64 + left_out == asked {
                return Some(told);
            }
            looks += 1;
            if looks % LOOKS_BETWEEN_FAILURES == 0 {
                fail();
                asked += 1;
            }
            None
        });
        assert!((11..asked / 2).contains(&(told.len() as u64)), "{path}: {} lines", told.len());
        assert!(told.iter().all(|line| line["id"].is_string()), "{path}");
    }
    (0..2).for_each(|_| assert_eq!(client.get("/other").unwrap().status, 500));
    let (_, log) = server.stop();
    let of = |path: &str| lines_of(&log, path);
    let script = of("/script");
    assert!(
        script.iter().all(|line| line["message"].as_str().unwrap().contains("fail.luau:2")),
        "{script:?}"
    );
    assert_eq!(of("/other").len(), 2, "each route has its own few");
}
