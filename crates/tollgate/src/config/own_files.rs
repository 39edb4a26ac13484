//! What the server writes and runs is for nobody to fetch, nor for scripts to write over: folders are compared where their
//! links lead.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_server::{HandlerSpec, RouteSpec};

use super::app::{APP_FILE, Mount};
use super::routes::Routes;
use super::section::Section;
use super::sink::Sink;

/// Below the folder of a configuration or an app: modules that scripts load.
const MODULES: &str = "lib";

/// Something of the server's own, by its name in faults.
pub(super) struct OwnFile {
    name: String,
    path: PathBuf,
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
        Self { name: name.to_owned(), path: path.to_owned(), kind: Kind::Folder }
    }

    /// A file.
    pub(super) fn file(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), path: path.into(), kind: Kind::File }
    }

    /// Whether it lies in a folder, or the folder in it.
    fn is_reached_from(&self, folder: &Path) -> bool {
        let own = resolved(&self.path);
        own.starts_with(folder) || (self.kind == Kind::Folder && folder.starts_with(&own))
    }
}

/// The files of sinks that others must not write over.
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

/// Tells which routes serve a folder that the server writes.
pub(super) fn check_served(root: &Section<'_>, routes: &[RouteSpec], folders: &[(&str, &Path)]) {
    for route in routes {
        let files = match &route.handler {
            HandlerSpec::Files(files) => files,
            _ => match &route.access.files {
                Some(files) => files,
                None => continue,
            },
        };
        let served = resolved(&files.root);
        for (name, folder) in folders.iter().filter(|(_, folder)| resolved(folder).starts_with(&served)) {
            let (path, folder, files) = (&route.path, folder.display(), files.root.display());
            root.fault(format!(
                "{name} is {folder}, allowed is one that route {path:?} does not serve: {files}"
            ));
        }
    }
}

/// Tells which routes have scripts that may write over what is the server's own. Each folder is told once.
pub(super) fn check_written_to(root: &Section<'_>, routes: &Routes, own: &[OwnFile]) {
    let mut told = Vec::new();
    for (route, place) in routes.specs.iter().zip(&routes.places) {
        let Some(uploads) = &route.access.uploads else { continue };
        if told.contains(&&uploads.dir) {
            continue;
        }
        told.push(&uploads.dir);
        let folder = resolved(&uploads.dir);
        let mut reached: Vec<_> = own.iter().filter(|own| own.is_reached_from(&folder)).collect();
        reached.dedup_by(|later, earlier| later.path == earlier.path);
        let reached: Vec<_> =
            reached.iter().map(|own| format!("{} ({})", own.name, own.path.display())).collect();
        if !reached.is_empty() {
            let (path, dir, reached) = (&route.path, uploads.dir.display(), reached.join(", "));
            let text = format!(
                "upload_dir of route {path:?} is {dir}, allowed is a folder apart from what scripts must not write \
                 over: {reached}"
            );
            root.add_faults(vec![place.fault(text)]);
        }
    }
}

/// Where a path leads, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match there {
        Some((above, found)) => path.strip_prefix(above).map_or(found.clone(), |rest| found.join(rest)),
        None => path.to_owned(),
    }
}
