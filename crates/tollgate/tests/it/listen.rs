//! Listening sockets: sockets from systemd, the socket file of a dead server, and a system without free
//! descriptors.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::admin::{get as ask_admin, get_until, sample};
use crate::client::{Client, get};
use crate::program::{App, BINARY, PATIENCE, Running, eventually};

const ROUTE: &str = "[[route]]\npath = \"/\"\nreply = { body = \"hello\" }\n";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn app(listen: &str) -> App {
    let app = App::bare(&[]);
    app.write("tollgate.toml", &format!("[server]\nworkers = 2\nlisten = [{listen}]\n{ROUTE}"));
    app
}

fn whole_reply(mut stream: impl Read + Write) -> String {
    stream.write_all(REQUEST).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// Starts the server by a shell, which passes a listening socket as descriptor 3.
fn start_with_socket(
    app: &App,
    socket: impl Into<Stdio>,
    pid: &str,
    names: &str,
) -> crate::program::Starting {
    let mut shell = Command::new("sh");
    let script = format!("LISTEN_PID={pid} LISTEN_FDS=1 LISTEN_FDNAMES={names} exec \"$@\" 3<&0 </dev/null");
    shell.args(["-c", &script, "sh", BINARY]).stdin(socket.into());
    app.begin_as(shell)
}

#[test]
fn a_socket_that_systemd_hands_in_is_served_by_all_workers_and_outlives_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket = || std::os::fd::OwnedFd::from(listener.try_clone().unwrap());
    let app = app("\"systemd:web\"");
    let server = start_with_socket(&app, socket(), "$$", "web").serving().unwrap();
    assert_eq!(server.address(), address);
    for _ in 0..20 {
        let reply = whole_reply(TcpStream::connect(address).unwrap());
        assert!(reply.ends_with("\r\n\r\nhello"), "{reply}");
    }
    assert!(server.stop().0.success());
    // A client that connects while no server runs is answered by the next server.
    let waiting = TcpStream::connect(address).unwrap();
    let server = start_with_socket(&app, socket(), "$$", "web").serving().unwrap();
    assert!(whole_reply(waiting).ends_with("hello"));
    assert!(server.stop().0.success());
}

#[test]
fn a_socket_for_another_process_or_of_another_name_is_not_taken() {
    for (pid, names, told) in [
        ("1", "web", "systemd passed no socket named \"web\""),
        ("$$", "admin", "systemd passed no socket named \"web\""),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let app = app("\"systemd:web\"");
        let socket = std::os::fd::OwnedFd::from(listener);
        let (status, log) = start_with_socket(&app, socket, pid, names).serving().err().unwrap();
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(told), "{log}");
    }
}

#[test]
fn an_inherited_socket_that_does_not_listen_is_reported() {
    let app = app("\"systemd\"");
    let (status, log) = start_with_socket(&app, Stdio::null(), "$$", "web").serving().err().unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("descriptor 3, \"web\", cannot be used"), "{log}");
}

#[test]
fn the_socket_of_a_killed_server_is_replaced_and_that_of_a_living_one_is_not() {
    let app = app("\"127.0.0.1:0\", { address = \"unix:s\", mode = \"0600\" }");
    let path = app.path().join("s");
    app.start().kill();
    assert!(path.exists() && UnixStream::connect(&path).is_err());
    let server = app.start();
    assert!(whole_reply(UnixStream::connect(&path).unwrap()).ends_with("hello"));
    let second = self::app("\"127.0.0.1:0\"");
    let socket = path.display();
    second.write("tollgate.toml", &format!("[server]\nlisten = [\"unix:{socket}\"]\n{ROUTE}"));
    let (status, log) = second.begin().serving().err().unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains(&format!("cannot listen on unix:{socket}")), "{log}");
    assert!(whole_reply(UnixStream::connect(&path).unwrap()).ends_with("hello"));
    assert!(server.stop().0.success());
    assert!(!path.exists());
    drop(UnixListener::bind(&path).unwrap());
}

/// Without a free descriptor, the server pauses between two tries to accept, and counts these pauses. A new
/// connection waits.
#[test]
fn accepting_without_any_descriptor_costs_no_processor_and_goes_on_later() {
    let app = App::new(&format!("workers = 1\n{ROUTE}"), &[]);
    let server = app.start();
    assert!(is_served(&mut connect(&server)));
    server.limit_descriptors(0);
    let mut waiting = connect(&server);
    let span = Duration::from_secs(2);
    let used = processor_time(&server);
    waiting.set_read_timeout(Some(span)).unwrap();
    waiting.write_all(REQUEST).unwrap();
    let nothing = waiting.read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    let used = processor_time(&server) - used;
    assert!(used < span / 5, "{used:?} of {span:?}");
    server.limit_descriptors(1024);
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reply = String::new();
    waiting.read_to_string(&mut reply).unwrap();
    assert!(reply.ends_with("hello"), "{reply}");
    get_until(&app, "/readyz", 503, "new connections wait");
    assert!(
        sample(&ask_admin(&app, "/metrics").content, "tollgate_refusals_total{reason=\"descriptors\"}") > 0
    );
    get_until(&app, "/readyz", 200, "ready");
    eventually("that is told", || server.has_logged("the worker accepts connections again").then_some(()));
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("no free file descriptor"), "{log}");
}

#[test]
fn a_line_tells_of_connections_at_the_bound_however_often_they_come_and_go() {
    let app = App::new(&format!("workers = 1\nconnections_max = 4\n{ROUTE}"), &[]);
    let server = app.start();
    let mut kept: VecDeque<_> = (0..4).map(|_| taken_on(&server).expect("there is a place")).collect();
    for _ in 0..20 {
        assert!(taken_on(&server).is_none());
        kept.pop_front();
        kept.push_back(eventually("another takes the place", || taken_on(&server)));
    }
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let lines = log.lines().filter(|line| line.contains("`connections_max` connections")).count();
    assert!((1..=3).contains(&lines), "{log}");
    assert!(!log.contains("accepts connections again"), "{log}");
}

/// Returns the processor time of the process so far, in steps of 10 ms.
fn processor_time(server: &Running) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    // The name of the program is in parentheses. utime and stime are the 14th and 15th word (proc(5)).
    let words: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = words[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

fn connect(server: &Running) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Returns a client that got status 200. `None`: the server is full and answered 503.
fn taken_on(server: &Running) -> Option<Client> {
    let mut client = server.connect();
    assert!(client.send(&get("/")));
    let status = client.reply().expect("a reply").status;
    assert!([200, 503].contains(&status), "{status}");
    (status == 200).then_some(client)
}

/// Sends a request and keeps the connection. A server that sends nothing in time fails the test.
fn is_served(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    let sent = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    match sent.and_then(|()| stream.read(&mut byte)) {
        Ok(bytes) => bytes == 1,
        Err(error) => {
            let is_closed = [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
            assert!(is_closed.contains(&error.kind()), "{error}");
            false
        }
    }
}
