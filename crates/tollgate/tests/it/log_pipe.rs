//! Tests of `tollgate log cat` and `tail` as the input of another program: the record at which the output
//! begins, and the position that is kept for the next run.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{App, BINARY, KEEP, Running, eventually, printed};

/// Makes an app with one stream. `log` has keys of `[log]`, and `stream` keys of the stream.
fn app(log: &str, stream: &str) -> App {
    let config = format!(
        "[log]\n{log}\n[stream.a]\n{stream}\n\
         columns = [{{ name = \"n\", type = \"int\", from = \"record.n\" }}]\n\
         [[route]]\npath = \"/a\"\nscript = \"keep.luau\"\nstream = \"a\"\n"
    );
    App::new(&config, &[("keep.luau", KEEP)])
}

/// Sends a request for each of `numbers`, one after the other.
fn send(server: &Running, numbers: impl IntoIterator<Item = i64>) {
    let mut client = server.connect();
    for n in numbers {
        assert!(client.get(&format!("/a?n={n}")).unwrap().is_success());
    }
}

/// Starts a server, sends a request for each of `numbers`, and stops the server. So the records have a log of
/// their own.
fn run_with(app: &App, numbers: impl IntoIterator<Item = i64>) {
    let server = app.start();
    send(&server, numbers);
    assert!(server.stop().0.success());
}

/// Returns the column `n` of each line of the output format `envelope`.
fn numbers(lines: &str) -> Vec<i64> {
    lines.lines().map(|line| envelope(line).1).collect()
}

/// Returns the log and sequence number of a line of the output format `envelope`, and its column `n`.
fn envelope(line: &str) -> ((String, u64), i64) {
    let line: Value = serde_json::from_str(line).unwrap();
    let id = (line["_log"].as_str().unwrap().to_owned(), line["_seq"].as_u64().unwrap());
    (id, line["row"]["n"].as_i64().unwrap())
}

