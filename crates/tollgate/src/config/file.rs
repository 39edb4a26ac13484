//! `tollgate.toml`: from what is written to what is meant.
//!
//! Every section is read to its end, whatever was wrong before, so that all faults come at once. Only a file that is no
//! TOML is not read further: what the parser guesses behind an error would give faults that nobody made.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use tollgate_log::{DigestAlgorithm, LogOptions};
use tollgate_server::{
    BackendOptions, BodyPace, COLLECT_BODY_BYTES_MAX, ConnectionLimits, CrowdLimits, HandlerSpec,
    HostOptions, ListenSpec, Method, Methods, RequestIds, RouteSpec, ScriptAccess, ScriptFile, ServerOptions,
    SpoolOptions, StreamSpec, Traces, TrustedProxies, UnderscoreNames, canonical_host,
};
use toml::Spanned;
use toml::de::DeTable;

use super::access::{Reachable, access, access_beyond};
use super::admin::admin;
use super::app::{APP_FILE, AppDefaults, Trust, apps, check_inside, intruders, own_path};
use super::backend::backends;
use super::cors::cors;
use super::database::{ReadDatabase, databases};
use super::env::Environment;
use super::fault::{ConfigError, Fault, Faults, Place, did_you_mean};
use super::files::files;
use super::listen::{listen, trusted_proxies};
use super::proxy::proxy;
use super::reach::{Reach, check_server};
use super::resolved::{self, Config};
use super::route::{conflicts, is_host, path_problem};
use super::route_limits::route_limits;
use super::section::{Context, Section, Written};
use super::sink::{load_rules, sinks};
use super::stream::Streams;
use super::units::{GIB, HOUR_MS, KIB, MIB, MINUTE_MS};

const TIMEOUT_MS: RangeInclusive<u64> = 1..=24 * HOUR_MS;
/// A year.
const RETAIN_MS_MAX: u64 = 365 * 24 * HOUR_MS;
/// As much as a large disk.
const RETAIN_BYTES_MAX: u64 = GIB << 20;
pub(super) const BODY_BYTES: RangeInclusive<u64> = 0..=1024 * GIB;
const HANDLERS: [&str; 5] = ["script", "files", "proxy", "collect", "reply"];

/// Resolves the text of a configuration file. Paths in it are relative to the file's folder.
///
/// # Errors
/// Every fault, in the order of the file.
pub(super) fn resolve(file: &Path, text: &str, env: Environment<'_>) -> Result<Config, ConfigError> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = absolute(parent).map_err(|error| {
        Fault::of_file(file, format!("cannot tell the folder of the configuration: {error}"))
    })?;
    read(&Origin { file, folder: &folder, env, trust: Trust::Mounted }, text)
}

/// Resolves the `app.toml` of a folder that is served by itself: mounted at the root of a server that says nothing else.
///
/// # Errors
/// Every fault, in the order of the file.
pub(super) fn resolve_app(dir: &Path, env: Environment<'_>) -> Result<Config, ConfigError> {
    let file = if dir == Path::new(".") { PathBuf::new() } else { dir.to_owned() }.join(APP_FILE);
    let folder = absolute(dir)
        .map_err(|error| Fault::of_file(&file, format!("cannot tell the folder of the app: {error}")))?;
    let origin = Origin { file: &file, folder: &folder, env, trust: Trust::Alone };
    let config = read(&origin, "[[app]]\npath = \"/\"\ndir = \"\"\n")?;
    Ok(Config { source: dir.to_owned(), ..config })
}

/// Where a text is from.
struct Origin<'a> {
    /// As faults name it.
    file: &'a Path,
    /// Its folder, absolute.
    folder: &'a Path,
    env: Environment<'a>,
    trust: Trust,
}

fn read(origin: &Origin<'_>, text: &str) -> Result<Config, ConfigError> {
    let faults = Faults::new(origin.file, text);
    let Some(document) = parse(text, &faults) else { return Err(faults.into_error()) };
    let context = Context { faults: &faults, env: origin.env };
    let root = Section::new(context, "the file", 0..0, document.get_ref());
    let mut config = whole(root, origin);
    faults.extend(config.find_awaited());
    if faults.is_empty() { Ok(config) } else { Err(faults.into_error()) }
}

