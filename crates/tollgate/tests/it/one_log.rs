//! Tests with one faulty log: the findings and the commands report it. The server serves and records, and all
//! other logs are loaded.

use std::fs;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::forge::Forged;
use crate::program::{App, KEEP, Running, eventually, printed};

const CONFIG: &str = "[stream.a]\ncolumns = [{ name = \"n\", type = \"int\", from = \"record.n\" }]\n\
    [[route]]\npath = \"/a\"\nscript = \"keep.luau\"\nstream = \"a\"\n";

/// Makes an app with a log of an earlier run, records 1 to 3, which is not loaded. Returns the app and the
/// one segment of the log.
fn earlier_log() -> (App, PathBuf) {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let server = app.start_with(&["--no-load"]);
    (1..=3).for_each(|n| send(&server, n));
    assert!(server.stop().0.success());
    let segment = app.segments().remove(0);
    assert_eq!(segment.extension().unwrap(), "sealed");
    (app, segment)
}

fn send(server: &Running, n: i64) {
    assert!(server.connect().get(&format!("/a?n={n}")).unwrap().is_success());
}

fn forge(segment: &PathBuf, change: impl FnOnce(&mut Forged)) {
    let mut forged = Forged::parse(&fs::read(segment).unwrap());
    change(&mut forged);
    fs::write(segment, forged.bytes()).unwrap();
}

/// Starts the server, records number 11, and waits until these numbers are loaded.
fn start_and_load(app: &App, expected: &[i64]) -> Running {
    let server = app.start();
    send(&server, 11);
    eventually("all that can be is loaded", || {
        (app.has_table("a") && app.query::<i64>("SELECT n FROM a ORDER BY n") == expected).then_some(())
    });
    server
}

/// Waits until the status has the finding with this code, and returns it.
fn finding(app: &App, code: &str) -> String {
    eventually(code, || {
        let status = app.succeed(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let found = status["warnings"].as_array().unwrap().iter().find(|finding| finding["code"] == code)?;
        Some(found["text"].as_str().unwrap().to_owned())
    })
}

/// Returns the output of a command that must end with 1.
fn fails(app: &App, arguments: &[&str]) -> String {
    let output = app.run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", printed(&output));
    printed(&output)
}

#[test]
fn a_footer_whose_last_number_cannot_be_is_named_and_all_records_are_loaded() {
    for last in [1 << 56, (1 << 63) - 1, 1 << 63, u64::MAX] {
        let (app, segment) = earlier_log();
        forge(&segment, |forged| forged.footer.as_mut().unwrap().last = last);
        let server = start_and_load(&app, &[1, 2, 3, 11]);
        let name = segment.file_name().unwrap().to_str().unwrap();
        assert!(finding(&app, "segments_damaged").contains(name));
        assert!(fails(&app, &["log", "verify"]).contains("footer last sequence number"));
        assert!(app.succeed(&["audit"]).contains("exact: "));
        assert_eq!(app.succeed(&["log", "cat"]).lines().count(), 4);
        assert!(server.stop().0.success());
        assert!(start_and_load(&app, &[1, 2, 3, 11, 11]).stop().0.success());
    }
}

#[test]
fn a_nonce_that_is_the_magic_of_a_footer_is_a_gap_and_no_loader_hangs() {
    let (app, segment) = earlier_log();
    forge(&segment, |forged| forged.set_nonce(u64::from_le_bytes(*b"TGSEALED")));
    let server = start_and_load(&app, &[11]);
    assert!(finding(&app, "records_missing").contains("is missing 3 records"));
    let status = app.succeed(&["status", "--json"]);
    assert!(status.contains("\"state\":\"caught up\"") && !status.contains("sink_stalled"), "{status}");
    assert!(fails(&app, &["log", "verify"]).contains("nonce is "));
    assert!(fails(&app, &["log", "cat"]).contains("records 1-3 are missing"));
    assert!(fails(&app, &["audit"]).contains("missing: 3 of "));
    assert!(server.stop().0.success());
}

#[test]
fn a_fifo_in_the_place_of_a_segment_is_named_and_nothing_waits_for_it() {
    let fifo = |path: &PathBuf| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (app, segment) = earlier_log();
    let behind = segment.with_file_name("00000000000000000004.sealed");
    fifo(&behind);
    // The records before the faulty segment are loaded.
    let server = start_and_load(&app, &[1, 2, 3, 11]);
    let log = segment.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let stopped = finding(&app, "log_stopped");
    assert!(
        stopped.contains(&log) && stopped.contains("the file is a FIFO, allowed is a regular file"),
        "{stopped}"
    );
    assert!(finding(&app, "segments_damaged").contains("00000000000000000004.sealed"));
    for command in [&["log", "ls"][..], &["log", "cat"], &["log", "verify"]] {
        let text = fails(&app, command);
        assert!(text.contains("the file is a FIFO, allowed is a regular file"), "{command:?}: {text}");
    }
    assert!(fails(&app, &["audit"]).contains(&format!("not counted: log {log}")));
    assert!(server.stop().0.success());
    assert!(fails(&app, &["load", "--once"]).contains(&format!("loading of log {log} stopped")));
    fs::remove_file(&behind).unwrap();
    // The new file is an open segment, which a start would repair.
    fifo(&segment.with_file_name("00000000000000000004.open"));
    let server = start_and_load(&app, &[1, 2, 3, 11, 11]);
    assert!(finding(&app, "log_unmended").contains(&log));
    assert!(server.stop().0.success());
}

#[test]
fn a_line_of_deleted_that_cannot_be_is_named_and_holds_nothing_up() {
    let (app, _) = earlier_log();
    app.succeed(&["load", "--once"]);
    let log = "0190b6a0-0000-7000-8000-000000000000";
    fs::write(app.log_dir().join("deleted"), format!("{log} {}\n", u64::MAX)).unwrap();
    let server = start_and_load(&app, &[1, 2, 3, 11]);
    assert!(
        fails(&app, &["log", "verify"])
            .contains(&format!("{log}  the file `deleted` names record {}", u64::MAX))
    );
    assert!(app.succeed(&["audit"]).contains("exact: "));
    let (status, lines) = server.stop();
    assert!(status.success() && lines.contains("has an impossible number: line skipped"), "{lines}");
    assert!(start_and_load(&app, &[1, 2, 3, 11, 11]).stop().0.success());
}
