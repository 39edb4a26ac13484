//! Tests of several sinks, and of loaders in separate processes. Every record is in every sink of its stream,
//! once.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Signal;

use crate::admin::after_retain_passes;
use crate::client::Client;
use crate::crash::{Random, seed};
use crate::program::{App, eventually, printed};

/// Number of kills of a loader. `make crash` makes many more.
const KILLS: u64 = 5;
/// Maximum of the random time until a loader is killed. This maximum is about the duration of the whole load.
const LIFE_US_MAX: u64 = 100_000;

/// The configuration of a server with two streams, without its sinks.
pub(crate) const STREAMS: &str = r#"
workers = 2
[log]
segment_bytes_max = "16KiB"
retain = "0ms"
[stream.a]
columns = [{ name = "n", type = "int", from = "record.n" }]
[stream.b]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
[[route]]
path = "/b"
collect = true
stream = "b"
"#;

pub(crate) const MAIN: &str = "[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n";

pub(crate) const OTHERS_LOAD: &str = "[load]\nin_server = false\n";

/// Makes an app with these streams, one sink, and the text `more`.
pub(crate) fn app(more: &str) -> App {
    App::new(&format!("{STREAMS}{MAIN}{more}"), &[])
}

/// Records numbers in bodies of a hundred.
pub(crate) fn record(client: &mut Client, path: &str, numbers: std::ops::Range<u64>) {
    let numbers: Vec<_> = numbers.collect();
    for hundred in numbers.chunks(100) {
        let items: Vec<_> = hundred.iter().map(|n| format!("{{\"n\":{n}}}")).collect();
        let reply = client.post(path, &format!("[{}]", items.join(","))).expect("a reply");
        assert!(reply.is_success(), "{reply:?}");
    }
}

/// Returns the numbers of a stream in a database, in order. Returns none while there is no table.
pub(crate) fn numbers(app: &App, database: &str, stream: &str) -> Vec<u64> {
    numbers_in(&app.path().join("data").join(database), stream)
}

pub(crate) fn numbers_in(file: &Path, stream: &str) -> Vec<u64> {
    let connection = Connection::open(file).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    if !connection.table_exists(None, stream).unwrap() {
        return Vec::new();
    }
    let mut statement = connection.prepare(&format!("SELECT n FROM {stream} ORDER BY n")).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    rows.map(|n| n.unwrap().cast_unsigned()).collect()
}

pub(crate) fn all(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[test]
fn each_sink_has_its_streams_and_an_exact_account_of_them() {
    let app = app("[sink.other]\nsqlite = \"data/other.sqlite\"\nstreams = [\"b\"]\n");
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..1000);
    record(&mut client, "/b", 0..700);
    let audit = app.run(&["audit"]);
    assert!(audit.status.success(), "while loading: {}", printed(&audit));
    assert!(server.stop().0.success());
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), all(1000));
    assert_eq!(numbers(&app, "tollgate.sqlite", "b"), all(700));
    assert_eq!(numbers(&app, "other.sqlite", "a"), [0_u64; 0]);
    assert_eq!(numbers(&app, "other.sqlite", "b"), all(700));
    let audit = app.succeed(&["audit"]);
    let (main, other) = audit.split_once("\n\nsink other\n").expect(&audit);
    assert!(main.starts_with("sink main\n"), "{audit}");
    let sums = |account: &str| {
        let sums = account.lines().filter(|line| line.starts_with("all "));
        sums.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(sums(main), ["all a 1000 0 1000 0 0 0 0", "all b 700 0 700 0 0 0 0"]);
    assert_eq!(sums(other), ["all b 700 0 700 0 0 0 0"]);
    assert_eq!(
        app.succeed(&["sql", "--sink", "other", "SELECT count(*) FROM b"]).lines().nth(1),
        Some("700")
    );
    let unknown = app.run(&["sql", "--sink", "othr", "SELECT 1"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        printed(&unknown).contains("unknown sink \"othr\", did you mean \"other\"?"),
        "{}",
        printed(&unknown)
    );
}

#[test]
fn a_sink_that_takes_nothing_holds_up_no_other_and_keeps_segments_until_removed() {
    let other = "[sink.other]\nsqlite = \"data/other.sqlite\"\n";
    let app = app(other);
    std::fs::create_dir(app.path().join("data")).unwrap();
    let lock = Connection::open(app.path().join("data/other.sqlite")).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let server = app.start();
    record(&mut server.connect(), "/a", 0..3000);
    eventually("the other sink has all", || {
        (numbers(&app, "tollgate.sqlite", "a").len() == 3000).then_some(())
    });
    let kept = app.segments().len();
    assert!(kept > 2, "{kept} segments");
    after_retain_passes(&app);
    assert_eq!(app.segments().len(), kept, "segments are deleted that a sink lacks");
    server.kill();
    app.write("tollgate.toml", &app.config().replace(other, ""));
    let server = app.start();
    eventually("what waited for the removed sink is deleted", || app.segments().is_empty().then_some(()));
    assert!(server.stop().0.success());
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), all(3000));
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

/// Makes this number of logs that are not loaded. Returns their number of records.
pub(crate) fn leave_logs(app: &App, logs: u64, records: u64) -> u64 {
    for log in 0..logs {
        let server = app.start_with(&["--no-load"]);
        record(&mut server.connect(), "/a", log * records..(log + 1) * records);
        assert!(server.stop().0.success());
    }
    logs * records
}

#[test]
fn two_and_four_loaders_at_once_load_every_record_of_several_logs_once() {
    check_loaders_at_once(|| {
        let app = app("");
        let file = app.path().join("data/tollgate.sqlite");
        (app, Box::new(move |stream| numbers_in(&file, stream)))
    });
}

