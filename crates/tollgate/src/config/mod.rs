//! The configuration: one TOML file or a folder without one, checked as a whole before anything starts.
//!
//! [`mod@file`] reads what is written and [`zero`] what a folder implies; both give [`Config`], which prints itself as TOML
//! that reads back to the same. Every fault is told at once, each with its place, what was found and what is allowed.

mod access;
mod ack;
mod admin;
mod app;
mod backend;
mod backend_tls;
mod changes;
mod cors;
mod database;
mod defaults;
mod env;
mod fault;
mod file;
mod files;
mod handler;
mod inside;
mod listen;
mod log;
mod methods;
mod own_files;
mod path;
mod proxy;
mod quoted;
mod reach;
mod resolved;
mod route;
mod route_limits;
mod routes;
mod rules;
mod script;
mod section;
mod server;
mod sink;
mod sources;
mod stream;
mod text;
mod units;
mod zero;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use admin::{Admin, AdminListen, Token};
pub(crate) use app::Mount;
pub(crate) use changes::Change;
pub(crate) use defaults::{APP_FILE, FILE_NAME, LOG_DIR};
pub(crate) use fault::{ConfigError, Fault, did_you_mean};
pub(crate) use resolved::Config;
pub(crate) use sink::{LoadedBy, Sink, UnknownSink};
use sources::source_file;
pub(crate) use units::show_size;

impl Config {
    /// Reads a configuration file, an `app.toml`, or a folder with one of them or none.
    ///
    /// # Errors
    /// Every fault that was found. The operator's: change the file, then retry.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
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

    /// The log folder that a configuration file means, however faulty it is. None: none can be read there.
    pub(crate) fn log_dir(path: &Path) -> Option<PathBuf> {
        if app_alone(path).is_some() {
            return None;
        }
        let written = if path.is_dir() { written_in(path) } else { path.to_owned() };
        let text = fs::read(&written).ok()?;
        file::log_dir(&written, &String::from_utf8_lossy(&text), &|name| std::env::var(name).ok())
    }

    /// Reads what a server is to serve by. Who only loads or asks needs no routes.
    ///
    /// # Errors
    /// Every fault that was found, or that nothing is served: a file that is empty, or half written, is nobody's wish.
    pub(crate) fn load_to_serve(path: &Path) -> Result<Self, ConfigError> {
        let config = Self::load(path)?;
        if config.server.routes.is_empty() {
            let text = "no route comes of it, by [[route]], by [[app]], or by leaving them to its folder: nothing to serve".to_owned();
            return Err(Fault::of_file(&config.source, text).into());
        }
        Ok(config)
    }
}

/// The folder of an app that is named by itself.
fn app_alone(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        let is_alone = !path.join(FILE_NAME).is_file() && path.join(APP_FILE).is_file();
        return is_alone.then(|| path.to_owned());
    }
    let parent = path.parent().filter(|_| path.file_name().is_some_and(|name| name == APP_FILE))?;
    Some(if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() })
}

/// The configuration file of a folder, named as briefly as the folder allows.
fn written_in(folder: &Path) -> PathBuf {
    if folder == Path::new(".") { PathBuf::from(FILE_NAME) } else { folder.join(FILE_NAME) }
}