/// Reads a text as TOML. None: it is none, and the faults say why.
pub(super) fn parse<'t>(text: &'t str, faults: &Faults<'_>) -> Option<Spanned<DeTable<'t>>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        faults.add(&error.span().unwrap_or_default(), error.message());
    }
    errors.iter().all(|error| error.message() == "duplicate key").then_some(document)
}

fn whole(mut root: Section<'_>, origin: &Origin<'_>) -> Config {
    let Origin { file, folder, .. } = *origin;
    let written = server(root.table("server"), folder);
    let log = log(root.table("log"), folder);
    let admin = admin(root.table("admin"), folder, &log.dir);
    let load = load_rules(root.table("load"));
    let databases = databases(&mut root, folder);
    let readable: Vec<_> = databases.iter().map(ReadDatabase::as_readable).collect();
    let reachable = Reachable { folder, log: &log, databases: &readable, access: ScriptAccess::default() };
    let (script, access) = script(root.table("script"), HostOptions::default(), &reachable);
    let mut streams = Streams::read(&mut root);
    let backends = backends(&mut root);
    let reach = Reach::new(&written.connection, &written.spool);
    let defaults = RouteDefaults {
        folder,
        streams: &streams.specs,
        backends: &backends,
        body_bytes_max: written.body_bytes_max,
        body_pace: written.connection.body_pace,
        reach,
        reachable: Reachable { access, ..reachable },
        is_app: false,
    };
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
        body_bytes_max: written.body_bytes_max,
        body_pace: written.connection.body_pace,
        reach,
    };
    let apps = apps(&mut root, &defaults, &mut streams);
    routes.extend(apps.routes);
    routes.check(&root);
    for (app, route) in intruders(&apps.specs, &routes.specs) {
        let (place, path) = (&routes.places[route], &routes.specs[route].path);
        let (name, mount) = (apps.mounts[app].name(), apps.places[app].beside(&place.file));
        root.add_faults(vec![place.fault(format!("route {path:?} is all of {name} of {mount}"))]);
    }
    let Streams { specs: streams, awaited, .. } = streams;
    let Routes { specs: routes, .. } = routes;
    let sinks = sinks(&mut root, folder, &streams);
    check_served(&root, &routes, &[("dir in [log]", &log.dir), ("spool_dir", &written.spool.dir)]);
    root.finish();
    Config {
        source: file.to_owned(),
        body_bytes_max: written.body_bytes_max,
        server: ServerOptions {
            listen: written.listen,
            backlog: written.backlog,
            workers: written.workers,
            connection: written.connection,
            trusted_proxies: written.trusted_proxies,
            crowd: written.crowd,
            spool: SpoolOptions {
                reserve_bytes: resolved::spool_reserve_bytes(&log, &written.spool.dir),
                ..written.spool
            },
            script,
            streams,
            backends,
            routes,
            apps: apps.specs,
            version: 1,
            dev: None,
            request_ids: written.request_ids,
            traces: written.traces,
            drain_timeout: written.drain_timeout,
        },
        drain_delay: written.drain_delay,
        admin,
        log,
        load,
        databases,
        sinks,
        awaited,
        mounts: apps.mounts,
        text: None,
    }
}

struct WrittenServer {
    listen: Vec<ListenSpec>,
    trusted_proxies: TrustedProxies,
    backlog: u32,
    workers: usize,
    connection: ConnectionLimits,
    crowd: CrowdLimits,
    spool: SpoolOptions,
    body_bytes_max: u64,
    request_ids: RequestIds,
    traces: Traces,
    drain_delay: Duration,
    drain_timeout: Duration,
}

