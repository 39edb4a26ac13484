//! The bounds of a backend, with their defaults.

use std::sync::Arc;
use std::time::Duration;

use crate::{Address, TlsOptions};

/// A backend, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendOptions {
    /// Its name, for routes, scripts and log lines.
    pub name: String,
    /// Where it is; one address at least. All are held to answer the same.
    pub addresses: Vec<Address>,
    /// Whom TLS trusts, for addresses with `https`.
    pub tls: Option<Arc<TlsOptions>>,
    /// How long a request waits for what.
    pub timeouts: Timeouts,
    /// Which connections are kept.
    pub pool: PoolOptions,
    /// Requests in flight, of all workers together.
    pub concurrency_max: usize,
    /// Requests that wait for a place among those in flight.
    pub queue_max: usize,
    /// How long they do.
    pub queue_timeout: Duration,
    /// When an address is left alone.
    pub breaker: BreakerOptions,
    /// Which requests are sent again.
    pub retries: RetryOptions,
    /// How often names are looked up.
    pub dns_refresh: Duration,
    /// Bytes of the head of a reply.
    pub head_bytes_max: usize,
    /// Bytes of the content of a reply that is gathered in memory, for a script.
    pub reply_bytes_max: usize,
}

impl BackendOptions {
    /// The defaults, for some addresses.
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

/// How long a request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the first byte of the reply, from the last byte that the backend took, or its last interim reply;
    /// and for the backend to take the next.
    pub first_byte: Duration,
    /// For the rest of a head that began, and for the next bytes of a content.
    pub idle: Duration,
    /// For all of it: place, connection, reply and content.
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

/// Which connections are kept between requests, by each worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolOptions {
    /// Idle connections to one address.
    pub idle_max: usize,
    /// How long one may be idle: less than the backend keeps it.
    pub idle_timeout: Duration,
    /// How old one may be to be used again.
    pub age_max: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { idle_max: 64, idle_timeout: Duration::from_secs(30), age_max: Duration::from_secs(600) }
    }
}

/// When an address is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOptions {
    /// How far back requests count.
    pub window: Duration,
    /// Fewer of them decide nothing.
    pub requests_min: u32,
    /// The share of failures that opens it, in percent.
    pub failure_percent: u32,
    /// How long it stays open.
    pub open: Duration,
    /// How many requests try afterwards, and have to succeed, all of them.
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

/// Which requests are sent again, to another address; those of which nothing was sent go on in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryOptions {
    /// How often one request is.
    pub max: u32,
    /// How many retries there may be, in percent of the requests.
    pub percent: u32,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self { max: 1, percent: 20 }
    }
}
