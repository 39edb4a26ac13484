//! SIGKILL at random points under load: what was acknowledged as synced is a row, once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::client::{Client, get, post};
use crate::program::{App, eventually};

const KILLS: u64 = 20;
const CLIENTS: u64 = 6;
/// Requests that a run answers before it is killed: at random up to this many.
const REPLIES_BEFORE_KILL_MAX: u64 = 1500;

const CONFIG: &str = r#"
workers = 2
[log]
segment_bytes_max = "32KiB"
[stream.synced]
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "log", type = "uuid", from = "log.id" },
  { name = "sequence", type = "int", from = "log.sequence" },
]
[stream.written]
ack = "written"
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "log", type = "uuid", from = "log.id" },
  { name = "sequence", type = "int", from = "log.sequence" },
]
[[route]]
path = "/synced"
script = "keep.luau"
stream = "synced"
[[route]]
path = "/written"
script = "keep.luau"
stream = "written"
[[route]]
path = "/collect"
collect = true
stream = "synced"
"#;

const KEEP: &str = "return function(req) return { record = { n = tonumber(req.query.n) } } end";

/// SplitMix64: all that a crash point needs of randomness, and replayable.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % limit
    }
}

/// The request for a number, by its kind; each number is used once.
fn request(n: u64) -> String {
    match n % 3 {
        0 => get(&format!("/synced?n={n}")),
        1 => get(&format!("/written?n={n}")),
        _ => post("/collect", &format!("{{\"n\":{n}}}")),
    }
}

/// Sends requests, four at once, until the server is gone; returns the numbers that were answered with success.
fn drive(address: SocketAddr, numbers: &AtomicU64, answered: &AtomicU64) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    let Some(mut client) = Client::try_connect(address) else { return acknowledged };
    loop {
        let batch: Vec<_> = (0..4).map(|_| numbers.fetch_add(1, Ordering::Relaxed)).collect();
        if !client.send(&batch.iter().map(|n| request(*n)).collect::<String>()) {
            return acknowledged;
        }
        for n in batch {
            let Some(reply) = client.reply() else { return acknowledged };
            assert!(reply.is_success(), "{reply:?}");
            answered.fetch_add(1, Ordering::Relaxed);
            acknowledged.push(n);
        }
    }
}

/// Runs the server once, kills it after some replies, and returns what was acknowledged.
fn run_and_kill(app: &App, replies: u64, numbers: &Arc<AtomicU64>) -> Vec<u64> {
    let server = app.start();
    let answered = Arc::new(AtomicU64::new(0));
    let drivers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (address, numbers, answered) = (server.address(), numbers.clone(), answered.clone());
            thread::spawn(move || drive(address, &numbers, &answered))
        })
        .collect();
    eventually("enough replies", || (answered.load(Ordering::Relaxed) >= replies).then_some(()));
    server.kill();
    drivers.into_iter().flat_map(|driver| driver.join().unwrap()).collect()
}

#[test]
fn what_was_acknowledged_as_synced_survives_sigkill_exactly_once() {
    let seed = std::env::var("TOLLGATE_SEED").map_or(20_261_121, |seed| seed.parse().unwrap());
    println!("TOLLGATE_SEED={seed}");
    let mut random = Random(seed);
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let numbers = Arc::new(AtomicU64::new(0));
    let mut acknowledged = Vec::new();
    for _ in 0..KILLS {
        let replies = random.below(REPLIES_BEFORE_KILL_MAX);
        acknowledged.extend(run_and_kill(&app, replies, &numbers));
    }
    app.settle();
    let rows = rows_by_number(&app);
    for n in &acknowledged {
        // SIGKILL leaves the page cache: what was written is there as well.
        assert_eq!(rows.get(n), Some(&1), "number {n}");
    }
    assert!(rows.values().all(|count| *count == 1), "no record is loaded twice");
    assert!(acknowledged.len() as u64 > KILLS, "{} acknowledged", acknowledged.len());
    assert_no_gaps(&app);
}

fn rows_by_number(app: &App) -> BTreeMap<u64, u64> {
    let mut rows = BTreeMap::new();
    for n in app.query::<i64>("SELECT n FROM synced UNION ALL SELECT n FROM written") {
        *rows.entry(n.cast_unsigned()).or_default() += 1;
    }
    rows
}

/// The numbers of each log run from 1 without a gap, and the database saw none.
fn assert_no_gaps(app: &App) {
    let all = "(SELECT log, sequence FROM synced UNION ALL SELECT log, sequence FROM written)";
    let broken = format!(
        "SELECT log FROM {all} GROUP BY log HAVING min(sequence) <> 1 OR max(sequence) <> count(DISTINCT sequence)"
    );
    assert_eq!(app.query::<String>(&broken), [""; 0]);
    assert_eq!(app.query::<i64>("SELECT count(*) FROM tollgate_gaps"), [0]);
    let logs = app.query::<i64>(&format!("SELECT count(DISTINCT log) FROM {all}"));
    assert!(logs[0] > 1, "{logs:?} logs");
}

#[test]
fn a_request_in_flight_at_sigterm_is_answered_and_loaded() {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let server = app.start();
    let mut client = server.connect();
    let request = get("/synced?n=7");
    assert!(client.send(&request[..request.len() - 2]));
    let mut idle = server.connect();
    assert!(idle.get("/synced?n=8").unwrap().is_success());
    server.signal(rustix::process::Signal::TERM);
    assert!(idle.ends(), "an idle connection is closed");
    assert!(client.send(&request[request.len() - 2..]));
    assert_eq!(client.reply().map(|reply| reply.status), Some(200));
    assert!(server.wait().0.success());
    assert_eq!(app.query::<i64>("SELECT n FROM synced ORDER BY n"), [7, 8]);
}