fn server(mut section: Section<'_>, folder: &Path) -> WrittenServer {
    let written = WrittenServer {
        listen: listen(&mut section, folder),
        trusted_proxies: trusted_proxies(&mut section),
        backlog: section.integer("backlog", 1..=65_535, resolved::BACKLOG),
        workers: workers(&mut section),
        connection: connection(&mut section),
        crowd: crowd(&mut section),
        spool: spool(&mut section, folder),
        body_bytes_max: section.size("body_bytes_max", BODY_BYTES, resolved::BODY_BYTES_MAX),
        request_ids: section.choice("request_id", &resolved::REQUEST_IDS).unwrap_or_default(),
        traces: section.choice("trace", &resolved::TRACES).unwrap_or_default(),
        drain_delay: section.duration("drain_delay", 0..=HOUR_MS, Duration::ZERO),
        drain_timeout: section.duration("drain_timeout", 0..=HOUR_MS, resolved::DRAIN_TIMEOUT),
    };
    check_server(&section, &written.connection, &written.crowd);
    Reach::new(&written.connection, &written.spool).check_body(&section, written.body_bytes_max);
    section.finish();
    written
}

fn workers(section: &mut Section<'_>) -> usize {
    let found = section.integer_or("workers", 1..=1024, "auto");
    found.and_then(|workers| workers.try_into().ok()).unwrap_or_else(resolved::cores)
}

fn connection(section: &mut Section<'_>) -> ConnectionLimits {
    let mut limits = ConnectionLimits::default();
    let head = &mut limits.head;
    head.head_bytes_max = section.size("head_bytes_max", KIB..=MIB, head.head_bytes_max);
    head.target_bytes_max = section.size("target_bytes_max", 64..=MIB, head.target_bytes_max);
    head.fields_max = section.integer("fields_max", 1..=10_000, head.fields_max);
    let choices = UnderscoreNames::ALL.map(|choice| (choice.name(), choice));
    head.underscore_names = section.choice("underscore_names", &choices).unwrap_or_default();
    let (target, head) = (head.target_bytes_max, head.head_bytes_max);
    if target > head {
        section.fault(format!("target_bytes_max is {target} bytes, limit is head_bytes_max: {head} bytes"));
    }
    limits.head_timeout = section.duration("head_timeout", TIMEOUT_MS, limits.head_timeout);
    limits.body_pace = body_pace(section, limits.body_pace);
    limits.idle_timeout = section.duration("idle_timeout", TIMEOUT_MS, limits.idle_timeout);
    limits.write_timeout = section.duration("write_timeout", TIMEOUT_MS, limits.write_timeout);
    let crowded = limits.idle_timeout_crowded.min(limits.idle_timeout);
    limits.idle_timeout_crowded = section.duration("idle_timeout_crowded", TIMEOUT_MS, crowded);
    limits.write_rate_min = section.size("write_rate_min", 0..=GIB, limits.write_rate_min);
    limits.pipeline_depth_max = section.integer("pipeline_depth_max", 1..=65_536, limits.pipeline_depth_max);
    limits.body_memory_max = section.size("body_memory_max", 4 * KIB..=64 * MIB, limits.body_memory_max);
    limits.requests_max = section.integer_or("requests_per_connection_max", 1..=1 << 32, resolved::OFF);
    limits
}

/// Of the server, of an app, or of one route.
pub(super) fn body_pace(section: &mut Section<'_>, default: BodyPace) -> BodyPace {
    BodyPace {
        timeout: section.duration("body_timeout", TIMEOUT_MS, default.timeout),
        rate_min: section.size("body_rate_min", 0..=GIB, default.rate_min),
        rate_grace: section.duration("body_rate_grace", TIMEOUT_MS, default.rate_grace),
    }
}

fn crowd(section: &mut Section<'_>) -> CrowdLimits {
    let mut limits = CrowdLimits::default();
    limits.connections_max = section.integer("connections_max", 1..=1 << 24, limits.connections_max);
    let per_client = section.integer_or("connections_per_client_max", 1..=1 << 24, resolved::OFF);
    limits.connections_per_client_max = per_client.and_then(|max| max.try_into().ok());
    limits.in_flight_bytes_max =
        section.size("in_flight_bytes_max", MIB..=1024 * GIB, limits.in_flight_bytes_max);
    limits.queue_age_max = section.duration("queue_age_max", 10..=HOUR_MS, limits.queue_age_max);
    limits
}

