//! The log folder that a path of the command line names, and the logs in it.

use std::path::{Path, PathBuf};

use anyhow::bail;
use tollgate_log::{DiskStorage, LogId, SegmentName, SegmentState, log_ids};

use crate::config::{APP_FILE, Config, ConfigError, FILE_NAME, LOG_DIR, denial};
use crate::print::note;

/// The log folder that a path names, directly or through a configuration.
pub(super) struct LogFolder {
    pub(super) dir: PathBuf,
    /// The configuration that names the log folder. `None`: the path is the log folder itself.
    pub(super) config: Option<Config>,
}

impl LogFolder {
    /// Finds the folder.
    ///
    /// # Errors
    /// The configuration is faulty, nothing was recorded yet, or the system refuses this user the folder.
    pub(super) fn find(path: &Path) -> anyhow::Result<Self> {
        Config::expect_allowed(path)?;
        let is_configured = path.is_file() || path.join(FILE_NAME).is_file();
        let config = match (is_configured, is_app(path)) {
            (true, _) => Some(Config::load(path)?),
            // An app folder with faulty routes still has a log folder.
            (false, true) => Config::load(path).ok(),
            (false, false) => None,
        };
        let dir = config.as_ref().map_or_else(|| below(path), |config| config.log.dir.clone());
        if let Some(refusal) = denial(&dir) {
            bail!(refusal);
        }
        if !dir.is_dir() {
            bail!(
                "the log folder {} does not exist: nothing was recorded yet, or the path is wrong",
                dir.display()
            );
        }
        Ok(Self { dir, config })
    }
}

fn is_app(path: &Path) -> bool {
    path.join("routes").is_dir() || path.join(APP_FILE).is_file()
}

/// Returns the log folder of a path whose configuration names none.
fn below(path: &Path) -> PathBuf {
    let below = path.join(LOG_DIR);
    if is_app(path) || below.is_dir() { below } else { path.to_owned() }
}

/// Returns the log folder of the server that a path configures.
///
/// The server may have read an earlier text of the configuration. The folder is therefore also read from a
/// text that is faulty now, or whose variables are not set for this command.
///
/// # Errors
/// The system refuses this user the configuration, so the folder is unknown.
pub(crate) fn log_folder(path: &Path) -> Result<PathBuf, ConfigError> {
    Config::expect_allowed(path)?;
    Ok(match Config::log_dir(path)? {
        Some(dir) => dir,
        None if path.is_dir() => below(path),
        None => path.parent().unwrap_or(path).join(LOG_DIR),
    })
}

/// Checks a path whose server does not answer. The path must be a log folder, or name a configuration without
/// faults.
///
/// # Errors
/// All faults of the configuration.
pub(crate) fn expect_place(path: &Path) -> Result<(), ConfigError> {
    match log_ids(&DiskStorage, path) {
        Ok(ids) if !ids.is_empty() => Ok(()),
        _ => Config::load(path).map(drop),
    }
}

/// Returns the logs in a folder, and prints a note if there is none yet.
///
/// # Errors
/// The folder cannot be read, or is no log folder. Without this error, a wrong path would look like a log
/// without faults.
pub(super) fn logs_in(dir: &Path) -> anyhow::Result<Vec<LogId>> {
    let ids = log_ids(&DiskStorage, dir)?;
    if ids.is_empty() {
        // A server makes the lock file of the log folder before its first log. The folder of a single log
        // also has a lock file, so its name is checked too.
        let is_log = dir.file_name().and_then(|name| name.to_str()?.parse::<LogId>().ok()).is_some();
        if is_log || !dir.join("lock").is_file() {
            bail!("{} is not a log folder: it has no log and no lock file of a server", dir.display());
        }
        note(&format!("no log in {}", dir.display()));
    }
    Ok(ids)
}

/// Returns the present name of a segment. The sealer may have renamed the file since the segments were
/// listed.
pub(super) fn settled(name: SegmentName, path: PathBuf) -> (SegmentName, PathBuf) {
    let sealed = name.with_state(SegmentState::Sealed);
    match path.parent().map(|folder| sealed.path(folder)) {
        Some(renamed) if name.state == SegmentState::Open && !path.exists() && renamed.exists() => {
            (sealed, renamed)
        }
        _ => (name, path),
    }
}
