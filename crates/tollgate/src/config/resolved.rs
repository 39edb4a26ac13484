//! The configuration as the program uses it: every value there, every path absolute. It prints as TOML that reads
//! back to the same.

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tollgate_log::{DiskStorage, LogOptions, Storage};
use tollgate_server::{
    ColumnSpec, HandlerSpec, HostOptions, KeySpec, ListenSpec, RequestIds, RouteSpec, ServerOptions,
    SourceFile, StreamSpec, Traces, UnknownFields,
};

use super::ack::Awaited;
use super::admin::Admin;
use super::app::Mount;
use super::backend::write_backend;
use super::database::ReadDatabase;
use super::env::escape;
use super::listen::{show, show_proxies};
use super::sink::{LoadRules, Sink, write_sink};
use super::units::{show_duration, show_size};

/// A bound that is not there.
pub(super) const OFF: &str = "off";
pub(super) const BACKLOG: u32 = 4096;
pub(super) const BODY_BYTES_MAX: u64 = RouteSpec::BODY_BYTES_MAX;
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const CONTENT_TYPE: &str = "text/plain; charset=utf-8";
pub(super) const REQUEST_IDS: [(&str, RequestIds); 4] = [
    ("trusted", RequestIds::Trusted),
    ("take", RequestIds::Take),
    ("make", RequestIds::Make),
    ("silent", RequestIds::Silent),
];
pub(super) const TRACES: [(&str, Traces); 5] = [
    ("take", Traces::Take),
    ("trusted", Traces::Trusted),
    ("pass", Traces::Pass),
    ("make", Traces::Make),
    ("off", Traces::Off),
];
/// Free bytes that are kept on a large disk.
const RESERVE_BYTES: u64 = 1 << 30;
/// Relative to the folder of the configuration.
pub(crate) const LOG_DIR: &str = "data/log";
/// Beside the log.
pub(super) const SPOOL_DIR: &str = "data/spool";
/// What a segment header holds of the name of its node.
pub(super) const NODE_BYTES_MAX: usize = 48;

/// All that a configuration says.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The file or folder that it was read from.
    pub(crate) source: PathBuf,
    /// What is served.
    pub(crate) server: ServerOptions,
    /// How long a server that was told to stop serves on before it takes no more connections.
    pub(crate) drain_delay: Duration,
    /// Where it tells how it does.
    pub(crate) admin: Admin,
    /// How the log is kept.
    pub(crate) log: LogOptions,
    /// Who loads rows, and how hard.
    pub(crate) load: LoadRules,
    /// What scripts may read.
    pub(super) databases: Vec<ReadDatabase>,
    /// Where rows are loaded: one database at least.
    pub(crate) sinks: Vec<Sink>,
    /// Streams whose replies wait for one of them.
    pub(super) awaited: Vec<Awaited>,
    /// Bytes of a request body on routes that say nothing else.
    pub(crate) body_bytes_max: u64,
    /// The apps, in the order of those of the server.
    pub(crate) mounts: Vec<Mount>,
    /// The file that it was read from; none where it was made of a folder.
    pub(crate) text: Option<SourceFile>,
}

/// The addresses of a configuration that names none.
pub(super) fn listen() -> Vec<ListenSpec> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)).into()]
}

/// The cores that this process may use.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(1024)
}

/// The name of this machine, as much as a segment holds; empty if the system does not tell.
pub(super) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    name[..name.floor_char_boundary(NODE_BYTES_MAX)].to_owned()
}

/// The reserve of a configuration that names none: 1 GiB, or a tenth of the file system where that is less. Bytes.
pub(super) fn reserve_wanted(log: &LogOptions) -> u64 {
    RESERVE_BYTES.min(disk_bytes(&log.dir) / 10)
}

/// The reserve as it is used: never less than the log needs to go on.
pub(super) fn reserve_bytes(log: &LogOptions, wanted: u64) -> u64 {
    tollgate_log::reserve_bytes(wanted, log.segment_bytes_max, disk_bytes(&log.dir))
}

/// What spooled bodies leave free on their disk: the reserve of the log, as far as a smaller one can spare it.
pub(super) fn spool_reserve_bytes(log: &LogOptions, dir: &Path) -> u64 {
    log.reserve_bytes.min(disk_bytes(dir) / 4)
}