fn spool(section: &mut Section<'_>, folder: &Path) -> SpoolOptions {
    let dir = section.text("spool_dir");
    let dir = dir.map_or_else(|| PathBuf::from(resolved::SPOOL_DIR), |dir| PathBuf::from(dir.value));
    let mut spool = SpoolOptions::new(folder.join(dir));
    spool.bytes_max = section.size("spool_bytes_max", 0..=RETAIN_BYTES_MAX, spool.bytes_max);
    spool
}

fn log(mut section: Section<'_>, folder: &Path) -> LogOptions {
    let dir =
        section.text("dir").map_or_else(|| PathBuf::from(resolved::LOG_DIR), |dir| PathBuf::from(dir.value));
    let mut log = LogOptions::new(&folder.join(dir));
    log.segment_bytes_max = section.size("segment_bytes_max", 4 * KIB..=16 * GIB, log.segment_bytes_max);
    log.segment_age_max = section.duration("segment_age_max", 10..=24 * HOUR_MS, log.segment_age_max);
    log.sync_age_max = section.duration("sync_age_max", 1..=MINUTE_MS, log.sync_age_max);
    log.retain = section.duration("retain", 0..=RETAIN_MS_MAX, log.retain);
    log.retain_bytes_max = section.size("retain_bytes_max", 0..=RETAIN_BYTES_MAX, log.retain_bytes_max);
    let wanted = section.size("reserve", 0..=RETAIN_BYTES_MAX, resolved::reserve_wanted(&log));
    log.reserve_bytes = resolved::reserve_bytes(&log, wanted);
    log.queue_bytes_max = section.size("queue_bytes_max", 64 * KIB..=16 * GIB, log.queue_bytes_max);
    log.transaction_bytes_max =
        section.size("transaction_bytes_max", KIB..=8 * MIB, log.transaction_bytes_max);
    let (transaction, queue) = (log.transaction_bytes_max as u64, log.queue_bytes_max);
    if transaction > queue {
        section.fault(format!(
            "transaction_bytes_max is {transaction} bytes, limit is queue_bytes_max: {queue} bytes"
        ));
    }
    let digests = DigestAlgorithm::ALL.map(|digest| (digest.name(), digest));
    log.digest = section.choice("digest", &digests).unwrap_or_default();
    log.node = section.text("node").map_or_else(resolved::host_name, |node| checked_node(&section, node));
    section.finish();
    log
}

fn checked_node(section: &Section<'_>, node: Written<String>) -> String {
    if node.value.len() > resolved::NODE_BYTES_MAX || node.value.contains(char::is_control) {
        let allowed = "at most 48 bytes without control characters";
        section.fault_at(&node.span, format!("node in [log] is {:?}, allowed are {allowed}", node.value));
    }
    node.value
}

/// Bounds on scripts, where the section says nothing as `host` has them, and what they may reach.
pub(super) fn script(
    mut section: Section<'_>,
    mut host: HostOptions,
    reachable: &Reachable<'_>,
) -> (HostOptions, ScriptAccess) {
    host.cpu_budget = section.duration("cpu_budget", 1..=10 * MINUTE_MS, host.cpu_budget);
    host.wall_budget = section.duration("wall_budget", 1..=60 * MINUTE_MS, host.wall_budget);
    host.heartbeat = section.duration("heartbeat", 1_000..=60 * MINUTE_MS, host.heartbeat);
    host.memory_bytes_max = section.size("memory_bytes_max", 64 * KIB..=4 * GIB, host.memory_bytes_max);
    host.reply_bytes_max = section.size("reply_bytes_max", KIB..=GIB, host.reply_bytes_max);
    host.shared_bytes_max = section.size("shared_bytes_max", 0..=64 * GIB, host.shared_bytes_max);
    if let Some(names) = section.texts("env") {
        host.env = variables(&section, names);
    }
    let access = access(&mut section, reachable);
    section.finish();
    (host, access)
}

