//! 500 hostile clients at once: the time until they are disconnected, the memory that they use, and the
//! replies to other clients.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::admin::get;
use crate::program::{App, Running, eventually, is_quick_once};

const CLIENTS: usize = 500;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// Maximum time for a slow head or body.
const DEADLINE: Duration = Duration::from_secs(1);
/// Tolerance of the deadlines. Deadlines are exact to two ticks of 250 ms, and a busy machine needs more
/// time.
const LATE_MAX: Duration = Duration::from_secs(5);

fn start(limits: &str) -> (App, Running) {
    let big = "local big = string.rep('x', 2000000) return function() return big end";
    let routes = "[[route]]\npath = \"/\"\nreply = { body = \"hello\" }\n[[route]]\npath = \"/big\"\n\
                  script = \"big.luau\"\n[[route]]\npath = \"/take\"\nscript = \"take.luau\"\n\
                  body_bytes_max = \"8MiB\"\n[[route]]\npath = \"/slow\"\nscript = \"slow.luau\"\n";
    // The script runs longer than a slice.
    let slow =
        "return function() local stop = os.clock() + 0.005 while os.clock() < stop do end return 204 end";
    let take = "return function(req) return tostring(#req:body()) end";
    let app = App::new(
        &format!("{limits}\n{routes}"),
        &[("big.luau", big), ("take.luau", take), ("slow.luau", slow)],
    );
    let server = app.start();
    (app, server)
}

fn connect(server: &Running) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Sends as many bytes as the connection accepts. A closed connection accepts none.
fn send(stream: &mut TcpStream, bytes: &[u8]) {
    match stream.write_all(bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
        sent => sent.unwrap(),
    }
}

