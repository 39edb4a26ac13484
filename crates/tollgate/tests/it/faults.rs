//! A disk that fails or is slow. strace injects the faults, so it must be installed. A SIGKILL does not show
//! such faults, because the page cache survives it.
//!
//! strace counts the calls of each thread separately. `when=3` fails the third call of every thread that
//! makes at least three.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tollgate_log::{DiskStorage, scan_segment};

use crate::client::{Client, Reply, get};
use crate::program::{App, KEEP, Running, eventually, in_threads, is_quick_once};

const DELAY: Duration = Duration::from_millis(300);
/// Maximum time of a reply that does not wait for a sync.
const AT_ONCE: Duration = Duration::from_millis(100);
/// Number of requests in a round in which no reply may wait for a sync.
const QUICK_REQUESTS: usize = 50;
/// Number of fault points that are tested in parallel.
const THREADS: usize = 4;
const CLIENTS: usize = 6;
const PIPELINE_DEPTH: usize = 8;
/// Maximum number of requests of all clients. The fault occurs after far fewer requests.
const REQUESTS_MAX: i64 = 10_000;
/// Number of requests after a fault. If the fault concerns the log, the log has stopped after these requests.
const REQUESTS_AFTER_FAULT: usize = 50;

const CONFIG: &str = r#"
workers = 2
drain_timeout = "2s"
[stream.synced]
columns = [{ name = "n", type = "int", from = "record.n" }]
[stream.written]
ack = "written"
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/synced"
script = "keep.luau"
stream = "synced"
[[route]]
path = "/written"
script = "keep.luau"
stream = "written"
[[route]]
path = "/fixed"
reply = { status = 200, body = "fixed" }
"#;

/// Segments are small, so that faults also occur while a segment is rolled and sealed.
const SMALL_SEGMENTS: &str = "[log]\nsegment_bytes_max = \"4KiB\"\n";

fn app(log: &str) -> App {
    App::new(&format!("{CONFIG}{log}"), &[("keep.luau", KEEP)])
}

fn outcome(reply: &Reply) -> (u16, Option<&str>) {
    (reply.status, reply.field("tollgate-outcome"))
}

#[test]
fn no_request_is_acknowledged_after_a_failed_sync() {
    let points: Vec<_> = (1..=20).collect();
    in_threads(THREADS, &points, |n| check_failed_sync(*n, one_after_the_other));
}

#[test]
fn no_request_of_many_at_once_is_acknowledged_after_a_failed_sync() {
    let points: Vec<_> = (1..=20).collect();
    in_threads(THREADS, &points, |n| check_failed_sync(*n, many_at_once));
}

/// Fails the `n`th fdatasync of the thread that syncs records. Every other thread makes less than `n` calls.
fn check_failed_sync(n: usize, drive: fn(SocketAddr) -> Vec<i64>) {
    let app = app(SMALL_SEGMENTS);
    let server = app.begin_with_fault("fdatasync", &format!("error=EIO:when={n}")).serving().unwrap();
    let acknowledged = drive(server.address());
    check_failed_log(&server);
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(1), "fault {n}: {log}");
    // The text of EIO depends on the C library.
    assert!(log.contains("cannot sync") && log.contains(".open: "), "fault {n}: {log}");
    assert!(log.contains(" (os error 5)"), "fault {n}: {log}");
    let syncs: Vec<_> = app.calls().into_iter().filter(|(thread, _)| thread == "log-syncer").collect();
    let begun = syncs.iter().filter(|(_, call)| call.starts_with("fdatasync(")).count();
    assert_eq!(begun, n, "the thread syncs no file again after it failed: {syncs:?}");
    assert!(syncs.last().is_some_and(|(_, call)| call.ends_with("(INJECTED)")), "fault {n}: {syncs:?}");
    app.settle();
    check_rows(&app, &acknowledged, &format!("fault {n}"));
}

