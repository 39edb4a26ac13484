//! A sink that is away while the server records many bytes. Requests keep their latency. The load after the
//! outage stays below its memory bound and loads every record once.
//!
//! `make outage` records 5 GiB during the outage. `TOLLGATE_OUTAGE_BYTES` sets the number of bytes.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::client::Client;
use crate::cluster::Cluster;
use crate::program::{App, Running, eventually_within, printed};

const OUTAGE_BYTES: u64 = 200 << 20;
/// Bytes of a record. Records are long, because this test is about the number of bytes.
const RECORD_BYTES: usize = 64 << 10;
const CLIENTS: u64 = 2;
/// Number of requests in a window. One 99th percentile is computed for each window.
const WINDOW: usize = 200;
/// Number of windows before the outage, after one window to warm up. The same number of windows follows after
/// all records are loaded. The spread of these windows is the noise of the machine.
const WINDOWS_CALM: usize = 6;
/// Outages run one at a time, because each would disturb the other.
static ALONE: Mutex<()> = Mutex::new(());
/// Maximum memory of a server while its loader catches up.
const CATCH_UP_KIB_MAX: u64 = 256 << 10;
/// Minimum rate of the catch-up. This rate is low, because the code is not optimized and the machine does
/// other work.
const CATCH_UP_BYTES_PER_SECOND_MIN: u64 = 4 << 20;

const STREAMS: &str = r#"
[stream.events]
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "pad", type = "text", from = "body" },
]
[[route]]
path = "/take"
script = "take.luau"
stream = "events"
"#;

const TAKE: &str = "return function(req) return { record = { n = tonumber(req.query.n) } } end";

/// Bytes that are recorded while the sink is away.
fn outage_bytes() -> u64 {
    std::env::var("TOLLGATE_OUTAGE_BYTES").map_or(OUTAGE_BYTES, |bytes| bytes.parse().unwrap())
}

/// Sends records with numbers that rise from 0, each once.
struct Recorder {
    address: SocketAddr,
    sent: AtomicU64,
}

impl Recorder {
    fn new(server: &Running) -> Self {
        Self { address: server.address(), sent: AtomicU64::new(0) }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Records this number of windows. Returns the 99th percentile of each.
    fn windows(&self, count: usize) -> Vec<Duration> {
        (0..count).map(|_| self.window()).collect()
    }

    fn window(&self) -> Duration {
        let share = WINDOW / CLIENTS as usize;
        let mut times: Vec<_> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| self.record(share))).collect();
            clients.into_iter().flat_map(|client| client.join().expect("all is acknowledged")).collect()
        });
        times.sort_unstable();
        times[times.len() * 99 / 100 - 1]
    }

    /// Records this many numbers, one after the other. Returns the duration of each request.
    fn record(&self, count: usize) -> Vec<Duration> {
        let mut client = Client::connect(self.address);
        let take = |_| {
            let n = self.sent.fetch_add(1, Ordering::Relaxed);
            let pad = format!("{n:016}").repeat(RECORD_BYTES / 16);
            let begun = Instant::now();
            let reply = client.post(&format!("/take?n={n}"), &pad).expect("a reply");
            assert!(reply.is_success(), "{reply:?}");
            begun.elapsed()
        };
        (0..count).map(take).collect()
    }
}

/// Returns the expected content of a database after `count` records. The content is four values: the number
/// of rows, the number of different numbers, the sum of the numbers, and the number of rows with the right
/// text.
fn expected(count: u64) -> String {
    format!("{count}|{count}|{}|{count}", count * (count - 1) / 2)
}

/// A sink whose outage can begin and end.
struct Outage<'a> {
    begin: Box<dyn FnMut() + 'a>,
    end: Box<dyn FnMut() + 'a>,
    /// Returns the present content of the database in the form of `expected`.
    seen: Box<dyn Fn() -> String + 'a>,
}