/// The names of variables that scripts may read.
fn variables(section: &Section<'_>, names: Vec<Written<String>>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for name in names {
        let text = &name.value;
        if text.is_empty() || text.contains(['=', '\0']) {
            section.fault_at(&name.span, format!("env in [script] has {text:?}, which names no variable"));
        } else if known.contains(text) {
            section.fault_at(&name.span, format!("env in [script] has {text:?} twice"));
        } else {
            known.push(name.value);
        }
    }
    known
}

/// What routes begin with where they say nothing else.
pub(super) struct RouteDefaults<'a> {
    /// What paths are relative to.
    pub(super) folder: &'a Path,
    /// The streams that they may name.
    pub(super) streams: &'a [StreamSpec],
    /// The backends that they may name: those of the server.
    pub(super) backends: &'a [BackendOptions],
    pub(super) body_bytes_max: u64,
    pub(super) body_pace: BodyPace,
    pub(super) reach: Reach,
    /// What their scripts may reach.
    pub(super) reachable: Reachable<'a>,
    /// Whether they are those of an app, which has no host and nothing outside of its folder.
    pub(super) is_app: bool,
}

/// All routes of a file, in its order.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) specs: Vec<RouteSpec>,
    /// Where each is written.
    pub(super) places: Vec<Place>,
}

impl Routes {
    /// Reads those that are sound by themselves.
    pub(super) fn read(root: &mut Section<'_>, defaults: &RouteDefaults<'_>) -> Self {
        let sections = root.tables("route", "[[route]]", "a list of sections [[route]]").unwrap_or_default();
        let mut routes = Self::default();
        for section in sections {
            let place = section.spot(section.span());
            if let Some(route) = route(section, defaults) {
                routes.specs.push(route);
                routes.places.push(place);
            }
        }
        routes
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.specs.extend(other.specs);
        self.places.extend(other.places);
    }

    /// Tells which are in each other's way.
    fn check(&self, root: &Section<'_>) {
        for (earlier, later) in conflicts(&self.specs) {
            let (path, place) = (&self.specs[later].path, &self.places[later]);
            let earlier = self.places[earlier].beside(&place.file);
            let text = format!(
                "route {path:?} is that of {earlier} again: same host, same path, methods that overlap"
            );
            root.add_faults(vec![place.fault(text)]);
        }
    }
}

fn route(mut section: Section<'_>, defaults: &RouteDefaults<'_>) -> Option<RouteSpec> {
    let path = section.needed_text("path");
    if let Some(path) = &path
        && let Some(problem) = path_problem(&path.value)
    {
        section.fault_at(&path.span, problem);
    }
    let host = match defaults.is_app {
        true => None,
        false => section.text("host").map(|host| checked_host(&section, &host)),
    };
    let methods = methods(&mut section, "methods in [[route]]");
    let stream = stream(&mut section, defaults.streams);
    let handler = handler(&mut section, defaults);
    if let (Some(HandlerSpec::Files(_)), Some(path)) = (&handler, &path)
        && !path.value.ends_with("/*")
    {
        let text = format!("path is {:?}, allowed with files is one that ends in \"/*\"", path.value);
        section.fault_at(&path.span, text);
    }
    if let (Some(HandlerSpec::Proxy(proxy)), Some(path)) = (&handler, &path)
        && proxy.strip_prefix
        && !path.value.ends_with("/*")
    {
        let text = format!("path is {:?}, allowed with strip_prefix is one that ends in \"/*\"", path.value);
        section.fault_at(&path.span, text);
    }
    if matches!(handler, Some(HandlerSpec::Collect)) && !section.has("stream") {
        section.fault("missing key \"stream\" in [[route]]: collect has nowhere to put the items");
    }
    let most = match handler {
        Some(HandlerSpec::Collect) => COLLECT_BODY_BYTES_MAX,
        _ => *BODY_BYTES.end(),
    };
    let body_bytes_max = section.size("body_bytes_max", 0..=most, defaults.body_bytes_max.min(most));
    if section.has("body_bytes_max") {
        defaults.reach.check_body(&section, body_bytes_max);
    }
    let body_pace = Some(body_pace(&mut section, defaults.body_pace));
    let cors = cors(&mut section);
    let limits = route_limits(&mut section);
    let before = scripts_beside(&mut section, "before", defaults.folder);
    let after = scripts_beside(&mut section, "after", defaults.folder);
    if matches!(handler, Some(HandlerSpec::Collect)) && !after.is_empty() {
        section.fault_of("after", "after in [[route]] stands beside collect, allowed with script, files and reply: what collect replies comes of its records");
    }
    let is_scripted = matches!(handler, Some(HandlerSpec::Script { .. })) || !before.is_empty();
    let access =
        if is_scripted { access(&mut section, &defaults.reachable) } else { ScriptAccess::default() };
    if path.as_ref().is_some_and(|path| path.value == RouteSpec::ASTERISK) {
        check_asterisk(&section, methods, handler.as_ref());
    }
    if defaults.is_app {
        check_app_route(&section, path.as_ref());
        let scripts = before.iter().chain(&after).map(|script| script.file.as_path());
        let own = handler.as_ref().and_then(own_path).into_iter().chain(scripts);
        let folders = access_beyond(&access, &defaults.reachable.access);
        check_inside(&section, own.chain(folders), defaults.folder);
    }
    section.finish();
    let (path, handler) = (path?.value, handler?);
    Some(RouteSpec {
        path,
        host,
        methods,
        handler,
        stream,
        body_bytes_max,
        body_pace,
        cors,
        limits,
        app: None,
        access,
        before,
        after,
    })
}

