//! Loaded segments are deleted: the audit stays exact, and a kill during the deletion loses no record.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use crate::client::Client;
use crate::program::{App, KEEP, eventually, in_threads};

/// Number of runs that are killed in parallel, each at a chosen system call.
const THREADS: usize = 4;

const CONFIG: &str = r#"
workers = 2
[log]
segment_bytes_max = "4KiB"
retain = "RETAIN"
[stream.all]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/keep"
script = "keep.luau"
stream = "all"
"#;

fn app(retain: &str) -> App {
    App::new(&CONFIG.replace("RETAIN", retain), &[("keep.luau", KEEP)])
}

/// Records these numbers, one after the other.
fn record(client: &mut Client, numbers: std::ops::Range<i64>) {
    for n in numbers {
        assert!(client.get(&format!("/keep?n={n}")).expect("a reply").is_success());
    }
}

/// Runs the audit, which must be exact. Returns the number of ingested records.
fn audited(app: &App) -> u64 {
    let text = app.succeed(&["audit"]);
    assert!(text.ends_with("exact: every record is pending, loaded, rejected or a duplicate\n"), "{text}");
    let sum = text.lines().find(|line| line.starts_with("all ")).expect(&text);
    sum.split_whitespace().nth(2).expect(&text).parse().unwrap()
}

fn log_folders(app: &App) -> usize {
    let entries = fs::read_dir(app.log_dir()).unwrap();
    entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir())).count()
}

#[test]
fn loaded_segments_are_deleted_and_the_account_stays_exact_also_after_restarts() {
    let app = app("0ms");
    let server = app.start();
    record(&mut server.connect(), 0..1000);
    eventually("most segments are deleted", || (app.segments().len() <= 2).then_some(()));
    assert_eq!(audited(&app), 1000);
    for command in [&["log", "ls"][..], &["log", "verify"], &["log", "cat"]] {
        app.succeed(command);
    }
    record(&mut server.connect(), 1000..1500);
    assert!(server.stop().0.success());
    assert_eq!(audited(&app), 1500);
    assert_eq!(log_folders(&app), 1);
    let server = app.start();
    eventually("the folder of the first log is removed", || (log_folders(&app) == 0).then_some(()));
    assert_eq!(audited(&app), 1500);
    record(&mut server.connect(), 1500..1600);
    assert!(server.stop().0.success());
    assert_eq!(audited(&app), 1600);
    assert_eq!(app.query::<i64>("SELECT n FROM \"all\" ORDER BY n"), (0..1600).collect::<Vec<_>>());
}

#[test]
fn retained_segments_stay_and_unloaded_ones_stay_whatever_retain_says() {
    let app = app("24h");
    let server = app.start();
    record(&mut server.connect(), 0..500);
    assert!(server.stop().0.success());
    let kept = app.segments();
    assert!(kept.len() > 3);
    app.write("tollgate.toml", &app.config().replace("24h", "0ms"));
    let server = app.start_with(&["--no-load"]);
    record(&mut server.connect(), 500..501);
    assert!(server.stop().0.success());
    assert_eq!(app.segments().len(), kept.len() + 1, "without a sink nothing is deleted");
    app.write("tollgate.toml", &app.config().replace("0ms", "24h"));
    assert!(app.start().stop().0.success());
    assert_eq!(app.segments().len(), kept.len() + 1);
    assert_eq!(audited(&app), 501);
}

#[test]
fn a_kill_at_any_call_of_a_deletion_loses_nothing_and_keeps_the_account() {
    let calls = [("unlink", 1..=6), ("rmdir", 1..=1), ("fsync", 14..=30)];
    let points: Vec<_> =
        calls.into_iter().flat_map(|(call, numbers)| numbers.map(move |n| (call, n))).collect();
    in_threads(THREADS, &points, |(call, n)| check_kill_at(call, *n));
}

/// Kills a run at a call. The run deletes the segments of the last run, and then its own segments.
fn check_kill_at(call: &str, n: u32) {
    println!("kill at {call} {n}");
    let app = app("0ms");
    let server = app.start();
    record(&mut server.connect(), 0..200);
    assert!(server.stop().0.success());
    let mut acknowledged: Vec<_> = (0..200).collect();
    let (status, log) = match app.begin_with_fault(call, &format!("signal=KILL:when={n}")).serving() {
        Ok(server) => {
            acknowledged.extend(record_until_gone(server.connect()));
            server.wait()
        }
        Err(end) => end,
    };
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}: {log}");
    app.settle();
    let rows = app.query::<i64>("SELECT n FROM \"all\"");
    let distinct: BTreeSet<_> = rows.iter().copied().collect();
    assert_eq!(rows.len(), distinct.len(), "{call} {n}: a record is loaded twice");
    let lost: Vec<_> = acknowledged.iter().filter(|n| !distinct.contains(n)).collect();
    assert!(lost.is_empty(), "{call} {n}: acknowledged and lost: {lost:?}");
    assert_eq!(audited(&app), rows.len() as u64);
}

/// Records numbers from 200 on until the server has ended. Returns the acknowledged numbers.
fn record_until_gone(mut client: Client) -> Vec<i64> {
    let mut next = 200;
    eventually("the kill", || {
        let is_success = client.get(&format!("/keep?n={next}")).map(|reply| reply.is_success());
        next += i64::from(is_success.is_some());
        assert_ne!(is_success, Some(false));
        is_success.is_none().then_some(())
    });
    (200..next).collect()
}