/// Sends one request at a time. The request whose sync fails gets an unknown outcome. Each success had a sync
/// of its own.
fn one_after_the_other(address: SocketAddr) -> Vec<i64> {
    let mut client = Client::connect(address);
    let mut acknowledged = Vec::new();
    for n in 0..REQUESTS_MAX {
        let reply = client.get(&format!("/synced?n={n}")).expect("a reply");
        if !reply.is_success() {
            assert_eq!(outcome(&reply), (503, Some("unknown")));
            assert_eq!(reply.field("retry-after"), None);
            return acknowledged;
        }
        acknowledged.push(n);
    }
    panic!("no sync failed in {REQUESTS_MAX} requests");
}

/// Sends many requests at a time. When the sync fails, some of them get an unknown outcome, and no later
/// request succeeds.
fn many_at_once(address: SocketAddr) -> Vec<i64> {
    let (next, has_failed) = (AtomicI64::new(0), AtomicBool::new(false));
    let ends = in_threads(CLIENTS, &[(); CLIENTS], |()| drive_until_failure(address, &next, &has_failed));
    let (acknowledged, unknown): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    assert!(unknown.iter().sum::<usize>() > 0, "whoever waited for the sync is told that it is unknown");
    acknowledged.concat()
}

/// Sends requests on one connection. Returns the acknowledged numbers, and the count of unknown outcomes.
fn drive_until_failure(address: SocketAddr, next: &AtomicI64, has_failed: &AtomicBool) -> (Vec<i64>, usize) {
    let mut client = Client::connect(address);
    let (mut acknowledged, mut unknown, mut failed) = (Vec::new(), 0, 0);
    while failed == 0 {
        let was_failed = has_failed.load(Ordering::SeqCst);
        let batch: Vec<_> = (0..PIPELINE_DEPTH).map(|_| next.fetch_add(1, Ordering::Relaxed)).collect();
        assert!(batch[0] < REQUESTS_MAX, "no sync failed in {REQUESTS_MAX} requests");
        assert!(client.send(&batch.iter().map(|n| get(&format!("/synced?n={n}"))).collect::<String>()));
        for n in batch {
            let reply = client.reply().expect("a reply");
            if reply.is_success() {
                assert!(!was_failed && failed == 0, "{n} succeeds after a failure");
                acknowledged.push(n);
                continue;
            }
            has_failed.store(true, Ordering::SeqCst);
            let (status, told) = outcome(&reply);
            assert!(status == 503 && matches!(told, Some("unknown" | "refused")), "{reply:?}");
            unknown += usize::from(told == Some("unknown"));
            failed += 1;
            if reply.field("connection") == Some("close") {
                // Later requests on this connection are not answered (RFC 9112 section 9.6).
                break;
            }
        }
    }
    (acknowledged, unknown)
}

/// Checks that a failed log accepts no record, at any level, and that routes without a stream are served.
fn check_failed_log(server: &Running) {
    let mut client = server.connect();
    for path in ["/synced?n=-1", "/written?n=-1"] {
        let reply = client.get(path).expect("a reply");
        assert_eq!(outcome(&reply), (503, Some("refused")), "{path}");
        assert_eq!(reply.field("retry-after"), Some("1"));
    }
    assert_eq!(client.get("/fixed").expect("a reply").content, "fixed");
}

/// Checks that every acknowledged number is a row, once, and that no row has a number that was not sent.
fn check_rows(app: &App, acknowledged: &[i64], what: &str) {
    let rows = if app.has_table("synced") { app.query::<i64>("SELECT n FROM synced") } else { Vec::new() };
    let distinct: BTreeSet<_> = rows.iter().copied().collect();
    assert_eq!(rows.len(), distinct.len(), "{what}: no record is loaded twice");
    let lost: Vec<_> = acknowledged.iter().filter(|n| !distinct.contains(n)).collect();
    assert!(lost.is_empty(), "{what}: acknowledged and lost: {lost:?}");
    assert!(!distinct.contains(&-1), "{what}: what was refused is no row");
}

