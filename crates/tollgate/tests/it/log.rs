//! `tollgate log`: records of a server are followed, sealed segments are compared with the loaded positions,
//! and damage is repaired by hand.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tollgate_log::{DiskStorage, scan_segment};

use crate::forger::{forge, forge_and_solve};
use crate::program::{App, BINARY, Following, KEEP, Running, eventually, printed};

/// Makes streams `a` and `b`. `log` is the text of `[log]`, and `stream` is added to both streams.
fn app(log: &str, stream: &str) -> App {
    let part = |name: &str| {
        format!(
            "[stream.{name}]\n{stream}\ncolumns = [{{ name = \"n\", type = \"int\", from = \"record.n\" }}, \
             {{ name = \"path\", type = \"text\", from = \"request.path\" }}, \
             {{ name = \"method\", type = \"text\", from = \"request.method\" }}]\n\
             [[route]]\npath = \"/{name}\"\nscript = \"keep.luau\"\nstream = \"{name}\"\n"
        )
    };
    App::new(&format!("[log]\n{log}\n{}{}", part("a"), part("b")), &[("keep.luau", KEEP)])
}

/// Sends requests with these numbers, one after the other.
fn send(server: &Running, stream: &str, numbers: impl IntoIterator<Item = i64>) {
    let mut client = server.connect();
    for n in numbers {
        assert!(client.get(&format!("/{stream}?n={n}")).unwrap().is_success());
    }
}

/// Returns the integer in a field of the next line.
fn next(tail: &Following, field: &str) -> i64 {
    let line: serde_json::Value = serde_json::from_str(&tail.line()).unwrap();
    line[field].as_i64().unwrap()
}

