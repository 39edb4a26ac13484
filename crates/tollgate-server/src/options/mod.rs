//! The options of the server: the resolved configuration, which the caller has already checked.

mod access_log;
mod any_or;
mod app;
mod auth;
mod client_certificate;
mod collect;
mod dev;
mod dns_hook;
mod handler;
mod https;
mod listen;
mod media_types;
mod proxy;
pub(crate) mod stream;
mod validate;
mod verify;
mod when;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tollgate_backend::BackendOptions;
use tollgate_files::FilesSpec;
use tollgate_http::{Limits, Method, Methods};
use tollgate_script::{Database, HostOptions, TraceRule, Uploads};
use tollgate_tls::ServerTls;

use crate::access_queue::AccessQueue;
use crate::trust::TrustedProxies;
pub use access_log::{AccessLogOptions, AccessOnly, SpanOptions};
pub(crate) use access_log::{AccessRedaction, shown};
pub use any_or::AnyOr;
pub use app::AppSpec;
pub use auth::{AuthSpec, FailureLimit, JwtKeys, JwtSpec, LoadedFile, RouteAuth};
pub use client_certificate::ClientCertificateRule;
pub use collect::{CollectContent, CollectReply, CollectSpec, XmlItems};
pub use dev::{Dev, SourceFault};
pub use dns_hook::DnsHookSpec;
pub use handler::HandlerSpec;
pub use https::{Hsts, HttpsOptions, RedirectKind};
pub use listen::{BoundAddress, ListenAddress, ListenSpec};
pub use media_types::{MediaRange, MediaTypes};
pub(crate) use media_types::{essence_of, is_xml};
pub use proxy::{EncodedSlashes, HostSent, ProxySpec};
use stream::{Source, StreamSpec};
pub use validate::{SchemaSpec, ValidateMode, ValidateSpec};
pub use verify::{
    MessagePart, MessageTemplate, PRESETS, SecretForm, SignatureAlgorithm, SignatureEncoding, SignatureKind,
    SignaturePreset, SignatureScheme, SignatureSeparator, VerifyKeys, VerifySecret, VerifySpec,
};
pub use when::{ChosenHandler, ConditionSpec, RuleSpec, ValueTest, WhenSpec, XmlPaths};

/// The complete options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The addresses that the server listens on.
    pub listen: Vec<ListenSpec>,
    /// The certificates of addresses with TLS. `None`: no address uses TLS.
    pub tls: Option<Arc<ServerTls>>,
    /// Rules that lead clients to HTTPS.
    pub https: HttpsOptions,
    /// The folder of answers to challenges of an ACME server, each in a file with the name of its token.
    /// `None`: such requests find a route like all others.
    pub challenges: Option<PathBuf>,
    /// The hook for challenges of an ACME server by DNS. Workers do not run it.
    pub dns_hook: Option<DnsHookSpec>,
    /// Peers that may name the client of a request.
    pub trusted_proxies: TrustedProxies,
    /// Maximum number of connections that the kernel holds before they are accepted.
    pub backlog: u32,
    /// Number of worker threads.
    pub workers: usize,
    /// Bounds on each connection.
    pub connection: ConnectionLimits,
    /// Bounds on all connections together.
    pub capacity: CapacityLimits,
    /// Options of the spool, which stores bodies that exceed `body_memory_max`.
    pub spool: SpoolOptions,
    /// Bounds on scripts.
    pub script: HostOptions,
    /// The streams. A route names its stream by the index.
    pub streams: Vec<StreamSpec>,
    /// The backends. A route names its backend by the index, and a script by the name.
    pub backends: Vec<BackendOptions>,
    /// All routes of the server.
    pub routes: Vec<RouteSpec>,
    /// The apps. A route names its app by the index.
    pub apps: Vec<AppSpec>,
    /// Version of the configuration, for log lines.
    pub version: u64,
    /// Development mode, which shows errors to every client. `None` for a server in production.
    pub dev: Option<Dev>,
    /// Source of request ids.
    pub request_ids: RequestIds,
    /// Source of traces.
    pub traces: Traces,
    /// Options of the access log. `None`: no request gets a line.
    pub access_log: Option<AccessLogOptions>,
    /// The queue of the lines of the access log. A reload does not change it.
    pub access_queue: Arc<AccessQueue>,
    /// Options of the exported spans. `None`: no request gets a span.
    pub spans: Option<SpanOptions>,
    /// The queue of the spans. A reload does not change it.
    pub span_queue: Arc<AccessQueue>,
    /// Maximum time of running requests after a stop was requested.
    pub drain_timeout: Duration,
}

