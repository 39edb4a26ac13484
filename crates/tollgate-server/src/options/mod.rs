//! What the server is told to do: the resolved configuration, checked by whoever makes it.

mod app;
mod dev;
mod listen;
mod proxy;
pub(crate) mod stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_backend::BackendOptions;
use tollgate_files::FilesSpec;
use tollgate_http::{Limits, Method, Methods};
use tollgate_script::{Database, HostOptions, TraceRule, Uploads};

use crate::trust::TrustedProxies;
pub use app::AppSpec;
pub use dev::{Dev, SourceFault};
pub use listen::{BoundAddress, ListenAddress, ListenSpec};
pub use proxy::{HostSent, ProxySpec};
use stream::{Source, StreamSpec};

/// Everything that a server serves, and within which bounds.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where connections come in.
    pub listen: Vec<ListenSpec>,
    /// Who may name the client of a request.
    pub trusted_proxies: TrustedProxies,
    /// Connections that the kernel may hold before they are accepted.
    pub backlog: u32,
    /// Worker threads.
    pub workers: usize,
    /// Bounds on what one connection may do.
    pub connection: ConnectionLimits,
    /// Bounds on all connections together.
    pub capacity: CapacityLimits,
    /// Where bodies go that are not held in memory.
    pub spool: SpoolOptions,
    /// Bounds on scripts.
    pub script: HostOptions,
    /// The streams; a route names one by its place here.
    pub streams: Vec<StreamSpec>,
    /// The backends; a route names one by its place here, scripts by its name.
    pub backends: Vec<BackendOptions>,
    /// The routes.
    pub routes: Vec<RouteSpec>,
    /// The apps; a route names its own by its place here.
    pub apps: Vec<AppSpec>,
    /// What it is called in log lines.
    pub version: u64,
    /// Shows what goes wrong to whoever asks; none of a server that others may reach.
    pub dev: Option<Dev>,
    /// Where the ids of requests come from.
    pub request_ids: RequestIds,
    /// Where the traces of requests come from.
    pub traces: Traces,
    /// How long requests in flight may take after a stop was asked for.
    pub drain_timeout: Duration,
}

/// Where the ids of requests come from, and whether clients hear them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestIds {
    /// From the sane `X-Request-Id` of a trusted proxy, else made. Replies of handlers tell them.
    #[default]
    Trusted,
    /// From the sane `X-Request-Id` of anybody, else made. Replies of handlers tell them.
    Take,
    /// Made, whatever the client says. Replies of handlers tell them.
    Make,
    /// Made, and not told.
    Silent,
}

impl RequestIds {
    /// Whether an id is taken that came from a trusted proxy, or from somebody else.
    pub(crate) fn takes(self, is_from_proxy: bool) -> bool {
        match self {
            Self::Trusted => is_from_proxy,
            Self::Take => true,
            Self::Make | Self::Silent => false,
        }
    }
}

/// Where the traces of requests come from (W3C Trace Context).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Traces {
    /// From the sound `traceparent` of a trusted proxy, else made.
    Trusted,
    /// From the sound `traceparent` of anybody, else made.
    #[default]
    Take,
    /// From the sound `traceparent` of anybody, or there is none.
    Pass,
    /// Made, whatever the client says.
    Make,
    /// There are none.
    Off,
}

impl Traces {
    /// The rule for a request of a trusted proxy, or of somebody else.
    pub(crate) fn rule(self, is_from_proxy: bool) -> TraceRule {
        match self {
            Self::Trusted if is_from_proxy => TraceRule::TakeOrMake,
            Self::Trusted | Self::Make => TraceRule::Make,
            Self::Take => TraceRule::TakeOrMake,
            Self::Pass => TraceRule::Take,
            Self::Off => TraceRule::Off,
        }
    }
}

/// Bounds on what one connection may do.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Bounds on request heads.
    pub head: Limits,
    /// From the first byte of a head to its last.
    pub head_timeout: Duration,
    /// How fast bodies have to come.
    pub body_pace: BodyPace,
    /// Between the end of a reply and the first byte of the next request.
    pub idle_timeout: Duration,
    /// The same when connections are near their limit.
    pub idle_timeout_crowded: Duration,
    /// While the peer takes nothing of a reply.
    pub write_timeout: Duration,
    /// Bytes a second that a reply has to be taken at; `write_timeout` is its grace. 0 for none.
    pub write_rate_min: u64,
    /// Requests of one connection.
    pub requests_max: Option<u64>,
    /// Requests of one connection that are answered by one write.
    pub pipeline_depth_max: usize,
    /// Bytes of a body that are held in memory while it comes; one that is longer is spooled.
    pub body_memory_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            head: Limits::default(),
            head_timeout: Duration::from_secs(10),
            body_pace: BodyPace::default(),
            idle_timeout: Duration::from_secs(75),
            idle_timeout_crowded: Duration::from_secs(5),
            write_timeout: Duration::from_secs(30),
            write_rate_min: 500,
            requests_max: None,
            pipeline_depth_max: 256,
            body_memory_max: 256 << 10,
        }
    }
}

