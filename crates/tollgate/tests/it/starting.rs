//! The log lines of a server before it serves, and a start while a script changes.

use std::fs;

use rustix::process::Signal;

use crate::program::{App, Running, Starting, eventually};

const STREAM: &str = "[stream.s]\ncolumns = [{ name = \"n\", type = \"int\" }]\n\
                      [[route]]\npath = \"/s\"\ncollect = true\nstream = \"s\"\n";

/// Text that the log of a serving server contains.
const SERVING: &str = "\"message\":\"serving\"";

/// Starts a server whose threads all start late, so that the watcher checks the state between any two steps
/// of the start.
fn start_slowly(app: &App) -> Running {
    let late = "delay_enter=700000";
    app.begin_with_faults(&[("clone3", late), ("clone", late)]).serving().unwrap()
}

/// Checks that no line of the log reports a finding before the server serves.
fn check_no_finding(log: &str) {
    let before: Vec<_> = log.lines().take_while(|line| !line.contains(SERVING)).collect();
    assert!(before.len() < log.lines().count(), "it served: {log}");
    let findings: Vec<_> = before.iter().filter(|line| line.contains("\"code\":")).collect();
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn a_start_that_takes_long_finds_no_sink_without_a_loader() {
    let app = App::new(STREAM, &[]);
    let server = start_slowly(&app);
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    check_no_finding(&log);
    assert!(!log.contains("sink_unattended"), "{log}");
}

#[test]
fn a_loader_that_waits_for_the_server_has_time_to_come() {
    let app = App::new(&format!("{STREAM}[load]\nin_server = false\n"), &[]);
    let loader = app.follow(&["load"]);
    let server = start_slowly(&app);
    assert!(server.connect().post("/s", "{\"n\": 1}").unwrap().is_success());
    eventually("the loader reports", || {
        app.succeed(&["status", "--json"]).contains("\"caught up\"").then_some(())
    });
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    check_no_finding(&log);
    assert!(!log.contains("sink_unattended"), "{log}");
    loader.end(Signal::TERM);
}

#[test]
fn a_start_loads_again_while_a_script_changes() {
    const LOADS_AGAIN: &str = "a script changed while the workers loaded it: the workers load it again";
    // Each worker computes for a time between the two files. The workers therefore read the second file at
    // different times.
    let main = "local n = 0 for i = 1, 3e6 do n += i end
        local text = require('text')
        return function() return text end";
    let config =
        "workers = 8\n[script]\ncpu_budget = \"10s\"\n[[route]]\npath = \"/\"\nscript = \"main.luau\"\n";
    let app = App::new(config, &[("main.luau", main), ("text.luau", "return 'text 0'")]);
    eventually("a script changes while the workers load it", || {
        let mut starting = app.begin();
        let mut number = 0;
        let is_loaded =
            |starting: &Starting| starting.has_logged(LOADS_AGAIN) || starting.has_logged(SERVING);
        while !is_loaded(&starting) && !starting.has_ended() {
            number += 1;
            app.write("new.luau", &format!("return 'text {number}'"));
            fs::rename(app.path().join("new.luau"), app.path().join("text.luau")).unwrap();
        }
        let is_again = starting.has_logged(LOADS_AGAIN);
        let server = starting.serving().unwrap_or_else(|end| panic!("no start: {end:?}"));
        if is_again {
            let mut texts = (0..100).map(|_| server.connect().get("/").unwrap().content);
            let expected = format!("text {number}");
            assert_eq!(texts.find(|text| *text != expected), None);
        }
        assert!(server.stop().0.success());
        is_again.then_some(())
    });
}

#[test]
fn the_version_names_the_commit_and_the_features() {
    let text = App::bare(&[]).succeed(&["--version"]);
    let expected = format!("tollgate {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(text.starts_with(&expected) && text.contains(", features ") && text.ends_with(")\n"), "{text}");
}
