//! SIGKILL at random points under load and at chosen calls: each acknowledged record is a row, once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tollgate_log::{Cursor, CursorStep, DiskStorage, LogId, RecordBody, Sequence, Value, log_ids};

use crate::client::{Client, Reply, get, post};
use crate::program::{App, KEEP, PATIENCE, Running, eventually_within, in_threads};

const KILLS: u64 = 20;
const CLIENTS: u64 = 6;
/// Maximum number of requests that a run answers before the kill. The number is random.
const REPLIES_BEFORE_KILL_MAX: u64 = 4000;
/// Maximum of the random time until a start is killed. This maximum is about the duration of a start.
const START_US_MAX: u64 = 20_000;
/// Number of runs that are killed in parallel, each at a chosen system call.
const THREADS: usize = 4;
/// Time that the clients need for their requests while other programs keep the disk busy.
const DRIVE_PATIENCE: Duration = PATIENCE.saturating_mul(5);
/// Pause of a client after a refusal, so that the disk can catch up.
const REFUSAL_PAUSE: Duration = Duration::from_millis(10);

/// The configuration of the server. Because `queue_age_max` is short, a slightly busy disk makes the server
/// refuse records.
pub(crate) const CONFIG: &str = r#"
workers = 2
[log]
queue_age_max = "100ms"
segment_bytes_max = "8KiB"
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

/// Pseudorandom numbers from a seed (SplitMix64). They are random enough for the choice of a crash point.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Returns the seed of this run. The seed is printed, so that the run can be repeated.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("TOLLGATE_SEED").map_or(20_261_121, |seed| seed.parse().unwrap());
    println!("TOLLGATE_SEED={seed}");
    seed
}

/// Returns the request for a number, by its kind. Each number is used once.
pub(crate) fn request(n: u64) -> String {
    match n % 3 {
        0 => get(&format!("/synced?n={n}")),
        1 => get(&format!("/written?n={n}")),
        _ => post("/collect", &format!("{{\"n\":{n}}}")),
    }
}

/// State that the clients of all runs share.
#[derive(Default)]
pub(crate) struct Load {
    /// The number of the next request.
    numbers: AtomicU64,
    /// Number of requests that were answered and not refused.
    answered: AtomicU64,
    /// Numbers of refused requests. The server replied that it recorded none of them.
    refused: Mutex<Vec<u64>>,
}

impl Load {
    /// Notes a refusal. Returns whether the reply is a refusal.
    fn note_if_refused(&self, n: u64, reply: &Reply) -> bool {
        let is_refused = reply.status == 503 && reply.field("tollgate-outcome") == Some("refused");
        if is_refused {
            self.refused.lock().unwrap().push(n);
        }
        is_refused
    }
}

/// The action of a client after a reply that did not refuse its request.
pub(crate) enum Counted {
    Yes,
    No,
    /// The client sends no further request.
    Last,
}

/// Sends requests, `depth` at a time, until the server has ended or `judge` returns that a reply is the last
/// one. Returns the numbers of the counted replies.
fn drive(address: SocketAddr, depth: u64, load: &Load, judge: impl Fn(&Reply) -> Counted) -> Vec<u64> {
    let mut counted = Vec::new();
    let Some(mut client) = Client::try_connect(address) else { return counted };
    loop {
        let batch: Vec<_> = (0..depth).map(|_| load.numbers.fetch_add(1, Ordering::Relaxed)).collect();
        if !client.send(&batch.iter().map(|n| request(*n)).collect::<String>()) {
            return counted;
        }
        let mut is_refused = false;
        for n in batch {
            let Some(reply) = client.reply() else { return counted };
            if load.note_if_refused(n, &reply) {
                is_refused = true;
                continue;
            }
            match judge(&reply) {
                Counted::Yes => counted.push(n),
                Counted::No => {}
                Counted::Last => return counted,
            }
            load.answered.fetch_add(1, Ordering::Relaxed);
        }
        if is_refused {
            thread::sleep(REFUSAL_PAUSE);
        }
    }
}

