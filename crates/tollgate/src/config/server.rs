//! `[server]`: the addresses to listen on, and the limits of connections and bodies.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollgate_server::{
    AccessQueue, CapacityLimits, ClientHeader, ConnectionLimits, Doctype, HostOptions, HttpsOptions,
    RequestIds, ServerOptions, SpoolOptions, Traces, TrustedProxies, UnderscoreNames,
};

use super::defaults::{self, OFF};
use super::key::{keys, set_defaults, write};
use super::listen::{self, read_proxies};
use super::log::RETAIN_BYTES_MAX;
use super::path::{PathTo, path};
use super::quoted::quoted_path;
use super::reach::{ReachableBounds, check_memory};
use super::section::Section;
use super::units::{GIB, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS, TIMEOUT_MS};
use super::value::{Named, Value, named, names};

pub(super) const BODY_BYTES: RangeInclusive<u64> = 0..=1024 * GIB;
pub(super) const BODY_RATE: RangeInclusive<u64> = 0..=GIB;

named!(ClientHeader, UnderscoreNames);

impl Named for RequestIds {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("trusted", Self::Trusted), ("take", Self::Take), ("make", Self::Make), ("silent", Self::Silent)]
    }
}

impl Named for Doctype {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("refuse", Self::Refuse), ("skip", Self::Skip)]
    }
}

impl Named for Traces {
    fn all() -> Vec<(&'static str, Self)> {
        vec![
            ("take", Self::Take),
            ("trusted", Self::Trusted),
            ("pass", Self::Pass),
            ("make", Self::Make),
            ("off", Self::Off),
        ]
    }
}

/// The values of `[server]`. Two of these keys are not in the options of the server.
pub(super) struct WrittenServer {
    pub(super) options: ServerOptions,
    pub(super) is_connections_max_written: bool,
    pub(super) body_bytes_max: u64,
    pub(super) drain_delay: Duration,
}