fn check_outage(app: &App, outage: &mut Outage<'_>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = outage_bytes();
    let patience = Duration::from_secs(60 + bytes / CATCH_UP_BYTES_PER_SECOND_MIN);
    let server = app.start();
    let recorder = Recorder::new(&server);
    recorder.window();
    let mut calm = recorder.windows(WINDOWS_CALM);
    eventually_within(patience, "all is loaded before the outage", || is_all_there(outage, &recorder));
    (outage.begin)();
    let windows = bytes.div_ceil((WINDOW * RECORD_BYTES) as u64);
    let during = recorder.windows(windows as usize);
    forget_peak(&server);
    (outage.end)();
    let begun = Instant::now();
    // New requests must be answered during the catch-up.
    recorder.windows(1);
    eventually_within(patience, "all is loaded after the outage", || is_all_there(outage, &recorder));
    let (peak_kib, took) = (peak_kib(&server), begun.elapsed());
    println!("catch-up of {} MiB: {took:?}, at most {} MiB in memory", bytes >> 20, peak_kib >> 10);
    assert!(peak_kib < CATCH_UP_KIB_MAX, "{peak_kib} KiB, limit {CATCH_UP_KIB_MAX}");
    calm.extend(recorder.windows(WINDOWS_CALM));
    check_latency(&calm, &during);
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    assert_eq!((outage.seen)(), expected(recorder.sent()));
    let audit = app.run(&["audit"]);
    assert!(audit.status.success() && printed(&audit).contains("exact: "), "{}", printed(&audit));
}

fn is_all_there(outage: &Outage<'_>, recorder: &Recorder) -> Option<()> {
    ((outage.seen)() == expected(recorder.sent())).then_some(())
}

/// Checks that the median window of the outage is within the spread of the calm windows. If that spread is
/// narrow, twice the usual time is allowed, because the machine does other work.
fn check_latency(calm: &[Duration], during: &[Duration]) {
    let sorted = |windows: &[Duration]| {
        let mut windows = windows.to_vec();
        windows.sort_unstable();
        windows
    };
    let (calm, during) = (sorted(calm), sorted(during));
    let (most, slowest) = (calm[calm.len() * 3 / 4 - 1], calm[calm.len() - 1]);
    let (limit, median) = (slowest.max(most * 2), during[during.len() / 2]);
    println!("p99 of windows without: {calm:?}, median of {} windows during: {median:?}", during.len());
    assert!(median <= limit, "{median:?}, limit {limit:?}: without {calm:?}, during {during:?}");
}

/// Resets the highest memory of the process (proc(5), `clear_refs`).
fn forget_peak(server: &Running) {
    fs::write(format!("/proc/{}/clear_refs", server.id()), "5").unwrap();
}

fn peak_kib(server: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn requests_keep_their_latency_while_postgresql_is_away_and_the_catch_up_its_memory() {
    let cluster = Cluster::start("");
    let database = cluster.database();
    let url = format!("host=127.0.0.1 port={} user=tollgate dbname={database}", cluster.port);
    let app = App::new(&format!("{STREAMS}[sink.main]\npostgres = \"{url}\"\n"), &[("take.luau", TAKE)]);
    let question = "SELECT count(*), count(DISTINCT n), sum(n), \
         count(*) FILTER (WHERE left(pad, 16) = lpad(n::text, 16, '0')) FROM events";
    check_outage(
        &app,
        &mut Outage {
            begin: Box::new(|| cluster.stop_immediately()),
            end: Box::new(|| cluster.boot()),
            // Before the first load there is no table.
            seen: Box::new(|| cluster.try_sql(&database, question).unwrap_or_default()),
        },
    );
}

#[test]
fn requests_keep_their_latency_while_sqlite_is_locked_and_the_catch_up_its_memory() {
    let app = App::new(
        &format!("{STREAMS}[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n"),
        &[("take.luau", TAKE)],
    );
    fs::create_dir(app.path().join("data")).unwrap();
    let connection = Connection::open(app.path().join("data/tollgate.sqlite")).unwrap();
    let question = "SELECT count(*) || '|' || count(DISTINCT n) || '|' || sum(n) || '|' || \
         sum(substr(pad, 1, 16) = printf('%016d', n)) FROM events";
    check_outage(
        &app,
        &mut Outage {
            begin: Box::new(|| connection.execute_batch("BEGIN IMMEDIATE").unwrap()),
            end: Box::new(|| connection.execute_batch("ROLLBACK").unwrap()),
            seen: Box::new(|| connection.query_row(question, [], |row| row.get(0)).unwrap_or_default()),
        },
    );
}
