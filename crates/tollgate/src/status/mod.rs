//! `tollgate status`: the state of a server, or of a process that loads from a store, on one screen.

mod fit;
mod screen;
mod verdict;
pub(crate) mod web;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use rustix::termios::tcgetwinsize;
use serde_json::Value;

use crate::config::ConfigError;
use crate::control::{Silence, ask_status};
use crate::load_from::spool_beside;
use crate::log::{expect_place, log_folder};
use crate::print::{note, printable, to_stdout_marked};
use fit::in_place;
use screen::{Line, Screen};
use verdict::Verdict;

/// Time between two drawings of a watched screen.
const PERIOD: Duration = Duration::from_secs(1);
/// Size of a terminal that does not report its size.
const USUAL_SIZE: (usize, usize) = (80, 24);

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

/// Shows the state each second, until Ctrl-C. On a terminal each screen overwrites the last one and is cut to
/// the size of the terminal. Elsewhere each screen is appended to the output. The command continues without a
/// server, because the server may start again.
pub(crate) fn watch(path: &Path) -> anyhow::Result<ExitCode> {
    loop {
        // The folder is read each time, because an operator may have mended the configuration.
        let lines: Vec<_> = match log_folder(path).map(|dir| (ask(&dir), dir)) {
            Ok((Ok(line), _)) => Screen::of(&line.parse::<Value>()?).lines().collect(),
            Ok((Err(silence), dir)) => lines_of(path, &dir, &silence),
            Err(refusal) => prose(&format!("{refusal}: trying again")),
        };
        let stdout = io::stdout();
        let text = if stdout.is_terminal() { in_place(&lines, size_of(&stdout)) } else { in_a_row(&lines) };
        let mut stdout = stdout.lock();
        if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            // The reader closed the pipe.
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(PERIOD);
    }
}

fn lines_of(path: &Path, dir: &Path, silence: &Silence) -> Vec<Line> {
    let faults = faults_behind(path, silence).map(|faults| faults.to_string()).unwrap_or_default();
    prose(&format!("{}: trying again\n{faults}", silence.describe(dir)))
}

fn prose(text: &str) -> Vec<Line> {
    text.lines().map(|line| Line::Prose(printable(line))).collect()
}

fn size_of(stdout: &io::Stdout) -> (usize, usize) {
    let size = tcgetwinsize(stdout).map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    size.ok().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(USUAL_SIZE)
}

fn in_a_row(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect::<String>() + "\n"
}
