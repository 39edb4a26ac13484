//! The access log in a worker: begins the line of each request, and hands the lines over in batches.
//!
//! An [`AccessEntry`] goes with its request from the head to the reply. It describes the request in the
//! [`WorkerLines`] of the worker when it is dropped, so each request has exactly one line, however it ends.
//! [`access_queue`](crate::access_queue) takes the batches on. The program formats and writes the lines.

mod entry;
mod worker_lines;

pub(crate) use entry::{AccessEntry, AccessHead};
pub(crate) use worker_lines::WorkerLines;

use crate::options::{AccessOnly, AccessRedaction, ServerOptions};

/// The rules of the access log.
pub(crate) struct AccessLog {
    only: AccessOnly,
    /// A request gets a line if a random number is at most this.
    sample_max: Option<u32>,
    /// The rules for parts that may belong to any stream: requests without a route, and each `Referer`.
    any_stream: AccessRedaction,
}

impl AccessLog {
    /// Returns the rules, if the configuration has an access log.
    pub(crate) fn new(options: &ServerOptions) -> Option<Self> {
        let log = options.access_log.as_ref()?;
        let sample_max = (log.sample < 1.0).then(|| (log.sample * f64::from(u32::MAX)) as u32);
        let any_stream = AccessRedaction::new(&log.omit_query, &options.streams);
        Some(Self { only: log.only, sample_max, any_stream })
    }

    /// Returns whether the next request gets a line.
    fn takes(&self, lines: &WorkerLines) -> bool {
        self.sample_max.is_none_or(|max| max > 0 && lines.random() <= max)
    }
}
