//! `[server]`: where to listen, and the limits of connections and bodies.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_server::{
    BodyPace, ConnectionLimits, CrowdLimits, ListenSpec, RequestIds, SpoolOptions, Traces, TrustedProxies,
    UnderscoreNames,
};

use super::listen::{listen, trusted_proxies};
use super::log::RETAIN_BYTES_MAX;
use super::path::{PathTo, path};
use super::reach::{Reach, check_server};
use super::resolved;
use super::section::Section;
use super::units::{GIB, HOUR_MS, KIB, MIB, show_size};

const TIMEOUT_MS: RangeInclusive<u64> = 1..=24 * HOUR_MS;
pub(super) const BODY_BYTES: RangeInclusive<u64> = 0..=1024 * GIB;

pub(super) struct WrittenServer {
    pub(super) listen: Vec<ListenSpec>,
    pub(super) trusted_proxies: TrustedProxies,
    pub(super) backlog: u32,
    pub(super) workers: usize,
    pub(super) connection: ConnectionLimits,
    pub(super) crowd: CrowdLimits,
    pub(super) spool: SpoolOptions,
    pub(super) body_bytes_max: u64,
    pub(super) request_ids: RequestIds,
    pub(super) traces: Traces,
    pub(super) drain_delay: Duration,
    pub(super) drain_timeout: Duration,
}

pub(super) fn server(mut section: Section<'_>, folder: &Path) -> WrittenServer {
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
    let dir = path(section, "spool_dir", PathTo::Folder);
    let dir = dir.map_or_else(|| PathBuf::from(resolved::SPOOL_DIR), |dir| PathBuf::from(dir.value));
    let mut spool = SpoolOptions::new(folder.join(dir));
    spool.bytes_max = section.size("spool_bytes_max", 0..=RETAIN_BYTES_MAX, spool.bytes_max);
    spool.encrypt = section.switch("spool_encrypt").map_or(spool.encrypt, |encrypt| encrypt.value);
    spool
}