impl ServerOptions {
    /// Returns what lines and spans hide of requests whose records go to these streams. `None`: there are
    /// neither lines nor spans.
    pub(crate) fn access_redaction<'s>(
        &self,
        streams: impl IntoIterator<Item = &'s StreamSpec>,
    ) -> Option<AccessRedaction> {
        if self.access_log.is_none() && self.spans.is_none() {
            return None;
        }
        let omit_query = self.access_log.as_ref().map_or(&[][..], |log| &log.omit_query);
        Some(AccessRedaction::new(omit_query, streams))
    }
}

/// Source of request ids, and whether replies have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestIds {
    /// The valid `X-Request-Id` of a trusted proxy, or a new id. Replies of handlers have the id.
    #[default]
    Trusted,
    /// The valid `X-Request-Id` of any peer, or a new id. Replies of handlers have the id.
    Take,
    /// Always a new id. Replies of handlers have the id.
    Make,
    /// Always a new id. Replies do not have the id.
    Silent,
}

impl RequestIds {
    /// Returns whether the id of a peer is accepted, depending on whether the peer is a trusted proxy.
    pub(crate) fn takes(self, is_from_proxy: bool) -> bool {
        match self {
            Self::Trusted => is_from_proxy,
            Self::Take => true,
            Self::Make | Self::Silent => false,
        }
    }
}

/// Source of the traces of requests (W3C Trace Context).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Traces {
    /// The valid `traceparent` of a trusted proxy, or a new trace.
    Trusted,
    /// The valid `traceparent` of any peer, or a new trace.
    #[default]
    Take,
    /// The valid `traceparent` of any peer, or no trace.
    Pass,
    /// Always a new trace.
    Make,
    /// No traces.
    Off,
}

impl Traces {
    /// Returns the rule for a request, depending on whether it comes from a trusted proxy.
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

/// Bounds on each connection.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Bounds on request heads.
    pub head: Limits,
    /// Maximum time from the acceptance of a connection to the end of its TLS handshake.
    pub handshake_timeout: Duration,
    /// Maximum time from the first byte of a head to its last byte.
    pub head_timeout: Duration,
    /// Pace at which request bodies have to arrive.
    pub body_pace: BodyPace,
    /// Maximum time between the end of a reply and the first byte of the next request.
    pub idle_timeout: Duration,
    /// The idle timeout while the number of connections is near its limit.
    pub idle_timeout_crowded: Duration,
    /// Maximum time in which the peer takes no bytes of a reply.
    pub write_timeout: Duration,
    /// Minimum rate at which the peer has to take a reply, in bytes per second. The rate applies after
    /// `write_timeout`. 0 means no minimum.
    pub write_rate_min: u64,
    /// Maximum number of requests of one connection.
    pub requests_max: Option<u64>,
    /// Maximum number of requests of one connection that are answered with one write.
    pub pipeline_depth_max: usize,
    /// Maximum bytes of a body that stay in memory while it arrives. A longer body is spooled.
    pub body_memory_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            head: Limits::default(),
            handshake_timeout: Duration::from_secs(5),
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

/// Pace at which a request body has to arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyPace {
    /// Maximum time from the end of the head to the last byte of the body.
    pub timeout: Duration,
    /// Minimum average rate in bytes per second. 0 means no minimum.
    pub rate_min: u64,
    /// Maximum delay of a body, compared with `rate_min`.
    pub rate_grace: Duration,
}

impl Default for BodyPace {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(600), rate_min: 500, rate_grace: Duration::from_secs(5) }
    }
}

impl BodyPace {
    /// Returns the maximum time without a byte before a body is too slow.
    pub(crate) fn patience(&self) -> Duration {
        if self.rate_min == 0 { self.timeout } else { self.rate_grace.min(self.timeout) }
    }
}

/// Bounds on all connections together.
#[derive(Debug, Clone)]
pub struct CapacityLimits {
    /// Maximum number of concurrent connections.
    pub connections_max: usize,
    /// Maximum number of concurrent connections of one client, which is an IPv4 address or an IPv6 network of
    /// 64 bits.
    pub connections_per_client_max: Option<u32>,
    /// Maximum bytes of incomplete requests and of replies that clients have not taken, in addition to 4 KiB
    /// for each connection.
    pub in_flight_bytes_max: u64,
    /// Maximum time that a request waits for its turn.
    pub queue_age_max: Duration,
    /// Maximum number of files that one worker keeps open between requests.
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
    /// Maximum number of files that a worker keeps open, independent of the descriptor limit.
    pub const FILES_OPEN_MAX: usize = 128;