/// Reads the numbers of a stream from a database, in order.
pub(crate) type Numbers = Box<dyn Fn(&str) -> Vec<u64>>;

/// Checks several processes that load the same logs. `make` returns a new app, and a function that reads its
/// database.
pub(crate) fn check_loaders_at_once(make: impl Fn() -> (App, Numbers)) {
    for loaders in [2, 4] {
        let (app, numbers) = make();
        let count = leave_logs(&app, 3, 4000);
        let load = || {
            let output = app.run(&["load", "--once"]);
            assert!(output.status.success(), "{}", printed(&output));
        };
        thread::scope(|scope| (0..loaders).for_each(|_| drop(scope.spawn(load))));
        assert_eq!(numbers("a"), all(count), "{loaders} loaders");
        assert!(app.succeed(&["audit"]).contains("exact: "));
    }
}

#[test]
fn a_loader_that_is_killed_at_any_moment_loads_every_record_once() {
    check_kills(|| {
        let app = app("");
        let file = app.path().join("data/tollgate.sqlite");
        (app, Box::new(move |stream| numbers_in(&file, stream)))
    });
}

/// Kills processes that load these logs, each at a random moment. `make` returns a new app, and a function
/// that reads its database.
pub(crate) fn check_kills(make: impl Fn() -> (App, Numbers)) {
    kill_loaders(
        make,
        |app| leave_logs(app, 3, 50_000),
        LIFE_US_MAX,
        |app, numbers, count| {
            assert_eq!(numbers("a"), all(count));
            assert!(app.succeed(&["audit"]).contains("exact: "));
        },
    );
}

/// Kills loaders of the logs from `leave`, each within `life_us_max` microseconds. Then loads the remaining
/// records, and checks the result. Repeats this with a new app until the wanted number of kills is reached.
pub(crate) fn kill_loaders(
    make: impl Fn() -> (App, Numbers),
    leave: impl Fn(&App) -> u64,
    life_us_max: u64,
    check: impl Fn(&App, &Numbers, u64),
) {
    let mut left = std::env::var("TOLLGATE_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let mut random = Random(seed());
    while left > 0 {
        let (app, numbers) = make();
        let count = leave(&app);
        for _ in 0..left.min(KILLS) {
            let loader = app.follow(&["load"]);
            thread::sleep(Duration::from_micros(random.below(life_us_max)));
            loader.end(Signal::KILL);
            println!("killed with {} rows", numbers("a").len());
            left -= 1;
        }
        app.succeed(&["load", "--once"]);
        check(&app, &numbers, count);
    }
}

#[test]
fn a_loader_beside_a_server_loads_its_open_segment_and_goes_on_with_the_next_run() {
    let app = app(OTHERS_LOAD);
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..100);
    assert_eq!(app.segments().len(), 1, "nobody loads, one segment is open");
    let loader = app.follow(&["load"]);
    let has = |count: usize| (numbers(&app, "tollgate.sqlite", "a").len() == count).then_some(());
    eventually("the open segment is loaded", || has(100));
    record(&mut client, "/a", 100..3000);
    eventually("all is loaded", || has(3000));
    eventually("what is loaded is deleted", || (app.segments().len() <= 2).then_some(()));
    assert!(server.stop().0.success());
    let server = app.start();
    record(&mut server.connect(), "/a", 3000..3500);
    eventually("the next run is loaded", || has(3500));
    eventually("the log before is deleted", || (app.segments().len() <= 2).then_some(()));
    let (status, stderr) = loader.end(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(server.stop().0.success());
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), all(3500));
    let output = app.run(&["load", "--once"]);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

#[test]
fn an_open_segment_without_a_server_is_left_and_reported() {
    let app = app(OTHERS_LOAD);
    let server = app.start();
    record(&mut server.connect(), "/a", 0..100);
    server.kill();
    let output = app.run(&["load", "--once"]);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(printed(&output).contains("1 unsealed segment not loaded"), "{}", printed(&output));
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), [0_u64; 0]);
    assert!(app.start().stop().0.success());
    app.succeed(&["load", "--once"]);
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), all(100));
}

/// Returns the watermark of the server's log.
fn watermark(app: &App) -> u64 {
    let mut stream = UnixStream::connect(app.log_dir().join("control.sock")).unwrap();
    stream.write_all(b"watermark\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, synced) = answer.trim_end().split_once(' ').expect(&answer);
    synced.parse().unwrap()
}

#[test]
fn a_loader_beside_a_server_never_loads_what_is_written_and_not_synced() {
    let app = app(OTHERS_LOAD);
    app.write("tollgate.toml", &app.config().replace("[stream.a]\n", "[stream.a]\nack = \"written\"\n"));
    let server = app.begin_with_fault("fdatasync", "delay_enter=200000").serving().unwrap();
    let loader = app.follow(&["load"]);
    let mut client = server.connect();
    let (mut next, mut looks_behind) = (0, 0);
    eventually("the loader is seen behind what is written", || {
        record(&mut client, "/a", next..next + 10);
        next += 10;
        // The watermark is read after the rows. It never falls, so it must be at least the number of loaded
        // rows.
        let loaded = numbers(&app, "tollgate.sqlite", "a").len() as u64;
        let synced = watermark(&app);
        assert!(loaded <= synced, "{loaded} loaded, {synced} synced, {next} written");
        looks_behind += u32::from(loaded > 0 && loaded < next);
        (looks_behind > 20).then_some(())
    });
    eventually("all is loaded", || {
        (numbers(&app, "tollgate.sqlite", "a").len() as u64 == next).then_some(())
    });
    loader.end(Signal::TERM);
    assert!(server.stop().0.success());
}
