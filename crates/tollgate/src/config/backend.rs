//! `[backend.NAME]`: where a backend is, and within which bounds it is asked.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use tollgate_server::{Address, BackendOptions, BreakerOptions, PoolOptions, RetryOptions, Timeouts};

use super::backend_tls::{tls, write_tls};
use super::quoted::quoted;
use super::route::is_name;
use super::section::Section;
use super::units::{GIB, HOUR_MS, KIB, MIB, MINUTE_MS, show_duration, show_size};

const TIMEOUT_MS: RangeInclusive<u64> = 1..=24 * HOUR_MS;
const ADDRESSES_MAX: usize = 64;

/// Takes all backends.
pub(super) fn backends(root: &mut Section<'_>, folder: &Path) -> Vec<BackendOptions> {
    let tables = root.named_tables("backend");
    tables
        .into_iter()
        .map(|(name, section)| {
            if !is_name(&name.value) {
                let allowed = "allowed is a letter or _, then letters, digits, _";
                section.fault_at(&name.span, format!("name of backend {:?}, {allowed}", name.value));
            }
            backend(&name.value, section, folder)
        })
        .collect()
}

fn backend(name: &str, mut section: Section<'_>, folder: &Path) -> BackendOptions {
    let mut options = BackendOptions::new(name, addresses(&mut section));
    options.tls = tls(&mut section, &options.addresses, folder);
    let timeouts = options.timeouts;
    options.timeouts = Timeouts {
        connect: section.duration("connect_timeout", TIMEOUT_MS, timeouts.connect),
        first_byte: section.duration("first_byte_timeout", TIMEOUT_MS, timeouts.first_byte),
        idle: section.duration("idle_timeout", TIMEOUT_MS, timeouts.idle),
        total: section.duration("timeout", TIMEOUT_MS, timeouts.total),
    };
    let pool = options.pool;
    options.pool = PoolOptions {
        idle_max: section.integer("pool_idle_max", 0..=65_536, pool.idle_max),
        idle_timeout: section.duration("pool_idle_timeout", TIMEOUT_MS, pool.idle_timeout),
        age_max: section.duration("pool_age_max", TIMEOUT_MS, pool.age_max),
    };
    options.concurrency_max = section.integer("concurrency_max", 1..=1 << 20, options.concurrency_max);
    options.queue_max = section.integer("queue_max", 0..=1 << 20, options.queue_max);
    options.queue_timeout = section.duration("queue_timeout", 1..=10 * MINUTE_MS, options.queue_timeout);
    let breaker = options.breaker;
    options.breaker = BreakerOptions {
        window: section.duration("breaker_window", 100..=HOUR_MS, breaker.window),
        requests_min: section.integer("breaker_requests_min", 1..=1 << 20, breaker.requests_min),
        failure_percent: section.integer("breaker_failure_percent", 1..=100, breaker.failure_percent),
        open: section.duration("breaker_open", 10..=HOUR_MS, breaker.open),
        probes: section.integer("breaker_probes", 1..=1000, breaker.probes),
    };
    options.retries = RetryOptions {
        max: section.integer("retries_max", 0..=16, options.retries.max),
        percent: section.integer("retry_percent", 0..=100, options.retries.percent),
    };
    options.dns_refresh = section.duration("dns_refresh", 1000..=24 * HOUR_MS, options.dns_refresh);
    options.head_bytes_max = section.size("head_bytes_max", KIB..=MIB, options.head_bytes_max);
    options.reply_bytes_max = section.size("reply_bytes_max", 0..=GIB, options.reply_bytes_max);
    section.finish();
    options
}

fn addresses(section: &mut Section<'_>) -> Vec<Address> {
    if !section.has("urls") {
        section.fault(format!(
            "missing key \"urls\" in {}: allowed is a list like [\"http://127.0.0.1:9000\"]",
            section.name()
        ));
    }
    let Some(urls) = section.texts("urls") else { return Vec::new() };
    if urls.is_empty() || urls.len() > ADDRESSES_MAX {
        section.fault_of("urls", format!("urls has {}, allowed are 1 to {ADDRESSES_MAX}", urls.len()));
    }
    let mut addresses = Vec::new();
    for url in urls {
        match url.value.parse::<Address>() {
            Ok(address) if addresses.contains(&address) => {
                section.fault_at(&url.span, format!("urls has {:?} twice", url.value));
            }
            Ok(address) => {
                if let Some(other) = addresses.iter().find(|other| is_mixed(&address, other)) {
                    let text = format!(
                        "urls has {:?} beside {:?}, allowed is https for all or for none: what is to be \
                         encrypted would go in the clear",
                        url.value,
                        other.to_string()
                    );
                    section.fault_at(&url.span, text);
                }
                addresses.push(address);
            }
            Err(error) => section.fault_at(&url.span, format!("urls has {:?}: {error}", url.value)),
        }
    }
    addresses
}

fn is_mixed(one: &Address, other: &Address) -> bool {
    matches!((one.scheme(), other.scheme()), (Some(one), Some(other)) if one != other)
}

/// As the file has it, every key.
pub(super) fn write_backend(backend: &BackendOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let BackendOptions { timeouts, pool, breaker, retries, .. } = backend;
    let urls: Vec<_> = backend.addresses.iter().map(|address| quoted(&address.to_string())).collect();
    writeln!(f, "\n[backend.{}]", backend.name)?;
    writeln!(f, "urls = [{}]", urls.join(", "))?;
    backend.tls.iter().try_for_each(|tls| write_tls(tls, f))?;
    writeln!(f, "connect_timeout = \"{}\"", show_duration(timeouts.connect))?;
    writeln!(f, "first_byte_timeout = \"{}\"", show_duration(timeouts.first_byte))?;
    writeln!(f, "idle_timeout = \"{}\"", show_duration(timeouts.idle))?;
    writeln!(f, "timeout = \"{}\"", show_duration(timeouts.total))?;
    writeln!(f, "pool_idle_max = {}", pool.idle_max)?;
    writeln!(f, "pool_idle_timeout = \"{}\"", show_duration(pool.idle_timeout))?;
    writeln!(f, "pool_age_max = \"{}\"", show_duration(pool.age_max))?;
    writeln!(f, "concurrency_max = {}", backend.concurrency_max)?;
    writeln!(f, "queue_max = {}", backend.queue_max)?;
    writeln!(f, "queue_timeout = \"{}\"", show_duration(backend.queue_timeout))?;
    writeln!(f, "breaker_window = \"{}\"", show_duration(breaker.window))?;
    writeln!(f, "breaker_requests_min = {}", breaker.requests_min)?;
    writeln!(f, "breaker_failure_percent = {}", breaker.failure_percent)?;
    writeln!(f, "breaker_open = \"{}\"", show_duration(breaker.open))?;
    writeln!(f, "breaker_probes = {}", breaker.probes)?;
    writeln!(f, "retries_max = {}", retries.max)?;
    writeln!(f, "retry_percent = {}", retries.percent)?;
    writeln!(f, "dns_refresh = \"{}\"", show_duration(backend.dns_refresh))?;
    writeln!(f, "head_bytes_max = \"{}\"", show_size(backend.head_bytes_max as u64))?;
    writeln!(f, "reply_bytes_max = \"{}\"", show_size(backend.reply_bytes_max as u64))
}
