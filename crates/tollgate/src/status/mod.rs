//! `tollgate status`: the state of a server, or of a process that loads from a store, on one screen.

mod boxes;
mod figures;
mod fit;
mod screen;
mod terminal;
mod verdict;
pub(crate) mod web;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::colour;

use crate::config::ConfigError;
use crate::control::{Silence, ask_status};
use crate::load_from::spool_beside;
use crate::log::{expect_place, log_folder};
use crate::print::{note, printable, to_stdout_marked};
use crate::wall;
use boxes::{ASCII, DRAWN};
use fit::in_place;
use screen::{Line, Screen};
use terminal::{Terminal, Wake};
use verdict::Verdict;

/// Time between two drawings of a watched screen.
const PERIOD: Duration = Duration::from_secs(1);

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Screen,
    Json,
}

/// The meaning of the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeOf {
    /// The command: 0 if a server answered.
    Command,
    /// The server: 0 well, 1 warnings, 2 not ready.
    Server,
}

/// The exit code of `--exit-code` if no server answered.
pub(crate) const UNANSWERED: u8 = 3;

/// Asks the server of a configuration, or of a log folder, and prints the answer.
///
/// # Errors
/// No server answered, or the system refused this user the configuration or the socket.
pub(crate) fn run(path: &Path, shown: Shown, code_of: CodeOf) -> anyhow::Result<ExitCode> {
    let dir = log_folder(path)?;
    let line = match ask(&dir) {
        Ok(line) => line,
        Err(silence) => return Err(unanswered(path, &dir, &silence)),
    };
    let document: Value = line.parse()?;
    let is_without_sinks = document["config"]["sink_count"] == 0;
    if !is_without_sinks && document["sinks"].as_array().is_some_and(Vec::is_empty) {
        note("the server has no sinks, because it was started with --no-load");
    }
    to_stdout_marked(|out| {
        match shown {
            Shown::Json => out.write_all(line.as_bytes())?,
            Shown::Screen => Screen::of(&document).lines().try_for_each(|line| writeln!(out, "{line}"))?,
        }
        Ok(match code_of {
            CodeOf::Command => ExitCode::SUCCESS,
            CodeOf::Server => ExitCode::from(Verdict::of(&document).code()),
        })
    })
}

/// Asks the server of a log folder. If there is none, asks the process that loads from a store with the same
/// configuration.
fn ask(dir: &Path) -> Result<String, Silence> {
    match ask_status(dir) {
        Err(Silence::Absent) => ask_status(&spool_beside(dir)),
        answer => answer,
    }
}

/// Returns the reason why no server answered. If no server listens, the faults of the configuration are
/// added.
pub(crate) fn unanswered(path: &Path, dir: &Path, silence: &Silence) -> anyhow::Error {
    match faults_behind(path, silence) {
        Some(faults) => {
            note(&silence.describe(dir));
            faults.into()
        }
        None => anyhow!(silence.describe(dir)),
    }
}

/// Returns the faults of a configuration, if no server listens. A server that hangs may run with an earlier
/// text, so faults of the file do not explain its silence.
fn faults_behind(path: &Path, silence: &Silence) -> Option<ConfigError> {
    if *silence == Silence::Absent { expect_place(path).err() } else { None }
}

/// Shows the state each second. On a terminal each screen overwrites the last one and is cut to the size of
/// the terminal, until a key or a signal. Elsewhere each screen is appended to the output, until a signal.
///
/// The command continues without a server, because the server may start again.
pub(crate) fn watch(path: &Path) -> anyhow::Result<ExitCode> {
    match Terminal::take()? {
        Some(terminal) => watch_on(&terminal, path),
        None => watch_in_a_row(path),
    }
}

fn watch_on(terminal: &Terminal, path: &Path) -> anyhow::Result<ExitCode> {
    let is_coloured = colour::is_on(&io::stdout());
    let border = if is_utf8() { DRAWN } else { ASCII };
    loop {
        let size = Terminal::size();
        let (document, mut lines) = look(path)?;
        let drawn = boxes::path(&document, size.0, &border, is_coloured).into_iter().map(Line::Drawn);
        // The boxes follow the headline.
        let place = lines.len().min(1);
        lines.splice(place..place, drawn);
        lines.insert(0, Line::Row(clock()));
        Terminal::show(&in_place(&lines, size, is_coloured))?;
        if terminal.wait(PERIOD)? == Wake::End {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn watch_in_a_row(path: &Path) -> anyhow::Result<ExitCode> {
    loop {
        let (_, lines) = look(path)?;
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>() + "\n";
        if Terminal::show(&text).is_err() {
            // The reader closed the pipe.
            return Ok(ExitCode::SUCCESS);
        }
        thread::sleep(PERIOD);
    }
}

/// Returns the first line of a watched screen: the time of the machine, and how the command ends.
fn clock() -> String {
    let now = wall::now().to_zoned(TimeZone::system());
    format!("{}   q ends", now.strftime("%H:%M:%S %Z"))
}

/// Returns whether the terminal shows UTF-8, by the first locale variable that is set (POSIX, section 8.2).
fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
    let locale = locale.into_iter().find(|value| !value.is_empty()).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Asks the server, and returns its answer and the lines of the screen. The folder is read each time, because
/// an operator may have mended the configuration.
fn look(path: &Path) -> anyhow::Result<(Value, Vec<Line>)> {
    let lines = match log_folder(path).map(|dir| (ask(&dir), dir)) {
        Ok((Ok(line), _)) => {
            let document = line.parse::<Value>()?;
            let lines = Screen::of(&document).lines().collect();
            return Ok((document, lines));
        }
        Ok((Err(silence), dir)) => lines_of(path, &dir, &silence),
        Err(refusal) => prose(&format!("{refusal}: trying again")),
    };
    Ok((Value::Null, lines))
}

fn lines_of(path: &Path, dir: &Path, silence: &Silence) -> Vec<Line> {
    let faults = faults_behind(path, silence).map(|faults| faults.to_string()).unwrap_or_default();
    prose(&format!("{}: trying again\n{faults}", silence.describe(dir)))
}

fn prose(text: &str) -> Vec<Line> {
    text.lines().map(|line| Line::Prose(printable(line))).collect()
}