/// Sends requests to a server, ends it after some replies, and returns the numbers of the counted replies.
pub(crate) fn drive_until(
    server: Running,
    replies: u64,
    load: &Load,
    judge: impl Fn(&Reply) -> Counted + Sync,
    end: impl FnOnce(Running),
) -> Vec<u64> {
    let (address, enough) = (server.address(), load.answered.load(Ordering::Relaxed) + replies);
    let judge = &judge;
    thread::scope(|scope| {
        let drivers: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || drive(address, 1 << client, load, judge)))
            .collect();
        eventually_within(DRIVE_PATIENCE, "enough replies", || {
            let is_any_left = drivers.iter().any(|driver| !driver.is_finished());
            assert!(is_any_left, "the server is gone, or a client found a fault");
            (load.answered.load(Ordering::Relaxed) >= enough).then_some(())
        });
        end(server);
        drivers.into_iter().flat_map(|driver| driver.join().unwrap()).collect()
    })
}

/// Sends requests to a server, kills it after some replies, and returns the acknowledged numbers.
pub(crate) fn drive_and_kill(server: Running, replies: u64, load: &Load) -> Vec<u64> {
    let judge = |reply: &Reply| {
        assert!(reply.is_success(), "{reply:?}");
        Counted::Yes
    };
    drive_until(server, replies, load, judge, Running::kill)
}

#[test]
fn acknowledged_records_survive_sigkill_exactly_once() {
    let mut random = Random(seed());
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let load = Load::default();
    let mut acknowledged = Vec::new();
    for _ in 0..KILLS {
        let replies = random.below(REPLIES_BEFORE_KILL_MAX);
        acknowledged.extend(drive_and_kill(app.start(), replies, &load));
        // A start that repairs the log of the last run is killed as well.
        let starting = app.begin();
        thread::sleep(Duration::from_micros(random.below(START_US_MAX)));
        starting.kill();
    }
    app.settle();
    assert!(acknowledged.len() as u64 > KILLS * 100, "{} acknowledged", acknowledged.len());
    // The page cache survives a SIGKILL, so written records are not lost either.
    check_kept(&app, &acknowledged, &load);
    let (logs, segments) = (log_ids(&DiskStorage, &app.log_dir()).unwrap().len(), app.segments().len());
    println!("{} acknowledged in {logs} logs, {segments} segments", acknowledged.len());
    assert!(logs as u64 > KILLS / 2, "most runs made a log: {logs}");
    assert!(segments > logs, "some of them rolled: {segments} segments in {logs} logs");
}

/// Checks that each number in `kept` is a row, no number occurs twice, and the database has exactly the
/// records of the logs.
pub(crate) fn check_kept(app: &App, kept: &[u64], load: &Load) {
    let rows = rows_by_number(app);
    let lost: Vec<_> = kept.iter().filter(|n| !rows.contains_key(n)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let twice: Vec<_> = rows.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "more than once: {twice:?}");
    let last = load.numbers.load(Ordering::Relaxed);
    assert!(rows.keys().all(|n| *n < last), "nobody sent these");
    let refused = load.refused.lock().unwrap();
    println!("{} refused", refused.len());
    let recorded: Vec<_> = refused.iter().filter(|n| rows.contains_key(n)).collect();
    assert!(recorded.is_empty(), "refused and recorded: {recorded:?}");
    let logged: BTreeMap<_, _> = logged_by_sequence(app).into_values().map(|n| (n, 1)).collect();
    assert_eq!(logged, rows, "the database and the logs hold the same");
    assert_eq!(app.query::<i64>("SELECT count(*) FROM tollgate_gaps"), [0]);
    assert_eq!(app.query::<i64>("SELECT count(*) FROM tollgate_rejects"), [0]);
    check_identities(app);
}

fn rows_by_number(app: &App) -> BTreeMap<u64, u64> {
    let mut rows = BTreeMap::new();
    for table in ["synced", "written"].into_iter().filter(|table| app.has_table(table)) {
        for n in app.query::<i64>(&format!("SELECT n FROM {table}")) {
            *rows.entry(n.cast_unsigned()).or_default() += 1;
        }
    }
    rows
}

