//! Manages the VMs of a worker. A VM whose scripts hold too much memory is replaced, and unused VMs are
//! closed.
//!
//! The task logs at most once in [`LINE_PAUSE`] for each `Host`, with the number of suppressed lines.

use std::collections::HashMap;
use std::future::pending;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_meter::OncePerPause;
use tollgate_script::{Host, Relief};

use crate::worker::Worker;

/// The log lines for each app, by the path of its mount.
#[derive(Default)]
struct Lines(HashMap<String, OncePerPause>);

impl Lines {
    /// Returns the number of suppressed lines, if a line may be logged now.
    fn turn(&mut self, app: &str) -> Option<u64> {
        if !self.0.contains_key(app) {
            self.0.insert(app.to_owned(), OncePerPause::new(LINE_PAUSE));
        }
        let lines = self.0.get(app)?;
        lines.note();
        Some(lines.due(Instant::now())? - 1)
    }
}

/// Keeps the VMs of a worker within their bounds, as long as the worker runs.
pub(crate) async fn keep_vms(worker: Rc<Worker>) {
    let mut lines = Lines::default();
    loop {
        worker.keeper.close().await;
        let again = relieve_all(&worker, &mut lines).await;
        tokio::select! {
            () = worker.keeper.pressed() => {}
            () = until(again) => {}
        }
    }
}

/// Returns the time until the next check, or `None` if a notification will start the next check.
async fn relieve_all(worker: &Worker, lines: &mut Lines) -> Option<Duration> {
    let mut again: Option<Duration> = None;
    for host in worker.script_hosts() {
        if let Some(wait) = relieve(worker, &host, lines).await {
            again = Some(again.map_or(wait, |again| again.min(wait)));
        }
    }
    again
}

async fn relieve(worker: &Worker, host: &Host, lines: &mut Lines) -> Option<Duration> {
    let relief = host.relieve().await;
    let app = host.base();
    match relief {
        Relief::Within => return None,
        Relief::Waits(wait) => return Some(wait),
        Relief::Replaced { bytes, limit_bytes, fresh_bytes } => {
            worker.cells.count_script_vm_replaced();
            if let Some(unsaid) = lines.turn(&app) {
                let worker = worker.index;
                tracing::warn!(
                    worker,
                    app,
                    bytes,
                    limit_bytes,
                    fresh_bytes,
                    unsaid,
                    "scripts hold too much memory: their vm was replaced, and file-level locals are reset"
                );
            }
        }
        Relief::Failed(error) => {
            if let Some(unsaid) = lines.turn(&app) {
                let worker = worker.index;
                tracing::error!(
                    worker,
                    app,
                    unsaid,
                    "scripts hold too much memory, and their vm cannot be replaced: {error}"
                );
            }
        }
    }
    // The next check determines the time to wait, if any.
    Some(Duration::ZERO)
}

async fn until(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => pending().await,
    }
}

/// Minimum time between two log lines for one `Host`.
const LINE_PAUSE: Duration = Duration::from_secs(10);
