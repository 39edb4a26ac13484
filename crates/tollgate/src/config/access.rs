//! The folders and databases that scripts may reach outside of their VM. `[script]` sets them for all routes,
//! and a route for its own scripts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_log::LogOptions;
use tollgate_server::{Database, FilesSpec, ScriptAccess, Uploads};

use super::defaults::spool_reserve_bytes;
use super::fault::did_you_mean;
use super::files::checked_dir;
use super::key::{Facts, OwnValue};
use super::quoted::{quoted_list, quoted_path};
use super::section::{Section, Written};

/// The folders and databases that a section may name, and its defaults.
#[derive(Clone)]
pub(super) struct Reachable<'a> {
    /// The folder that other folders are relative to.
    pub(super) folder: &'a Path,
    pub(super) log: &'a LogOptions,
    /// The databases that a section may name.
    pub(super) databases: &'a [Arc<dyn Database>],
    /// The access of a section that sets none of these keys.
    pub(super) access: ScriptAccess,
}

/// The keys of a section for the access of its scripts.
pub(super) struct AccessKeys {
    pub(super) files: &'static Facts,
    pub(super) uploads: &'static Facts,
    pub(super) databases: &'static Facts,
}

/// Takes the keys.
pub(super) fn access(
    section: &mut Section<'_>,
    keys: &AccessKeys,
    reachable: &Reachable<'_>,
) -> ScriptAccess {
    let Reachable { folder, log, databases, access: default } = reachable;
    let mut dir = |key: &'static str| {
        let dir = section.text(key)?;
        checked_dir(section, key, &dir, folder)
    };
    let files = dir(keys.files.name).map(|root| Box::new(FilesSpec::new(root)));
    let uploads = dir(keys.uploads.name).map(|dir| uploads(dir, log));
    let readable = section.texts(keys.databases.name).map(|names| readable(section, names, databases));
    ScriptAccess {
        databases: readable.unwrap_or_else(|| default.databases.clone()),
        files: files.or_else(|| default.files.clone()),
        uploads: uploads.or_else(|| default.uploads.clone()),
    }
}

/// Returns the databases with these names.
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

/// Makes the folder of uploads. Uploads leave the same reserve free on their disk as spooled bodies.
pub(super) fn uploads(dir: PathBuf, log: &LogOptions) -> Uploads {
    Uploads { reserve_bytes: spool_reserve_bytes(log, &dir), dir }
}

/// Shows the keys.
pub(super) fn show(access: &ScriptAccess, keys: &AccessKeys) -> [OwnValue; 3] {
    let files = access.files.as_ref().map(|files| quoted_path(&files.root));
    let uploads = access.uploads.as_ref().map(|uploads| quoted_path(&uploads.dir));
    let names = access.databases.iter().map(|database| database.name());
    let databases = (!access.databases.is_empty()).then(|| quoted_list(names));
    [(keys.files.name, files), (keys.uploads.name, uploads), (keys.databases.name, databases)]
}
