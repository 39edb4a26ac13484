//! The configuration as the program uses it: every value is set, and every path is absolute. The
//! configuration prints itself as TOML that reads back to the same values.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_log::{LogOptions, SinkPlace};
use tollgate_server::{AuthSpec, ServerOptions, SourceFile};

use super::access_log::AccessLogConfig;
use super::ack::AwaitedSink;
use super::acme::Acme;
use super::admin::Admin;
use super::app::{Mount, write_mount};
use super::auth::write_auth;
use super::backend::write_backend;
use super::database::ReadDatabase;
use super::fault::Fault;
use super::load::LoadRules;
use super::log::write_log;
use super::otlp::OtlpConfig;
use super::routes::write_route;
use super::script::write_script;
use super::server::write_server;
use super::ship::{ShipConfig, write_ship};
use super::sink::{self, SinkConfig, UnknownSink, write_sink};
use super::stream::write_stream;
use super::tls::{TlsRules, write_tls};

/// The whole configuration.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The file or folder of the configuration.
    pub(crate) source: PathBuf,
    /// The options of the server: addresses, routes, limits.
    pub(crate) server: ServerOptions,
    /// Time that a server still accepts connections after the order to stop.
    pub(crate) drain_delay: Duration,
    /// The rules of TLS handshakes.
    pub(super) tls: TlsRules,
    /// The credentials that routes name.
    pub(super) auths: Vec<Arc<AuthSpec>>,
    /// The certificates that the server orders. `None`: it orders none.
    pub(crate) acme: Option<Acme>,
    /// The address of the admin listener, and the clients that it answers.
    pub(crate) admin: Admin,
    /// The access log. `None`: no request gets a line.
    pub(crate) access_log: Option<AccessLogConfig>,
    /// The export of spans. `None`: no span is exported.
    pub(crate) otlp: Option<OtlpConfig>,
    /// The options of the log.
    pub(crate) log: LogOptions,
    /// The process that loads rows, and the rules for loading.
    pub(crate) load: LoadRules,
    /// The databases that scripts may read.
    pub(super) databases: Vec<ReadDatabase>,
    /// The databases that rows are loaded into. At least one, unless segments are shipped.
    pub(crate) sinks: Vec<SinkConfig>,
    /// The stores that segments are shipped to.
    pub(crate) ships: Vec<ShipConfig>,
    /// The streams whose replies wait for a sink.
    pub(super) awaited: Vec<AwaitedSink>,
    /// Maximum bytes of a request body on routes that set no bound.
    pub(crate) body_bytes_max: u64,
    /// The apps, in the order of `server.apps`.
    pub(crate) mounts: Vec<Mount>,
    /// Whether the file sets `connections_max`.
    pub(crate) is_connections_max_written: bool,
    /// The reason why `connections_max` is below its default: the limit of descriptors is too low.
    pub(crate) connections_note: Option<String>,
    /// The file of the configuration. `None`: the configuration was made from a folder.
    pub(crate) text: Option<SourceFile>,
}

impl Config {
    /// Makes the configuration of a server in development. Such a server prints a line for each request,
    /// unless the file has an access log.
    pub(crate) fn show_requests(&mut self) {
        let log = self.access_log.get_or_insert_with(AccessLogConfig::of_development);
        self.server.access_log = Some(log.options.clone());
    }

    /// Returns the number of databases that scripts may read.
    pub(crate) fn database_count(&self) -> usize {
        self.databases.len()
    }

    /// Returns the sink with this name.
    pub(crate) fn sink(&self, name: &str) -> Option<&SinkConfig> {
        self.sinks.iter().find(|sink| sink.name() == name)
    }

    /// Returns the sink with this name, or all sinks.
    ///
    /// # Errors
    /// There is no sink with this name, or none at all.
    pub(crate) fn chosen(&self, name: Option<&str>) -> Result<&[SinkConfig], UnknownSink> {
        sink::chosen(&self.sinks, name)
    }

