//! A wall clock before 1970 or after 9999: the server starts, records and loads, and reports the fault.
//!
//! A preloaded library moves the wall clock. All other clocks run unchanged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::program::{App, BINARY, KEEP, eventually, printed};

/// A library that returns its own time for the wall clock, and asks the system for all other clocks.
const MOVED_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id == CLOCK_REALTIME) {
        time->tv_sec = (time_t)strtoll(getenv("MOVED_CLOCK_SECONDS"), NULL, 10);
    }
    return result;
}
"#;

const CONFIG: &str = "[stream.a]\ncolumns = [{ name = \"n\", type = \"int\", from = \"record.n\" }, \
    { name = \"at\", type = \"timestamp\", from = \"request.time\" }]\n\
    [[route]]\npath = \"/a\"\nscript = \"keep.luau\"\nstream = \"a\"\n";

pub(crate) fn library(folder: &TempDir) -> PathBuf {
    let (source, library) = (folder.path().join("clock.c"), folder.path().join("clock.so"));
    fs::write(&source, MOVED_CLOCK).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output();
    let built = built.expect("a C compiler, which the build needs too");
    assert!(built.status.success(), "{}", printed(&built));
    library
}

/// Returns the program with its clock at these seconds since 1970.
pub(crate) fn command(library: &Path, seconds: i64) -> Command {
    let mut command = Command::new("env");
    command.arg(format!("LD_PRELOAD={}", library.display()));
    command.args([&format!("MOVED_CLOCK_SECONDS={seconds}"), BINARY]);
    command
}

#[test]
fn a_wall_clock_out_of_range_is_told_and_the_server_starts_records_and_loads() {
    let folder = TempDir::new().unwrap();
    let library = library(&folder);
    let checks: [(i64, Option<&str>); 8] = [
        (1_700_000_000, None),
        (0, None),
        (-1, Some("before 1970")),
        (-62_167_219_201, Some("before 1970")),
        (-1 << 40, Some("before 1970")),
        (253_402_300_800, Some("after 9999")),
        (1 << 40, Some("after 9999")),
        (i64::MAX / 2, Some("after 9999")),
    ];
    for (seconds, expected) in checks {
        let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
        let server = app.begin_as(command(&library, seconds)).serving();
        let server = server.unwrap_or_else(|end| panic!("no start at {seconds} s: {end:?}"));
        let reply = server.connect().get("/a?n=7").unwrap();
        assert!(reply.is_success() && reply.head.contains("\r\nDate: "), "{seconds} s: {}", reply.head);
        eventually("the row is loaded", || {
            (app.has_table("a") && app.query::<i64>("SELECT n FROM a") == [7]).then_some(())
        });
        let status = app.succeed(&["status", "--json"]);
        assert_eq!(status.contains("clock_off"), expected.is_some(), "{seconds} s: {status}");
        assert!(status.contains(expected.unwrap_or_default()), "{seconds} s: {status}");
        let (status, log) = server.stop();
        assert!(status.success() && !log.contains("panicked"), "{seconds} s: {status:?}: {log}");
        // Commands read the log of a run with a wrong clock. The commands have the same wrong clock.
        for arguments in
            [&["log", "cat"][..], &["log", "ls"], &["log", "verify"], &["audit"], &["load", "--once"]]
        {
            let output = command(&library, seconds).args(arguments).current_dir(app.path()).output().unwrap();
            assert!(output.status.success(), "{arguments:?} at {seconds} s: {}", printed(&output));
        }
    }
}