#[test]
fn tail_follows_over_rolls_and_restarts_and_ends_on_sigint_with_success() {
    let app = app("segment_bytes_max = \"4KiB\"", "");
    let server = app.start();
    send(&server, "a", 0..3);
    let tail = app.follow(&["log", "tail", "--format", "json", "--stream", "a", "-n", "2"]);
    assert_eq!([next(&tail, "n"), next(&tail, "n")], [1, 2], "the last two");
    for n in 3..120 {
        send(&server, if n % 3 == 0 { "b" } else { "a" }, [n]);
    }
    (3..120).filter(|n| n % 3 != 0).for_each(|n| assert_eq!(next(&tail, "n"), n));
    assert!(app.segments().len() > 2, "it rolled");
    server.kill();
    let server = app.start();
    send(&server, "a", 120..140);
    (120..140).for_each(|n| assert_eq!(next(&tail, "n"), n));
    assert!(server.stop().0.success());
    let server = app.start();
    send(&server, "a", [140]);
    assert_eq!(next(&tail, "n"), 140);
    let (status, stderr) = tail.end(Signal::INT);
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn tail_shows_nothing_that_a_power_cut_could_take_back() {
    let app = app("sync_age_max = \"1m\"", "ack = \"written\"");
    let server = app.start();
    send(&server, "a", [1]);
    let tail = app.follow(&["log", "tail", "--format", "json"]);
    assert!(tail.is_silent_for(Duration::from_millis(500)), "it is not synced");
    assert!(app.succeed(&["log", "cat"]).contains("\"n\":1"), "it is written");
    assert!(server.stop().0.success());
    assert_eq!(next(&tail, "n"), 1);
    assert_eq!(tail.end(Signal::TERM).0.code(), Some(0));
}

#[test]
fn cat_prints_text_json_and_combined() {
    let app = app("", "");
    let server = app.start();
    send(&server, "a", [7]);
    assert!(server.stop().0.success());
    assert!(
        app.succeed(&["log", "cat", "--format", "text"]).contains("  a         n=7  path=/a  method=GET\n")
    );
    assert!(app.succeed(&["log", "cat"]).contains("\"n\":7,\"path\":\"/a\""));
    let combined = app.succeed(&["log", "cat", "--format", "combined"]);
    assert_eq!(combined, "- - - [-] \"GET /a HTTP/1.1\" - - \"-\" \"-\"\n");
    let output = app.run(&["log", "cat", "--format", "combined", "data/log"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
}

/// Makes an app whose one log has a sealed segment of ten loaded records.
fn loaded() -> (App, PathBuf) {
    let app = app("", "");
    let server = app.start();
    send(&server, "a", 0..10);
    assert!(server.stop().0.success());
    let segment = app.segments().remove(0);
    (app, segment)
}

fn edit(path: &Path, change: impl FnOnce(&mut [u8])) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_loaded_segment_that_a_forger_made_fit_shows_against_the_database() {
    let (app, segment) = loaded();
    let whole = app.succeed(&["log", "verify"]);
    assert!(whole.contains("1 log equal to the database, 0 different\n"), "{whole}");
    edit(&segment, forge);
    // Without the database the forgery is not found, because every checksum and the digest fit the bytes of
    // the segment.
    assert!(app.succeed(&["log", "verify", "data/log"]).contains(" 1 ok, 0 open, 0 torn, 0 bad\n"));
    let output = app.run(&["log", "verify"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let bad = text.lines().find(|line| line.starts_with("BAD ")).expect(&text);
    assert!(bad.starts_with(&format!("BAD   {} at byte ", segment.display())), "{bad}");
    assert!(bad.contains(": records 1-10: changed after they were loaded: the checksum is "), "{bad}");
}

#[test]
fn a_forger_who_solves_for_the_checksum_is_beyond_what_verify_claims() {
    let (app, segment) = loaded();
    let before = fs::read(&segment).unwrap();
    edit(&segment, forge_and_solve);
    assert_ne!(before, fs::read(&segment).unwrap());
    assert!(app.succeed(&["log", "verify"]).contains("1 log equal to the database, 0 different\n"));
}

#[test]
fn a_forged_segment_shows_in_the_one_behind_it_without_a_database() {
    for forge in [forge as fn(&mut [u8]), forge_and_solve] {
        let app = app("segment_age_max = \"10ms\"", "");
        let server = app.start();
        send(&server, "a", 0..5);
        eventually("it is sealed", || app.segments().first()?.extension()?.eq("sealed").then_some(()));
        send(&server, "a", 5..10);
        assert!(server.stop().0.success());
        assert!(app.succeed(&["log", "verify", "data/log"]).ends_with(" 0 bad\n"));
        edit(&app.segments()[0], forge);
        let output = app.run(&["log", "verify", "data/log"]);
        assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    }
}

#[test]
fn a_log_that_ends_before_what_was_loaded_is_told() {
    let (app, segment) = loaded();
    let database = app.database();
    database.execute("UPDATE tollgate_positions SET last = 12", []).unwrap();
    let output = app.run(&["log", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let text = printed(&output);
    assert!(text.contains("the database has records up to 12, the log ends at 10"), "{text}");
    assert!(text.contains(&segment.display().to_string()), "{text}");
}

#[test]
fn a_log_between_others_that_is_nowhere_any_more_is_told_by_the_head_behind_it() {
    let app = app("", "");
    for n in 0..3 {
        let server = app.start();
        send(&server, "a", [n]);
        assert!(server.stop().0.success());
    }
    let middle = app.segments()[1].parent().unwrap().to_owned();
    fs::remove_dir_all(&middle).unwrap();
    let id = middle.file_name().unwrap().to_str().unwrap();
    let text = app.succeed(&["log", "verify"]);
    assert!(text.contains(&format!("gone  {id}  the log before ")), "{text}");
    assert!(text.contains("it was loaded up to 1"), "{text}");
    app.database().execute("DELETE FROM tollgate_positions WHERE log = ?1", [id]).unwrap();
    let output = app.run(&["log", "verify"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains(&format!("BAD   {id}  the log before ")), "{}", printed(&output));
}

#[test]
fn a_file_that_is_no_database_is_reported_and_the_log_is_checked_nevertheless() {
    let (app, _) = loaded();
    fs::write(
        app.path().join("data/tollgate.sqlite"),
        "no database at all, but long enough to look like one",
    )
    .unwrap();
    let output = app.run(&["log", "verify"]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(printed(&output).contains("cannot compare with the database"), "{}", printed(&output));
}

#[test]
fn a_log_of_a_later_version_is_named_and_the_others_are_read_followed_and_served() {
    let app = app("", "");
    for n in 0..2 {
        let server = app.start();
        send(&server, "a", [n]);
        assert!(server.stop().0.success());
    }
    for segment in app.segments() {
        edit(&segment, |bytes| {
            bytes[8] = 3;
            let checksum = crc32c::crc32c(&bytes[..124]);
            bytes[124..128].copy_from_slice(&checksum.to_le_bytes());
        });
    }
    let left = files(&app);
    let tail = app.follow(&["log", "tail", "--format", "json"]);
    // The command follows the newest log, if there is one, and all later logs.
    eventually("the newest is told of", || tail.has_printed("cannot be followed any further").then_some(()));
    let server = app.start();
    send(&server, "a", [2]);
    assert_eq!(next(&tail, "n"), 2);
    assert!(server.stop().0.success());
    let output = app.run(&["log", "cat"]);
    assert_eq!(output.status.code(), Some(1));
    let text = printed(&output);
    assert!(text.contains("\"n\":2") && text.contains("segment has format version 3"), "{text}");
    drop(tail);
    assert!(app.succeed(&["log", "repair"]).ends_with("3 segments: 3 unchanged, 0 repaired\n"));
    let now = files(&app);
    assert!(left.iter().all(|(path, bytes)| now[path] == *bytes), "left untouched");
}

/// Returns every file of the log folder with its bytes, except locks.
fn files(app: &App) -> BTreeMap<PathBuf, Vec<u8>> {
    let folders = fs::read_dir(app.log_dir()).unwrap().map(|entry| entry.unwrap().path());
    let inside = folders.filter(|path| path.is_dir()).flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = inside.map(|entry| entry.unwrap().path()).filter(|path| !path.ends_with("lock"));
    paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn repair_mends_what_a_killed_server_left_and_refuses_while_one_runs() {
    let app = app("", "");
    let server = app.start();
    send(&server, "a", 0..5);
    let output = app.run(&["log", "repair"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(
        printed(&output).contains("data/log is locked: a server uses it, stop that server first"),
        "{}",
        printed(&output)
    );
    server.kill();
    let segment = app.segments().remove(0);
    let end = scan_segment(&DiskStorage, &segment).unwrap().end;
    fs::OpenOptions::new().write(true).open(&segment).unwrap().write_all_at(&[7; 100], end).unwrap();
    let left = files(&app);
    let said = app.succeed(&["log", "repair", "--dry-run"]);
    assert!(said.starts_with(&format!("cut   {} at byte ", segment.display())), "{said}");
    assert!(said.contains(": the last 100 bytes were not acknowledged as synced, kept as "), "{said}");
    assert!(said.ends_with("1 segment: 0 unchanged, 1 to repair\n"), "{said}");
    assert_eq!(files(&app), left);
    let done = app.succeed(&["log", "repair"]);
    assert!(done.ends_with("1 segment: 0 unchanged, 1 repaired\n"), "{done}");
    let kept = fs::read(segment.with_extension("torn")).unwrap();
    assert!(kept.starts_with(&[7; 100]) && kept[100..].iter().all(|byte| *byte == 0));
    let mended = files(&app);
    assert!(app.succeed(&["log", "repair"]).ends_with("1 segment: 1 unchanged, 0 repaired\n"));
    assert_eq!(files(&app), mended);
    app.settle();
    assert_eq!(app.query::<i64>("SELECT n FROM a ORDER BY n"), [0, 1, 2, 3, 4]);
}

#[test]
fn dump_shows_every_part_of_a_segment_and_fails_where_something_does_not_hold() {
    let (app, segment) = loaded();
    let path = segment.to_str().unwrap();
    let text = app.succeed(&["log", "dump", path]);
    for part in [
        "segment header, 128 bytes",
        "batch of schemas",
        "a (n int, path text, method text)",
        "row of a",
        "footer, ",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains("record 10 ") && text.contains("sha256:"), "{text}");
    assert!(text.ends_with(": no problems\n"), "{text}");
    edit(&segment, |bytes| bytes[128 + 64 + 9] ^= 1);
    let output = app.run(&["log", "dump", path]);
    assert_eq!(output.status.code(), Some(1));
    let text = printed(&output);
    assert!(text.contains("  PROBLEM: payload checksum is ") && text.contains("record 10 "), "{text}");
}

#[test]
fn a_folder_that_holds_no_logs_is_not_told_to_be_sound() {
    let (app, segment) = loaded();
    std::fs::create_dir(app.path().join("empty")).unwrap();
    let log = segment.parent().unwrap().to_str().unwrap();
    for wrong in ["empty", "data", log] {
        for command in ["verify", "ls", "cat"] {
            let output = app.run(&["log", command, wrong]);
            assert_eq!(output.status.code(), Some(1), "{command} {wrong}");
            assert!(printed(&output).contains(" is not a log folder: "), "{}", printed(&output));
        }
    }
    // Before its first record, a server has a log folder without a log.
    std::fs::remove_dir_all(log).unwrap();
    assert!(app.succeed(&["log", "verify", "data/log"]).starts_with("0 segments in 0 logs"));
    assert!(app.succeed(&["log", "verify"]).ends_with("0 segments in 0 logs: 0 ok, 0 open, 0 torn, 0 bad\n"));
}

#[test]
fn a_stream_that_is_not_there_is_told_by_cat() {
    let (app, _) = loaded();
    assert_eq!(app.succeed(&["log", "cat", "--stream", "a"]).lines().count(), 10);
    for path in [".", "data/log"] {
        let output = app.run(&["log", "cat", "--stream", "aa", path]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{path}");
        assert!(
            printed(&output).contains("unknown stream \"aa\", did you mean \"a\"?"),
            "{}",
            printed(&output)
        );
    }
}

#[test]
fn long_work_without_a_terminal_prints_nothing_on_stderr() {
    let (app, _) = loaded();
    for command in [&["log", "verify"][..], &["log", "cat"], &["log", "repair"]] {
        let output = app.run(command);
        assert!(output.status.success() && output.stderr.is_empty(), "{command:?}: {}", printed(&output));
    }
}

#[test]
fn long_work_shows_how_far_it_is_on_a_terminal_and_nowhere_else() {
    let (app, _) = loaded();
    let slowly = format!("strace -f -o strace.out -e inject=pread64:delay_enter=200ms {BINARY} log verify");
    let on_terminal =
        Command::new("script").args(["-qec", &slowly, "/dev/null"]).current_dir(app.path()).output().unwrap();
    assert_eq!(on_terminal.status.code(), Some(0), "{}", printed(&on_terminal));
    let shown = String::from_utf8(on_terminal.stdout).unwrap();
    assert!(shown.contains("verify  ") && shown.contains(" KiB  ") && shown.contains("%  "), "{shown:?}");
    let drawn = shown.rfind("\x1b[K\r").expect("the line is cleared");
    assert!(
        shown[drawn..].contains("1 segment in 1 log: 1 ok"),
        "what is printed stands behind it: {shown:?}"
    );
    let piped = Command::new("sh").args(["-c", &slowly]).current_dir(app.path()).output().unwrap();
    assert_eq!((piped.status.code(), String::from_utf8(piped.stderr).unwrap()), (Some(0), String::new()));
}