/// Returns whether the connection has ended. New bytes are added to `came`.
fn has_ended(stream: &mut TcpStream, came: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(bytes) => came.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return true,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends slowly until every connection has ended, while a normal client is answered. Returns the duration and
/// the bytes that each connection received.
fn drip(server: &Running, peers: Vec<TcpStream>, drop: &[u8]) -> (Duration, Vec<String>) {
    let begun = Instant::now();
    let mut left: Vec<_> = peers.into_iter().map(|peer| (peer, Vec::new())).collect();
    let mut heard = Vec::new();
    while !left.is_empty() {
        let mut client = server.connect();
        assert!(client.get("/").is_some_and(|reply| reply.content == "hello"));
        left.retain_mut(|(peer, came)| {
            send(peer, drop);
            let is_over = has_ended(peer, came);
            if is_over {
                heard.push(String::from_utf8_lossy(came).into_owned());
            }
            !is_over
        });
        assert!(begun.elapsed() < Duration::from_secs(60), "{} are still there", left.len());
    }
    (begun.elapsed(), heard)
}

fn memory_kib(server: &Running) -> u64 {
    status_kib(server, "VmRSS:")
}

/// Returns the highest memory of the process so far.
fn memory_peak_kib(server: &Running) -> u64 {
    status_kib(server, "VmHWM:")
}

fn status_kib(server: &Running, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn begins_with(heard: &[String], start: &str) -> usize {
    heard.iter().filter(|reply| reply.starts_with(start)).count()
}

#[test]
fn slow_heads_are_gone_by_their_deadline() {
    let (_app, server) = start("head_timeout = \"1s\"");
    let before = memory_kib(&server);
    is_quick_once("the last slow head", DEADLINE + LATE_MAX, || {
        let mut peers: Vec<_> = (0..CLIENTS).map(|_| connect(&server)).collect();
        peers.iter_mut().for_each(|peer| send(peer, b"GET / HTTP/1.1\r\nHost: a\r\nX: "));
        let (took, heard) = drip(&server, peers, b"x");
        assert!(took >= DEADLINE, "{took:?}");
        assert_eq!(heard.len(), CLIENTS);
        assert!(begins_with(&heard, "HTTP/1.1 408 ") > CLIENTS * 9 / 10, "{heard:?}");
        took
    });
    let grown = memory_kib(&server).saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB");
}

#[test]
fn slow_bodies_are_gone_by_their_rate() {
    let (_app, server) = start("body_rate_grace = \"1s\"\nbody_rate_min = \"10KiB\"");
    is_quick_once("the last slow body", DEADLINE + LATE_MAX, || {
        let mut peers: Vec<_> = (0..CLIENTS).map(|_| connect(&server)).collect();
        let head = b"POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
        peers.iter_mut().for_each(|peer| send(peer, head));
        let (took, heard) = drip(&server, peers, b"x");
        assert!(took >= DEADLINE, "{took:?}");
        assert!(begins_with(&heard, "HTTP/1.1 408 ") > CLIENTS * 9 / 10, "{heard:?}");
        took
    });
}

#[test]
fn bodies_that_wait_for_their_end_hold_no_more_memory_than_may_be() {
    let (_app, server) = start("in_flight_bytes_max = \"16MiB\"\nbody_memory_max = \"8MiB\"");
    let before = memory_kib(&server);
    let mut peers: Vec<_> = (0..CLIENTS).map(|_| connect(&server)).collect();
    // The bodies are long, so that only few of them can end in memory that other bodies released.
    let head = b"POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n";
    peers.iter_mut().for_each(|peer| send(peer, head));
    let part = vec![b'x'; 64 << 10];
    let mut refused = 0;
    let mut highest = 0;
    let begun = Instant::now();
    while refused < CLIENTS * 8 / 10 {
        peers.retain_mut(|peer| {
            send(peer, &part);
            let mut came = Vec::new();
            has_ended(peer, &mut came);
            refused += usize::from(came.starts_with(b"HTTP/1.1 503 "));
            came.is_empty()
        });
        highest = highest.max(memory_kib(&server));
        assert!(begun.elapsed() < Duration::from_secs(60), "{refused} refused, {} left", peers.len());
    }
    // The bound covers 16 MiB of bodies, 4 KiB of each connection that are not counted, free memory of the
    // allocator, and the VM.
    let grown = highest.saturating_sub(before);
    assert!(grown < 48 << 10, "{grown} KiB");
    drop(peers);
    let mut client = server.connect();
    let reply = eventually("memory is free again", || {
        client.post("/take", &"x".repeat(100_000)).filter(|reply| reply.status == 200).or_else(|| {
            client = server.connect();
            None
        })
    });
    assert_eq!(reply.content, "100000");
}

#[test]
fn slow_readers_hold_no_more_memory_than_may_be_and_are_cut_off() {
    let (_app, server) =
        start("in_flight_bytes_max = \"32MiB\"\nwrite_timeout = \"1s\"\nidle_timeout = \"1s\"");
    let before = memory_kib(&server);
    let mut peers: Vec<_> = (0..CLIENTS).map(|_| connect(&server)).collect();
    let pipeline = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n".repeat(8);
    peers.iter_mut().for_each(|peer| send(peer, &pipeline));
    let begun = Instant::now();
    let mut highest = 0;
    // The clients read no byte, so their replies stay in the server until it closes the connections.
    while server_connections(&server) > 0 {
        highest = highest.max(memory_kib(&server));
        assert!(begun.elapsed() < Duration::from_secs(60), "{} left", server_connections(&server));
    }
    let grown = highest.saturating_sub(before);
    assert!(grown < 96 << 10, "{grown} KiB");
    eventually("memory is free again", || server.connect().get("/").filter(|reply| reply.status == 200));
    drop(peers);
}

#[test]
fn connections_over_the_limit_are_refused_or_closed_and_none_waits() {
    let (_app, server) = start("connections_max = 100");
    let mut kept: Vec<_> = (0..100).map(|_| server.connect()).collect();
    kept.iter_mut().for_each(|client| assert_eq!(client.get("/").unwrap().status, 200));
    let mut peers: Vec<_> = (0..CLIENTS).map(|_| (connect(&server), Vec::new())).collect();
    let begun = Instant::now();
    let mut heard = Vec::new();
    while !peers.is_empty() {
        peers.retain_mut(|(peer, came)| {
            let is_over = has_ended(peer, came);
            if is_over {
                heard.push(String::from_utf8_lossy(came).into_owned());
            }
            !is_over
        });
        assert!(begun.elapsed() < Duration::from_secs(60), "{} left", peers.len());
    }
    let refused = begins_with(&heard, "HTTP/1.1 503 ");
    let closed = heard.iter().filter(|reply| reply.is_empty()).count();
    assert!(refused > 0 && refused + closed == CLIENTS, "{refused} refused, {closed} closed");
    let told =
        |reply: &String| reply.contains("Retry-After: 1") && reply.contains("Tollgate-Outcome: refused");
    assert_eq!(heard.iter().filter(|reply| told(reply)).count(), refused);
    kept.iter_mut().for_each(|client| assert_eq!(client.get("/").unwrap().status, 200));
}

#[test]
fn a_flood_of_connections_leaves_no_memory_behind() {
    let (_app, server) = start("");
    let flood = |rounds: usize| {
        for _ in 0..rounds {
            let mut peers: Vec<_> = (0..CLIENTS).map(|_| connect(&server)).collect();
            peers.iter_mut().for_each(|peer| send(peer, GET));
        }
        eventually("all are gone", || (server_connections(&server) == 0).then_some(()));
        memory_kib(&server)
    };
    let before = flood(2);
    let grown = flood(10).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
}

/// Returns the server's sockets that have a peer.
fn server_connections(server: &Running) -> usize {
    let sockets = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap();
    let sockets = sockets.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let ours: std::collections::HashSet<_> = sockets
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", server.address().port());
    // The columns are: local address, peer address, state (0A listens), ..., inode.
    let is_connection = |line: &&str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        columns[1].ends_with(&port) && columns[3] != "0A" && ours.contains(columns[9])
    };
    table.lines().skip(1).filter(is_connection).count()
}

#[test]
fn pipelines_behind_a_slow_script_hold_no_more_memory_than_may_be() {
    const PIPELINES: usize = 20;
    let (app, server) = start("workers = 1\nin_flight_bytes_max = \"32MiB\"\nqueue_age_max = \"30s\"");
    let before = memory_kib(&server);
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    // The requests after the first wait until it has returned. After that, all of them can run.
    let pipeline = [request("/slow"), request("/big").repeat(50)].concat();
    let mut peers: Vec<_> = (0..PIPELINES).map(|_| connect(&server)).collect();
    peers.iter_mut().for_each(|peer| send(peer, pipeline.as_bytes()));
    eventually("all have returned, or were refused because others hold too much", || {
        let metrics = get(&app, "/metrics").content;
        let of_slow = |line: &&str| {
            let names = ["tollgate_http_requests_total{", "tollgate_http_refused_total{"];
            names.iter().any(|name| line.starts_with(name)) && line.contains("route=\"/slow\"")
        };
        let counts = metrics.lines().filter(of_slow).filter_map(|line| line.rsplit(' ').next());
        let count: usize = counts.map(|count| count.parse::<usize>().unwrap()).sum();
        (count >= PIPELINES).then_some(())
    });
    // This reply is sent after the turn in which the last request returned.
    eventually("others are served", || server.connect().get("/"));
    // The bound covers 32 MiB, and the memory that a worker needs for a script and its reply.
    let grown = memory_peak_kib(&server).saturating_sub(before);
    assert!(grown < (32 + 64) << 10, "{grown} KiB");
    drop(peers);
    let reply = eventually("memory is free again", || {
        server.connect().get("/big").filter(|reply| reply.status == 200)
    });
    assert_eq!(reply.content.len(), 2_000_000);
}
