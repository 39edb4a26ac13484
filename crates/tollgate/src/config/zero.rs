//! Zero configuration: a folder without a configuration file, or with a file that names no route.
//!
//! The files `DIR/routes/**/*.luau` are routes by their path. Each request is recorded in the stream
//! `requests`. The files of `DIR/public/` are served unchanged.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use tollgate_log::{ColumnType, Level, LogOptions};
use tollgate_server::{
    BodyPace, ColumnRules, ColumnSpec, FilesSpec, HandlerSpec, RouteSpec, ScriptAccess, ServerOptions,
    Source, SpoolOptions, StreamSpec, TimeRules, UnknownFields,
};

use super::access::uploads;
use super::admin::Admin;
use super::defaults::{self, APP_FILE, FILE_NAME};
use super::fault::{ConfigError, Fault};
use super::load::LoadRules;
use super::log;
use super::own_files::{files_of_scripts, files_of_sinks, folders_of_server, keep_apart};
use super::resolved::Config;
use super::route::{conflicts, path_problem};
use super::script;
use super::server::{self, WrittenServer};
use super::sink::{SinkConfig, declare};
use super::tls;

/// Maximum depth of folders in `routes/`. This bound ends a loop of symbolic links.
const DEPTH_MAX: usize = 32;

/// Makes the configuration of a folder.
///
/// # Errors
/// The folder cannot be read, has no routes, has a file name that is no path, or has two files with the same
/// path.
pub(super) fn resolve(dir: &Path) -> Result<Config, ConfigError> {
    let folder = absolute(dir).map_err(|error| unreadable(dir, &error))?;
    let mut faults = Vec::new();
    let log = log::unwritten(&folder);
    let mut routes = routes(&folder, 0, &access(ScriptAccess::default(), &folder, &log), &mut faults);
    if routes.is_empty() && faults.is_empty() {
        let text =
            format!("the folder has no {FILE_NAME}, {APP_FILE}, routes/*.luau or public/: nothing to serve");
        faults.push(Fault::of_file(dir, text));
    }
    if !faults.is_empty() {
        return Err(ConfigError { faults });
    }
    let WrittenServer { options, body_bytes_max, drain_delay, .. } = server::unwritten(&folder);
    let (streams, mut sinks) = (vec![requests()], vec![SinkConfig::default_in(&folder)]);
    declare(&mut sinks, &streams);
    let mut own = folders_of_server(&log, &options.spool.dir, &folder);
    own.extend(files_of_sinks(&sinks));
    own.extend(files_of_scripts(&[], &routes));
    keep_apart(&mut routes, &own);
    let reserve_bytes = defaults::spool_reserve_bytes(&log, &options.spool.dir);
    Ok(Config {
        source: dir.to_owned(),
        body_bytes_max,
        server: ServerOptions {
            spool: SpoolOptions { reserve_bytes, ..options.spool },
            script: script::unwritten(),
            streams,
            routes,
            ..options
        },
        drain_delay,
        tls: tls::unwritten(),
        auths: Vec::new(),
        acme: None,
        admin: Admin::default_in(&log.dir),
        access_log: None,
        otlp: None,
        log,
        load: LoadRules::default(),
        databases: Vec::new(),
        sinks,
        ships: Vec::new(),
        awaited: Vec::new(),
        mounts: Vec::new(),
        is_connections_max_written: false,
        connections_note: None,
        text: None,
    })
}

/// The name of the stream that records every request.
pub(super) const REQUESTS: &str = "requests";

