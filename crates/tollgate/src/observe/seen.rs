//! The state of the server that the observer reads at one moment.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_acme::AcmeStatus;
use tollgate_log::{LogId, LogStatus};
use tollgate_server::{AccessReport, ServerStatus};

use super::process::Usage;
use super::reloads::Reloads;
use crate::certificates::Certificates;
use crate::wall::ClockFault;

/// Stages of the server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The server does not serve yet.
    Starting,
    Serving,
    /// The process loads from a store or from topics, and serves no requests.
    Loading,
    /// The server has received an order to stop, and finishes its work.
    Draining,
}

impl Phase {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Loading => "loading",
            Self::Draining => "draining",
        }
    }
}

/// Damage that the start found in logs of earlier runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Damaged {
    /// Number of damaged segments.
    pub(crate) segments: u64,
    /// The first damaged segment.
    pub(crate) first: Option<PathBuf>,
    /// Logs that cannot be repaired, and why.
    pub(crate) unmended: Vec<(LogId, String)>,
}

/// The process from which an upgrade moved the server to this one, while it drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OldProcess {
    pub(crate) process: u32,
    /// Time since it gave its duties up.
    pub(crate) age: Duration,
    /// The connections that it still has. `None`: it has not reported them yet.
    pub(crate) connections: Option<u64>,
}

/// The state of the server at one moment.
pub(crate) struct Seen {
    pub(crate) phase: Phase,
    /// `None`: no old process of an upgrade drains.
    pub(crate) old_process: Option<OldProcess>,
    pub(crate) upgrades_refused: u64,
    pub(crate) log: Option<LogStatus>,
    pub(crate) server: Option<ServerStatus>,
    /// A report for each sink.
    pub(crate) sinks: Vec<serde_json::Value>,
    /// A report for each ship target.
    pub(crate) ships: Vec<serde_json::Value>,
    /// The certificates that the server orders. `None`: it orders none.
    pub(crate) acme: Option<AcmeStatus>,
    /// The report on the fetcher of a process that loads from a store.
    pub(crate) fetch: Option<serde_json::Value>,
    /// The brokers of a process that loads topics.
    pub(crate) brokers: Option<String>,
    /// The certificates of a server. There are none in a process that only loads.
    pub(crate) certificates: Certificates,
    pub(crate) records: bool,
    pub(crate) damaged: Damaged,
    pub(crate) clock: Option<ClockFault>,
    pub(crate) reloads: Reloads,
    pub(crate) process: Usage,
    /// Number of log lines that were dropped.
    pub(crate) lines_left_out: u64,
    /// Counts of the lines of the access log.
    pub(crate) access_log: AccessReport,
    /// Counts of the exported spans.
    pub(crate) spans: AccessReport,
    /// Time since the collector takes no spans, and the reason.
    pub(crate) span_failure: Option<(Duration, String)>,
    pub(crate) uptime: Duration,
}

impl Seen {
    /// Returns whether the process serves no requests.
    pub(super) const fn only_loads(&self) -> bool {
        self.fetch.is_some() || self.brokers.is_some()
    }
}