#[test]
fn routes_without_a_stream_are_served_until_a_failed_log_ends_the_process() {
    let app = app("");
    let server = app.begin_with_fault("fdatasync", "error=EIO:when=2").serving().unwrap();
    let address = server.address();
    assert_eq!(one_after_the_other(address), [0]);
    let (begun, mut served) = (Instant::now(), 0);
    while let Some(reply) = Client::try_connect(address).and_then(|mut client| client.get("/fixed")) {
        assert_eq!((reply.status, reply.content.as_str()), (200, "fixed"));
        served += 1;
        thread::sleep(Duration::from_millis(10));
    }
    let served_for = begun.elapsed();
    // The drain deadline of two seconds begins when the log fails, a moment before the client gets the reply.
    assert!(served > 0 && served_for > Duration::from_secs(1), "{served} in {served_for:?}");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(1), "{log}");
}

/// A fault point: the call, the fault, and the number of the call in each thread.
type Point = (&'static str, &'static str, u32);

fn points(ranges: &[(&'static str, &'static str, std::ops::RangeInclusive<u32>)]) -> Vec<Point> {
    let ranges = ranges.iter().cloned();
    ranges.flat_map(|(call, error, numbers)| numbers.map(move |n| (call, error, n))).collect()
}

#[test]
fn an_acknowledged_record_is_a_row_once_whatever_call_fails() {
    let points = points(&[
        ("fdatasync", "EIO", 1..=1),
        ("fsync", "EIO", 1..=24),
        ("rename", "EIO", 1..=2),
        ("pwritev", "ENOSPC", 1..=5),
        ("pwritev", "EDQUOT", 4..=5),
        ("mkdir", "ENOSPC", 1..=2),
        ("ftruncate", "EIO", 1..=2),
        ("openat", "EMFILE", 8..=40),
        ("pwrite64", "ENOSPC", 35..=46),
    ]);
    let ends = in_threads(THREADS, &points, |point| check_fault(&app(SMALL_SEGMENTS), *point, Vec::new()));
    let hit: BTreeSet<_> = ends.into_iter().flat_map(|end| end.threads_hit).collect();
    for thread in ["tollgate", "log-writer", "log-syncer", "log-sealer", "load-main"] {
        assert!(hit.contains(thread), "no fault hit {thread}: {hit:?}");
    }
}

#[test]
fn a_start_that_cannot_mend_a_dead_log_leaves_it_whole_for_the_next() {
    let points = points(&[
        ("fdatasync", "EIO", 1..=2),
        ("fsync", "EIO", 1..=4),
        ("fadvise64", "EIO", 1..=1),
        ("ftruncate", "EIO", 1..=1),
        ("pwritev", "ENOSPC", 1..=1),
        ("rename", "EIO", 1..=1),
    ]);
    let ends = in_threads(THREADS, &points, |point| {
        let app = app(SMALL_SEGMENTS);
        let acknowledged = leave_torn_log(&app);
        check_fault(&app, *point, acknowledged)
    });
    for end in &ends {
        assert!(end.threads_hit.contains("tollgate"), "the start was hit: {end:?}");
        let is_told = end
            .log
            .contains("log cannot be repaired: it is not changed, and its open segments are not loaded");
        assert!(is_told || !end.has_served, "{end:?}");
    }
    assert!(ends.iter().any(|end| end.has_served), "some damage stops no start");
}