/// Bytes of the file system that a folder is on, or will be; as large as can be where nobody can tell.
fn disk_bytes(folder: &Path) -> u64 {
    let existing = folder.ancestors().find(|above| above.exists());
    let space = existing.and_then(|folder| DiskStorage.space(folder).ok());
    space.map_or(u64::MAX, |space| space.total_bytes)
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_server(f)?;
        self.admin.write(f)?;
        write_log(&self.log, f)?;
        self.write_script(f)?;
        let own_streams = self.server.streams.iter().enumerate();
        let mut own_streams =
            own_streams.filter(|(place, _)| !self.is_of_apps(*place)).map(|(_, stream)| stream);
        own_streams.try_for_each(|stream| self.write_stream(stream, f))?;
        self.server.backends.iter().try_for_each(|backend| write_backend(backend, f))?;
        let mut own_routes = self.server.routes.iter().filter(|route| route.app.is_none());
        own_routes.try_for_each(|route| self.write_route(route, f))?;
        (0..self.mounts.len()).try_for_each(|app| self.write_app(app, f))?;
        self.databases.iter().try_for_each(|database| write!(f, "{database}"))?;
        write!(f, "{}", self.load)?;
        self.sinks.iter().try_for_each(|sink| write_sink(sink, f))
    }
}

