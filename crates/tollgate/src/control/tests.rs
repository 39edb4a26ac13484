//! Tests of both sides of the control socket: questions, reports, and the bounds for misbehaving clients.

use super::ask::exchange;
use super::server::{CLIENTS_MAX, FOLLOWERS_MAX};
use super::*;
use crate::board::Board;
use crate::sinks::Followers;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_load::LiveLog;
use tollgate_log::{DiskStorage, Log, LogOptions};

const PATIENCE: Duration = Duration::from_secs(300);

/// Makes a log and a server that answers for it.
fn serve(dir: &Path) -> (Log, Control) {
    let (log, _) = Log::open(Arc::new(DiskStorage), LogOptions::new(dir), Vec::new(), |_| {}).unwrap();
    let reloaded = || Reloaded { code: 2, text: "t.toml: wrong\n".to_owned() };
    let sinks = Followers::of("main", log.follower());
    let board = Board::of(sinks.clone());
    let told = board.clone();
    let lines = move || told.reports().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let on_order = move |order, asker: Asker| match order {
        ControlOrder::Reload => asker.reply(&reloaded()),
        ControlOrder::Upgrade(program) => asker.reply(&Reloaded { code: 0, text: format!("{program:?}") }),
        ControlOrder::Renew(name) => asker.reply(&Reloaded { code: 0, text: format!("{name:?}") }),
    };
    let control = Control::serve(dir, Some(log.follower()), sinks, board, lines, on_order).unwrap();
    (log, control)
}

fn connect(dir: &Path) -> UnixStream {
    let stream = through_folder(&dir.join(NAME), |path| UnixStream::connect(path)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_server_tells_how_far_its_log_is_synced_and_takes_the_place_of_a_dead_one() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("a".repeat(120));
    fs::create_dir(&dir).unwrap();
    assert_eq!(ask(&dir), Err(Silence::Absent));
    fs::write(dir.join(NAME), "left by a dead one").unwrap();
    let (log, control) = serve(&dir);
    assert_eq!(ask(&dir), Ok(Watermark { log: log.id(), synced: Sequence(0) }));
    assert_eq!(ask_reload(&dir), Ok(Reloaded { code: 2, text: "t.toml: wrong\n".to_owned() }));
    for (name, text) in [(None, "None"), (Some("a.test"), "Some(\"a.test\")")] {
        assert_eq!(ask_renew(&dir, name), Ok(Reloaded { code: 0, text: text.to_owned() }));
    }
    let program = Path::new("/opt/a b/tollgate");
    for (program, text) in [(None, "None"), (Some(program), "Some(\"/opt/a b/tollgate\")")] {
        assert_eq!(ask_upgrade(&dir, program), Ok(Reloaded { code: 0, text: text.to_owned() }));
    }
    assert_eq!(exchange(&dir, "format the disk", TIMEOUT, 64).as_deref(), Ok(""));
    drop(control);
    assert_eq!(ask(&dir), Err(Silence::Absent));
    assert!(!dir.join(NAME).exists());
}

#[test]
fn an_answer_is_read_strictly() {
    let id = "01a1fcf7-2b4c-7747-a271-7032fab340a1";
    assert!(read_watermark(&format!("{id} 7\n")).is_some());
    for wrong in ["", "\n", "7\n", &format!("{id} 7"), &format!("{id} -7\n"), &format!("{id} 7 \n")] {
        assert_eq!(read_watermark(wrong), None, "{wrong:?}");
    }
    assert!(Loaded::read(&format!("main {id} 7")).is_some());
    for wrong in ["", "main", &format!("main {id}"), &format!("main {id} x"), &format!("main {id} 7 8")] {
        assert!(Loaded::read(wrong).is_none(), "{wrong:?}");
    }
}

#[test]
fn a_follower_gets_the_watermark_and_reports_its_sink_on_one_connection() {
    let folder = TempDir::new().unwrap();
    let (log, control) = serve(folder.path());
    let remote = RemoteLog::follow(folder.path(), "main").unwrap();
    let seen = remote.watermark().expect("known from the first look on");
    assert_eq!((seen.log, seen.synced), (log.id(), Sequence(0)));
    let status = || ask_status(folder.path()).unwrap();
    assert!(status().contains("\"state\":\"no loader\""), "{}", status());
    remote.report(&json!({ "sink": "main", "state": "loading" }));
    eventually("the report is told", || status() == "{\"sink\":\"main\",\"state\":\"loading\"}\n");
    drop(remote);
    eventually("who is gone reports no more", || status().contains("no loader"));
    drop(control);
}

#[test]
fn a_follower_finds_the_next_server_and_reports_again_what_is_loaded() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join(NAME);
    let remote = RemoteLog::follow(folder.path(), "main").unwrap();
    assert_eq!(remote.watermark(), None);
    let id: LogId = "01a1fcf7-2b4c-7747-a271-7032fab340a1".parse().unwrap();
    remote.confirm(id, Sequence(7));
    for run in 0..2 {
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(format!("{id} {run}\n").as_bytes()).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "follow");
        assert_eq!(lines.next().unwrap().unwrap(), format!("loaded main {id} 7"));
        eventually("it is heard", || remote.watermark().is_some_and(|now| now.synced == Sequence(run)));
        fs::remove_file(&socket).unwrap();
        drop((listener, stream, lines));
        eventually("the end is heard", || remote.watermark().is_none());
    }
}

