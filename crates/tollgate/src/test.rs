//! `tollgate test`: the tests of an app, `tests/*.luau` next to its configuration or `app.toml`.
//!
//! Exit codes: 0 all passed, 1 some failed, 2 a file could not be run, or there was nothing to run.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tollgate_server::{CallError, TestFailure, TestResult, run_tests};
use tracing_subscriber::EnvFilter;

use crate::colour;
use crate::config::{Config, ConfigError};
use crate::print::{fault, note, printable, to_stdout, to_stdout_marked};
use crate::tracing_lines::Indented;
use crate::watch::{Watch, Watched};

/// The folder of the tests, next to the configuration.
pub(crate) const FOLDER: &str = "tests";
/// The beginning of stack frames of `t`.
const OURS: &str = "[t]";

/// Exit code when a file could not be run.
const UNUSABLE: u8 = 2;

/// Runs the tests whose names contain `filter`, and prints the result of each.
pub(crate) fn run(path: &Path, filter: &str) -> anyhow::Result<ExitCode> {
    let config = Config::load(path)?;
    show_lines_of_scripts();
    run_once(path, &config, filter).map(ExitCode::from)
}

/// Runs the tests after each change of a file, until a signal. The last run decides the exit code.
pub(crate) fn run_watching(path: &Path, filter: &str) -> anyhow::Result<ExitCode> {
    let mut watch = Watch::new()?;
    let last = end_by_signals()?;
    show_lines_of_scripts();
    let mut watched = Watched::at(path);
    loop {
        // The watch begins before the tests, so that changes during the tests are noticed.
        watch.look_at(&watched);
        let code = match Config::load(path) {
            Ok(config) => {
                watched = Watched::of(path, &config);
                watch.look_at(&watched);
                run_once(path, &config, filter)?
            }
            Err(error) => {
                print_faults(&error);
                UNUSABLE
            }
        };
        last.store(code, Ordering::Relaxed);
        to_stdout(|out| {
            writeln!(out, "watching for changes, Ctrl-C ends")?;
            Ok(ExitCode::SUCCESS)
        })?;
        watch.wait();
    }
}

/// An error is ignored, because a reader that closed stderr needs no more lines.
fn print_faults(error: &ConfigError) {
    let mut stderr = std::io::stderr().lock();
    let _ = error.faults.iter().try_for_each(|error| writeln!(stderr, "{}", fault(&error.to_string())));
}

/// Starts a thread that ends the process at a signal, with the last exit code in the returned cell.
fn end_by_signals() -> anyhow::Result<Arc<AtomicU8>> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen for signals")?;
    let last = Arc::new(AtomicU8::new(UNUSABLE));
    let code = last.clone();
    let end = move || {
        if signals.forever().next().is_some() {
            process::exit(i32::from(code.load(Ordering::Relaxed)));
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(end)
        .context("cannot start the thread of signals")?;
    Ok(last)
}

/// Runs the tests, and returns the exit code.
fn run_once(path: &Path, config: &Config, filter: &str) -> anyhow::Result<u8> {
    let root = root_of(path);
    let files = match files_in(&root.join(FOLDER)) {
        Ok(files) => files,
        Err(text) => {
            note(&text);
            return Ok(UNUSABLE);
        }
    };
    // A reader that closed the pipe needs no more lines.
    let mut code = 0;
    to_stdout_marked(|out| {
        let mut tally = Tally::default();
        for file in &files {
            run_file(out, &mut tally, config, (file, &root), filter)?;
        }
        writeln!(out, "{} passed, {} failed", tally.passed, tally.failed)?;
        if tally.is_empty() {
            out.flush()?;
            note(&format!("no test has {filter:?} in its name"));
        }
        code = tally.exit_code();
        Ok(ExitCode::SUCCESS)
    })?;
    Ok(code)
}

/// The results of the tests so far.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    /// Number of files whose tests could not be run.
    unusable: usize,
}

impl Tally {
    fn is_empty(&self) -> bool {
        self.passed + self.failed + self.unusable == 0
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self { unusable: 1.., .. } => UNUSABLE,
            Self { failed: 1.., .. } => 1,
            Self { passed: 1.., .. } => 0,
            _ => UNUSABLE,
        }
    }
}

fn run_file(
    out: &mut dyn Write,
    tally: &mut Tally,
    config: &Config,
    (file, root): (&Path, &Path),
    filter: &str,
) -> anyhow::Result<()> {
    let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let mut printed = Ok(());
    let ran = run_tests(&config.server, app_in(root, config), (file, root), filter, |result| {
        *(if result.failure.is_none() { &mut tally.passed } else { &mut tally.failed }) += 1;
        if printed.is_ok() {
            printed = print_result(out, &shown, &result);
        }
    });
    printed?;
    if let Err(error) = ran {
        tally.unusable += 1;
        out.flush()?;
        note(&format!("{shown}: {error}"));
    }
    Ok(())
}

/// Returns the app in this folder, if there is one.
fn app_in(root: &Path, config: &Config) -> Option<usize> {
    let resolved = |folder: &Path| fs::canonicalize(folder).ok();
    let root = resolved(root)?;
    config.mounts.iter().position(|mount| resolved(&mount.dir).is_some_and(|dir| dir == root))
}

/// Returns the folder of the configuration.
pub(crate) fn root_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

pub(crate) fn files_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "luau") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(format!("no tests: {} has no *.luau file", folder.display()));
    }
    files.sort();
    Ok(files)
}

/// Prints the lines of scripts and tests on stderr for the user of the command. A failure is printed together
/// with its test.
fn show_lines_of_scripts() {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off,tollgate::script=info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Indented(std::io::stderr().lock()))
        .with_ansi(colour::is_on(&std::io::stderr()))
        .without_time()
        .with_target(false)
        .init();
}

fn print_result(out: &mut dyn Write, file: &str, result: &TestResult) -> std::io::Result<()> {
    let TestResult { name, line, failure } = result;
    let Some(TestFailure { error, notes }) = failure else {
        return writeln!(out, "ok    {file}: {name}");
    };
    writeln!(out, "FAIL  {file}: {name}")?;
    let text = match error {
        CallError::Script { message, traceback } if message.contains(".luau:") => {
            with_callers(message, traceback)
        }
        other => format!("{file}:{line}: {other}"),
    };
    print_indented(out, &text)?;
    notes.iter().try_for_each(|note| print_indented(out, note))
}

/// Returns the message, then the frames of the traceback that called the failing line, each on a line.
fn with_callers(message: &str, traceback: &str) -> String {
    let frames = traceback.lines().map(str::trim).filter(|frame| !frame.starts_with('['));
    frames.skip(1).fold(message.to_owned(), |text, frame| format!("{text}\n  {frame}"))
}

fn print_indented(out: &mut dyn Write, text: &str) -> std::io::Result<()> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(OURS));
    lines
        .map(|line| line.replace('\t', "  "))
        .try_for_each(|line| writeln!(out, "      {}", printable(&line)))
}
