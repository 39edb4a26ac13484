//! `[backend.NAME]`: the addresses of a backend, and the bounds of requests to it.

use std::fmt;
use std::path::Path;

use tollgate_server::{Address, BackendOptions};

use super::backend_tls::{self, TlsKeys, tls};
use super::key::{keys, write};
use super::quoted::quoted_list;
use super::route::is_name;
use super::section::Section;
use super::units::{GIB, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS, TIMEOUT_MS};

const ADDRESSES_MAX: usize = 64;

keys! {
    pub(super) KEYS of BackendOptions;
    /// The addresses of the backend: `http://HOST:PORT`, `https://HOST:PORT` and `unix:/PATH`.
    urls [URLS] = other("needed", "1 to 64");
    /// For `https`: the only authorities that are trusted.
    ca_file [CA_FILE] = other("the authorities of the system", "a path");
    /// For `https`: the certificate for a backend that asks for one.
    client_certificate [CLIENT_CERTIFICATE] = other("none", "a path");
    /// For `https`: the private key of `client_certificate`.
    client_key [CLIENT_KEY] = other("none", "a path");
    /// For `https`: the name or address that the backend's certificate must have.
    server_name [SERVER_NAME] = other("the host of each address", "a name or an address");
    /// Time to open a connection, including the TLS handshake.
    connect_timeout = duration(2 * SECOND_MS, TIMEOUT_MS) => timeouts.connect;
    /// From the last byte of the request that the backend took, or from its last interim reply, to the first
    /// byte of its reply.
    first_byte_timeout = duration(30 * SECOND_MS, TIMEOUT_MS) => timeouts.first_byte;
    /// Time for the rest of a reply head that began, and between bytes of the content.
    idle_timeout = duration(30 * SECOND_MS, TIMEOUT_MS) => timeouts.idle;
    /// Time for a whole request: connections, retries, and the reply to its last byte.
    timeout = duration(10 * MINUTE_MS, TIMEOUT_MS) => timeouts.total;
    /// Idle connections that each worker keeps to each address.
    pool_idle_max = integer(64, 0..=65_536) => pool.idle_max;
    /// How long a connection may be idle.
    pool_idle_timeout = duration(30 * SECOND_MS, TIMEOUT_MS) => pool.idle_timeout;
    /// Age up to which a connection is used again.
    pool_age_max = duration(10 * MINUTE_MS, TIMEOUT_MS) => pool.age_max;
    /// Requests in flight at once, over all workers and all addresses.
    concurrency_max = integer(1024, 1..=1 << 20) => concurrency_max;
    /// Requests that may wait until one of these ends.
    queue_max = integer(128, 0..=1 << 20) => queue_max;
    /// How long a request may wait in this queue.
    queue_timeout = duration(500, 1..=10 * MINUTE_MS) => queue_timeout;
    /// The period over which the breaker counts requests and failures.
    breaker_window = duration(10 * SECOND_MS, 100..=HOUR_MS) => breaker.window;
    /// The breaker stays closed with fewer requests than this in the window.
    breaker_requests_min = integer(20, 1..=1 << 20) => breaker.requests_min;
    /// The share of failures that opens the breaker.
    breaker_failure_percent = integer(50, 1..=100) => breaker.failure_percent;
    /// How long an open breaker keeps requests from its address.
    breaker_open = duration(5 * SECOND_MS, 10..=HOUR_MS) => breaker.open;
    /// Requests that try the address after that time. The breaker closes if all of them succeed.
    breaker_probes = integer(3, 1..=1000) => breaker.probes;
    /// How often one request may be sent again.
    retries_max = integer(1, 0..=16) => retries.max;
    /// Retries of all requests together, in percent of the requests.
    retry_percent = integer(20, 0..=100) => retries.percent;
    /// Time between two lookups of a name.
    dns_refresh = duration(30 * SECOND_MS, 1000..=24 * HOUR_MS) => dns_refresh;
    /// Bytes of a reply's head.
    head_bytes_max = size(32 * KIB, KIB..=MIB) => head_bytes_max;
    /// Bytes of content that a script may get in one reply.
    reply_bytes_max = size(4 * MIB, 0..=GIB) => reply_bytes_max;
}

const TLS: TlsKeys =
    TlsKeys { ca: &CA_FILE, certificate: &CLIENT_CERTIFICATE, key: &CLIENT_KEY, server_name: &SERVER_NAME };

/// Reads all backends.
pub(super) fn backends(root: &mut Section<'_>, folder: &Path) -> Vec<BackendOptions> {
    let tables = root.named_tables("backend");
    tables
        .into_iter()
        .map(|(name, section)| {
            if !is_name(&name.value) {
                let allowed = "allowed is a letter or _, then letters, digits and _";
                section.fault_at(&name.span, format!("backend is named {:?}, {allowed}", name.value));
            }
            backend(&name.value, section, folder)
        })
        .collect()
}

fn backend(name: &str, mut section: Section<'_>, folder: &Path) -> BackendOptions {
    let mut options = BackendOptions::new(name, addresses(&mut section));
    options.tls = tls(&mut section, &TLS, &options.addresses, folder);
    section.read(KEYS, &mut options);
    section.finish();
    options
}

fn addresses(section: &mut Section<'_>) -> Vec<Address> {
    if !section.has(URLS.name) {
        section.fault(format!(
            "missing key \"urls\" in {}: allowed is a list like [\"http://127.0.0.1:9000\"]",
            section.name()
        ));
    }
    let Some(urls) = section.texts(URLS.name) else { return Vec::new() };
    if urls.is_empty() || urls.len() > ADDRESSES_MAX {
        section.fault_of(
            URLS.name,
            format!("urls has {} addresses, allowed are 1 to {ADDRESSES_MAX}", urls.len()),
        );
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
                        "urls has {:?} and {:?}, allowed is https for all or for none: requests to the \
                         others are not encrypted",
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

/// Writes the section.
pub(super) fn write_backend(backend: &BackendOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n[backend.{}]", backend.name)?;
    let urls = backend.addresses.iter().map(ToString::to_string);
    let [ca, certificate, key, server_name] = backend_tls::show(backend.tls.as_deref(), &TLS);
    let own = [(URLS.name, Some(quoted_list(urls))), ca, certificate, key, server_name];
    write(KEYS, backend, &own, f)
}
