//! `tollgate.toml`: from the text to the values that the program uses.
//!
//! Every section is read to its end even after a fault, so that all faults are reported at once. A file that
//! is no TOML is the exception. The parser guesses the text after an error, and this would give faults that
//! the file does not have.

use std::io;
use std::mem;
use std::path::{Path, PathBuf, absolute};

use tollgate_server::{ConnectionLimits, HostOptions, OwnFile, ScriptAccess, ServerOptions, SpoolOptions};
use toml::de::DeTable;

use super::access::Reachable;
use super::access_log::access_log;
use super::acme::{Acme, acme};
use super::admin::admin;
use super::app::{AppDefaults, AppTrust, apps, check_intruders};
use super::auth::{Auths, key_files, secret_files};
use super::auth_file::AuthPlace;
use super::backend::backends;
use super::backend_tls::{certificates_of_backends, keys_of_backends};
use super::database::{ReadDatabase, databases};
use super::defaults::{self, APP_FILE};
use super::env::Environment;
use super::fault::{ConfigError, Fault, Faults};
use super::load::load_rules;
use super::log::log;
use super::otlp::otlp;
use super::own_files::{
    check_served, check_written_to, file_of_access_log, files_of_databases, files_of_scripts, files_of_ships,
    files_of_sinks, folders_of_server, keep_apart, secrets_of_routes,
};
use super::reach::ReachableBounds;
use super::resolved::Config;
use super::routes::{RouteDefaults, Routes};
use super::script::{self, script};
use super::section::{Context, Section};
use super::server::{WrittenServer, server};
use super::ship::ships;
use super::sink::{SinkConfig, declare, sinks};
use super::stream::{self, Streams, check_envelopes, check_look_ahead, check_params, check_xml};
use super::text;
use super::tls;
use super::zero;

/// Resolves the text of a configuration file. Paths in it are relative to the file's folder.
///
/// # Errors
/// All faults, in the order of the file.
pub(super) fn resolve(file: &Path, text: &str, env: Environment<'_>) -> Result<Config, ConfigError> {
    let folder = folder_of(file).map_err(|error| {
        Fault::of_file(file, format!("cannot find the folder of the configuration: {error}"))
    })?;
    read(&Origin { file, folder: &folder, env, trust: AppTrust::Mounted }, text)
}

