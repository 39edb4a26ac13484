//! `tollgate test`: the tests of an app, `tests/*.luau` beside its configuration or `app.toml`.
//!
//! Exit codes: 0 all passed, 1 some failed, 2 something could not be run, or there was nothing to run.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_server::{CallError, TestFailure, TestResult, run_tests};
use tracing_subscriber::EnvFilter;

use crate::config::Config;
use crate::print::{note, printable, to_stdout};

/// The folder of the tests, beside the configuration.
const FOLDER: &str = "tests";
/// How the frames of `t` begin.
const OURS: &str = "[t]";

/// Runs the tests whose names have `filter` in them, and prints what each came to.
pub(crate) fn run(path: &Path, filter: &str) -> anyhow::Result<ExitCode> {
    let config = Config::load(path)?;
    let root = root_of(path);
    let files = match files_in(&root.join(FOLDER)) {
        Ok(files) => files,
        Err(text) => {
            note(&text);
            return Ok(ExitCode::from(2));
        }
    };
    show_lines_of_scripts();
    to_stdout(|out| {
        let mut tally = Tally::default();
        for file in &files {
            run_file(out, &mut tally, &config, (file, &root), filter)?;
        }
        writeln!(out, "{} passed, {} failed", tally.passed, tally.failed)?;
        if tally.is_empty() {
            out.flush()?;
            note(&format!("no test has {filter:?} in its name"));
        }
        Ok(tally.exit_code())
    })
}

/// What tests came to so far.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    /// Files whose tests could not be run.
    unusable: usize,
}

impl Tally {
    fn is_empty(&self) -> bool {
        self.passed + self.failed + self.unusable == 0
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self { unusable: 1.., .. } => ExitCode::from(2),
            Self { failed: 1.., .. } => ExitCode::FAILURE,
            Self { passed: 1.., .. } => ExitCode::SUCCESS,
            _ => ExitCode::from(2),
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
    let mut told = Ok(());
    let ran = run_tests(&config.server, app_in(root, config), (file, root), filter, |result| {
        *(if result.failure.is_none() { &mut tally.passed } else { &mut tally.failed }) += 1;
        if told.is_ok() {
            told = tell(out, &shown, &result);
        }
    });
    told?;
    if let Err(error) = ran {
        tally.unusable += 1;
        out.flush()?;
        note(&format!("{shown}: {error}"));
    }
    Ok(())
}

/// The app whose folder this is, if it is one.
fn app_in(root: &Path, config: &Config) -> Option<usize> {
    let resolved = |folder: &Path| fs::canonicalize(folder).ok();
    let root = resolved(root)?;
    config.mounts.iter().position(|mount| resolved(&mount.dir).is_some_and(|dir| dir == root))
}

/// The folder of the configuration.
fn root_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
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
        return Err(format!("no test: {} has no *.luau", folder.display()));
    }
    files.sort();
    Ok(files)
}

/// What scripts and tests print is for whoever runs them; what fails is told with its test.
fn show_lines_of_scripts() {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off,tollgate::script=info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .init();
}

fn tell(out: &mut dyn Write, file: &str, result: &TestResult) -> std::io::Result<()> {
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
    tell_indented(out, &text)?;
    notes.iter().try_for_each(|note| tell_indented(out, note))
}

/// The message, and the frames of files below the first, if there are any.
fn with_callers(message: &str, traceback: &str) -> String {
    let frames = traceback.lines().map(str::trim).filter(|frame| !frame.starts_with('['));
    frames.skip(1).fold(message.to_owned(), |text, frame| format!("{text}\n  {frame}"))
}

fn tell_indented(out: &mut dyn Write, text: &str) -> std::io::Result<()> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(OURS));
    lines
        .map(|line| line.replace('\t', "  "))
        .try_for_each(|line| writeln!(out, "      {}", printable(&line)))
}
