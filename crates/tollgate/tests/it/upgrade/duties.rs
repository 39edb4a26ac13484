//! What each of the two processes owns during an upgrade: addresses, socket files,
//! reports to systemd, rows.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;

use rustix::process::Signal;

use super::service::{Service, send};
use super::{CONFIG, script};
use crate::client::Client;
use crate::program::{App, BINARY, PATIENCE, eventually, printed};

/// Returns an address that is free now.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Asks for a path over a Unix socket. Returns the whole reply.
fn get_by(socket: &std::path::Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// Begins a request whose content is not complete, so that its process drains until it is.
pub(super) fn begin_request(service: &Service<'_>) -> Client {
    let mut client = service.connect();
    assert!(client.send("POST /collect HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{\"n\":"));
    client
}

#[test]
fn addresses_may_be_added_removed_and_kept_by_an_upgrade() {
    let [removed, added] = [free_address(), free_address()];
    let app = App::new(CONFIG, &[]);
    let config = app.config();
    let socket = app.path().join("kept.sock");
    let listen = |other: SocketAddr| {
        let list = format!("[\"127.0.0.1:0\", \"{other}\", \"unix:{}\"]", socket.display());
        app.write("tollgate.toml", &config.replace("[\"127.0.0.1:0\"]", &list));
    };
    listen(removed);
    let mut service = Service::start(&app);
    let old = service.process();
    listen(added);
    service.upgrade(&["upgrade"]);
    service.wait_for_end_of(old);
    assert!(Client::connect(service.address()).get("/fixed").unwrap().is_success());
    assert!(Client::connect(added).get("/fixed").unwrap().is_success());
    assert!(Client::try_connect(removed).is_none());
    assert!(get_by(&socket, "/fixed").starts_with("HTTP/1.1 200"));
    service.stop();
    assert!(!socket.exists() && !app.log_dir().join("control.sock").exists());
}

#[test]
fn an_address_that_is_in_use_refuses_an_upgrade() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let app = App::new(CONFIG, &[]);
    let service = Service::start(&app);
    let list = format!("[\"127.0.0.1:0\", \"{}\"]", other.local_addr().unwrap());
    app.write("tollgate.toml", &app.config().replace("[\"127.0.0.1:0\"]", &list));
    let text = super::refused(&service, &app, BINARY, 1);
    assert!(text.contains("cannot listen on 127.0.0.1:"), "{text}");
    service.stop();
}

#[test]
fn the_new_process_answers_at_the_admin_socket_while_the_old_one_drains() {
    let app = App::new(CONFIG, &[]);
    let mut service = Service::start(&app);
    let mut client = begin_request(&service);
    let old = service.process();
    service.upgrade(&["upgrade"]);
    let admin = app.log_dir().join("admin.sock");
    let line = format!("upgrading: old process {old} drains, 1 connection left");
    eventually("the status tells of the upgrade", || app.succeed(&["status"]).contains(&line).then_some(()));
    assert!(get_by(&admin, "/metrics").contains("\ntollgate_upgrading 1\n"));
    assert!(get_by(&admin, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(client.send("  4}") && client.reply().unwrap().is_success());
    service.wait_for_end_of(old);
    eventually("the upgrade is over", || {
        get_by(&admin, "/metrics").contains("\ntollgate_upgrading 0\n").then_some(())
    });
    let refused = app.run(&["upgrade", "/bin/false"]);
    assert_eq!(refused.status.code(), Some(1), "{}", printed(&refused));
    assert!(get_by(&admin, "/metrics").contains("\ntollgate_upgrades_refused_total 1\n"));
    service.stop();
    app.settle();
    assert_eq!(app.query::<i64>("SELECT n FROM events"), [4]);
}

#[test]
fn replies_that_wait_for_rows_leave_both_processes() {
    let app = App::new(&CONFIG.replace("[stream.events]", "[stream.events]\nack = \"loaded\""), &[]);
    let mut service = Service::start(&app);
    let mut client = begin_request(&service);
    let old = service.process();
    service.upgrade(&["upgrade"]);
    assert!(service.connect().post("/collect", "{\"n\": 1}").unwrap().is_success());
    assert!(client.send("  4}"));
    let reply = client.reply().unwrap();
    assert!(reply.is_success(), "{}", reply.head);
    assert_eq!(app.query::<i64>("SELECT n FROM events ORDER BY n"), [1, 4]);
    service.wait_for_end_of(old);
    service.stop();
}

#[test]
fn a_supervisor_hears_which_process_is_the_main_one() {
    let app = App::new(CONFIG, &[]);
    let path = app.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new(BINARY);
    command.env("NOTIFY_SOCKET", &path);
    let mut service = Service::of(&app, app.begin_as(command).serving().unwrap());
    let receive = || {
        let mut buffer = [0; 4096];
        let bytes = socket.recv(&mut buffer).expect("a datagram in time");
        String::from_utf8(buffer[..bytes].to_vec()).unwrap()
    };
    let next = || eventually("a report", || Some(receive()).filter(|text| !text.starts_with("STATUS=")));
    assert_eq!(next(), "READY=1\n");
    let old = service.process();
    service.upgrade(&["upgrade"]);
    assert_eq!(next(), format!("MAINPID={}\n", service.process()));
    assert_eq!(next(), "READY=1\n");
    service.wait_for_end_of(old);
    service.signal(Signal::TERM);
    // The old process, which is not the main one any more, has not reported its end.
    assert!(next().starts_with("STOPPING=1\n"));
    service.stop();
}

#[test]
fn sigterm_during_an_upgrade_stops_the_server_and_the_new_process() {
    let app = App::new(CONFIG, &[]);
    let service = Service::start(&app);
    let pid = app.path().join("pid");
    let program = script(&app, "hangs", &format!("echo $$ >{}; exec sleep 1000", pid.display()));
    let upgrade = app.follow(&["upgrade", &program]);
    let new = eventually("the new process starts", || {
        std::fs::read_to_string(&pid).ok()?.trim().parse::<u32>().ok()
    });
    let reload = app.run(&["reload"]);
    assert!(printed(&reload).contains(&format!("an upgrade runs already: process {new} starts")));
    let again = app.run(&["upgrade"]);
    assert!(printed(&again).contains(&format!("an upgrade runs already: process {new} starts")));
    let log = service.stop();
    assert!(log.contains("SIGTERM: draining"), "{log}");
    let (status, text) = upgrade.wait();
    assert!(status.code() == Some(1) && text.contains("the server stops"), "{text}");
    assert!(super::service::has_ended(new));
}

#[test]
fn a_new_process_that_is_stopped_while_the_old_one_drains_is_not_started_again() {
    let app = App::new(CONFIG, &[]);
    let mut service = Service::start(&app);
    let mut client = begin_request(&service);
    let old = service.process();
    service.upgrade(&["upgrade"]);
    send(service.process(), Signal::TERM);
    service.wait_for_end_of(service.process());
    assert!(Client::try_connect(service.address()).is_none_or(|mut client| client.get("/fixed").is_none()));
    assert!(client.send("  4}") && client.reply().unwrap().is_success());
    service.wait_for_end_of(old);
    let log = service.stop();
    assert!(!log.contains("the new process died"), "{log}");
    app.settle();
    assert_eq!(app.query::<i64>("SELECT n FROM events"), [4]);
}