/// Kills a run, and adds bytes after the last batch. Such bytes may exist after a power cut.
fn leave_torn_log(app: &App) -> Vec<i64> {
    let server = app.start();
    let mut client = server.connect();
    let numbers: Vec<_> = (1_000_000..1_000_100).collect();
    for n in &numbers {
        assert!(client.get(&format!("/synced?n={n}")).expect("a reply").is_success());
    }
    server.kill();
    let segments = app.segments();
    let open = segments.iter().rfind(|path| path.extension().is_some_and(|state| state == "open"));
    let open = open.expect("an open segment");
    let end = scan_segment(&DiskStorage, open).unwrap().end;
    OpenOptions::new().write(true).open(open).unwrap().write_all_at(&[0x5a; 200], end).unwrap();
    numbers
}

/// The results of a run with one fault.
#[derive(Debug)]
struct Faulted {
    /// Whether the server began to serve.
    has_served: bool,
    log: String,
    threads_hit: BTreeSet<String>,
}

/// Runs a server with one fault. Checks that a refused start prints a reason, that a serving server ends
/// normally, and that no acknowledged record is lost.
fn check_fault(app: &App, (call, error, n): Point, mut acknowledged: Vec<i64>) -> Faulted {
    println!("{error} from {call} {n}");
    let (has_served, (status, log)) =
        match app.begin_with_fault(call, &format!("error={error}:when={n}")).serving() {
            Ok(server) => {
                acknowledged.extend(drive_beyond_fault(app, &server));
                (true, server.stop())
            }
            Err(end) => (false, end),
        };
    let has_failed = !has_served || log.contains("the log failed");
    // If a configuration or a script cannot be read, this is reported like other faults of the configuration.
    let is_fault = !has_served && status.code() == Some(2);
    assert!(is_fault || status.code() == Some(i32::from(has_failed)), "{status}: {log}");
    let folder = std::env::temp_dir();
    let is_clear = log.lines().any(|line| {
        (is_fault || line.starts_with("tollgate: "))
            && line.contains("cannot ")
            && line.contains(&*folder.to_string_lossy())
    });
    assert_eq!(is_clear, has_failed, "the last word names the file: {log}");
    app.settle();
    check_rows(app, &acknowledged, call);
    Faulted { has_served, log, threads_hit: app.threads_hit() }
}

/// Sends requests one after the other. Continues until a fixed number of requests after the fault, or until
/// the log has failed.
fn drive_beyond_fault(app: &App, server: &Running) -> Vec<i64> {
    let mut client = server.connect();
    let (mut acknowledged, mut enough) = (Vec::new(), None);
    eventually("the fault", || {
        let n = acknowledged.len();
        let reply = client.get(&format!("/synced?n={n}")).expect("a reply");
        if !reply.is_success() {
            let (status, told) = outcome(&reply);
            assert!(status == 503 && matches!(told, Some("unknown" | "refused")), "{reply:?}");
            check_failed_log(server);
            return Some(());
        }
        acknowledged.push(n as i64);
        if enough.is_none() && !app.threads_hit().is_empty() {
            enough = Some(n + REQUESTS_AFTER_FAULT);
        }
        (Some(n) == enough).then_some(())
    });
    acknowledged
}

#[test]
fn rows_are_loaded_by_the_same_run_after_the_database_refused_a_write() {
    let app = app("");
    // The start makes less than 60 writes, so the fault occurs later.
    let server = app.begin_with_fault("pwrite64", "error=ENOSPC:when=60").serving().unwrap();
    let acknowledged = drive_beyond_fault(&app, &server);
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "the log does not care: {log}");
    assert_eq!(app.threads_hit(), BTreeSet::from(["load-main".to_owned()]));
    assert!(log.contains("the sink accepts no rows: the loader tries again"), "{log}");
    assert_eq!(app.query::<i64>("SELECT n FROM synced ORDER BY n"), acknowledged);
}

