//! `tollgate log cat`: prints the present records of the logs.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::bail;
use tollgate_log::LogId;

use super::folder::{LogFolder, logs_in};
use super::follower::{Reach, Start};
use super::format::Printer;
use super::read::{Reading, end_flag, start_of};
use crate::cli::{ReadCommand, RecordFormat, WrongUsage};
use crate::progress::Progress;

/// Prints the records of all logs, or of one log.
pub(super) fn run(read: &ReadCommand, only: Option<LogId>, format: RecordFormat) -> anyhow::Result<ExitCode> {
    if let (Some(only), Some(from)) = (only, read.from)
        && only != from.log
    {
        bail!(WrongUsage("--log and --from name two logs: name one"));
    }
    let LogFolder { dir, config } = LogFolder::find(&read.dir)?;
    let ids = only.map_or_else(|| logs_in(&dir), |log| Ok(vec![log]))?;
    let printer = Printer::new(format, read.stream.as_deref(), config.as_ref())?;
    let start = start_of(read).unwrap_or(Start::Kept);
    // A power cut may remove records that are not synced. A position after such records would then be wrong.
    let reach = if read.position.is_some() { Reach::Synced } else { Reach::Written };
    let is_ended = read.position.is_some().then(end_flag).transpose()?;
    let has_ended = || is_ended.as_ref().is_some_and(|is_ended| is_ended.load(Ordering::Relaxed));
    Reading::new(read, &dir, printer, reach, only, start)?.print(
        |reading, out| {
            let _progress = progress(&dir, &ids);
            while reading.look(out)? && !has_ended() {}
            Ok(())
        },
        Reading::verdict,
    )
}

/// Shows progress, but not if the records themselves go to a terminal.
fn progress(dir: &Path, ids: &[LogId]) -> Option<Progress> {
    if std::io::stdout().is_terminal() { None } else { Some(Progress::of_logs("cat", dir, ids, 1)) }
}
