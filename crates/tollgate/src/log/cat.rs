//! `tollgate log cat`: prints the present records of the logs.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use tollgate_log::{Cursor, CursorStep, DiskStorage, LogError, LogId, Sequence};

use super::folder::{LogFolder, bytes_of, logs_in};
use super::format::Printer;
use crate::cli::RecordFormat;
use crate::print::{note, to_stdout};
use crate::progress::Progress;

/// Prints the records of every log, or of one.
pub(super) fn run(
    path: &Path,
    stream: Option<&str>,
    only: Option<LogId>,
    format: RecordFormat,
) -> anyhow::Result<ExitCode> {
    let LogFolder { dir, config } = LogFolder::find(path)?;
    let ids = match only {
        Some(log) if !dir.join(log.to_string()).is_dir() => bail!("no log {log} in {}", dir.display()),
        Some(log) => vec![log],
        None => logs_in(&dir)?,
    };
    let mut printer = Printer::new(format, stream, config.as_ref())?;
    to_stdout(|out| {
        let _progress = progress(&dir, &ids);
        printer.begin(out)?;
        let mut is_whole = true;
        for log in ids {
            is_whole &= match cat_log(&dir, log, &mut printer, out) {
                // The log may have a later version, for example. The other logs are read nevertheless.
                Err(error) if error.is::<LogError>() => {
                    out.flush()?;
                    note(&format!("log {log}: {error:#}"));
                    false
                }
                result => result?,
            };
        }
        printer.finish();
        if !is_whole {
            return Ok(ExitCode::FAILURE);
        }
        printer.expect_stream()?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Shows progress, but not if the records themselves go to a terminal.
fn progress(dir: &Path, ids: &[LogId]) -> Option<Progress> {
    use std::io::IsTerminal;
    if std::io::stdout().is_terminal() { None } else { Some(Progress::of("cat", bytes_of(dir, ids))) }
}

/// Prints one log to its present end. Returns whether no record was missing.
pub(super) fn cat_log(
    dir: &Path,
    log: LogId,
    printer: &mut Printer,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let mut cursor = Cursor::over_kept(Arc::new(DiskStorage), dir, log, None);
    let mut is_whole = true;
    loop {
        match cursor.step(None)? {
            CursorStep::CaughtUp => break,
            CursorStep::Batch(batch) => is_whole &= printer.print(log, &batch, Sequence::FIRST, out)?,
            CursorStep::Gap(gap) => {
                is_whole = false;
                out.flush()?;
                note(&format!("log {log}: records {}-{} are missing: {}", gap.first, gap.last, gap.reason));
            }
        }
    }
    printer.know(cursor.schemas().map(|(_, schema)| schema.stream()));
    Ok(is_whole)
}