/// What the server writes is for nobody to fetch.
fn check_served(root: &Section<'_>, routes: &[RouteSpec], folders: &[(&str, &Path)]) {
    for route in routes {
        let files = match &route.handler {
            HandlerSpec::Files(files) => files,
            _ => match &route.access.files {
                Some(files) => files,
                None => continue,
            },
        };
        for (name, folder) in folders.iter().filter(|(_, folder)| folder.starts_with(&files.root)) {
            let (path, folder, files) = (&route.path, folder.display(), files.root.display());
            root.fault(format!(
                "{name} is {folder}, allowed is one that route {path:?} does not serve: {files}"
            ));
        }
    }
}

/// The path `*` is that of `OPTIONS *`.
fn check_asterisk(section: &Section<'_>, methods: Option<Methods>, handler: Option<&HandlerSpec>) {
    let options = Methods::from_iter([Method::Options]);
    if let Some(methods) = methods.filter(|methods| *methods != options) {
        section.fault(format!(
            "methods of path \"*\" are {methods}, allowed is OPTIONS: it is the server itself"
        ));
    }
    let name = match handler {
        Some(HandlerSpec::Collect) => "collect",
        Some(HandlerSpec::Proxy(_)) => "proxy",
        _ => return,
    };
    section.fault(format!("path \"*\" has {name}, allowed are script and reply: it is for OPTIONS alone"));
}

/// An app has what is below its path, and in its folder.
fn check_app_route(section: &Section<'_>, path: Option<&Written<String>>) {
    if let Some(path) = path.filter(|path| path.value == RouteSpec::ASTERISK) {
        section.fault_at(
            &path.span,
            "path is \"*\", which is the server itself: allowed is what is below the app",
        );
    }
}

fn checked_host(section: &Section<'_>, host: &Written<String>) -> String {
    if !is_host(&host.value) {
        let text =
            format!("host in [[route]] is {:?}, allowed is a name or an address without port", host.value);
        section.fault_at(&host.span, text);
    }
    canonical_host(&host.value).into_owned()
}

/// Takes `methods`, which faults call `what`.
pub(super) fn methods(section: &mut Section<'_>, what: &str) -> Option<Methods> {
    let texts = section.texts("methods")?;
    if texts.is_empty() {
        section.fault(format!("{what} is empty, allowed is a list of methods, or no such key"));
    }
    let mut methods = Methods::EMPTY;
    for text in texts {
        match Method::from_bytes(text.value.as_bytes()) {
            Some(method) => methods.insert(method),
            None => {
                let upper = text.value.to_ascii_uppercase();
                let hint = did_you_mean(&upper, Method::ALL.map(Method::as_str));
                section.fault_at(&text.span, format!("unknown method {:?}{hint}", text.value));
            }
        }
    }
    Some(methods)
}

