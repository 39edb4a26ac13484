//! The configuration: one TOML file or a folder without one, checked as a whole before anything starts.
//!
//! [`mod@file`] reads what is written and [`zero`] what a folder implies; both give [`Config`], which prints itself as TOML
//! that reads back to the same. Every fault is told at once, each with its place, what was found and what is allowed.

mod access;
mod ack;
mod backend;
mod changes;
mod cors;
mod database;
mod env;
mod fault;
mod file;
mod files;
mod listen;
mod proxy;
mod reach;
mod resolved;
mod route;
mod rules;
mod section;
mod sink;
mod stream;
mod units;
mod zero;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use changes::Change;
pub(crate) use fault::{ConfigError, Fault};
pub(crate) use resolved::Config;
pub(crate) use sink::{LoadedBy, Sink, UnknownSink};

/// The name of the file that a folder is looked up for.
pub(crate) const FILE_NAME: &str = "tollgate.toml";

impl Config {
    /// Reads a configuration file, or the folder of an app with or without one.
    ///
    /// # Errors
    /// Every fault that was found. The operator's: change the file, then retry.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let written = if path.is_dir() { written_in(path) } else { path.to_owned() };
        if path.is_dir() && !written.is_file() {
            return zero::resolve(path);
        }
        let text = fs::read_to_string(&written)
            .map_err(|error| Fault::of_file(&written, format!("cannot read the configuration: {error}")))?;
        file::resolve(&written, &text, &|name| std::env::var(name).ok())
    }
}

/// The configuration file of a folder, named as briefly as the folder allows.
fn written_in(folder: &Path) -> PathBuf {
    if folder == Path::new(".") { PathBuf::from(FILE_NAME) } else { folder.join(FILE_NAME) }
}
