//! What scripts may reach outside of their VM: folders, by keys of `[script]` for all routes, and of a route for its own.

use std::path::{Path, PathBuf};

use std::sync::Arc;
use tollgate_log::LogOptions;

use tollgate_server::{Database, FilesSpec, ScriptAccess, Uploads};

use super::fault::did_you_mean;
use super::files::checked_dir;
use super::resolved::spool_reserve_bytes;
use super::section::{Section, Written};

/// Takes the keys; what is not there is as `default` says. Folders are relative to `folder`.
pub(super) fn access(
    section: &mut Section<'_>,
    folder: &Path,
    log: &LogOptions,
    databases: &[Arc<dyn Database>],
    default: &ScriptAccess,
) -> ScriptAccess {
    let mut dir = |key: &'static str| {
        let dir = section.text(key)?;
        Some(checked_dir(section, key, &dir, folder))
    };
    let files = dir("file_dir").map(|root| Box::new(FilesSpec::new(root)));
    let uploads = dir("upload_dir").map(|dir| uploads(dir, log));
    let readable = section.texts("databases").map(|names| readable(section, names, databases));
    ScriptAccess {
        databases: readable.unwrap_or_else(|| default.databases.clone()),
        files: files.or_else(|| default.files.clone()),
        uploads: uploads.or_else(|| default.uploads.clone()),
    }
}

/// The databases of these names.
fn readable(
    section: &Section<'_>,
    names: Vec<Written<String>>,
    databases: &[Arc<dyn Database>],
) -> Vec<Arc<dyn Database>> {
    let find = |name: Written<String>| {
        let found = databases.iter().find(|database| database.name() == name.value).cloned();
        if found.is_none() {
            let hint = did_you_mean(&name.value, databases.iter().map(|database| database.name()));
            section.fault_at(&name.span, format!("unknown database {:?}{hint}", name.value));
        }
        found
    };
    names.into_iter().filter_map(find).collect()
}

/// Uploads leave as much of their disk free as spooled bodies do.
pub(super) fn uploads(dir: PathBuf, log: &LogOptions) -> Uploads {
    Uploads { reserve_bytes: spool_reserve_bytes(log, &dir), dir }
}