impl Config {
    fn write_server(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, limits) = (&self.server, &self.server.connection);
        let listen: Vec<_> = server.listen.iter().map(show).collect();
        writeln!(f, "[server]")?;
        writeln!(f, "listen = [{}]", listen.join(", "))?;
        writeln!(f, "backlog = {}", server.backlog)?;
        writeln!(f, "workers = {}", server.workers)?;
        writeln!(f, "trusted_proxies = {}", show_proxies(&server.trusted_proxies))?;
        writeln!(f, "client_header = \"{}\"", server.trusted_proxies.header.name())?;
        writeln!(f, "head_bytes_max = \"{}\"", show_size(limits.head.head_bytes_max as u64))?;
        writeln!(f, "target_bytes_max = \"{}\"", show_size(limits.head.target_bytes_max as u64))?;
        writeln!(f, "fields_max = {}", limits.head.fields_max)?;
        writeln!(f, "underscore_names = \"{}\"", limits.head.underscore_names.name())?;
        writeln!(f, "body_bytes_max = \"{}\"", show_size(self.body_bytes_max))?;
        writeln!(f, "body_memory_max = \"{}\"", show_size(limits.body_memory_max as u64))?;
        writeln!(f, "spool_dir = {}", quoted_path(&server.spool.dir))?;
        writeln!(f, "spool_bytes_max = \"{}\"", show_size(server.spool.bytes_max))?;
        writeln!(f, "spool_encrypt = {}", server.spool.encrypt)?;
        writeln!(f, "head_timeout = \"{}\"", show_duration(limits.head_timeout))?;
        writeln!(f, "body_timeout = \"{}\"", show_duration(limits.body_pace.timeout))?;
        writeln!(f, "idle_timeout = \"{}\"", show_duration(limits.idle_timeout))?;
        writeln!(f, "idle_timeout_crowded = \"{}\"", show_duration(limits.idle_timeout_crowded))?;
        writeln!(f, "write_timeout = \"{}\"", show_duration(limits.write_timeout))?;
        writeln!(f, "body_rate_min = \"{}\"", show_size(limits.body_pace.rate_min))?;
        writeln!(f, "body_rate_grace = \"{}\"", show_duration(limits.body_pace.rate_grace))?;
        writeln!(f, "write_rate_min = \"{}\"", show_size(limits.write_rate_min))?;
        writeln!(f, "pipeline_depth_max = {}", limits.pipeline_depth_max)?;
        writeln!(f, "requests_per_connection_max = {}", show_or_off(limits.requests_max))?;
        writeln!(f, "connections_max = {}", server.crowd.connections_max)?;
        let per_client = server.crowd.connections_per_client_max;
        writeln!(f, "connections_per_client_max = {}", show_or_off(per_client))?;
        writeln!(f, "in_flight_bytes_max = \"{}\"", show_size(server.crowd.in_flight_bytes_max))?;
        writeln!(f, "queue_age_max = \"{}\"", show_duration(server.crowd.queue_age_max))?;
        writeln!(f, "request_id = \"{}\"", show_request_ids(server.request_ids))?;
        let traces = TRACES.iter().find(|(_, known)| *known == server.traces).map_or("", |(name, _)| name);
        writeln!(f, "trace = \"{traces}\"")?;
        writeln!(f, "drain_delay = \"{}\"", show_duration(self.drain_delay))?;
        writeln!(f, "drain_timeout = \"{}\"", show_duration(server.drain_timeout))
    }

    fn write_script(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[script]")?;
        write_budgets(&self.server.script, f)
    }

    /// Whether a stream is that of an app: the server itself has those that no app names.
    fn is_of_apps(&self, stream: usize) -> bool {
        self.mounts.iter().any(|mount| mount.streams.contains(&stream))
    }

    /// Writes a mount; what its `app.toml` says follows as a comment.
    fn write_app(&self, app: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mount, spec) = (&self.mounts[app], &self.server.apps[app]);
        writeln!(f, "\n[[app]]")?;
        writeln!(f, "path = {}", quoted(&mount.path))?;
        if let Some(host) = &mount.host {
            writeln!(f, "host = {}", quoted(host))?;
        }
        writeln!(f, "dir = {}", quoted_path(&mount.dir))?;
        writeln!(f, "stream_prefix = {}", quoted(&mount.stream_prefix))?;
        writeln!(f, "[app.script]")?;
        write_budgets(&spec.script, f)?;
        self.app_text(app).lines().try_for_each(|line| writeln!(f, "{}", format!("# {line}").trim_end()))
    }

    /// The streams and routes of an app, as if they were written for the server.
    pub(super) fn app_text(&self, app: usize) -> String {
        AppText { config: self, app }.to_string()
    }

    fn write_stream(&self, stream: &StreamSpec, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = match stream.unknown {
            UnknownFields::Reject => "reject",
            UnknownFields::Ignore => "ignore",
        };
        writeln!(f, "\n[stream.{}]", stream.name)?;
        self.write_ack(stream, f)?;
        writeln!(f, "unknown = \"{unknown}\"")?;
        if let Some(KeySpec { source, window }) = &stream.key {
            writeln!(f, "key = {}", quoted(&source.name()))?;
            writeln!(f, "key_window = \"{}\"", show_duration(*window))?;
        }
        writeln!(f, "columns = [")?;
        for ColumnSpec { name, kind, source, rules } in &stream.columns {
            let (name, from) = (quoted(name), quoted(&source.name()));
            let rules = super::rules::show(rules, *kind, quoted);
            writeln!(f, "  {{ name = {name}, type = \"{}\", from = {from}{rules} }},", kind.name())?;
        }
        writeln!(f, "]")
    }

    fn write_route(&self, route: &RouteSpec, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[[route]]")?;
        writeln!(f, "path = {}", quoted(&route.path))?;
        if let Some(host) = &route.host {
            writeln!(f, "host = {}", quoted(host))?;
        }
        if let Some(methods) = route.methods {
            let methods: Vec<_> = methods.iter().map(|method| format!("\"{method}\"")).collect();
            writeln!(f, "methods = [{}]", methods.join(", "))?;
        }
        match &route.handler {
            HandlerSpec::Script { file, .. } => writeln!(f, "script = {}", quoted_path(file))?,
            HandlerSpec::Collect => writeln!(f, "collect = true")?,
            HandlerSpec::Files(files) => writeln!(f, "files = {}", super::files::show(files))?,
            HandlerSpec::Proxy(proxy) => {
                writeln!(f, "proxy = {}", super::proxy::show(proxy, &self.server.backends))?;
            }
            HandlerSpec::Reply { status, content_type, body } => {
                let (content_type, body) = (quoted(content_type), quoted(&String::from_utf8_lossy(body)));
                writeln!(f, "reply = {{ status = {status}, content_type = {content_type}, body = {body} }}")?;
            }
        }
        if let Some(files) = &route.access.files {
            writeln!(f, "file_dir = {}", quoted_path(&files.root))?;
        }
        if let Some(uploads) = &route.access.uploads {
            writeln!(f, "upload_dir = {}", quoted_path(&uploads.dir))?;
        }
        if !route.access.databases.is_empty() {
            let names: Vec<_> =
                route.access.databases.iter().map(|database| quoted(database.name())).collect();
            writeln!(f, "databases = [{}]", names.join(", "))?;
        }
        for (key, scripts) in [("before", &route.before), ("after", &route.after)] {
            if !scripts.is_empty() {
                let files: Vec<_> = scripts.iter().map(|script| quoted_path(&script.file)).collect();
                writeln!(f, "{key} = [{}]", files.join(", "))?;
            }
        }
        if let Some(stream) = route.stream.and_then(|stream| self.server.streams.get(stream)) {
            writeln!(f, "stream = {}", quoted(&stream.name))?;
        }
        writeln!(f, "body_bytes_max = \"{}\"", show_size(route.body_bytes_max))?;
        let pace = route.body_pace.unwrap_or(self.server.connection.body_pace);
        writeln!(f, "body_timeout = \"{}\"", show_duration(pace.timeout))?;
        writeln!(f, "body_rate_min = \"{}\"", show_size(pace.rate_min))?;
        writeln!(f, "body_rate_grace = \"{}\"", show_duration(pace.rate_grace))?;
        if let Some(cors) = &route.cors {
            writeln!(f, "cors = {}", super::cors::show(cors))?;
        }
        writeln!(f, "concurrency_max = {}", show_or_off(route.limits.concurrency_max))?;
        writeln!(f, "rate_limit = {}", super::route_limits::show(&route.limits.rates))
    }
}