fn folder_of(file: &Path) -> io::Result<PathBuf> {
    absolute(file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Resolves the `app.toml` of a folder that is served alone. The app is mounted at the root of a server with
/// defaults.
///
/// # Errors
/// All faults, in the order of the file.
pub(super) fn resolve_app(dir: &Path, env: Environment<'_>) -> Result<Config, ConfigError> {
    let file = if dir == Path::new(".") { PathBuf::new() } else { dir.to_owned() }.join(APP_FILE);
    let folder = absolute(dir)
        .map_err(|error| Fault::of_file(&file, format!("cannot find the folder of the app: {error}")))?;
    let origin = Origin { file: &file, folder: &folder, env, trust: AppTrust::Alone };
    let config = read(&origin, "[[app]]\npath = \"/\"\ndir = \"\"\n")?;
    Ok(Config { source: dir.to_owned(), ..config })
}

/// Returns the log folder that a text names, even if the text has faults. The caller uses this folder to find
/// the server. If the text names no folder, the default is returned. `None`: the system does not report the
/// folder of the file.
pub(super) fn log_dir(file: &Path, text: &str, env: Environment<'_>) -> Option<PathBuf> {
    let folder = folder_of(file).ok()?;
    let faults = Faults::new(file, text);
    // The parser's guess about a broken text is good enough for finding a server.
    let (document, _) = DeTable::parse_recoverable(text);
    let mut root = Section::new(Context { faults: &faults, env }, "the file", 0..0, document.get_ref());
    Some(log(root.table("log"), &folder).dir)
}

/// The file that a text was read from.
struct Origin<'a> {
    /// The file, as faults name it.
    file: &'a Path,
    /// Its folder, absolute.
    folder: &'a Path,
    env: Environment<'a>,
    trust: AppTrust,
}

fn read(origin: &Origin<'_>, text: &str) -> Result<Config, ConfigError> {
    let faults = Faults::new(origin.file, text);
    let Some(document) = text::parse(text, &faults) else { return Err(faults.into_error()) };
    let context = Context { faults: &faults, env: origin.env };
    let root = Section::new(context, "the file", 0..0, document.get_ref());
    if leaves_routes(&root) && origin.folder.join(APP_FILE).is_file() {
        return read(origin, &format!("{text}\n{APP_OF_FOLDER}"));
    }
    let mut config = whole(root, origin);
    faults.extend(config.find_awaited());
    if faults.is_empty() { Ok(config) } else { Err(faults.into_error()) }
}

/// Returns whether a file names no route, so that its folder defines the routes. An empty file does not
/// count, because it may be half written.
fn leaves_routes(root: &Section<'_>) -> bool {
    !(root.is_empty() || root.has("route") || root.has("app"))
}

fn whole(mut root: Section<'_>, origin: &Origin<'_>) -> Config {
    let Origin { file, folder, .. } = *origin;
    let leaves_routes = leaves_routes(&root);
    let WrittenServer { options, is_connections_max_written, body_bytes_max, drain_delay } =
        server(root.table("server"), folder);
    let tls_rules = tls::rules(root.table("tls"), &options, folder);
    let acme = acme(&mut root, folder, &options.listen);
    let tls = tls::certificates(&mut root, &tls_rules, &options.listen, folder, acme.is_some());
    let log = log(root.table("log"), folder);
    let admin = admin(root.table("admin"), folder, &log.dir, &options.listen);
    let access_log = access_log(&mut root, folder);
    let otlp = otlp(&mut root);
    let load = load_rules(root.table("load"));
    let databases = databases(&mut root, folder);
    let readable: Vec<_> = databases.iter().map(ReadDatabase::as_readable).collect();
    let reachable = Reachable { folder, log: &log, databases: &readable, access: ScriptAccess::default() };
    let unwritten = HostOptions { doctype: options.script.doctype, ..script::unwritten() };
    let (script, access) = script(root.table("script"), unwritten, &reachable);
    let mut streams = Streams::read(&mut root);
    let backends = backends(&mut root, folder);
    let auths =
        Auths::read(&mut root, AuthPlace { folder, backends: &backends, is_app: false }, String::new());
    let reach = ReachableBounds::new(&options.connection, &options.spool);
    let defaults = RouteDefaults {
        folder,
        streams: &streams.specs,
        backends: &backends,
        body_bytes_max,
        body_pace: options.connection.body_pace,
        reach,
        reachable: Reachable { access, ..reachable },
        auths: auths.clone(),
        is_app: false,
    };
    let access = defaults.reachable.access.clone();
    let mut routes = Routes::read(&mut root, &defaults);
    let defaults = AppDefaults {
        file,
        folder,
        env: origin.env,
        trust: origin.trust,
        script: &script,
        log: &log,
        databases: &readable,
        backends: &backends,
        auths: &auths.specs,
        body_bytes_max,
        body_pace: options.connection.body_pace,
        reach,
    };
    let mut apps = apps(&mut root, &defaults, &mut streams);
    routes.extend(mem::take(&mut apps.routes));
    routes.check(&root);
    routes.check_certificates(&root, tls_rules.asks_clients());
    if leaves_routes {
        routes = implied(&root, folder, &zero::access(access, folder, &log), &mut streams);
        for route in &mut routes.specs {
            (route.body_bytes_max, route.body_pace) = (body_bytes_max, Some(options.connection.body_pace));
        }
    }
    check_intruders(&root, &apps, &routes);
    check_params(&root, &streams, &routes.specs);
    check_envelopes(&root, &streams, &routes.specs);
    check_xml(&root, &streams, &routes.specs);
    check_look_ahead(&root, &streams, &routes.specs);
    streams.check_count(&root);
    let Streams { specs: streams, awaited, .. } = streams;
    let mut sinks = sinks(&mut root, folder, &log, &streams);
    let ships = ships(&mut root, folder, &log);
    if sinks.is_empty() && ships.is_empty() {
        sinks.push(SinkConfig::default_in(folder));
    }
    declare(&mut sinks, &streams);
    let mut own = folders_of_server(&log, &options.spool.dir, folder);
    own.extend(file.file_name().map(|name| OwnFile::new("the configuration", folder.join(name))));
    own.extend(access_log.as_ref().and_then(file_of_access_log));
    own.extend(files_of_sinks(&sinks));
    own.extend(files_of_ships(&ships));
    own.extend(files_of_databases(&databases));
    own.extend(keys_of_backends(&backends));
    own.extend(tls::keys_of(tls.as_deref()));
    let of_routes = routes.specs.iter().filter_map(|route| Some(&route.auth.as_ref()?.spec));
    let all_auths: Vec<_> = auths.specs.iter().chain(of_routes).cloned().collect();
    own.extend(secret_files(all_auths.iter()));
    own.extend(acme.iter().flat_map(Acme::own_files));
    own.extend(files_of_scripts(&apps.mounts, &routes.specs));
    own.extend(secrets_of_routes(&routes.specs));
    check_served(&root, &routes, &own);
    keep_apart(&mut routes.specs, &own);
    own.extend(certificates_of_backends(&backends));
    own.extend(tls::certificates_of(tls.as_deref()));
    own.extend(key_files(all_auths.iter()));
    check_written_to(&root, &routes, &own);
    let reserve_bytes = defaults::spool_reserve_bytes(&log, &options.spool.dir);
    root.finish();
    Config {
        source: file.to_owned(),
        body_bytes_max,
        server: ServerOptions {
            tls,
            https: tls_rules.https.clone(),
            challenges: acme.as_ref().map(Acme::challenges),
            dns_hook: acme.as_ref().and_then(Acme::dns_hook),
            spool: SpoolOptions { reserve_bytes, ..options.spool },
            connection: ConnectionLimits {
                handshake_timeout: tls_rules.handshake_timeout,
                ..options.connection
            },
            script,
            streams,
            backends,
            routes: routes.specs,
            apps: apps.specs,
            access_log: access_log.as_ref().map(|log| log.options.clone()),
            spans: otlp.as_ref().map(|otlp| otlp.options),
            ..options
        },
        drain_delay,
        tls: tls_rules,
        auths: auths.specs,
        acme,
        admin,
        access_log,
        otlp,
        log,
        load,
        databases,
        sinks,
        ships,
        awaited,
        mounts: apps.mounts,
        is_connections_max_written,
        connections_note: None,
        text: None,
    }
}

/// Text that mounts the app of a folder at `/`. This text is added to a file without routes whose folder is
/// an app.
const APP_OF_FOLDER: &str = "[[app]]\npath = \"/\"\ndir = \".\"\n";

/// Returns the routes that the folder defines, for a file that names none. These routes are the same as for a
/// folder without a configuration file.
fn implied(root: &Section<'_>, folder: &Path, access: &ScriptAccess, streams: &mut Streams) -> Routes {
    let place = root.spot(&(0..0));
    let named = streams.specs.iter().position(|stream| stream.name == zero::REQUESTS);
    let mut faults = Vec::new();
    let specs = zero::routes(folder, named.unwrap_or(streams.specs.len()), access, &mut faults);
    root.add_faults(faults);
    if named.is_none() && specs.iter().any(|route| route.stream.is_some()) {
        streams.specs.push(zero::requests());
        streams.origins.push(stream::Origin { place: place.clone(), span: 0..0 });
    }
    Routes { places: vec![place; specs.len()], specs }
}

#[cfg(test)]
mod tests;