    /// Returns the part of `in_flight_bytes_max` that slow peers may use. The remaining bytes are for replies
    /// that wait for the log.
    pub const fn peer_bytes_max(&self) -> u64 {
        share_of_peers(self.in_flight_bytes_max)
    }
}

pub(crate) const fn share_of_peers(in_flight_bytes_max: u64) -> u64 {
    in_flight_bytes_max / 4 * 3
}

/// Options of the spool, which stores bodies that are not held in memory.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// The folder, which is created when it is first needed. The files in it have no names.
    pub dir: PathBuf,
    /// Maximum bytes of all spooled bodies together.
    pub bytes_max: u64,
    /// Number of bytes of the disk that have to stay free.
    pub reserve_bytes: u64,
    /// Whether the files are encrypted with keys that only the process knows.
    pub encrypt: bool,
}

impl SpoolOptions {
    /// Creates default options for a folder.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, bytes_max: 1 << 30, reserve_bytes: 0, encrypt: false }
    }
}

/// One route.
#[derive(Debug, Clone)]
pub struct RouteSpec {
    /// The path pattern: literal segments, `{name}`, and `*` at the end.
    pub path: String,
    /// The host of the route. `None` means any host.
    pub host: Option<String>,
    /// The methods that the route accepts. `None` means the methods of its handler.
    pub methods: Option<Methods>,
    /// The handler of the route.
    pub handler: HandlerSpec,
    /// The stream for records of transactions, as an index in [`ServerOptions::streams`].
    pub stream: Option<usize>,
    /// Maximum size of a request body in bytes.
    pub body_bytes_max: u64,
    /// Pace at which a body has to arrive. `None` means the pace in [`ConnectionLimits`].
    pub body_pace: Option<BodyPace>,
    /// Policy for pages of other origins that use the route. `None` means that no page of another origin may
    /// use the route.
    pub cors: Option<CorsSpec>,
    /// The certificates of clients that the route accepts. `None`: the route asks for none.
    pub client_certificate: Option<ClientCertificateRule>,
    /// Limits on the requests of the route.
    pub limits: RouteLimits,
    /// The signature that requests must have. `None`: no signature is verified.
    pub verify: Option<Arc<VerifySpec>>,
    /// The schemas that the messages of the route must follow. `None`: no message is validated.
    pub validate: Option<Arc<ValidateSpec>>,
    /// The credentials that the route asks for. `None` means that everybody may use the route.
    pub auth: Option<RouteAuth>,
    /// Whether the stream also records requests that the route refuses with 401 or 403.
    pub refused: bool,
    /// The app of the route, as an index in [`ServerOptions::apps`]. `None` for a route of the server itself.
    pub app: Option<usize>,
    /// Resources that the scripts of the route may use.
    pub access: ScriptAccess,
    /// Scripts that run before the handler, in this order, and may reply in its place.
    pub before: Vec<ScriptFile>,
    /// Scripts that get each reply, in this order, and may change its header fields. The list is empty with
    /// [`HandlerSpec::Collect`].
    pub after: Vec<ScriptFile>,
}

/// A `before` or `after` script of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFile {
    /// Path of the script file.
    pub file: PathBuf,
    /// The folder from which the script may load modules.
    pub root: PathBuf,
}

/// Resources outside of the VM that the scripts of a route may use.
#[derive(Debug, Clone, Default)]
pub struct ScriptAccess {
    /// The folder from which replies may send files.
    pub files: Option<Box<FilesSpec>>,
    /// The folder in which scripts may save parts of forms.
    pub uploads: Option<Uploads>,
    /// The databases that scripts may read.
    pub databases: Vec<Arc<dyn Database>>,
}

/// Limits on the requests of a route, over all workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteLimits {
    /// Maximum number of running requests. A request runs from its head to the reply of the handler, or to
    /// the end of streamed content.
    pub concurrency_max: Option<u32>,
    /// Rate rules. The first rule that a request exceeds refuses it.
    pub rates: Vec<RateSpec>,
}

/// A number of requests in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateSpec {
    /// Number of requests in each period.
    pub count: u32,
    /// Length of the period.
    pub period: Duration,
    /// Maximum number of requests that may arrive together, after a time without requests.
    pub burst: u32,
    /// The requests that are counted together.
    pub by: RateKey,
    /// Number of keys that are remembered. Each needs 16 bytes.
    pub keys_max: usize,
}