/// What an `app.toml` comes to below its mount.
struct AppText<'a> {
    config: &'a Config,
    app: usize,
}

impl fmt::Display for AppText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, app } = self;
        let streams =
            config.mounts[*app].streams.iter().filter_map(|stream| config.server.streams.get(*stream));
        streams.into_iter().try_for_each(|stream| config.write_stream(stream, f))?;
        let mut routes = config.server.routes.iter().filter(|route| route.app == Some(*app));
        routes.try_for_each(|route| config.write_route(route, f))
    }
}

fn write_budgets(script: &HostOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "cpu_budget = \"{}\"", show_duration(script.cpu_budget))?;
    writeln!(f, "wall_budget = \"{}\"", show_duration(script.wall_budget))?;
    writeln!(f, "heartbeat = \"{}\"", show_duration(script.heartbeat))?;
    writeln!(f, "memory_bytes_max = \"{}\"", show_size(script.memory_bytes_max as u64))?;
    writeln!(f, "vm_bytes_max = \"{}\"", show_size(script.vm_bytes_max as u64))?;
    writeln!(f, "reply_bytes_max = \"{}\"", show_size(script.reply_bytes_max as u64))?;
    writeln!(f, "shared_bytes_max = \"{}\"", show_size(script.shared_bytes_max as u64))?;
    let names: Vec<_> = script.env.iter().map(|name| quoted(name)).collect();
    writeln!(f, "env = [{}]", names.join(", "))
}

fn show_or_off<T: fmt::Display>(bound: Option<T>) -> String {
    bound.map_or_else(|| format!("\"{OFF}\""), |bound| bound.to_string())
}

fn show_request_ids(request_ids: RequestIds) -> &'static str {
    REQUEST_IDS.iter().find(|(_, known)| *known == request_ids).map_or("", |(name, _)| name)
}

fn write_log(log: &LogOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n[log]")?;
    writeln!(f, "dir = {}", quoted_path(&log.dir))?;
    writeln!(f, "segment_bytes_max = \"{}\"", show_size(log.segment_bytes_max))?;
    writeln!(f, "segment_age_max = \"{}\"", show_duration(log.segment_age_max))?;
    writeln!(f, "sync_age_max = \"{}\"", show_duration(log.sync_age_max))?;
    writeln!(f, "retain = \"{}\"", show_duration(log.retain))?;
    writeln!(f, "retain_bytes_max = \"{}\"", show_size(log.retain_bytes_max))?;
    writeln!(f, "reserve = \"{}\"", show_size(log.reserve_bytes))?;
    writeln!(f, "queue_bytes_max = \"{}\"", show_size(log.queue_bytes_max))?;
    writeln!(f, "queue_age_max = \"{}\"", show_duration(log.queue_age_max))?;
    writeln!(f, "transaction_bytes_max = \"{}\"", show_size(log.transaction_bytes_max as u64))?;
    writeln!(f, "digest = \"{}\"", log.digest.name())?;
    writeln!(f, "node = {}", quoted(&log.node))
}

/// A value as a TOML string that reads back to it, also where it looks like a variable.
pub(super) fn quoted(value: &str) -> String {
    toml::Value::String(escape(value)).to_string()
}

pub(super) fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}