/// Sends two synced requests at once, at least five times. Each reply must arrive at least one delayed sync
/// later. Returns the numbers of the requests.
fn drive_slowly(address: SocketAddr, is_enough: &AtomicBool) -> Vec<i64> {
    let mut client = Client::connect(address);
    let mut numbers = Vec::new();
    while numbers.len() < 10 || !is_enough.load(Ordering::Relaxed) {
        let pair = [numbers.len() as i64, numbers.len() as i64 + 1];
        let begun = Instant::now();
        assert!(client.send(&pair.map(|n| get(&format!("/synced?n={n}"))).concat()));
        for _ in pair {
            assert!(client.reply().expect("a reply").is_success());
            let waited = begun.elapsed();
            assert!(waited >= DELAY, "a reply before its sync: {waited:?}");
        }
        numbers.extend(pair);
    }
    numbers
}

/// Requests a path in rounds, until most replies of a round arrive within `AT_ONCE` and none is as slow as a
/// delayed sync. Returns the number of requests.
fn check_quick(server: &Running, path: &str) -> usize {
    let mut client = server.connect();
    let mut requests = 0;
    is_quick_once(path, AT_ONCE, || {
        requests += QUICK_REQUESTS;
        let ask = |_| {
            let begun = Instant::now();
            assert!(client.get(path).expect("a reply").is_success());
            begun.elapsed()
        };
        let mut waits: Vec<_> = (0..QUICK_REQUESTS).map(ask).collect();
        waits.sort_unstable();
        let (most, all) = (waits[QUICK_REQUESTS * 9 / 10], waits[QUICK_REQUESTS - 1]);
        if all < DELAY { most } else { all }
    });
    requests
}

/// Sets a flag when it is dropped, even during a panic.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_synced_reply_comes_before_its_sync_and_other_replies_do_not_wait() {
    let app = app("");
    let server = app.begin_with_fault("fdatasync", "delay_enter=300000").serving().unwrap();
    let (address, is_enough) = (server.address(), AtomicBool::new(false));
    let (numbers, written) = thread::scope(|scope| {
        let slow = scope.spawn(|| drive_slowly(address, &is_enough));
        // The flag must be set even if a check fails, because the scope waits for the slow thread.
        let end = SetAtEnd(&is_enough);
        check_quick(&server, "/fixed");
        let written = check_quick(&server, "/written?n=1");
        drop(end);
        (slow.join().expect("slow replies"), written)
    });
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    assert_eq!(app.query::<i64>("SELECT n FROM synced ORDER BY n"), numbers);
    assert_eq!(app.query::<i64>("SELECT count(*) FROM written"), [written as i64]);
}

#[test]
fn a_reply_that_waits_for_a_slow_sync_at_sigterm_is_sent() {
    let app = app("");
    let server = app.begin_with_fault("fdatasync", "delay_enter=300000").serving().unwrap();
    let mut client = server.connect();
    let begun = Instant::now();
    assert!(client.send(&get("/synced?n=1")));
    // When this reply arrives, the server has also received the synced request, on the same worker or on
    // another.
    assert!(server.connect().get("/written?n=2").expect("a reply").is_success());
    server.signal(Signal::TERM);
    assert!(client.reply().expect("a reply").is_success());
    assert!(begun.elapsed() >= DELAY);
    assert!(client.ends(), "the connection is closed");
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    assert_eq!(app.query::<i64>("SELECT n FROM synced"), [1]);
}

#[test]
fn a_reply_whose_record_was_lost_says_that_its_connection_ends() {
    let app = app("");
    let fault = "error=EIO:delay_enter=300000:when=1";
    let server = app.begin_with_fault("fdatasync", fault).serving().unwrap();
    let mut client = server.connect();
    assert!(client.send(&get("/synced?n=1")));
    assert!(server.connect().get("/written?n=2").expect("a reply").is_success());
    // This request waits in the kernel. A close without lingering would become a reset, and the reply would
    // be lost.
    assert!(client.send(&get("/synced?n=3")));
    let reply = client.reply().expect("a reply");
    assert_eq!((outcome(&reply), reply.field("connection")), ((503, Some("unknown")), Some("close")));
    assert!(client.ends());
}