fn stream(section: &mut Section<'_>, streams: &[StreamSpec]) -> Option<usize> {
    let name = section.text("stream")?;
    let found = streams.iter().position(|stream| stream.name == name.value);
    if found.is_none() {
        let hint = match streams {
            [] => ": the file has no [stream.NAME]".to_owned(),
            _ => did_you_mean(&name.value, streams.iter().map(|stream| stream.name.as_str())),
        };
        section.fault_at(&name.span, format!("unknown stream {:?}{hint}", name.value));
    }
    found
}

fn handler(section: &mut Section<'_>, defaults: &RouteDefaults<'_>) -> Option<HandlerSpec> {
    let folder = defaults.folder;
    let given: Vec<_> = HANDLERS.into_iter().filter(|key| section.has(key)).collect();
    if given.len() != 1 {
        let found = if given.is_empty() { "none".to_owned() } else { given.join(" and ") };
        section.fault(format!(
            "[[route]] needs one handler, found {found}, allowed is one of {}",
            HANDLERS.join(", ")
        ));
    }
    let script = section.text("script").map(|file| script_handler(section, &file, folder));
    let files = files(section, folder).map(|spec| HandlerSpec::Files(Box::new(spec)));
    let proxy = proxy(section, defaults.backends).map(|spec| HandlerSpec::Proxy(Box::new(spec)));
    let collect = section.switch("collect").map(|collect| collect_handler(section, &collect));
    let reply = section.take_table("reply", "reply of [[route]]".to_owned()).map(reply_handler);
    script.or(files).or(proxy).or(collect).or(reply)
}

/// Scripts that run before or after a handler.
fn scripts_beside(section: &mut Section<'_>, key: &'static str, folder: &Path) -> Vec<ScriptFile> {
    let files = section.texts(key).unwrap_or_default();
    let scripts = files
        .iter()
        .map(|file| ScriptFile { file: script_file(section, key, file, folder), root: folder.to_owned() });
    scripts.collect()
}

fn script_file(section: &Section<'_>, key: &str, file: &Written<String>, folder: &Path) -> PathBuf {
    let path = folder.join(&file.value);
    if !path.is_file() {
        section.fault_at(
            &file.span,
            format!("{key} {:?} is no file: looked for {}", file.value, path.display()),
        );
    }
    path
}

fn script_handler(section: &Section<'_>, file: &Written<String>, folder: &Path) -> HandlerSpec {
    HandlerSpec::Script { file: script_file(section, "script", file, folder), root: folder.to_owned() }
}

fn collect_handler(section: &Section<'_>, collect: &Written<bool>) -> HandlerSpec {
    if !collect.value {
        section.fault_at(&collect.span, "collect in [[route]] is false, allowed is true, or no such key");
    }
    HandlerSpec::Collect
}

fn reply_handler(mut section: Section<'_>) -> HandlerSpec {
    let status = section.integer("status", 200..=599, 200);
    let content_type = section.text("content_type");
    if let Some(written) = &content_type
        && !(written.value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && written.value.contains('/'))
    {
        let text =
            format!("content_type is {:?}, allowed is a media type like \"text/plain\"", written.value);
        section.fault_at(&written.span, text);
    }
    let body = section.text("body");
    if let Some(body) = &body
        && matches!(status, 204 | 205 | 304)
        && !body.value.is_empty()
    {
        let text =
            format!("body has {} bytes, allowed is none: a reply {status} has no content", body.value.len());
        section.fault_at(&body.span, text);
    }
    section.finish();
    let content_type =
        content_type.map_or_else(|| resolved::CONTENT_TYPE.to_owned(), |written| written.value);
    HandlerSpec::Reply { status, content_type, body: body.map(|body| body.value).unwrap_or_default().into() }
}

#[cfg(test)]
mod tests;
