//! `[server]`: where to listen, and the limits of connections and bodies.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_server::{
    BodyPace, CapacityLimits, ConnectionLimits, ListenSpec, RequestIds, ServerOptions, SpoolOptions, Traces,
    TrustedProxies, UnderscoreNames,
};

use super::defaults::{self, OFF};
use super::listen::{self, trusted_proxies};
use super::log::RETAIN_BYTES_MAX;
use super::path::{PathTo, path};
use super::quoted::{quoted_path, show_or_off};
use super::reach::{Reach, check_server};
use super::section::Section;
use super::units::{GIB, HOUR_MS, KIB, MIB, show_duration, show_size};

const TIMEOUT_MS: RangeInclusive<u64> = 1..=24 * HOUR_MS;
pub(super) const BODY_BYTES: RangeInclusive<u64> = 0..=1024 * GIB;

const REQUEST_IDS: [(&str, RequestIds); 4] = [
    ("trusted", RequestIds::Trusted),
    ("take", RequestIds::Take),
    ("make", RequestIds::Make),
    ("silent", RequestIds::Silent),
];
const TRACES: [(&str, Traces); 5] = [
    ("take", Traces::Take),
    ("trusted", Traces::Trusted),
    ("pass", Traces::Pass),
    ("make", Traces::Make),
    ("off", Traces::Off),
];

pub(super) struct WrittenServer {
    pub(super) listen: Vec<ListenSpec>,
    pub(super) trusted_proxies: TrustedProxies,
    pub(super) backlog: u32,
    pub(super) workers: usize,
    pub(super) connection: ConnectionLimits,
    pub(super) is_connections_max_written: bool,
    pub(super) capacity: CapacityLimits,
    pub(super) spool: SpoolOptions,
    pub(super) body_bytes_max: u64,
    pub(super) request_ids: RequestIds,
    pub(super) traces: Traces,
    pub(super) drain_delay: Duration,
    pub(super) drain_timeout: Duration,
}

pub(super) fn server(mut section: Section<'_>, folder: &Path) -> WrittenServer {
    let written = WrittenServer {
        listen: listen::listen(&mut section, folder),
        trusted_proxies: trusted_proxies(&mut section),
        backlog: section.integer("backlog", 1..=65_535, defaults::BACKLOG),
        workers: workers(&mut section),
        connection: connection(&mut section),
        is_connections_max_written: section.has("connections_max"),
        capacity: capacity(&mut section),
        spool: spool(&mut section, folder),
        body_bytes_max: section.size("body_bytes_max", BODY_BYTES, defaults::BODY_BYTES_MAX),
        request_ids: section.choice("request_id", &REQUEST_IDS).unwrap_or_default(),
        traces: section.choice("trace", &TRACES).unwrap_or_default(),
        drain_delay: section.duration("drain_delay", 0..=HOUR_MS, Duration::ZERO),
        drain_timeout: section.duration("drain_timeout", 0..=HOUR_MS, defaults::DRAIN_TIMEOUT),
    };
    check_server(&section, &written.connection, &written.capacity);
    Reach::new(&written.connection, &written.spool).check_body(&section, written.body_bytes_max);
    section.finish();
    written
}

fn workers(section: &mut Section<'_>) -> usize {
    let found = section.integer_or("workers", 1..=1024, "auto");
    found.and_then(|workers| workers.try_into().ok()).unwrap_or_else(defaults::cores)
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
        let (target, head) = (show_size(target as u64), show_size(head as u64));
        let key = section.first_of(["target_bytes_max", "head_bytes_max"]);
        section.fault_of(key, format!("target_bytes_max is {target}, limit is head_bytes_max: {head}"));
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
    limits.requests_max = section.integer_or("requests_per_connection_max", 1..=1 << 32, OFF);
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

fn capacity(section: &mut Section<'_>) -> CapacityLimits {
    let mut limits = CapacityLimits::default();
    limits.connections_max = section.integer("connections_max", 1..=1 << 24, limits.connections_max);
    let per_client = section.integer_or("connections_per_client_max", 1..=1 << 24, OFF);
    limits.connections_per_client_max = per_client.and_then(|max| max.try_into().ok());
    limits.in_flight_bytes_max =
        section.size("in_flight_bytes_max", MIB..=1024 * GIB, limits.in_flight_bytes_max);
    limits.queue_age_max = section.duration("queue_age_max", 10..=HOUR_MS, limits.queue_age_max);
    limits
}

fn spool(section: &mut Section<'_>, folder: &Path) -> SpoolOptions {
    let dir = path(section, "spool_dir", PathTo::Folder);
    let dir = dir.map_or_else(|| PathBuf::from(defaults::SPOOL_DIR), |dir| PathBuf::from(dir.value));
    let mut spool = SpoolOptions::new(folder.join(dir));
    spool.bytes_max = section.size("spool_bytes_max", 0..=RETAIN_BYTES_MAX, spool.bytes_max);
    spool.encrypt = section.switch("spool_encrypt").map_or(spool.encrypt, |encrypt| encrypt.value);
    spool
}

/// Writes the section. Two of its keys are not in the options of the server.
pub(super) fn write_server(
    server: &ServerOptions,
    body_bytes_max: u64,
    drain_delay: Duration,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let limits = &server.connection;
    let listen: Vec<_> = server.listen.iter().map(listen::show).collect();
    writeln!(f, "[server]")?;
    writeln!(f, "listen = [{}]", listen.join(", "))?;
    writeln!(f, "backlog = {}", server.backlog)?;
    writeln!(f, "workers = {}", server.workers)?;
    writeln!(f, "trusted_proxies = {}", listen::show_proxies(&server.trusted_proxies))?;
    writeln!(f, "client_header = \"{}\"", server.trusted_proxies.header.name())?;
    writeln!(f, "head_bytes_max = \"{}\"", show_size(limits.head.head_bytes_max as u64))?;
    writeln!(f, "target_bytes_max = \"{}\"", show_size(limits.head.target_bytes_max as u64))?;
    writeln!(f, "fields_max = {}", limits.head.fields_max)?;
    writeln!(f, "underscore_names = \"{}\"", limits.head.underscore_names.name())?;
    writeln!(f, "body_bytes_max = \"{}\"", show_size(body_bytes_max))?;
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
    writeln!(f, "connections_max = {}", server.capacity.connections_max)?;
    let per_client = server.capacity.connections_per_client_max;
    writeln!(f, "connections_per_client_max = {}", show_or_off(per_client))?;
    writeln!(f, "in_flight_bytes_max = \"{}\"", show_size(server.capacity.in_flight_bytes_max))?;
    writeln!(f, "queue_age_max = \"{}\"", show_duration(server.capacity.queue_age_max))?;
    writeln!(f, "request_id = \"{}\"", show_request_ids(server.request_ids))?;
    let traces = TRACES.iter().find(|(_, known)| *known == server.traces).map_or("", |(name, _)| name);
    writeln!(f, "trace = \"{traces}\"")?;
    writeln!(f, "drain_delay = \"{}\"", show_duration(drain_delay))?;
    writeln!(f, "drain_timeout = \"{}\"", show_duration(server.drain_timeout))
}

fn show_request_ids(request_ids: RequestIds) -> &'static str {
    REQUEST_IDS.iter().find(|(_, known)| *known == request_ids).map_or("", |(name, _)| name)
}