/// Returns this stream, for a configuration that does not define it.
pub(super) fn requests() -> StreamSpec {
    let columns = [
        ("at", ColumnType::Timestamp, Source::RequestTime),
        ("method", ColumnType::Text, Source::RequestMethod),
        ("path", ColumnType::Text, Source::RequestPath),
        ("status", ColumnType::Int, Source::ReplyStatus),
        ("took_us", ColumnType::Int, Source::ReplyTimeUs),
        ("client", ColumnType::Inet, Source::RequestRemoteAddr),
        ("id", ColumnType::Uuid, Source::RequestId),
        ("record", ColumnType::Json, Source::Record),
    ];
    let columns = columns.map(|(name, kind, source)| ColumnSpec {
        name: name.to_owned(),
        kind,
        source,
        times: TimeRules::default(),
        coerce: false,
        rules: ColumnRules::default(),
    });
    StreamSpec {
        name: REQUESTS.to_owned(),
        ack: Level::Synced.into(),
        columns: columns.into(),
        unknown: UnknownFields::default(),
        key: None,
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Fault {
    Fault::of_file(path, format!("cannot read the folder: {error}"))
}

/// Gathers the scripts below a folder. Files and folders whose names begin with `_` or `.` are left out.
fn collect_scripts(folder: &Path, depth: usize, files: &mut Vec<PathBuf>, faults: &mut Vec<Fault>) {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && depth == 0 => return,
        Err(error) => return faults.push(unreadable(folder, &error)),
        Ok(_) if depth == DEPTH_MAX => {
            return faults
                .push(Fault::of_file(folder, format!("the folder is nested too deep, limit {DEPTH_MAX}")));
        }
        Ok(entries) => entries,
    };
    for entry in entries {
        let path = match entry {
            Err(error) => return faults.push(unreadable(folder, &error)),
            Ok(entry) => entry.path(),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(['_', '.']) {
            continue;
        }
        if path.is_dir() {
            collect_scripts(&path, depth + 1, files, faults);
        } else if path.extension().is_some_and(|extension| extension == "luau") {
            files.push(path);
        }
    }
}

/// Returns the route of `public/`, if the folder exists. Its requests are not recorded.
fn public(folder: &Path, faults: &mut Vec<Fault>) -> Option<RouteSpec> {
    let root = folder.join("public");
    if leads_above(&root, folder) {
        let text = "it leads to files that the server writes and runs, which clients must not fetch: remove \
                    the link";
        faults.push(Fault::of_file(&root, text.to_owned()));
    }
    root.is_dir().then(|| RouteSpec {
        body_pace: Some(BodyPace::default()),
        ..RouteSpec::new("/*", HandlerSpec::Files(Box::new(FilesSpec::new(root))))
    })
}

/// Returns whether a path leads to a folder itself, or to a folder above it.
fn leads_above(path: &Path, folder: &Path) -> bool {
    let found = (fs::canonicalize(path), fs::canonicalize(folder));
    matches!(found, (Ok(path), Ok(folder)) if folder.starts_with(&path))
}

/// Returns the access that the configuration sets. If it sets none, scripts send the files of `files/` and
/// save into `uploads/`, if these folders exist.
pub(super) fn access(said: ScriptAccess, folder: &Path, log: &LogOptions) -> ScriptAccess {
    let there = |name| Some(folder.join(name)).filter(|folder| folder.is_dir());
    ScriptAccess {
        files: said.files.or_else(|| there("files").map(|root| Box::new(FilesSpec::new(root)))),
        uploads: said.uploads.or_else(|| there("uploads").map(|dir| uploads(dir, log))),
        databases: said.databases,
    }
}

/// Returns the routes that a folder defines. `stream` is the index of their stream.
pub(super) fn routes(
    folder: &Path,
    stream: usize,
    access: &ScriptAccess,
    faults: &mut Vec<Fault>,
) -> Vec<RouteSpec> {
    let mut files = Vec::new();
    collect_scripts(&folder.join("routes"), 0, &mut files, faults);
    files.sort();
    let mut routes = Vec::new();
    for file in &files {
        let below = file.strip_prefix(folder.join("routes")).unwrap_or(file);
        let path = route_path(&below.to_string_lossy());
        if let Some(problem) = path_problem(&path) {
            faults.push(Fault::of_file(
                file,
                format!("{problem}: rename the file, because its name is the path"),
            ));
        }
        let handler = HandlerSpec::Script { file: file.clone(), root: folder.to_owned() };
        routes.push(RouteSpec {
            stream: Some(stream),
            body_pace: Some(BodyPace::default()),
            access: access.clone(),
            ..RouteSpec::new(&path, handler)
        });
    }
    for (earlier, later) in conflicts(&routes) {
        let text = format!(
            "route {:?} is the route of {} too: rename one of the files",
            routes[later].path,
            files[earlier].display()
        );
        faults.push(Fault::of_file(&files[later], text));
    }
    routes.extend(public(folder, faults));
    routes
}

/// Returns the path of a route from the path of its file below `routes/`.
fn route_path(file: &str) -> String {
    let below = file.strip_suffix(".luau").unwrap_or(file);
    let mut segments: Vec<_> = below.split('/').collect();
    segments.pop_if(|last| *last == "index");
    let segments: Vec<_> = segments.into_iter().map(route_segment).collect();
    format!("/{}", segments.join("/"))
}

fn route_segment(name: &str) -> String {
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(capture) => format!("{{{capture}}}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "return function() return 204 end\n").unwrap();
        }
        dir
    }

    fn faults(files: &[&str]) -> Vec<String> {
        let dir = app(files);
        let root = format!("{}/", dir.path().display());
        let error = resolve(dir.path()).unwrap_err();
        error.faults.iter().map(|fault| fault.to_string().replace(&root, "")).collect()
    }

    #[test]
    fn files_are_routes_by_their_path() {
        let check = |file, expected| assert_eq!(route_path(file), expected, "{file}");
        check("index.luau", "/");
        check("score.luau", "/score");
        check("users/index.luau", "/users");
        check("users/[id].luau", "/users/{id}");
        check("users/[id]/index.luau", "/users/{id}");
        check("[a]/x/[b].luau", "/{a}/x/{b}");
        check("index/a.luau", "/index/a");
        check("a.b.luau", "/a.b");
    }

    #[test]
    fn a_folder_is_a_whole_configuration() {
        let dir = app(&[
            "routes/index.luau",
            "routes/users/[id].luau",
            "routes/_helper.luau",
            "routes/_lib/x.luau",
            "routes/.hidden.luau",
            "routes/notes.txt",
            "lib/y.luau",
        ]);
        let config = Config::load(dir.path()).unwrap();
        let paths: Vec<_> = config.server.routes.iter().map(|route| route.path.as_str()).collect();
        assert_eq!(paths, ["/", "/users/{id}"]);
        assert_eq!(config.log.dir, dir.path().join("data/log"));
        assert_eq!(config.sinks[0].sqlite().unwrap(), dir.path().join("data/tollgate.sqlite"));
        for route in &config.server.routes {
            let HandlerSpec::Script { root, .. } = &route.handler else { panic!("{route:?}") };
            assert_eq!((root.as_path(), route.stream), (dir.path(), Some(0)));
        }
    }

    #[test]
    fn a_public_folder_takes_what_no_route_does_and_is_enough_by_itself() {
        let dir = app(&["routes/index.luau", "public/a.txt"]);
        let config = Config::load(dir.path()).unwrap();
        let paths: Vec<_> = config.server.routes.iter().map(|route| route.path.as_str()).collect();
        assert_eq!(paths, ["/", "/*"]);
        assert!(config.server.routes[1].stream.is_none());
        let dir = app(&["public/a.txt"]);
        let implied = Config::load(dir.path()).unwrap().to_string();
        fs::write(dir.path().join(FILE_NAME), &implied).unwrap();
        assert_eq!(Config::load(dir.path()).unwrap().to_string(), implied);
    }

    #[test]
    fn a_public_folder_that_leads_to_the_folder_itself_is_a_fault() {
        let dir = app(&["routes/index.luau"]);
        std::os::unix::fs::symlink(".", dir.path().join("public")).unwrap();
        let error = resolve(dir.path()).unwrap_err().to_string();
        assert!(error.contains("public: it leads to files that the server writes and runs"), "{error}");
    }

    #[test]
    fn a_file_that_names_no_route_leaves_them_to_the_app_of_its_folder() {
        let dir = app(&["routes/index.luau", "pages/a.luau"]);
        fs::write(dir.path().join(APP_FILE), "[[route]]\npath = \"/a\"\nscript = \"pages/a.luau\"\n")
            .unwrap();
        fs::write(dir.path().join(FILE_NAME), "[server]\nbody_bytes_max = \"1KiB\"").unwrap();
        let config = Config::load(dir.path()).unwrap();
        let paths: Vec<_> = config.server.routes.iter().map(|route| route.path.as_str()).collect();
        assert_eq!((paths.as_slice(), config.mounts.len()), (["/a"].as_slice(), 1));
    }

    #[test]
    fn a_file_that_names_no_route_leaves_them_to_its_folder() {
        let dir = app(&["routes/index.luau", "public/a.txt"]);
        let load = |text: &str| {
            fs::write(dir.path().join(FILE_NAME), text).unwrap();
            Config::load(dir.path()).unwrap()
        };
        let paths = |config: &Config| -> Vec<_> {
            config.server.routes.iter().map(|route| route.path.clone()).collect()
        };
        let config = load("[server]\nbody_bytes_max = \"1KiB\"\n[sink.main]\nsqlite = \"rows.db\"\n");
        assert_eq!(paths(&config), ["/", "/*"]);
        assert_eq!((config.server.routes[0].stream, config.server.routes[0].body_bytes_max), (Some(0), 1024));
        assert_eq!(config.server.streams[0].columns.len(), requests().columns.len());
        assert_eq!(config.sinks[0].sqlite().unwrap(), dir.path().join("rows.db"));
        assert_eq!(load(&config.to_string()).to_string(), config.to_string());
        let column = "columns = [{ name = \"path\", type = \"text\", from = \"request.path\" }]\n";
        let config = load(&format!("[stream.other]\n{column}[stream.requests]\n{column}"));
        assert_eq!((config.server.routes[0].stream, config.server.streams.len()), (Some(1), 2));
        assert_eq!(config.server.streams[1].columns.len(), 1);
        assert_eq!(paths(&load("[[route]]\npath = \"/x\"\nreply = { status = 204 }\n")), ["/x"]);
        assert!(paths(&load("# nothing yet\n")).is_empty());
    }

    #[test]
    fn a_resolved_configuration_prints_as_a_file_that_means_the_same() {
        let dir = app(&["routes/index.luau", "routes/users/[id].luau"]);
        let implied = Config::load(dir.path()).unwrap().to_string();
        fs::write(dir.path().join(FILE_NAME), &implied).unwrap();
        let written = Config::load(dir.path()).unwrap();
        assert_eq!(written.to_string(), implied);
        assert_eq!(written.source, dir.path().join(FILE_NAME));
    }

    #[test]
    fn the_stream_holds_what_the_design_says() {
        let dir = app(&["routes/index.luau"]);
        let text = Config::load(dir.path()).unwrap().to_string();
        let expected = r#"[stream.requests]
ack = "synced"
unknown = "reject"
columns = [
  { name = "at", type = "timestamp", from = "request.time" },
  { name = "method", type = "text", from = "request.method" },
  { name = "path", type = "text", from = "request.path" },
  { name = "status", type = "int", from = "reply.status" },
  { name = "took_us", type = "int", from = "reply.time_us" },
  { name = "client", type = "inet", from = "request.remote_addr" },
  { name = "id", type = "uuid", from = "request.id" },
  { name = "record", type = "json", from = "record" },
]
"#;
        assert!(text.contains(expected), "{text}");
        assert!(requests().schema().is_ok());
    }

    #[test]
    fn a_folder_without_routes_says_what_it_lacks() {
        let dir = app(&["lib/y.luau"]);
        let error = resolve(dir.path()).unwrap_err().to_string();
        let expected =
            "the folder has no tollgate.toml, app.toml, routes/*.luau or public/: nothing to serve";
        assert_eq!(error, format!("{}: {expected}", dir.path().display()));
    }

    #[test]
    fn files_of_one_path_and_names_that_are_no_path_are_all_told() {
        let found = faults(&[
            "routes/a/[x].luau",
            "routes/a/[y].luau",
            "routes/b*.luau",
            "routes/b/index.luau",
            "routes/b.luau",
        ]);
        let expected = [
            "routes/b*.luau: segment \"b*\" of path \"/b*\" is not literal, {name}, or * at the end; a name \
             is a letter or _, then letters, digits and _: rename the file, because its name is the path",
            "routes/a/[y].luau: route \"/a/{y}\" is the route of routes/a/[x].luau too: rename one of the \
             files",
            "routes/b.luau: route \"/b\" is the route of routes/b/index.luau too: rename one of the files",
        ];
        assert_eq!(found, expected);
    }
}
