//! The reports to systemd. The test has a socket in place of systemd's socket.

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use rustix::process::Signal;

use crate::program::{App, BINARY, PATIENCE, eventually};

const UNIT: &str = include_str!("../../../../dist/systemd/tollgate.service");

/// Receives the next datagram with this beginning.
fn receive(socket: &UnixDatagram, start: &str) -> String {
    eventually(start, || {
        let mut buffer = [0; 4096];
        let bytes = socket.recv(&mut buffer).expect("a datagram in time");
        let text = String::from_utf8(buffer[..bytes].to_vec()).unwrap();
        text.starts_with(start).then_some(text)
    })
}

#[test]
fn a_supervisor_hears_of_the_start_signs_of_life_reloads_and_the_end() {
    let app = App::new("[[route]]\npath = \"/\"\nreply = {}\n", &[]);
    let path = app.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new("sh");
    // The watchdog is only for the process whose id is in `WATCHDOG_PID`. The shell sets its own id and then
    // executes the server.
    command.args(["-c", "WATCHDOG_PID=$$; export WATCHDOG_PID; exec \"$@\"", "sh", BINARY]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let server = app.begin_as(command).serving().unwrap();
    assert_eq!(receive(&socket, "READY"), "READY=1\n");
    for _ in 0..3 {
        assert_eq!(receive(&socket, "WATCHDOG"), "WATCHDOG=1\n");
    }
    receive(&socket, "STATUS=serving: ");
    server.signal(Signal::HUP);
    let reloading = receive(&socket, "RELOADING");
    let since_us = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&reloading).trim_end();
    assert!(since_us.parse::<u64>().unwrap() > 0);
    assert_eq!(receive(&socket, "READY"), "READY=1\n");
    server.signal(Signal::TERM);
    let stopping = receive(&socket, "STOPPING");
    assert!(stopping.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC="), "{stopping}");
    assert!(server.wait().0.success());
}

#[test]
fn the_unit_starts_a_server_again_whatever_it_ended_by() {
    // A faulty configuration may become valid, for example when a folder is mounted. systemd must therefore
    // restart the server after every exit.
    assert!(UNIT.lines().any(|line| line == "Restart=always"), "{UNIT}");
    assert!(!UNIT.contains("\nRestartPreventExitStatus=") && !UNIT.contains("\nExecStartPre="), "{UNIT}");
}

#[test]
fn a_message_on_stdout_is_in_a_log_line_too_and_not_in_the_journal() {
    assert!(UNIT.lines().any(|line| line == "StandardOutput=null"), "{UNIT}");
    let app = App::new("[[route]]\npath = \"/\"\nreply = {}\n", &[]);
    let server = app.start();
    let (listen, admin) = (format!("http://{}", server.address()), app.log_dir().join("admin.sock"));
    let (_, log) = server.stop();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| line.parse().unwrap()).collect();
    let line = lines.iter().find(|line| line["message"] == "serving").expect(&log);
    assert_eq!(line["listen"], listen);
    assert!(line["admin"].as_str().unwrap().ends_with(admin.to_str().unwrap()), "{line} {admin:?}");
}

#[test]
fn a_supervisor_that_is_not_there_is_told_of_and_missed_by_nobody() {
    let app = App::new("[[route]]\npath = \"/\"\nreply = {}\n", &[]);
    let mut command = Command::new(BINARY);
    command.env("NOTIFY_SOCKET", app.path().join("nobody"));
    let server = app.begin_as(command).serving().unwrap();
    assert!(server.connect().get("/").unwrap().is_success());
    let (status, log) = server.stop();
    assert!(
        status.success()
            && log.contains("the socket of systemd cannot be reached: systemd gets no state of the server"),
        "{log}"
    );
}
