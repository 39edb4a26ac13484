//! The access log and the exported spans in a worker: begins the line of each request, and hands the lines
//! over in batches.
//!
//! An [`AccessEntry`] goes with its request from the head to the reply. It describes the request in the
//! [`WorkerLines`] of the worker when it is dropped, so each request has exactly one line, however it ends.
//! [`access_queue`](crate::access_queue) takes the batches on. The program formats and writes the lines.

mod entry;
mod worker_lines;

pub(crate) use entry::{AccessEntry, AccessHead};
pub(crate) use worker_lines::WorkerLines;

use crate::options::{AccessOnly, AccessRedaction, ServerOptions};

/// The rules of the access log and of exported spans.
pub(crate) struct AccessLog {
    /// The requests that get a line. `None`: there are no lines.
    lines: Option<(AccessOnly, Sample)>,
    /// The new traces whose spans are exported. `None`: no span is exported.
    spans: Option<Sample>,
    /// The rules for parts that may belong to any stream: requests without a route, and each `Referer`.
    any_stream: AccessRedaction,
}

impl AccessLog {
    /// Returns the rules, if the configuration has an access log or exports spans.
    pub(crate) fn new(options: &ServerOptions) -> Option<Self> {
        let any_stream = options.access_redaction(&options.streams)?;
        let lines = options.access_log.as_ref().map(|log| (log.only, Sample::new(log.sample)));
        let spans = options.spans.map(|spans| Sample::new(spans.sample));
        Some(Self { lines, spans, any_stream })
    }
}

/// A random share of the requests.
#[derive(Clone, Copy)]
enum Sample {
    All,
    /// A request is taken if a random number is below this.
    Below(u32),
}

impl Sample {
    fn new(share: f64) -> Self {
        if share < 1.0 { Self::Below((share * f64::from(u32::MAX)) as u32) } else { Self::All }
    }

    /// Returns whether the next request is taken.
    fn takes(self, lines: &WorkerLines) -> bool {
        match self {
            Self::All => true,
            Self::Below(bound) => lines.random() < bound,
        }
    }
}
