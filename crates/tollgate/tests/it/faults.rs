//! A disk that fails or is slow, by strace: SIGKILL keeps the page cache, these do not need it.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Reply, get};
use crate::program::{App, Running, eventually};

const DELAY: Duration = Duration::from_millis(300);
/// Fault points that are tried at the same time.
const LANES: u32 = 4;

const CONFIG: &str = r#"
workers = 1
drain_timeout = "1s"
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

const KEEP: &str = "return function(req) return { record = { n = tonumber(req.query.n) } } end";

fn app(log: &str) -> App {
    App::new(&format!("{CONFIG}{log}"), &[("keep.luau", KEEP)])
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_and_a_restart_needs_no_hand() {
    thread::scope(|scope| {
        for lane in 0..LANES {
            scope.spawn(move || (1..=20).filter(|n| n % LANES == lane).for_each(check_failure_at));
        }
    });
}

/// Fails the `n`th fdatasync of the process, whoever makes it.
fn check_failure_at(n: u32) {
    // Small segments, so that the fault meets rolls and seals too.
    let app = app("[log]\nsegment_bytes_max = \"4KiB\"\n");
    let server = app.start_with_fault(&format!("error=EIO:when={n}"));
    let (acknowledged, ended_with) = drive_until_failure(server);
    assert_eq!(ended_with, Some(1), "fault {n}");
    app.settle();
    let rows = app.query::<i64>("SELECT n FROM synced");
    let distinct: BTreeSet<_> = rows.iter().copied().collect();
    assert_eq!(rows.len(), distinct.len(), "fault {n}: no record is loaded twice");
    assert!(acknowledged.iter().all(|n| distinct.contains(n)), "fault {n}: {acknowledged:?} in {rows:?}");
}

/// Sends requests one after the other until the log has failed; checks that none succeeds afterwards while routes without a
/// stream do; returns the numbers that were acknowledged, and the exit code.
fn drive_until_failure(server: Running) -> (Vec<i64>, Option<i32>) {
    let mut client = server.connect();
    let mut acknowledged = Vec::new();
    let failed = (0..)
        .find_map(|n| {
            let reply = client.get(&format!("/synced?n={n}")).expect("a reply");
            if reply.is_success() {
                acknowledged.push(n);
                return None;
            }
            Some(reply)
        })
        .expect("a failure");
    assert_eq!(outcome(&failed), (503, Some("unknown")));
    let later = server.connect().get("/synced?n=-1").expect("a reply");
    assert_eq!((outcome(&later), later.field("retry-after")), ((503, Some("refused")), Some("1")));
    assert_eq!(server.connect().get("/fixed").expect("a reply").content, "fixed");
    (acknowledged, server.wait().0.code())
}

fn outcome(reply: &Reply) -> (u16, Option<&str>) {
    (reply.status, reply.field("tollgate-outcome"))
}

#[test]
fn no_synced_reply_comes_before_its_sync_and_other_replies_do_not_wait() {
    let app = app("");
    let server = app.start_with_fault("delay_enter=300000");
    let address = server.address();
    let slow = thread::spawn(move || {
        let mut client = Client::connect(address);
        for n in 0..5 {
            let begun = Instant::now();
            assert!(
                client
                    .send(&[get(&format!("/synced?n={n}")), get(&format!("/synced?n={}", n + 100))].concat())
            );
            for _ in 0..2 {
                assert!(client.reply().expect("a reply").is_success());
                let waited = begun.elapsed();
                assert!(waited >= DELAY, "{waited:?}");
            }
        }
    });
    let mut client = server.connect();
    let mut quick = 0;
    while !slow.is_finished() {
        for path in ["/fixed", "/written?n=1"] {
            let begun = Instant::now();
            assert!(client.get(path).expect("a reply").is_success());
            let waited = begun.elapsed();
            assert!(waited < DELAY, "{path}: {waited:?}");
            quick += 1;
        }
    }
    slow.join().unwrap();
    assert!(quick > 10, "{quick} quick replies");
    assert!(server.stop().0.success());
    let count = || app.query::<i64>("SELECT count(*) FROM synced");
    eventually("all rows", || (count() == [10]).then_some(()));
}