/// Reads every log with the library. The sequence numbers of each log must run from 1 without a gap.
fn logged_by_sequence(app: &App) -> BTreeMap<(LogId, Sequence), u64> {
    let mut records = BTreeMap::new();
    for log in log_ids(&DiskStorage, &app.log_dir()).unwrap() {
        let mut cursor = Cursor::new(Arc::new(DiskStorage), &app.log_dir(), log, None);
        let mut next = Sequence::FIRST;
        loop {
            let batch = match cursor.step(None).unwrap() {
                CursorStep::Batch(batch) => batch,
                CursorStep::CaughtUp => break,
                CursorStep::Gap(gap) => panic!("{log}: {gap:?}"),
            };
            for record in batch.records().map(Result::unwrap) {
                assert_eq!(record.sequence, next, "{log}");
                next = next.after(1);
                let RecordBody::Row(values) = &record.body else { panic!("{log}: {record:?}") };
                let Value::Int(n) = values[0] else { panic!("{log}: {record:?}") };
                records.insert((log, record.sequence), n.cast_unsigned());
            }
        }
    }
    records
}

/// Checks the identity of the records, which the database has as a column. Each identity occurs once, and the
/// sequence numbers of each log run from 1.
fn check_identities(app: &App) {
    let tables = ["synced", "written"].into_iter().filter(|table| app.has_table(table));
    let all = tables
        .map(|table| format!("SELECT log, sequence FROM {table}"))
        .collect::<Vec<_>>()
        .join(" UNION ALL ");
    if !all.is_empty() {
        let broken = format!(
            "SELECT log FROM ({all}) GROUP BY log HAVING min(sequence) <> 1 \
             OR max(sequence) <> count(*) OR max(sequence) <> count(DISTINCT sequence)"
        );
        assert_eq!(app.query::<String>(&broken), [""; 0]);
    }
}

#[test]
fn a_kill_at_any_call_that_the_log_makes_loses_nothing() {
    // Each thread counts its own calls. The first thread that reaches the count kills the process.
    let calls = [
        ("pwritev", 6),
        ("fdatasync", 4),
        ("fsync", 24),
        ("rename", 2),
        ("mkdir", 2),
        ("ftruncate", 2),
        ("openat", 40),
        ("pwrite64", 40),
    ];
    let points: Vec<_> =
        calls.into_iter().flat_map(|(call, last)| (1..=last).map(move |n| (call, n))).collect();
    in_threads(THREADS, &points, |(call, n)| check_kill_at(call, *n));
}

fn check_kill_at(call: &str, n: u32) {
    println!("kill at {call} {n}");
    let app = App::new(&CONFIG.replace("8KiB", "4KiB"), &[("keep.luau", KEEP)]);
    let load = Load::default();
    let mut acknowledged = Vec::new();
    match app.begin_with_fault(call, &format!("signal=KILL:when={n}")).serving() {
        Ok(server) => {
            acknowledged = drive_until_gone(server.address(), &load);
            check_killed(server.wait());
        }
        Err(end) => check_killed(end),
    }
    app.settle();
    check_kept(&app, &acknowledged, &load);
}

fn check_killed((status, log): (ExitStatus, String)) {
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}: {log}");
}

/// Sends requests, one after the other, until the server has ended.
fn drive_until_gone(address: SocketAddr, load: &Load) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    let Some(mut client) = Client::try_connect(address) else { return acknowledged };
    eventually_within(DRIVE_PATIENCE, "the kill", || {
        let n = load.numbers.fetch_add(1, Ordering::Relaxed);
        let reply = if client.send(&request(n)) { client.reply() } else { None };
        let Some(reply) = reply else { return Some(()) };
        if !load.note_if_refused(n, &reply) {
            assert!(reply.is_success(), "{reply:?}");
            acknowledged.push(n);
        }
        None
    });
    acknowledged
}
