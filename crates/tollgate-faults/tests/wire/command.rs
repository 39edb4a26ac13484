//! Tests of the command: its output, and the arguments that it accepts and refuses.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use tollgate_faults::{ClientFault, Fault};

use crate::peer::{LAST, Peer};

const BINARY: &str = env!("CARGO_BIN_EXE_tollgate-faults");

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// A process of the command. The process ends with the test.
struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn backend(fault: &str) -> Self {
        let mut command = Command::new(BINARY);
        let command = command.args(["backend", fault]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads lines until one begins with `start`, and returns the text after `start` in that line.
    fn line(&mut self, start: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "no line \"{start}\"");
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_backend_says_where_it_is_what_it_saw_and_turns_at_a_line() {
    let mut backend = Process::backend("reset");
    let address = backend.line("listening on ").parse().unwrap();
    let mut peer = Peer::connect(address);
    peer.send(LAST);
    assert!(peer.rest().0.is_empty());
    assert_eq!(backend.line("connections 1 "), "(open 0), requests 1 (in flight 0, at most 1)");
    let stdin = backend.child.stdin.as_mut().unwrap();
    stdin.write_all(b"what?\nnone\n").unwrap();
    assert_eq!(backend.line("now "), "none");
    let mut peer = Peer::connect(address);
    peer.send(LAST);
    assert!(peer.rest().0.starts_with(b"HTTP/1.1 200 "));
    backend.child.stdin.as_mut().unwrap().write_all(b"refuse\n").unwrap();
    backend.line("now refuse");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn clients_tell_how_they_fared() {
    let mut backend = Process::backend("status:404");
    let address = backend.line("listening on ");
    let done = run(&["client", "none", "--connect", &address, "--count", "7"]);
    let told = String::from_utf8(done.stdout).unwrap();
    let expected = "connected 7, unconnected 0, open 0, closed 0, reset 0, left 7, 404: 7, longest ";
    assert!(done.status.success() && told.starts_with(expected), "{told}");
    let done = run(&["client", "idle", "--connect", &address, "--count", "3", "--for", "200ms"]);
    let told = String::from_utf8(done.stdout).unwrap();
    assert!(told.starts_with("connected 3, unconnected 0, open 3, "), "{told}");
}

#[test]
fn all_are_listed_and_documented() {
    let told = String::from_utf8(run(&["list"]).stdout).unwrap();
    let documented = include_str!("../../../../docs/reference/faults.md");
    for (spelling, summary) in Fault::LIST.iter().chain(ClientFault::LIST) {
        assert!(told.contains(&format!("  {spelling:26} {summary}\n")), "{spelling}");
        assert!(documented.contains(&format!("| `{spelling}` | {summary} |\n")), "{spelling}");
    }
}

#[test]
fn other_machines_are_refused() {
    let check = |arguments: &[&str], told: &str| {
        let refused = run(arguments);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), stderr.contains(told)), (Some(2), true), "{stderr}");
    };
    check(&["client", "idle", "--connect", "192.0.2.1:80"], "192.0.2.1:80 is not an address");
    check(&["backend", "none", "--listen", "0.0.0.0:0"], "0.0.0.0:0 can be reached");
    check(&["backend", "quiet"], "unknown fault: \"quiet\"");
    check(&["client", "slow-head:1", "--connect", "127.0.0.1:1"], "allowed a time like");
}
