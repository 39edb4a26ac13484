//! `tollgate status --watch` in a terminal: keys, signals, the clock, the size, and the modes that it leaves.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use rustix::process::Signal;
use rustix::termios::LocalModes;

use crate::golden::{Golden, STATUS};
use crate::program::{App, eventually};
use crate::terminal::Terminal;

const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const ARGUMENTS: [&str; 2] = ["status", "--watch"];

/// Answers each question in a log folder with a fixed status.
pub(crate) fn answer_status(log_dir: &Path, status: &'static str) {
    fs::create_dir_all(log_dir).unwrap();
    let listener = UnixListener::bind(log_dir.join("control.sock")).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The question is one line, which arrives in one packet.
            let _ = stream.read(&mut [0; 64]).unwrap();
            // The command may have ended meanwhile.
            drop(stream.write_all(format!("{}\n\n", status.trim_end()).as_bytes()));
        }
    });
}

/// What ends the command.
#[derive(Debug)]
enum End {
    Keys(&'static [u8]),
    Signal(Signal),
}

fn watched() -> App {
    let app = App::bare(&[("tollgate.toml", "[[route]]\npath = \"/\"\nreply = {}\n")]);
    answer_status(&app.log_dir(), STATUS);
    app
}

#[test]
fn each_end_of_a_watched_status_restores_the_terminal() {
    let app = watched();
    let ends = [
        End::Keys(b"q"),
        End::Keys(&[0x03]),
        End::Keys(b"xq"),
        End::Signal(Signal::TERM),
        End::Signal(Signal::INT),
        End::Signal(Signal::HUP),
    ];
    for end in ends {
        let name = format!("{end:?}");
        let mut terminal = Terminal::run(app.path(), &ARGUMENTS, (100, 30));
        terminal.wait_for("q ends");
        let modes = terminal.modes().local_modes;
        assert!(!modes.intersects(LocalModes::ICANON | LocalModes::ECHO), "{name}: {modes:?}");
        match end {
            End::Keys(keys) => terminal.press(keys),
            End::Signal(signal) => terminal.signal(signal),
        }
        eventually(&name, || terminal.modes().local_modes.contains(LocalModes::ICANON).then_some(()));
        assert!(terminal.modes().local_modes.contains(LocalModes::ECHO | LocalModes::ISIG), "{name}");
        let (status, shown) = terminal.end();
        assert!(status.success(), "{name}: {status}");
        assert!(shown.starts_with(ENTER) && shown.ends_with(LEAVE), "{name}: {shown:?}");
    }
}

#[test]
fn a_watched_status_is_drawn_in_place_and_follows_the_size() {
    let app = watched();
    let terminal = Terminal::run(app.path(), &ARGUMENTS, (60, 24));
    // The second drawing begins at the top left corner, and no drawing erases the screen before.
    eventually("two drawings", || (terminal.shown().matches("\u{1b}[H").count() >= 2).then_some(()));
    let shown = terminal.shown();
    assert!(!shown.contains("\u{1b}[2J") && shown.contains("\u{1b}[K"), "{shown:?}");
    let first = shown.split("\u{1b}[H").nth(1).unwrap().to_owned();
    let rows: Vec<_> = first.split("\r\n").collect();
    assert!(rows.len() <= 24, "{first}");
    for title in ["listen", "connections", "route", "handler", "log", "load", "sink", "backends"] {
        assert!(first.contains(&format!("┌{title}")), "{title}: {first}");
    }
    // One row of boxes fits into 120 columns.
    terminal.resize((120, 24));
    eventually("one row of boxes", || {
        terminal
            .shown()
            .lines()
            .any(|line| line.contains("┌listen") && line.contains("┌backends"))
            .then_some(())
    });
}

#[test]
fn a_terminal_without_utf8_and_colours_gets_plain_boxes() {
    let app = watched();
    let variables = [("TERM", "xterm"), ("LANG", "C"), ("NO_COLOR", "1")];
    let mut terminal = Terminal::run_with(app.path(), &ARGUMENTS, (60, 24), &variables);
    terminal.wait_for("+backends---+");
    terminal.press(b"q");
    let (_, shown) = terminal.end();
    assert!(shown.is_ascii() && !shown.contains("\u{1b}[1;3"), "{shown:?}");
}

#[test]
fn a_watched_status_folds_at_60_and_100_columns() {
    let app = watched();
    for columns in [60, 100] {
        let mut terminal = Terminal::run(app.path(), &ARGUMENTS, (columns, 40));
        eventually("a whole drawing", || terminal.shown().contains("\u{1b}[J").then_some(()));
        terminal.press(b"q");
        let (_, shown) = terminal.end();
        let first = shown.split("\u{1b}[H").nth(1).unwrap().split("\u{1b}[J").next().unwrap();
        let first = first.replace("\u{1b}[K", "").replace("\r\r\n", "\n");
        let (clock, screen) = first.split_once('\n').unwrap();
        assert!(clock.len() == "12:34:56 UTC   q ends".len() && clock.ends_with(" UTC   q ends"), "{clock}");
        Golden::of(&app, columns).check_exact("status --watch", screen);
    }
}
