//! Finds the file or folder that a path of the command line names, and reads the configuration there.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::defaults::{APP_FILE, FILE_NAME};
use super::denied::{DENIED, is_denied};
use super::fault::{ConfigError, Fault};
use super::resolved::Config;
use super::sources::source_file;
use super::{file, text, zero};

impl Config {
    /// Reads a configuration file, an `app.toml`, or a folder. The folder may have one of these files or
    /// none.
    ///
    /// # Errors
    /// All faults that were found. The operator mends the file and retries.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::expect_allowed(path)?;
        if let Some(folder) = app_alone(path) {
            return file::resolve_app(&folder, &|name| std::env::var(name).ok());
        }
        let written = if path.is_dir() { written_in(path) } else { path.to_owned() };
        if path.is_dir() && !written.is_file() {
            return zero::resolve(path);
        }
        let text = text::read(&written, "the configuration")?;
        let config = file::resolve(&written, &text, &|name| std::env::var(name).ok())?;
        Ok(Self { text: Some(source_file(&written, &text)), ..config })
    }

    /// Checks that the system lets this user look up the configuration at a path. After a refusal, a file
    /// that exists would look like a missing file.
    ///
    /// # Errors
    /// The path that the system refused.
    pub(crate) fn expect_allowed(path: &Path) -> Result<(), ConfigError> {
        let paths = [path.to_owned(), path.join(FILE_NAME)];
        let refused = paths.iter().find(|path| is_denied(path));
        refused.map_or(Ok(()), |path| Err(Fault::of_file(path, DENIED.to_owned()).into()))
    }

    /// Returns the log folder that a configuration file names, even if the file has faults. `None`: there is
    /// no such file, or it cannot be read.
    ///
    /// # Errors
    /// The system refuses this user the file.
    pub(crate) fn log_dir(path: &Path) -> Result<Option<PathBuf>, ConfigError> {
        if app_alone(path).is_some() {
            return Ok(None);
        }
        let written = if path.is_dir() { written_in(path) } else { path.to_owned() };
        match fs::read(&written) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                Ok(file::log_dir(&written, &text, &|name| std::env::var(name).ok()))
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Err(Fault::of_file(&written, DENIED.to_owned()).into())
            }
            Err(_) => Ok(None),
        }
    }

    /// Reads the configuration of a server. Other commands need no routes.
    ///
    /// # Errors
    /// All faults that were found. A configuration without routes is a fault, because such a file is empty or
    /// half written.
    pub(crate) fn load_to_serve(path: &Path) -> Result<Self, ConfigError> {
        let config = Self::load(path)?;
        if config.server.routes.is_empty() {
            let text = "no route is configured, so there is nothing to serve: add a [[route]], an [[app]], \
                        or a folder routes/ or public/"
                .to_owned();
            return Err(Fault::of_file(&config.source, text).into());
        }
        Ok(config)
    }
}

/// Returns the folder of the app, if a path names an app without the configuration of a server.
fn app_alone(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        let is_alone = !path.join(FILE_NAME).is_file() && path.join(APP_FILE).is_file();
        return is_alone.then(|| path.to_owned());
    }
    let parent = path.parent().filter(|_| path.file_name().is_some_and(|name| name == APP_FILE))?;
    Some(if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() })
}

/// Returns the path of a folder's configuration file, as short as possible.
fn written_in(folder: &Path) -> PathBuf {
    if folder == Path::new(".") { PathBuf::from(FILE_NAME) } else { folder.join(FILE_NAME) }
}