impl RateSpec {
    /// Default number of remembered keys.
    pub const KEYS_MAX: usize = 65_536;
}

/// The requests that a rate counts together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateKey {
    /// All requests of the route.
    Route,
    /// The requests of one client, which is an IPv4 address or an IPv6 network of 64 bits.
    Client,
    /// The requests with the same value of a header field, a cookie or a query item. A request without this
    /// value counts by its client.
    Named(Source),
}

impl RouteSpec {
    /// The path of the server as a whole: `OPTIONS *`.
    pub const ASTERISK: &'static str = "*";
    /// Default limit for a request body, in bytes.
    pub const BODY_BYTES_MAX: u64 = 1 << 20;

    /// Creates a route of any host with only a handler. The route has no stream, and the default limit for
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
            client_certificate: None,
            limits: RouteLimits::default(),
            verify: None,
            validate: None,
            auth: None,
            refused: false,
            app: None,
            access: ScriptAccess::default(),
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Returns the scripts of the route, each with the folder of its modules.
    pub fn scripts(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let handler = match &self.handler {
            HandlerSpec::Script { file, root } => Some((file, root)),
            HandlerSpec::Collect(_)
            | HandlerSpec::Files(_)
            | HandlerSpec::Proxy(_)
            | HandlerSpec::Reply { .. }
            | HandlerSpec::When(_) => None,
        };
        let beside = self.before.iter().chain(&self.after).map(|script| (&script.file, &script.root));
        handler.into_iter().chain(beside).map(|(file, root)| (file.as_path(), root.as_path()))
    }

    /// Returns whether the route accepts some extension methods.
    pub(crate) fn takes_extension_methods(&self) -> bool {
        self.handler.proxies().any(ProxySpec::takes_extension_methods)
    }

    /// Returns the methods that reach the handler, if they are known without its script. GET includes HEAD.
    pub fn known_methods(&self) -> Option<Methods> {
        let mut methods = match (&self.handler, self.methods) {
            _ if self.path == Self::ASTERISK => Some(Methods::from_iter([Method::Options])),
            (_, Some(methods)) => Some(methods),
            (HandlerSpec::Collect(_), None) => Some(Methods::from_iter([Method::Post])),
            (HandlerSpec::Files(_) | HandlerSpec::Reply { .. }, None) => {
                Some(Methods::from_iter([Method::Get]))
            }
            (HandlerSpec::Proxy(_) | HandlerSpec::When(_), None) => Some(Method::ALL.into_iter().collect()),
            (HandlerSpec::Script { .. }, None) => None,
        };
        if self.takes_extension_methods()
            && let Some(methods) = &mut methods
        {
            methods.insert(Method::Extension);
        }
        methods.map(Self::with_head)
    }

    /// Adds HEAD to GET. RFC 9110 section 9.3.2: HEAD is GET without the content.
    pub(crate) fn with_head(mut methods: Methods) -> Methods {
        if methods.contains(Method::Get) {
            methods.insert(Method::Head);
        }
        methods
    }
}

/// Policy for pages of other origins that use a route (Fetch standard, section 3.3).
///
/// With credentials no field may be [`AnyOr::Any`] or [`Origins::Any`], because browsers then treat `*` as a
/// literal value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsSpec {
    /// The origins whose pages may use the route.
    pub origins: Origins,
    /// The methods. `None` means the methods of the route.
    pub methods: Option<Methods>,
    /// The header fields that a page may send.
    pub headers: AnyOr<String>,
    /// The header fields of a reply that a page may read.
    pub expose: AnyOr<String>,
    /// Whether cookies and other credentials may be sent.
    pub credentials: bool,
    /// Time for which a browser caches the answer to a preflight. The value has whole seconds.
    pub max_age: Duration,
}

/// The origins whose pages may use a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// Any page, without credentials.
    Any,
    /// Any page, with credentials. Each reply repeats the origin of its request. Only for routes whose
    /// replies depend on nothing that the credentials prove.
    AnyWithCredentials,
    /// These origins in the form that browsers send, and patterns such as `https://*.shop.example`.
    Listed(Vec<String>),
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// Returns options for one worker on a free port, without routes.
    pub(crate) fn options() -> ServerOptions {
        ServerOptions {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()],
            tls: None,
            https: HttpsOptions::default(),
            challenges: None,
            dns_hook: None,
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
            access_log: None,
            access_queue: Arc::default(),
            spans: None,
            span_queue: AccessQueue::of_spans(),
            drain_timeout: Duration::from_secs(5),
        }
    }
}