    /// Returns the ship target with this name.
    pub(crate) fn ship(&self, name: &str) -> Option<&ShipConfig> {
        self.ships.iter().find(|ship| ship.name == name)
    }

    /// Finds the sinks that replies wait for. Returns a fault for each one that is missing.
    pub(crate) fn find_awaited(&mut self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for awaited in &self.awaited {
            let stream = self.server.streams.iter_mut().find(|stream| stream.name == awaited.stream);
            let Some((sink, _)) = stream.and_then(|stream| stream.ack.awaited_mut()) else { continue };
            match awaited.find(&self.sinks, self.load.by) {
                Ok(found) => {
                    *sink = found;
                    self.sinks[found.0].options.is_awaited = true;
                }
                Err(text) => faults.push(awaited.place.fault(text)),
            }
        }
        faults
    }

    /// Returns the streams whose replies wait for a sink, with the names of these sinks.
    pub(crate) fn awaited_sinks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.awaited.iter().filter_map(|awaited| {
            let place = awaited.find(&self.sinks, self.load.by).ok()?;
            Some((awaited.stream.as_str(), self.sinks.get(place.0)?.name()))
        })
    }

    /// Replaces the index of each awaited sink in the configuration by its place in the log.
    pub(crate) fn place_awaited(&mut self, place_of: impl Fn(&str) -> Option<SinkPlace>) {
        for stream in &mut self.server.streams {
            if let Some((sink, _)) = stream.ack.awaited_mut()
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
        write_tls(&self.tls, self.server.tls.as_deref(), f)?;
        self.acme.iter().try_for_each(|acme| acme.write(f))?;
        self.admin.write(f)?;
        write_log(&self.log, f)?;
        self.access_log.iter().try_for_each(|log| log.write(f))?;
        self.otlp.iter().try_for_each(|otlp| otlp.write(f))?;
        writeln!(f, "\n[script]")?;
        write_script(&self.server.script, f)?;
        let own_streams = self.server.streams.iter().enumerate();
        let mut own_streams =
            own_streams.filter(|(place, _)| !self.is_of_apps(*place)).map(|(_, stream)| stream);
        own_streams.try_for_each(|stream| write_stream(stream, &self.awaited, f))?;
        self.server.backends.iter().try_for_each(|backend| write_backend(backend, f))?;
        self.auths.iter().try_for_each(|auth| write_auth(auth, f))?;
        let mut own_routes = self.server.routes.iter().filter(|route| route.app.is_none());
        own_routes.try_for_each(|route| write_route(route, &self.server, f))?;
        (0..self.mounts.len()).try_for_each(|app| self.write_app(app, f))?;
        self.databases.iter().try_for_each(|database| write!(f, "{database}"))?;
        write!(f, "{}", self.load)?;
        self.sinks.iter().try_for_each(|sink| write_sink(sink, f))?;
        self.ships.iter().try_for_each(|ship| write_ship(ship, f))
    }
}

impl Config {
    /// Returns whether a stream belongs to an app. All other streams belong to the server.
    fn is_of_apps(&self, stream: usize) -> bool {
        self.mounts.iter().any(|mount| mount.streams.contains(&stream))
    }

    /// Writes a mount. The streams and routes of its `app.toml` follow as comments.
    fn write_app(&self, app: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_mount(&self.mounts[app], &self.server.apps[app].script, f)?;
        self.app_text(app).lines().try_for_each(|line| writeln!(f, "{}", format!("# {line}").trim_end()))
    }

    /// Returns the text of an app's streams and routes, as the file of the server would have them.
    pub(super) fn app_text(&self, app: usize) -> String {
        AppText { config: self, app }.to_string()
    }
}

/// Writes the streams and routes of an app, with their names and paths below the mount.
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
        config.mounts[*app].auths.iter().try_for_each(|auth| write_auth(auth, f))?;
        let mut routes = config.server.routes.iter().filter(|route| route.app == Some(*app));
        routes.try_for_each(|route| write_route(route, &config.server, f))
    }
}
