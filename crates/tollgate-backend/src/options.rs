//! The options of a backend, with their defaults.

use std::sync::Arc;
use std::time::Duration;

use crate::{Address, TlsOptions};

/// Configuration of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendOptions {
    /// The name, for routes, scripts and log lines.
    pub name: String,
    /// The addresses, at least one. The backend is expected to give the same replies at each address.
    pub addresses: Vec<Address>,
    /// TLS options for `https` addresses.
    pub tls: Option<Arc<TlsOptions>>,
    /// Timeouts of a request.
    pub timeouts: Timeouts,
    /// Limits of kept connections.
    pub pool: PoolOptions,
    /// Maximum number of requests in flight, for all workers together.
    pub concurrency_max: usize,
    /// Maximum number of requests that wait for admission.
    pub queue_max: usize,
    /// Maximum time that a request waits for admission.
    pub queue_timeout: Duration,
    /// Options of the circuit breaker of each address.
    pub breaker: BreakerOptions,
    /// Limits of retries.
    pub retries: RetryOptions,
    /// Time between two lookups of a name.
    pub dns_refresh: Duration,
    /// Maximum bytes of the head of a reply.
    pub head_bytes_max: usize,
    /// Maximum bytes of reply content that is gathered in memory for a script.
    pub reply_bytes_max: usize,
}

impl BackendOptions {
    /// Returns the default options for a backend with these addresses.
    pub fn new(name: &str, addresses: Vec<Address>) -> Self {
        Self {
            name: name.to_owned(),
            addresses,
            tls: None,
            timeouts: Timeouts::default(),
            pool: PoolOptions::default(),
            concurrency_max: 1024,
            queue_max: 128,
            queue_timeout: Duration::from_millis(500),
            breaker: BreakerOptions::default(),
            retries: RetryOptions::default(),
            dns_refresh: Duration::from_secs(30),
            head_bytes_max: 32 << 10,
            reply_bytes_max: 4 << 20,
        }
    }
}

/// Timeouts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time to create a connection.
    pub connect: Duration,
    /// Maximum time until the first byte of the reply, counted from the last accepted byte of the request, or
    /// from the last interim reply. This timeout also limits the wait until the backend accepts the next byte
    /// of the request.
    pub first_byte: Duration,
    /// Maximum time until a head that has begun is complete, and until the next bytes of content arrive.
    pub idle: Duration,
    /// Maximum time of the whole request: admission, connection, reply and content.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(30),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(600),
        }
    }
}

/// Limits of the connections that each worker keeps between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolOptions {
    /// Maximum number of idle connections to one address.
    pub idle_max: usize,
    /// Maximum idle time. This time should be shorter than the idle timeout of the backend.
    pub idle_timeout: Duration,
    /// Maximum age of a connection that is reused.
    pub age_max: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { idle_max: 64, idle_timeout: Duration::from_secs(30), age_max: Duration::from_secs(600) }
    }
}

/// Options of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Length of the time window in which requests count.
    pub window: Duration,
    /// Minimum number of requests in the window for a decision.
    pub requests_min: u32,
    /// Share of failures that opens the breaker, in percent.
    pub failure_percent: u32,
    /// How long the breaker stays open.
    pub open: Duration,
    /// Number of probes after `open`. All of them must succeed before the breaker closes.
    pub probes: u32,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(10),
            requests_min: 20,
            failure_percent: 50,
            open: Duration::from_secs(5),
            probes: 3,
        }
    }
}

/// Limits of retries at other addresses. These limits do not apply to a request of which no byte was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryOptions {
    /// Maximum number of retries of one request.
    pub max: u32,
    /// Maximum number of retries, in percent of all requests.
    pub percent: u32,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self { max: 1, percent: 20 }
    }
}
