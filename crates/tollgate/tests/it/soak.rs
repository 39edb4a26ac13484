//! A long run with steady load and faults. Memory and descriptors do not grow, the audit is exact, and each
//! acknowledged record is exactly one row. `TOLLGATE_SOAK_SECONDS` sets the duration. `make soak` runs an
//! hour.
//!
//! Memory has a bound. A run of at least three minutes also checks its growth, with four samples per second.
//! The median of the last third of the run is compared with the median of the second third. The first third
//! is for warming up. Descriptors are checked when all clients are gone. Their number must be the same as
//! before the first hostile client.

mod faults;
mod load;
mod usage;

use std::env;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tollgate_faults::{Backend, Fault};

use crate::cluster::Cluster;
use crate::program::App;
use faults::Faults;
use load::{Fate, Load};
use usage::Usage;

const SECONDS_USUAL: u64 = 25;
/// Maximum growth of memory in KiB, in addition to 1/20 of the median. The memory that the allocator keeps
/// differs from moment to moment.
const GROWTH_KIB_MAX: u64 = 6 << 10;
/// Maximum memory at any time: `in_flight_bytes_max`, the scripts of two workers, queues of the log, loaders.
const MEMORY_KIB_MAX: u64 = 400 << 10;
/// Number of descriptors that open and close without a client: idle connections of a pool, and files that a
/// worker keeps open. A leak at each fault would need many more descriptors.
const DESCRIPTORS_SLACK: usize = 6;
/// Time before the faults, in which the server fills its caches.
const ALONE: Duration = Duration::from_secs(3);
/// Seconds of the shortest run that checks the growth of memory. In a shorter run, each fault occurs only
/// once or twice.
const JUDGED_FROM_SECONDS: u64 = 180;
/// Minimum share of successful requests of normal clients.
const GOODPUT_MIN: f64 = 0.95;

const SCORE: &str = "
    local total = 0
    return function(req)
        total += 1
        return { body = 'scored', record = { n = tonumber(req.query.n), note = 'scored ' .. total } }
    end";
const SLOW: &str = "return function() tollgate.sleep(0.03) return string.rep('x', 100000) end";
const TAKE: &str = "return function(req) return tostring(#req:body()) end";

/// Returns the configuration of a version. A reload changes only the second half of the text.
fn config(url: &str, backend: SocketAddr, version: u64) -> String {
    format!(
        r#"
workers = 2
head_timeout = "2s"
idle_timeout = "3s"
write_timeout = "2s"
body_rate_grace = "2s"
in_flight_bytes_max = "64MiB"
[log]
segment_age_max = "2s"
segment_bytes_max = "1MiB"
retain = "1s"
[stream.events]
columns = [{{ name = "n", type = "int" }}, {{ name = "note", type = "text" }}]
[[route]]
path = "/collect"
collect = true
stream = "events"
[[route]]
path = "/score"
script = "score.luau"
stream = "events"
[[route]]
path = "/take"
script = "take.luau"
[[route]]
path = "/slow"
script = "slow.luau"
concurrency_max = 40
[[route]]
path = "/files/*"
files = "public"
[[route]]
path = "/"
reply = {{ body = "hello {version}" }}
rate_limit = {{ rate = "1000/s", burst = 1000 }}
[backend.b]
urls = ["http://{backend}"]
first_byte_timeout = "300ms"
timeout = "1s"
breaker_window = "2s"
breaker_open = "500ms"
[[route]]
path = "/proxied"
proxy = "b"
[sink.main]
sqlite = "data/tollgate.sqlite"
[sink.pg]
postgres = "{url}"
"#
    )
}

#[test]
fn a_long_run_with_faults_leaves_memory_and_descriptors_flat_and_each_record_once() {
    let seconds = env::var("TOLLGATE_SOAK_SECONDS").map_or(SECONDS_USUAL, |text| text.parse().unwrap());
    let cluster = Cluster::start("");
    let database = cluster.database();
    let url = cluster.url(&database);
    let backend = Backend::start(Fault::None).unwrap();
    let config = |version| config(&url, backend.address(), version);
    let scripts = [("score.luau", SCORE), ("slow.luau", SLOW), ("take.luau", TAKE)];
    let app = App::new(&config(0), &scripts);
    app.write("public/a.txt", &"a".repeat(50_000));
    let server = app.start();
    assert!(server.connect().get("/").unwrap().is_success());
    let mut fates = Load::start(server.address(), 0).end_after(ALONE);
    let mut usage = Usage::new(server.id());
    let load = Load::start(server.address(), fates.next());
    let begun = Instant::now();
    let mut faults = Faults::new(&app, &cluster, &backend, &server, config);
    while begun.elapsed() < Duration::from_secs(seconds) {
        faults.step();
        usage.sample();
    }
    let done = faults.end();
    fates.add(load.end_after(Duration::ZERO));
    let descriptors = usage.descriptors_settled();
    let links = usage.links();
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    app.settle();
    let told = format!(
        "{usage}\n{done}\n{fates}\n{descriptors} descriptors at the end, {} before",
        usage.descriptors_before
    );
    println!("{told}");

    let expected = fates.numbers(Fate::Acknowledged);
    let rows = app.query::<i64>("SELECT n FROM events ORDER BY n");
    check_rows(&expected, &fates.numbers(Fate::Unknown), &rows);
    let rows = cluster.sql(&database, "SELECT n FROM events ORDER BY n");
    let rows: Vec<i64> = rows.lines().map(|line| line.parse().unwrap()).collect();
    check_rows(&expected, &fates.numbers(Fate::Unknown), &rows);

    assert!(fates.goodput() >= GOODPUT_MIN, "{told}");
    assert!(descriptors <= usage.descriptors_before + DESCRIPTORS_SLACK, "{told}\n{links}");
    assert!(usage.memory_kib_max() <= MEMORY_KIB_MAX, "{told}");
    let (before, after) = usage.medians_kib();
    assert!(seconds < JUDGED_FROM_SECONDS || after <= before + before / 20 + GROWTH_KIB_MAX, "{told}");
}

/// Checks that each acknowledged record is exactly one row. Every other row must be a record with unknown
/// outcome.
fn check_rows(acknowledged: &[i64], unknown: &[i64], rows: &[i64]) {
    assert!(rows.windows(2).all(|two| two[0] < two[1]), "a record is there twice");
    let missing: Vec<_> = acknowledged.iter().filter(|n| rows.binary_search(n).is_err()).collect();
    assert!(missing.is_empty(), "acknowledged and not there: {missing:?}");
    let more: Vec<_> = rows
        .iter()
        .filter(|n| acknowledged.binary_search(n).is_err() && unknown.binary_search(n).is_err())
        .collect();
    assert!(more.is_empty(), "there and refused: {more:?}");
}
