//! Protects the server's own files: clients may not fetch them, and scripts may not write over them. Folders
//! are compared after their links are resolved.

use std::path::Path;
use std::sync::Arc;

use tollgate_log::LogOptions;
use tollgate_server::{HandlerSpec, OwnFile, RouteSpec};

use super::access_log::{AccessDestination, AccessLogConfig};
use super::app::Mount;
use super::database::ReadDatabase;
use super::defaults::{APP_FILE, TLS_DIR};
use super::inside::served;
use super::routes::Routes;
use super::section::Section;
use super::ship::ShipConfig;
use super::ship_volumes::Volumes;
use super::sink::SinkConfig;

/// The folder of modules that scripts load, below the folder of a configuration or an app.
const MODULES: &str = "lib";

/// Returns the folders that every server writes into, and the folder of the development authority. `folder`
/// is the folder of the configuration.
pub(super) fn folders_of_server(log: &LogOptions, spool_dir: &Path, folder: &Path) -> Vec<OwnFile> {
    vec![
        OwnFile::new("dir in [log]", &log.dir),
        OwnFile::new("spool_dir", spool_dir),
        OwnFile::new("the development authority", folder.join(TLS_DIR)),
    ]
}

/// Returns the file of the access log, which names clients.
pub(super) fn file_of_access_log(log: &AccessLogConfig) -> Option<OwnFile> {
    match &log.destination {
        AccessDestination::Stdout => None,
        AccessDestination::File(path) => Some(OwnFile::new("file in [access_log]", path)),
    }
}

/// Returns the files of sinks, with the secrets of Kafka.
pub(super) fn files_of_sinks(sinks: &[SinkConfig]) -> Vec<OwnFile> {
    let mut files = Vec::new();
    for sink in sinks {
        let name = sink.name();
        files.extend(sink.sqlite().map(|path| OwnFile::new(format!("sqlite in [sink.{name}]"), path)));
        let lake = sink.files_of_lake().into_iter();
        files.extend(lake.map(|(key, path)| OwnFile::new(format!("{key} in [sink.{name}]"), path)));
        let secrets = sink.secrets_of_kafka().into_iter();
        files.extend(secrets.map(|(key, path)| OwnFile::new(format!("{key} in [sink.{name}]"), path)));
        let after = sink.options.after_load.as_ref();
        files.extend(after.map(|path| OwnFile::new(format!("after_load in [sink.{name}]"), path)));
    }
    files
}

/// Returns the folders of stores, which hold records, the programs that move volumes, and the files of
/// secrets.
pub(super) fn files_of_ships(ships: &[ShipConfig]) -> Vec<OwnFile> {
    let mut own = Vec::new();
    for ship in ships {
        let named = |folder| OwnFile::new(format!("{} in [ship.{}]", ship.place.key(), ship.name), folder);
        own.extend(ship.folders().iter().map(named));
        let on_full = ship.volumes().and_then(Volumes::on_full);
        own.extend(
            on_full.map(|hook| OwnFile::new(format!("on_full in [ship.{}]", ship.name), hook.program)),
        );
        let files = ship.secret_files().iter();
        own.extend(files.map(|(key, path)| OwnFile::new(format!("{key} in [ship.{}]", ship.name), path)));
    }
    own
}

/// Returns the files of databases that scripts read.
pub(super) fn files_of_databases(databases: &[ReadDatabase]) -> Vec<OwnFile> {
    let named = databases.iter().filter_map(|database| Some((database.name(), database.sqlite()?)));
    named.map(|(name, path)| OwnFile::new(format!("sqlite in [database.{name}]"), path)).collect()
}

/// Returns the `app.toml` of each app and the scripts of routes, with the folders of their modules.
pub(super) fn files_of_scripts(mounts: &[Mount], routes: &[RouteSpec]) -> Vec<OwnFile> {
    let mut files: Vec<_> =
        mounts.iter().map(|mount| OwnFile::new(mount.name(), mount.dir.join(APP_FILE))).collect();
    for route in routes {
        for (file, root) in route.scripts() {
            let name = format!("the script of route {:?}", route.path);
            files.push(OwnFile::new(name, file));
            files.push(OwnFile::new("the modules of scripts", root.join(MODULES)));
        }
    }
    files
}

/// Returns the files of the secrets that routes share with partners.
pub(super) fn secrets_of_routes(routes: &[RouteSpec]) -> Vec<OwnFile> {
    let secrets = |route: &RouteSpec| {
        let name = format!("secret in verify of route {:?}", route.path);
        let files = route.verify.iter().flat_map(|verify| verify.secret_files.clone());
        files.map(|file| OwnFile::new(name.clone(), file)).collect::<Vec<_>>()
    };
    routes.iter().flat_map(secrets).collect()
}

/// Folders of routes, by the key that names them.
struct Folders {
    key: &'static str,
    of: fn(&RouteSpec) -> Option<&Path>,
    /// The text of the fault that names the files that the folder must not contain.
    never: &'static str,
}

const SERVED: Folders = Folders {
    key: "files",
    of: |route| match &route.handler {
        HandlerSpec::Files(files) => Some(&files.root),
        _ => None,
    },
    never: "clients could fetch",
};
const SENT: Folders = Folders {
    key: "file_dir",
    of: |route| route.access.files.as_ref().map(|files| files.root.as_path()),
    never: "clients could fetch",
};
const WRITTEN_TO: Folders = Folders {
    key: "upload_dir",
    of: |route| route.access.uploads.as_ref().map(|uploads| uploads.dir.as_path()),
    never: "scripts could overwrite",
};

/// Adds a fault for each route that would send the server's own files, by its handler or by its scripts.
pub(super) fn check_served(root: &Section<'_>, routes: &Routes, own: &[OwnFile]) {
    SERVED.check(root, routes, own);
    SENT.check(root, routes, own);
}

/// Passes the server's own files to all folders that are served. Each request is checked against this list,
/// because files and folders may be replaced after the start.
pub(super) fn keep_apart(routes: &mut [RouteSpec], own: &[OwnFile]) {
    let own: Arc<[OwnFile]> = own.into();
    for route in routes {
        let sent = route.access.files.as_deref_mut();
        for files in served(&mut route.handler).into_iter().chain(sent) {
            files.bounds.own = own.clone();
        }
    }
}

/// Adds a fault for each route whose scripts could write over the server's own files.
pub(super) fn check_written_to(root: &Section<'_>, routes: &Routes, own: &[OwnFile]) {
    WRITTEN_TO.check(root, routes, own);
}

impl Folders {
    /// Checks each folder once.
    fn check(&self, root: &Section<'_>, routes: &Routes, own: &[OwnFile]) {
        let mut told = Vec::new();
        for (route, place) in routes.specs.iter().zip(&routes.places) {
            let Some(folder) = (self.of)(route).filter(|folder| !told.contains(folder)) else { continue };
            told.push(folder);
            let reached = OwnFile::reached_from(own, folder);
            if !reached.is_empty() {
                let Self { key, never, .. } = self;
                let (path, folder, reached) = (&route.path, folder.display(), reached.join(", "));
                let text = format!(
                    "{key} of route {path:?} is {folder}, where {never} files of the server: {reached}. \
                     Choose a separate folder"
                );
                root.add_faults(vec![place.fault(text)]);
            }
        }
    }
}
