//! One address of a backend, as all workers see it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::BreakerOptions;
use crate::breaker::{Breaker, Change, Pass, Verdict};

/// Where connections lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) breaker: Breaker,
    /// Requests that it was asked and has not answered.
    pub(crate) outstanding: AtomicUsize,
    /// Connections that workers keep.
    pub(crate) idle: AtomicUsize,
}

impl Target {
    pub(crate) fn new(place: Place, breaker: &BreakerOptions) -> Self {
        Self {
            place,
            breaker: Breaker::new(breaker),
            outstanding: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Takes what became of a request, and tells of a breaker that changed.
    pub(crate) fn conclude(&self, backend: &str, pass: Pass, verdict: Verdict, now_ms: u64) {
        let address = &self.place;
        match self.breaker.conclude(pass, verdict, now_ms) {
            None => {}
            Some(Change::Opened { requests, failures }) => {
                tracing::warn!(backend, %address, requests, failures, "breaker opened");
            }
            Some(Change::OpenedAgain) => tracing::warn!(backend, %address, "breaker opened again"),
            Some(Change::Closed) => tracing::info!(backend, %address, "breaker closed"),
        }
    }
}
