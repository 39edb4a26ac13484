//! `tollgate log`: looks into logs, follows them, checks them, and mends them by hand.
//!
//! Only `repair` changes anything; a server that writes is disturbed by none of it.

mod cat;
mod dump;
mod format;
mod ls;
mod repair;
mod tail;
mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use tollgate_log::{DiskStorage, LogId, SegmentName, SegmentState, log_ids, segments};

use crate::cli::LogCommand;
use crate::config::{APP_FILE, Config, ConfigError, FILE_NAME, LOG_DIR};
use crate::print::note;
pub(crate) use format::UnknownStream;

/// Runs one of the commands.
pub(crate) fn run(command: LogCommand) -> anyhow::Result<ExitCode> {
    match command {
        LogCommand::Ls { dir } => ls::run(&dir),
        LogCommand::Cat { dir, stream, log, format } => cat::run(&dir, stream.as_deref(), log, format),
        LogCommand::Tail { dir, stream, format, lines } => tail::run(&dir, stream.as_deref(), format, lines),
        LogCommand::Verify { dir } => verify::run(&dir),
        LogCommand::Dump { file } => dump::run(&file),
        LogCommand::Repair { dir, dry_run } => repair::run(&dir, dry_run),
    }
}

/// What a path of the command line means.
struct Place {
    /// The log folder.
    dir: PathBuf,
    /// The configuration that names it; none where a bare log folder was given.
    config: Option<Config>,
}

impl Place {
    fn find(path: &Path) -> anyhow::Result<Self> {
        let is_configured = path.is_file() || path.join(FILE_NAME).is_file();
        let config = match (is_configured, is_app(path)) {
            (true, _) => Some(Config::load(path)?),
            // A folder whose routes are faulty has a log all the same.
            (false, true) => Config::load(path).ok(),
            (false, false) => None,
        };
        let dir = config.as_ref().map_or_else(|| below(path), |config| config.log.dir.clone());
        if !dir.is_dir() {
            bail!("{} is no folder: nothing was recorded yet", dir.display());
        }
        Ok(Self { dir, config })
    }
}

fn is_app(path: &Path) -> bool {
    path.join("routes").is_dir() || path.join(APP_FILE).is_file()
}

/// The log folder that a path means where no configuration names one.
fn below(path: &Path) -> PathBuf {
    let below = path.join(LOG_DIR);
    if is_app(path) || below.is_dir() { below } else { path.to_owned() }
}

/// The log folder of the server that serves by a path. It may serve by what was written there before, so a configuration that
/// is faulty by now, or whose variables nobody set here, is asked for this one thing.
pub(crate) fn log_folder(path: &Path) -> PathBuf {
    match Config::log_dir(path) {
        Some(dir) => dir,
        None if path.is_dir() => below(path),
        None => path.parent().unwrap_or(path).join(LOG_DIR),
    }
}

/// What is wrong with a path behind which no server answers: it is no log folder, and names no sound configuration.
pub(crate) fn expect_place(path: &Path) -> Result<(), ConfigError> {
    match log_ids(&DiskStorage, path) {
        Ok(ids) if !ids.is_empty() => Ok(()),
        _ => Config::load(path).map(drop),
    }
}

/// The logs in a folder; says so if there is none yet.
///
/// # Errors
/// It cannot be read, or is another folder: nobody is to be told that nothing is wrong with the logs in it.
fn logs_in(dir: &Path) -> anyhow::Result<Vec<LogId>> {
    let ids = log_ids(&DiskStorage, dir)?;
    if ids.is_empty() {
        // A server takes the lock of its folder before it has a log; each log has one of its own.
        let is_log = dir.file_name().and_then(|name| name.to_str()?.parse::<LogId>().ok()).is_some();
        if is_log || !dir.join("lock").is_file() {
            bail!("{} is no log folder: no log is in it, nor was a server there", dir.display());
        }
        note(&format!("no log in {}", dir.display()));
    }
    Ok(ids)
}

/// The sealer may have renamed a segment since it was listed.
fn settled(name: SegmentName, path: PathBuf) -> (SegmentName, PathBuf) {
    let sealed = name.with_state(SegmentState::Sealed);
    match path.parent().map(|folder| sealed.path(folder)) {
        Some(renamed) if name.state == SegmentState::Open && !path.exists() && renamed.exists() => {
            (sealed, renamed)
        }
        _ => (name, path),
    }
}

/// Bytes of all segments of some logs, for progress: what cannot be read counts nothing.
fn bytes_of(dir: &Path, logs: &[LogId]) -> u64 {
    let files = logs.iter().filter_map(|log| segments(&DiskStorage, dir, *log).ok()).flatten();
    files.filter_map(|(_, path)| fs::metadata(path).ok()).map(|file| file.len()).sum()
}

#[cfg(test)]
mod tests;
