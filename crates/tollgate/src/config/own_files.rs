//! What the server writes and runs is for nobody to fetch, nor for scripts to write over: folders are compared where their
//! links lead.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_server::{HandlerSpec, RouteSpec};

use super::app::{APP_FILE, Mount};
use super::database::ReadDatabase;
use super::routes::Routes;
use super::section::Section;
use super::sink::Sink;

/// Below the folder of a configuration or an app: modules that scripts load.
const MODULES: &str = "lib";

/// Something of the server's own, by its name in faults.
pub(super) struct OwnFile {
    name: String,
    path: PathBuf,
    /// Where that leads.
    found: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    File,
}

impl OwnFile {
    /// A folder: nobody may have it, nor anything in it.
    pub(super) fn folder(name: &str, path: &Path) -> Self {
        Self { name: name.to_owned(), path: path.to_owned(), found: resolved(path), kind: Kind::Folder }
    }

    /// A file.
    pub(super) fn file(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { name: name.into(), found: resolved(&path), path, kind: Kind::File }
    }

    /// Whether it lies in a folder, or the folder in it.
    fn is_reached_from(&self, folder: &Path) -> bool {
        self.found.starts_with(folder) || (self.kind == Kind::Folder && folder.starts_with(&self.found))
    }
}

/// The files of sinks.
pub(super) fn files_of_sinks(sinks: &[Sink]) -> Vec<OwnFile> {
    let mut files = Vec::new();
    for sink in sinks {
        let name = sink.name();
        files.extend(sink.sqlite().map(|path| OwnFile::file(format!("sqlite in [sink.{name}]"), path)));
        let after = sink.options.after_load.as_ref();
        files.extend(after.map(|path| OwnFile::file(format!("after_load in [sink.{name}]"), path)));
    }
    files
}

/// The files of databases that scripts ask.
pub(super) fn files_of_databases(databases: &[ReadDatabase]) -> Vec<OwnFile> {
    let named = databases.iter().filter_map(|database| Some((database.name(), database.sqlite()?)));
    named.map(|(name, path)| OwnFile::file(format!("sqlite in [database.{name}]"), path)).collect()
}

/// The files of apps and the scripts of routes, with the folders of their modules.
pub(super) fn files_of_scripts(mounts: &[Mount], routes: &[RouteSpec]) -> Vec<OwnFile> {
    let mut files: Vec<_> =
        mounts.iter().map(|mount| OwnFile::file(mount.name(), mount.dir.join(APP_FILE))).collect();
    for route in routes {
        for (file, root) in route.scripts() {
            let name = format!("the script of route {:?}", route.path);
            files.push(OwnFile::file(name, file));
            files.push(OwnFile::folder("the modules of scripts", &root.join(MODULES)));
        }
    }
    files
}

/// Folders of routes, by the key that names them.
struct Folders {
    key: &'static str,
    of: fn(&RouteSpec) -> Option<&Path>,
    /// What they are apart from.
    never: &'static str,
}

const SERVED: Folders = Folders {
    key: "files",
    of: |route| match &route.handler {
        HandlerSpec::Files(files) => Some(&files.root),
        _ => None,
    },
    never: "nobody may fetch",
};
const SENT: Folders = Folders {
    key: "file_dir",
    of: |route| route.access.files.as_ref().map(|files| files.root.as_path()),
    never: "nobody may fetch",
};
const WRITTEN_TO: Folders = Folders {
    key: "upload_dir",
    of: |route| route.access.uploads.as_ref().map(|uploads| uploads.dir.as_path()),
    never: "scripts must not write over",
};

/// Tells which routes give out what is the server's own, by themselves or by their scripts.
pub(super) fn check_served(root: &Section<'_>, routes: &Routes, own: &[OwnFile]) {
    SERVED.check(root, routes, own);
    SENT.check(root, routes, own);
}

/// Tells which routes have scripts that may write over what is the server's own.
pub(super) fn check_written_to(root: &Section<'_>, routes: &Routes, own: &[OwnFile]) {
    WRITTEN_TO.check(root, routes, own);
}

impl Folders {
    /// Each folder is told once.
    fn check(&self, root: &Section<'_>, routes: &Routes, own: &[OwnFile]) {
        let mut told = Vec::new();
        for (route, place) in routes.specs.iter().zip(&routes.places) {
            let Some(folder) = (self.of)(route).filter(|folder| !told.contains(folder)) else { continue };
            told.push(folder);
            let reached = reached_from(folder, own);
            if !reached.is_empty() {
                let Self { key, never, .. } = self;
                let (path, folder, reached) = (&route.path, folder.display(), reached.join(", "));
                let text = format!(
                    "{key} of route {path:?} is {folder}, allowed is a folder apart from what {never}: {reached}"
                );
                root.add_faults(vec![place.fault(text)]);
            }
        }
    }
}

/// What lies in a folder or around it, each by its first name.
fn reached_from(folder: &Path, own: &[OwnFile]) -> Vec<String> {
    let folder = resolved(folder);
    let mut known = Vec::new();
    let reached = own.iter().filter(|own| own.is_reached_from(&folder)).filter(|own| {
        let is_new = !known.contains(&&own.path);
        known.push(&own.path);
        is_new
    });
    reached.map(|own| format!("{} ({})", own.name, own.path.display())).collect()
}

/// Where a path leads, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match there {
        Some((above, found)) => path.strip_prefix(above).map_or(found.clone(), |rest| found.join(rest)),
        None => path.to_owned(),
    }
}