/// How fast a request body has to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyPace {
    /// From the head to its last byte.
    pub timeout: Duration,
    /// Bytes a second on average; 0 for none.
    pub rate_min: u64,
    /// How far it may be behind that.
    pub rate_grace: Duration,
}

impl Default for BodyPace {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(600), rate_min: 500, rate_grace: Duration::from_secs(5) }
    }
}

impl BodyPace {
    /// How long nothing of a body may come before it is too slow.
    pub(crate) fn patience(&self) -> Duration {
        if self.rate_min == 0 { self.timeout } else { self.rate_grace.min(self.timeout) }
    }
}

/// Bounds on all connections together.
#[derive(Debug, Clone)]
pub struct CapacityLimits {
    /// Connections at once.
    pub connections_max: usize,
    /// Connections at once of one client: an IPv4 address, or an IPv6 network of 64 bits.
    pub connections_per_client_max: Option<u32>,
    /// Bytes of requests that are not complete and of replies that are not taken, beyond 4 KiB for each
    /// connection.
    pub in_flight_bytes_max: u64,
    /// How long a request may wait for its turn.
    pub queue_age_max: Duration,
    /// Files that one worker keeps open between requests.
    pub files_open_max: usize,
}

impl Default for CapacityLimits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_per_client_max: None,
            in_flight_bytes_max: 256 << 20,
            queue_age_max: Duration::from_secs(1),
            files_open_max: Self::FILES_OPEN_MAX,
        }
    }
}

impl CapacityLimits {
    /// Files that a worker keeps open at most, whatever the limit of descriptors is.
    pub const FILES_OPEN_MAX: usize = 128;

    /// How much of `in_flight_bytes_max` slow peers may take: the rest is for replies that wait for the log.
    pub const fn peer_bytes_max(&self) -> u64 {
        share_of_peers(self.in_flight_bytes_max)
    }
}

pub(crate) const fn share_of_peers(in_flight_bytes_max: u64) -> u64 {
    in_flight_bytes_max / 4 * 3
}

/// Where bodies go that are not held in memory, and how much of that there may be.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// The folder, made when it is first needed. Its files have no names.
    pub dir: PathBuf,
    /// Bytes of all spooled bodies together.
    pub bytes_max: u64,
    /// Bytes of the disk that stay free.
    pub reserve_bytes: u64,
    /// Whether the files are encrypted, by keys that only the process has.
    pub encrypt: bool,
}

impl SpoolOptions {
    /// The defaults, in a folder.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, bytes_max: 1 << 30, reserve_bytes: 0, encrypt: false }
    }
}

/// One route.
#[derive(Debug, Clone)]
pub struct RouteSpec {
    /// The path pattern: literal segments, `{name}`, and `*` at the end.
    pub path: String,
    /// The host that it answers for; any if none.
    pub host: Option<String>,
    /// The methods that it takes; those of its handler if none.
    pub methods: Option<Methods>,
    /// What answers.
    pub handler: HandlerSpec,
    /// The stream that its transactions are recorded in, by its place in [`ServerOptions::streams`].
    pub stream: Option<usize>,
    /// Bytes of a request body.
    pub body_bytes_max: u64,
    /// How fast a body has to come; as [`ConnectionLimits`] say if none.
    pub body_pace: Option<BodyPace>,
    /// Which pages of other origins may use it; none if none.
    pub cors: Option<CorsSpec>,
    /// How many of its requests are taken on.
    pub limits: RouteLimits,
    /// The app that it belongs to, by its place in [`ServerOptions::apps`]; none of the server itself.
    pub app: Option<usize>,
    /// What its scripts may reach.
    pub access: ScriptAccess,
    /// Scripts that run before the handler, in this order, and may reply in its place.
    pub before: Vec<ScriptFile>,
    /// Scripts that are told each reply, in this order, and may change header fields of it; none with
    /// [`HandlerSpec::Collect`].
    pub after: Vec<ScriptFile>,
}

/// A script beside the handler of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFile {
    /// The script.
    pub file: PathBuf,
    /// The folder that it may load modules from.
    pub root: PathBuf,
}

/// What the script of a route may reach outside of its VM.
#[derive(Debug, Clone, Default)]
pub struct ScriptAccess {
    /// The folder that its replies may send files of.
    pub files: Option<Box<FilesSpec>>,
    /// Where it saves parts of forms.
    pub uploads: Option<Uploads>,
    /// The databases that it may read.
    pub databases: Vec<Arc<dyn Database>>,
}

/// How many requests of a route are taken on, by all workers together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteLimits {
    /// At once, from the head to the reply of the handler, or the end of what it streams.
    pub concurrency_max: Option<u32>,
    /// In a time; the first rule that refuses a request answers it.
    pub rates: Vec<RateSpec>,
}

/// So many requests in a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateSpec {
    /// How many in each period.
    pub count: u32,
    /// The period.
    pub period: Duration,
    /// How many at once, after a time without any.
    pub burst: u32,
    /// Whose requests are counted together.
    pub by: RateKey,
    /// Keys that are remembered, 16 bytes each.
    pub keys_max: usize,
}