#[test]
fn only_the_user_of_the_server_can_ask() {
    let folder = TempDir::new().unwrap();
    let (_log, _control) = serve(folder.path());
    let mode = fs::metadata(folder.path().join(NAME)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
}

#[test]
fn a_wait_for_the_watermark_ends_when_the_server_does() {
    let folder = TempDir::new().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(folder.path().join(NAME)).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"01a1fcf7-2b4c-7747-a271-7032fab340a1 3\n").unwrap();
        stream
    });
    let remote = RemoteLog::follow(folder.path(), "main").unwrap();
    let stream = server.join().unwrap();
    let began = Instant::now();
    let waiting = thread::spawn(move || remote.wait_beyond(Sequence(3), PATIENCE));
    drop(stream);
    assert_eq!(waiting.join().unwrap(), None);
    assert!(began.elapsed() < PATIENCE / 2);
}

#[test]
fn clients_that_say_nothing_or_read_nothing_keep_nobody_from_an_answer() {
    let folder = TempDir::new().unwrap();
    let (_log, _control) = serve(folder.path());
    let followers: Vec<_> = (0..FOLLOWERS_MAX + 3)
        .map(|_| {
            let mut stream = connect(folder.path());
            stream.write_all(b"follow\n").unwrap();
            stream
        })
        .collect();
    // Connections over the bound are closed. The followers within the bound keep their connections.
    let refused = followers.iter().filter(|stream| (&mut &**stream).read(&mut [0; 64]).unwrap() == 0).count();
    assert_eq!(refused, 3);
    let silent: Vec<_> = (FOLLOWERS_MAX..CLIENTS_MAX - 1).map(|_| connect(folder.path())).collect();
    let began = Instant::now();
    assert!(ask(folder.path()).is_ok());
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    let more: Vec<_> = (0..CLIENTS_MAX).map(|_| connect(folder.path())).collect();
    eventually("those who say nothing lose their places", || ask(folder.path()).is_ok());
    drop((silent, more));
}

#[test]
fn a_line_without_an_end_ends_the_following_and_garbage_does_not() {
    let folder = TempDir::new().unwrap();
    let (_log, _control) = serve(folder.path());
    let mut stream = connect(folder.path());
    stream.write_all(b"follow\nloaded\nreport {\n\xc3\xa9\nreport {\"sink\":\"main\"}\n").unwrap();
    let report = |line: &str| serde_json::from_str::<Value>(line).unwrap()["sink"] == "main";
    eventually("the report behind it is heard", || {
        ask_status(folder.path()).unwrap().lines().all(|line| report(line) && !line.contains("no loader"))
    });
    stream.write_all(&vec![b'x'; LINE_BYTES_MAX]).unwrap();
    let mut part = [0; 256];
    eventually("the server ends it", || stream.read(&mut part).is_ok_and(|bytes| bytes == 0));
}