/// Returns the ids of all logs of the app, in order.
fn logs(app: &App) -> Vec<String> {
    let mut logs: Vec<_> = app
        .segments()
        .iter()
        .map(|path| path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    logs.dedup();
    logs
}

const ENVELOPE: [&str; 2] = ["--format", "envelope"];

fn cat(app: &App, options: &[&str]) -> Vec<i64> {
    numbers(&app.succeed(&[&["log", "cat"], &ENVELOPE[..], options].concat()))
}

#[test]
fn cat_begins_with_a_record_and_goes_on_with_the_logs_after_its_log() {
    let app = app("", "");
    run_with(&app, 0..3);
    run_with(&app, 3..6);
    run_with(&app, 6..9);
    let logs = logs(&app);
    let from = |log: usize, sequence: u64| format!("{}:{sequence}", logs[log]);
    assert_eq!(cat(&app, &["--from", &from(1, 2)]), (4..9).collect::<Vec<_>>());
    assert_eq!(cat(&app, &["--from", &from(0, 1)]), (0..9).collect::<Vec<_>>());
    assert_eq!(cat(&app, &["--from", &from(2, 4)]), [0; 0], "beyond the end");
    assert_eq!(cat(&app, &["--from", &from(1, 2), "--log", &logs[1]]), [4, 5]);
    let other = "01900000-0000-7000-8000-000000000000";
    for option in [&["--from", &format!("{other}:1")][..], &["--log", other]] {
        let output = app.run(&[&["log", "cat"], option].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{option:?}");
        let text = printed(&output);
        assert!(text.contains(&format!("no log {other} in ")), "{text}");
        assert!(logs.iter().all(|log| text.contains(log)), "{text}");
    }
    for wrong in [
        &["--from", &logs[0]][..],
        &["--from", &from(0, 0)],
        &["--from", &from(0, 1), "--log", &logs[1]],
        &["--from", &from(0, 1), "--since", "1h"],
        &["--since", "yesterday"],
        &["--no-header"],
        &["--log", &logs[0], "--position", "position"],
    ] {
        let output = app.run(&[&["log", "cat"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", printed(&output));
    }
}

#[test]
fn since_begins_with_the_batch_of_a_time_and_goes_on_from_there() {
    let app = app("segment_bytes_max = \"4KiB\"", "");
    run_with(&app, 0..60);
    run_with(&app, 60..100);
    assert!(app.segments().len() > 2, "it rolled");
    // A line of the format text begins with the time of its batch. The records lie in one batch each.
    let text = app.succeed(&["log", "cat", "--format", "text"]);
    let times: Vec<_> = text.lines().filter_map(|line| Some(line.split_once("  ")?.0)).collect();
    assert_eq!(times.len(), 100);
    for place in [0, 1, 37, 59, 60, 99] {
        let expected: Vec<_> = (i64::try_from(place).unwrap()..100).collect();
        assert_eq!(cat(&app, &["--since", times[place]]), expected, "{}", times[place]);
    }
    assert_eq!(cat(&app, &["--since", "1h"]).len(), 100);
    assert_eq!(cat(&app, &["--since", "0s"]), [0; 0]);
    let tail = app.follow(&["log", "tail", "--format", "envelope", "--since", times[98]]);
    assert_eq!([envelope(&tail.line()).1, envelope(&tail.line()).1], [98, 99]);
    run_with(&app, [100]);
    assert_eq!(envelope(&tail.line()).1, 100);
}

#[test]
fn tail_waits_for_the_record_to_begin_with() {
    let app = app("", "");
    let server = app.start();
    send(&server, 0..2);
    let from = format!("{}:4", logs(&app)[0]);
    let tail =
        app.follow(&["log", "tail", "--format", "envelope", "--from", &from, "--position", "position"]);
    eventually("it has begun", || app.path().join("position").exists().then_some(()));
    send(&server, [2]);
    assert!(tail.is_silent_for(Duration::from_millis(300)));
    let (status, stderr, lines) = tail.end_with_lines(Signal::TERM);
    assert_eq!((status.code(), stderr.as_str(), lines.len()), (Some(0), "", 0));
    // The position is kept, although the command printed no record.
    let tail = app.follow(&["log", "tail", "--format", "envelope", "--position", "position"]);
    send(&server, [3, 4]);
    assert_eq!([envelope(&tail.line()).1, envelope(&tail.line()).1], [3, 4]);
}

#[test]
fn a_follower_that_is_stopped_and_started_again_prints_each_line_once() {
    let app = app("segment_bytes_max = \"4KiB\"", "");
    let follow = || app.follow(&["log", "tail", "--format", "envelope", "--position", "position"]);
    run_with(&app, 0..5);
    let mut server = app.start();
    let (mut sent, mut taken) = (5, Vec::new());
    for round in 0..12 {
        let tail = follow();
        send(&server, sent..sent + 20);
        sent += 20;
        // The command is stopped in the middle of its lines, or after it has printed all of them.
        let wanted = if round % 2 == 0 { taken.len() + 7 } else { usize::try_from(sent).unwrap() };
        while taken.len() < wanted {
            taken.push(envelope(&tail.line()));
        }
        if round % 4 == 3 {
            server.kill();
            server = app.start();
        }
        let signal = if round % 3 == 0 { Signal::INT } else { Signal::TERM };
        let (status, stderr, lines) = tail.end_with_lines(signal);
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
        taken.extend(lines.iter().map(|line| envelope(line)));
    }
    assert!(server.stop().0.success());
    let rest = app.succeed(&["log", "cat", "--format", "envelope", "--position", "position"]);
    taken.extend(rest.lines().map(envelope));
    let printed: Vec<_> = taken.iter().map(|(_, n)| *n).collect();
    assert_eq!(printed, (0..sent).collect::<Vec<_>>());
    assert_eq!(app.succeed(&["log", "cat", "--position", "position"]), "");
}

#[test]
fn a_follower_that_is_killed_prints_every_line_and_identities_tell_the_doubles() {
    let app = app("segment_bytes_max = \"4KiB\"", "");
    let server = app.start();
    let (mut sent, mut taken) = (0, BTreeSet::new());
    for _ in 0..8 {
        let tail = app.follow(&["log", "tail", "--format", "envelope", "--position", "position"]);
        send(&server, sent..sent + 20);
        sent += 20;
        for _ in 0..5 {
            taken.insert(envelope(&tail.line()));
        }
        let (_, _, lines) = tail.end_with_lines(Signal::KILL);
        // The last line may be incomplete.
        let whole = lines.iter().filter(|line| line.ends_with("}}"));
        taken.extend(whole.map(|line| envelope(line)));
    }
    assert!(server.stop().0.success());
    let rest = app.succeed(&["log", "cat", "--format", "envelope", "--position", "position"]);
    taken.extend(rest.lines().map(envelope));
    let printed: Vec<_> = taken.iter().map(|(_, n)| *n).collect();
    assert_eq!(printed, (0..sent).collect::<Vec<_>>());
}

/// A running `tollgate log tail`. The test reads its lines one by one, so the pipe may be full.
struct Unread {
    child: std::process::Child,
    stdout: Option<ChildStdout>,
}

impl Unread {
    fn start(app: &App) -> Self {
        let mut command = Command::new(BINARY);
        command.args(["log", "tail", "--format", "envelope", "--position", "position"]);
        let mut child =
            command.current_dir(app.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take();
        Self { child, stdout }
    }

    fn unread(&self) -> u64 {
        ioctl_fionread(self.stdout.as_ref().unwrap()).unwrap()
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Waits until the command ends. It must print no error.
    fn wait(mut self) {
        let status = eventually("it ends", || self.child.try_wait().unwrap());
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn lines_that_a_reader_left_in_the_pipe_are_printed_again_and_its_end_is_quiet() {
    let app = app("", "");
    let server = app.start();
    send(&server, 0..50);
    let mut tail = Unread::start(&app);
    let bytes = eventually("all lines are in the pipe", || {
        let lines = app.succeed(&["log", "cat", "--format", "envelope"]).len() as u64;
        (tail.unread() == lines).then_some(lines)
    });
    let mut reader = BufReader::with_capacity(1, tail.stdout.take().unwrap());
    let mut first = String::new();
    for _ in 0..10 {
        reader.read_line(&mut first).unwrap();
    }
    assert_eq!(numbers(&first), (0..10).collect::<Vec<_>>());
    assert!(first.len() as u64 * 2 < bytes);
    drop(reader);
    // The command ends although it has no further line to print.
    tail.wait();
    send(&server, [50]);
    let again = app.follow(&["log", "tail", "--format", "envelope", "--position", "position"]);
    let next = envelope(&again.line()).1;
    assert!(next <= 10, "record {next} follows, but 10 was not read");
    (next + 1..51).for_each(|n| assert_eq!(envelope(&again.line()).1, n));
}

#[test]
fn a_follower_that_is_stopped_waits_until_its_lines_are_read() {
    let app = app("", "");
    let server = app.start();
    send(&server, 0..50);
    let mut tail = Unread::start(&app);
    eventually("lines are in the pipe", || (tail.unread() > 0).then_some(()));
    tail.terminate();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        assert!(tail.child.try_wait().unwrap().is_none(), "lines are unread");
        thread::sleep(Duration::from_millis(10));
    }
    let mut text = String::new();
    tail.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    tail.wait();
    let printed = numbers(&text);
    let again = app.follow(&["log", "tail", "--format", "envelope", "--position", "position"]);
    send(&server, [50]);
    let mut all = printed;
    while all.last() != Some(&50) {
        all.push(envelope(&again.line()).1);
    }
    assert_eq!(all, (0..51).collect::<Vec<_>>());
}

#[test]
fn a_second_signal_ends_a_follower_whose_lines_are_not_read() {
    let app = app("", "");
    let server = app.start();
    send(&server, 0..50);
    let mut tail = Unread::start(&app);
    eventually("lines are in the pipe", || (tail.unread() > 0).then_some(()));
    let status = eventually("it ends", || {
        tail.terminate();
        tail.child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(1));
    drop(tail);
    let again = app.follow(&["log", "tail", "--format", "envelope", "--position", "position"]);
    assert_eq!(envelope(&again.line()).1, 0, "no line was read");
}

#[test]
fn a_position_waits_for_what_a_power_cut_could_take_back() {
    let app = app("sync_age_max = \"1m\"", "ack = \"written\"");
    let server = app.start();
    send(&server, [1]);
    assert_eq!(cat(&app, &[]), [1], "it is written");
    assert_eq!(cat(&app, &["--position", "position"]), [0; 0], "it is not synced");
    assert!(server.stop().0.success());
    assert_eq!(cat(&app, &["--position", "position"]), [1]);
    assert_eq!(cat(&app, &["--position", "position"]), [0; 0]);
}

#[test]
fn a_file_gets_each_row_once_under_one_header() {
    let app = app("", "");
    let path = app.path().join("rows.csv");
    let append = |options: &[&str]| {
        let file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut command = Command::new(BINARY);
        command
            .args(["log", "cat", "--stream", "a", "--format", "csv", "--position", "position"])
            .args(options);
        assert!(command.current_dir(app.path()).stdout(file).status().unwrap().success());
    };
    run_with(&app, 0..2);
    append(&[]);
    run_with(&app, 2..4);
    append(&["--no-header"]);
    append(&["--no-header"]);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.rsplit_once(',').unwrap().1).collect();
    assert_eq!(lines, ["n", "0", "1", "2", "3"], "{text}");
}

#[test]
fn records_that_were_deleted_before_they_were_printed_are_named() {
    let app = app("segment_bytes_max = \"4KiB\"", "");
    run_with(&app, 0..3);
    assert_eq!(cat(&app, &["--position", "position"]).len(), 3);
    run_with(&app, 3..200);
    run_with(&app, 200..203);
    let logs = logs(&app);
    let segments: Vec<PathBuf> =
        app.segments().into_iter().filter(|path| path.to_str().unwrap().contains(&logs[1])).collect();
    assert!(segments.len() > 2);
    fs::remove_file(&segments[0]).unwrap();
    let second: i64 = segments[1].file_stem().unwrap().to_str().unwrap().parse().unwrap();
    fs::copy(app.path().join("position"), app.path().join("before")).unwrap();
    let read = ["log", "cat", "--format", "envelope", "--position", "position"];
    let output = app.run(&read);
    assert_eq!(output.status.code(), Some(1));
    let note = format!("log {}: records 1-{} are missing: segment is missing", logs[1], second - 1);
    assert!(printed(&output).contains(&note), "{}", printed(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(numbers(&text), (second + 2..203).collect::<Vec<_>>());
    assert_eq!(cat(&app, &["--position", "position"]), [0; 0], "it is named once");
    // The whole log is deleted.
    fs::rename(app.path().join("before"), app.path().join("position")).unwrap();
    fs::remove_dir_all(segments[0].parent().unwrap()).unwrap();
    fs::write(app.log_dir().join("deleted"), format!("{} 197\n", logs[1])).unwrap();
    let output = app.run(&read);
    assert_eq!(output.status.code(), Some(1));
    let note = format!("log {}: records 1-197 are missing: they were deleted, not printed", logs[1]);
    assert!(printed(&output).contains(&note), "{}", printed(&output));
    assert_eq!(numbers(&String::from_utf8(output.stdout).unwrap()), [200, 201, 202]);
    assert_eq!(cat(&app, &["--position", "position"]), [0; 0], "it is named once");
    // A consumer that has the last record of the deleted log misses no record.
    let from = |sequence: u64| format!("{}:{sequence}", logs[1]);
    assert_eq!(cat(&app, &["--from", &from(198)]), [200, 201, 202]);
    let output = app.run(&["log", "cat", "--format", "envelope", "--from", &from(190)]);
    assert_eq!(output.status.code(), Some(1));
    let note = format!("log {}: records 190-197 are missing: they were deleted, not printed", logs[1]);
    assert!(printed(&output).contains(&note), "{}", printed(&output));
    assert_eq!(numbers(&String::from_utf8(output.stdout).unwrap()), [200, 201, 202]);
}

#[test]
fn another_file_is_not_taken_for_a_position_and_stays() {
    let app = app("", "");
    run_with(&app, 0..3);
    for text in ["", "{}\n", "tollgate-position 2\n"] {
        app.write("notes", text);
        let output = app.run(&["log", "cat", "--position", "notes"]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{text:?}");
        assert!(printed(&output).contains("notes is no position file"), "{}", printed(&output));
        assert_eq!(fs::read_to_string(app.path().join("notes")).unwrap(), text);
    }
    let output = app.run(&["log", "cat", "--position", "missing/position"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(
        printed(&output).contains("cannot write the position to missing/position"),
        "{}",
        printed(&output)
    );
}

#[test]
fn a_position_is_on_disk_before_it_replaces_the_old_one_and_after_its_lines() {
    let app = app("", "");
    run_with(&app, 0..3);
    let out = File::create(app.path().join("out.json")).unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-qq", "-e", "signal=none", "-o", "strace.txt"]);
    strace.args(["-e", "trace=write,fdatasync,fsync,rename,renameat,renameat2", BINARY]);
    strace.args(["log", "cat", "--position", "position"]).current_dir(app.path()).stdout(out);
    assert!(strace.status().unwrap().success());
    let calls = fs::read_to_string(app.path().join("strace.txt")).unwrap();
    let place = |after: usize, call: &str, file: &str| {
        let found = calls
            .lines()
            .enumerate()
            .skip(after)
            .find(|(_, line)| line.contains(call) && line.contains(file));
        found.unwrap_or_else(|| panic!("{call} {file} after line {after} of\n{calls}")).0
    };
    let printed = place(0, "write(", "out.json>");
    let synced = place(printed, "fdatasync(", "out.json>");
    let written = place(synced, "write(", "position.new>");
    let on_disk = place(written, "sync(", "position.new>");
    let renamed = place(on_disk, "rename", "position.new");
    place(renamed, "fsync(", &format!("{}>", app.path().canonicalize().unwrap().display()));
}

#[test]
fn a_position_that_cannot_be_written_ends_the_command_and_the_old_one_stays() {
    let app = app("", "");
    run_with(&app, 0..3);
    assert_eq!(cat(&app, &["--position", "position"]).len(), 3);
    let before = fs::read_to_string(app.path().join("position")).unwrap();
    run_with(&app, 3..6);
    for fault in ["rename", "fdatasync"] {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={fault}:error=EIO"), BINARY]);
        strace.args(["log", "cat", "--position", "position"]).current_dir(app.path());
        let output = strace.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{fault}: {}", printed(&output));
        assert!(printed(&output).contains("cannot write the position to position: "), "{}", printed(&output));
        assert_eq!(fs::read_to_string(app.path().join("position")).unwrap(), before);
    }
    assert_eq!(cat(&app, &["--position", "position"]), [3, 4, 5]);
}
