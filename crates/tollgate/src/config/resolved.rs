//! The configuration as the program uses it: every value there, every path absolute. It prints as TOML that
//! reads back to the same.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_log::{LogOptions, SinkPlace};
use tollgate_server::{Ack, ServerOptions, SourceFile};

use super::ack::AwaitedSink;
use super::admin::Admin;
use super::app::{Mount, write_mount};
use super::backend::write_backend;
use super::database::ReadDatabase;
use super::fault::Fault;
use super::log::write_log;
use super::routes::write_route;
use super::script::write_script;
use super::server::write_server;
use super::sink::{self, LoadRules, SinkConfig, UnknownSink, write_sink};
use super::stream::write_stream;

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
    pub(crate) sinks: Vec<SinkConfig>,
    /// Streams whose replies wait for one of them.
    pub(super) awaited: Vec<AwaitedSink>,
    /// Bytes of a request body on routes that say nothing else.
    pub(crate) body_bytes_max: u64,
    /// The apps, in the order of those of the server.
    pub(crate) mounts: Vec<Mount>,
    /// Whether the operator wrote `connections_max`.
    pub(crate) is_connections_max_written: bool,
    /// Why `connections_max` is not its default, if the limit of descriptors is too low for that.
    pub(crate) connections_note: Option<String>,
    /// The file that it was read from; none where it was made of a folder.
    pub(crate) text: Option<SourceFile>,
}

impl Config {
    /// Returns how many databases scripts may read.
    pub(crate) fn database_count(&self) -> usize {
        self.databases.len()
    }

    /// The sink of that name.
    pub(crate) fn sink(&self, name: &str) -> Option<&SinkConfig> {
        self.sinks.iter().find(|sink| sink.name() == name)
    }

    /// The sink of that name, or all of them.
    ///
    /// # Errors
    /// There is no sink of that name.
    pub(crate) fn chosen(&self, name: Option<&str>) -> Result<&[SinkConfig], UnknownSink> {
        sink::chosen(&self.sinks, name)
    }

    /// Finds the sinks that replies wait for; returns what is wrong where there is none.
    pub(crate) fn find_awaited(&mut self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for awaited in &self.awaited {
            let stream = self.server.streams.iter_mut().find(|stream| stream.name == awaited.stream);
            let Some(Ack::Loaded { sink, .. }) = stream.map(|stream| &mut stream.ack) else { continue };
            match awaited.find(&self.sinks, self.load.by) {
                Ok(found) => *sink = found,
                Err(text) => faults.push(awaited.place.fault(text)),
            }
        }
        faults
    }

    /// Streams whose replies wait for a sink, and the names of those sinks.
    pub(crate) fn awaited_sinks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.awaited.iter().filter_map(|awaited| {
            let place = awaited.find(&self.sinks, self.load.by).ok()?;
            Some((awaited.stream.as_str(), self.sinks.get(place.0)?.name()))
        })
    }

    /// Puts the places that the sinks have in the log in the place of those in the configuration.
    pub(crate) fn place_awaited(&mut self, place_of: impl Fn(&str) -> Option<SinkPlace>) {
        for stream in &mut self.server.streams {
            if let Ack::Loaded { sink, .. } = &mut stream.ack
                && let Some(place) = self.sinks.get(sink.0).and_then(|sink| place_of(sink.name()))
            {
                *sink = place;
            }
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_server(&self.server, self.body_bytes_max, self.drain_delay, f)?;
        self.admin.write(f)?;
        write_log(&self.log, f)?;
        writeln!(f, "\n[script]")?;
        write_script(&self.server.script, f)?;
        let own_streams = self.server.streams.iter().enumerate();
        let mut own_streams =
            own_streams.filter(|(place, _)| !self.is_of_apps(*place)).map(|(_, stream)| stream);
        own_streams.try_for_each(|stream| write_stream(stream, &self.awaited, f))?;
        self.server.backends.iter().try_for_each(|backend| write_backend(backend, f))?;
        let mut own_routes = self.server.routes.iter().filter(|route| route.app.is_none());
        own_routes.try_for_each(|route| write_route(route, &self.server, f))?;
        (0..self.mounts.len()).try_for_each(|app| self.write_app(app, f))?;
        self.databases.iter().try_for_each(|database| write!(f, "{database}"))?;
        write!(f, "{}", self.load)?;
        self.sinks.iter().try_for_each(|sink| write_sink(sink, f))
    }
}

impl Config {
    /// Whether a stream belongs to an app. The server itself has the streams that no app names.
    fn is_of_apps(&self, stream: usize) -> bool {
        self.mounts.iter().any(|mount| mount.streams.contains(&stream))
    }

    /// Writes a mount. The streams and routes of its `app.toml` follow as comments.
    fn write_app(&self, app: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_mount(&self.mounts[app], &self.server.apps[app].script, f)?;
        self.app_text(app).lines().try_for_each(|line| writeln!(f, "{}", format!("# {line}").trim_end()))
    }

    /// The streams and routes of an app, as if they were written for the server.
    pub(super) fn app_text(&self, app: usize) -> String {
        AppText { config: self, app }.to_string()
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
        streams.into_iter().try_for_each(|stream| write_stream(stream, &config.awaited, f))?;
        let mut routes = config.server.routes.iter().filter(|route| route.app == Some(*app));
        routes.try_for_each(|route| write_route(route, &config.server, f))
    }
}