impl RateSpec {
    /// Keys that are remembered by rules that say nothing else.
    pub const KEYS_MAX: usize = 65_536;
}

/// Whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateKey {
    /// All of the route.
    Route,
    /// Those of a client: an IPv4 address, or an IPv6 network of 64 bits.
    Client,
    /// Those that say the same there: a header field, a cookie or an item of the query. Who says nothing
    /// counts as client.
    Named(Source),
}

impl RouteSpec {
    /// The path of the server as a whole: `OPTIONS *`.
    pub const ASTERISK: &'static str = "*";
    /// Bytes of a request body, of routes that say nothing else.
    pub const BODY_BYTES_MAX: u64 = 1 << 20;

    /// A route of any host that does nothing beside its handler: no stream, no bounds of its own but that of
    /// bodies.
    pub fn new(path: &str, handler: HandlerSpec) -> Self {
        Self {
            path: path.to_owned(),
            host: None,
            methods: None,
            handler,
            stream: None,
            body_bytes_max: Self::BODY_BYTES_MAX,
            body_pace: None,
            cors: None,
            limits: RouteLimits::default(),
            app: None,
            access: ScriptAccess::default(),
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// The scripts that have a part in it, each with the folder of its modules.
    pub fn scripts(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let handler = match &self.handler {
            HandlerSpec::Script { file, root } => Some((file, root)),
            HandlerSpec::Collect
            | HandlerSpec::Files(_)
            | HandlerSpec::Proxy(_)
            | HandlerSpec::Reply { .. } => None,
        };
        let beside = self.before.iter().chain(&self.after).map(|script| (&script.file, &script.root));
        handler.into_iter().chain(beside).map(|(file, root)| (file.as_path(), root.as_path()))
    }

    /// The methods that reach the handler, as far as they are known without its script. GET brings HEAD.
    pub fn known_methods(&self) -> Option<Methods> {
        let methods = match (&self.handler, self.methods) {
            _ if self.path == Self::ASTERISK => Some(Methods::from_iter([Method::Options])),
            (_, Some(methods)) => Some(methods),
            (HandlerSpec::Collect, None) => Some(Methods::from_iter([Method::Post])),
            (HandlerSpec::Files(_) | HandlerSpec::Reply { .. }, None) => {
                Some(Methods::from_iter([Method::Get]))
            }
            (HandlerSpec::Proxy(_), None) => Some(Method::ALL.into_iter().collect()),
            (HandlerSpec::Script { .. }, None) => None,
        };
        methods.map(Self::with_head)
    }

    /// RFC 9110 section 9.3.2: HEAD is GET without the content.
    pub(crate) fn with_head(mut methods: Methods) -> Methods {
        if methods.contains(Method::Get) {
            methods.insert(Method::Head);
        }
        methods
    }
}

/// Which pages of other origins may use a route, and how (Fetch standard, section 3.3).
///
/// With credentials nothing is [`AnyOr::Any`]: browsers take `*` by its letter then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsSpec {
    /// The origins, as browsers write them.
    pub origins: AnyOr<String>,
    /// The methods; those of the route if none.
    pub methods: Option<Methods>,
    /// The header fields that a page may send.
    pub headers: AnyOr<String>,
    /// The header fields of a reply that a page may read.
    pub expose: AnyOr<String>,
    /// Whether cookies and the like may come along.
    pub credentials: bool,
    /// How long a browser remembers the answer to a preflight. In whole seconds.
    pub max_age: Duration,
}

/// Any, or what is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnyOr<T> {
    /// Any.
    Any,
    /// These.
    Listed(Vec<T>),
}

/// What answers on a route.
#[derive(Debug, Clone)]
pub enum HandlerSpec {
    /// A Luau script; `require` stays inside `root`.
    Script {
        /// The script.
        file: PathBuf,
        /// The folder that it may load modules from.
        root: PathBuf,
    },
    /// JSON items straight into the stream's columns.
    Collect,
    /// The files of a folder.
    Files(Box<FilesSpec>),
    /// A backend.
    Proxy(Box<ProxySpec>),
    /// Always the same.
    Reply {
        /// The status.
        status: u16,
        /// The content type.
        content_type: String,
        /// The content.
        body: Bytes,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// One worker on a free port, without routes.
    pub(crate) fn options() -> ServerOptions {
        ServerOptions {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()],
            trusted_proxies: TrustedProxies::default(),
            backlog: 64,
            workers: 1,
            connection: ConnectionLimits::default(),
            capacity: CapacityLimits::default(),
            spool: SpoolOptions::new(PathBuf::from("spool")),
            script: HostOptions::default(),
            streams: Vec::new(),
            backends: Vec::new(),
            routes: Vec::new(),
            apps: Vec::new(),
            version: 1,
            dev: None,
            request_ids: RequestIds::default(),
            traces: Traces::default(),
            drain_timeout: Duration::from_secs(5),
        }
    }
}