keys! {
    pub(super) KEYS of ServerOptions;
    /// The addresses that the server listens on.
    listen [LISTEN] = other(r#"`["127.0.0.1:8080"]`"#, "a list of addresses, at least one").restart();
    /// Connections that may wait to be accepted, for each socket.
    backlog = integer(4096, 1..=65_535).restart() => backlog;
    /// Worker threads.
    workers = integer_or("auto", 1..=1024).restart() => workers;
    /// The proxies that may name the client of a request.
    trusted_proxies [TRUSTED_PROXIES] = other("`[]`", r#"a list of networks, addresses, `"unix"`"#);
    /// The header that trusted proxies write.
    client_header = one_of("x-forwarded-for", names::<ClientHeader>) => trusted_proxies.header;
    /// Bytes of a request's head. More: 431.
    head_bytes_max = size(16 * KIB, KIB..=MIB) => connection.head.head_bytes_max;
    /// Bytes of a request's target. More: 414.
    target_bytes_max = size(8000, 64..=MIB).at_most("head_bytes_max") => connection.head.target_bytes_max;
    /// Header fields of a request. More: 431.
    fields_max = integer(100, 1..=10_000) => connection.head.fields_max;
    /// The treatment of header fields with `_` in their name.
    underscore_names = one_of("refuse", names::<UnderscoreNames>) => connection.head.underscore_names;
    /// Bytes of a request's body, as it arrived and also decoded. More: 413.
    body_bytes_max [BODY_BYTES_MAX] = size(MIB, BODY_BYTES).by_hand();
    /// Bytes of an arriving body that are held in memory.
    body_memory_max = size(256 * KIB, 4 * KIB..=64 * MIB) => connection.body_memory_max;
    /// The folder of the files that hold longer bodies.
    spool_dir [SPOOL_DIR] = text(defaults::SPOOL_DIR, "a path").restart();
    /// Bytes of all these files together. More: 503 `refused`.
    spool_bytes_max = size(GIB, 0..=RETAIN_BYTES_MAX).restart() => spool.bytes_max;
    /// Whether these files are encrypted.
    spool_encrypt = switch(false).restart() => spool.encrypt;
    /// Whether XML with a document type declaration is read. One with an internal subset is always refused.
    xml_doctype = one_of("refuse", names::<Doctype>) => script.doctype;
    /// Time from the first byte of a head to its last. Then: 408.
    head_timeout = duration(10 * SECOND_MS, TIMEOUT_MS) => connection.head_timeout;
    /// Time from the head to the last byte of the body. Then: 408.
    body_timeout = duration(10 * MINUTE_MS, TIMEOUT_MS) => connection.body_pace.timeout;
    /// Time between a reply and the next request. Then the connection is closed.
    idle_timeout = duration(75 * SECOND_MS, TIMEOUT_MS) => connection.idle_timeout;
    /// The `idle_timeout` while there are more than 4/5 of `connections_max`.
    idle_timeout_crowded = duration(5 * SECOND_MS, TIMEOUT_MS).default_at_most("idle_timeout")
        => connection.idle_timeout_crowded;
    /// Time that a client may be late in accepting its reply, compared with `write_rate_min`.
    write_timeout = duration(30 * SECOND_MS, TIMEOUT_MS) => connection.write_timeout;
    /// Bytes per second at which a body must arrive on average. Slower: 408. 0B: no minimum.
    body_rate_min = size(500, BODY_RATE) => connection.body_pace.rate_min;
    /// Time that a body may be late, compared with `body_rate_min`.
    body_rate_grace = duration(5 * SECOND_MS, TIMEOUT_MS) => connection.body_pace.rate_grace;
    /// Bytes per second at which a client must accept its reply. 0B: no minimum.
    write_rate_min = size(500, 0..=GIB) => connection.write_rate_min;
    /// Requests of one connection at once that are handled or whose replies have not left.
    pipeline_depth_max = integer(256, 1..=65_536) => connection.pipeline_depth_max;
    /// Requests of one connection. The last reply has `Connection: close`.
    requests_per_connection_max = integer_or(OFF, 1..=1 << 32) => connection.requests_max;
    /// Connections at once. More: 503, or closed.
    connections_max [CONNECTIONS_MAX] = integer(16_384, 1..=1 << 24)
        .or("fewer if the [limit of descriptors](limits.md#the-budget-of-descriptors) requires it")
        => capacity.connections_max;
    /// Connections at once of one IPv4 address or IPv6 network of 64 bits. More: 429.
    connections_per_client_max = integer_or(OFF, 1..=1 << 24).at_most("connections_max")
        => capacity.connections_per_client_max;
    /// Bytes held for incomplete bodies and unread replies. More: 503, or the connection is closed.
    in_flight_bytes_max = size(256 * MIB, MIB..=1024 * GIB) => capacity.in_flight_bytes_max;
    /// How long a request may wait for its turn in a worker.
    queue_age_max = duration(SECOND_MS, 10..=HOUR_MS) => capacity.queue_age_max;
    /// The clients whose request ids are accepted, and whether replies have ids.
    request_id = one_of("trusted", names::<RequestIds>) => request_ids;
    /// The clients whose `traceparent` is accepted, and whether other requests get a new trace.
    trace = one_of("take", names::<Traces>) => traces;
    /// How long the server still accepts connections after a stop, while `/readyz` says `draining`.
    drain_delay [DRAIN_DELAY] = duration(0, 0..=HOUR_MS).by_hand();
    /// How long requests in flight may take after a stop.
    drain_timeout = duration(10 * SECOND_MS, 0..=HOUR_MS) => drain_timeout;
}

/// Returns the options of a configuration without this section. They have no routes. Paths are relative to
/// `folder`.
pub(super) fn unwritten(folder: &Path) -> WrittenServer {
    let mut options = ServerOptions {
        listen: defaults::listen(),
        tls: None,
        https: HttpsOptions::default(),
        challenges: None,
        dns_hook: None,
        backlog: 0,
        workers: 0,
        connection: ConnectionLimits::default(),
        trusted_proxies: TrustedProxies::default(),
        capacity: CapacityLimits::default(),
        spool: SpoolOptions::new(folder.join(SPOOL_DIR.default_text())),
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
        drain_timeout: Duration::ZERO,
    };
    set_defaults(KEYS, &mut options);
    options.workers = defaults::cores();
    let (body_bytes_max, drain_delay) = (BODY_BYTES_MAX.default_number(), DRAIN_DELAY.default_number());
    let drain_delay = Duration::from_millis(drain_delay.unwrap_or_default());
    let body_bytes_max = body_bytes_max.unwrap_or_default();
    WrittenServer { options, is_connections_max_written: false, body_bytes_max, drain_delay }
}

pub(super) fn server(mut section: Section<'_>, folder: &Path) -> WrittenServer {
    let mut written = unwritten(folder);
    let options = &mut written.options;
    options.listen = listen::listen(&mut section, &LISTEN, folder);
    section.overlay(KEYS, options);
    if options.workers == 0 {
        options.workers = defaults::cores();
    }
    read_proxies(&mut section, &TRUSTED_PROXIES, &mut options.trusted_proxies);
    if let Some(dir) = path(&mut section, SPOOL_DIR.name, PathTo::Folder) {
        options.spool.dir = folder.join(dir.value);
    }
    written.is_connections_max_written = section.has(CONNECTIONS_MAX.name);
    written.body_bytes_max = section.number_or_default(&BODY_BYTES_MAX);
    written.drain_delay = Duration::from_millis(section.number_or_default(&DRAIN_DELAY));
    check_memory(&section, &options.connection, &options.capacity);
    ReachableBounds::new(&options.connection, &options.spool).check_body(&section, written.body_bytes_max);
    section.finish();
    written
}

/// Writes the section. Two of its keys are not in the options of the server.
pub(super) fn write_server(
    server: &ServerOptions,
    body_bytes_max: u64,
    drain_delay: Duration,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let listen: Vec<_> = server.listen.iter().map(listen::show).collect();
    writeln!(f, "[server]")?;
    let own = [
        (LISTEN.name, Some(format!("[{}]", listen.join(", ")))),
        (TRUSTED_PROXIES.name, Some(listen::show_proxies(&server.trusted_proxies))),
        (BODY_BYTES_MAX.name, Some(BODY_BYTES_MAX.show(body_bytes_max))),
        (SPOOL_DIR.name, Some(quoted_path(&server.spool.dir))),
        (DRAIN_DELAY.name, Some(DRAIN_DELAY.show(drain_delay.number()))),
    ];
    write(KEYS, server, &own, f)
}
