//! Leases of a process that loads from a store: connects the leases in the databases with the fetcher.

use std::collections::BTreeMap;
use std::path::{Path, absolute};

use tollgate_load::{LeaseKeeper, LeaseOptions, LeaseWatch, LogOffer, SinkOptions};
use tollgate_log::LogId;
use tollgate_ship::{Allotment, OfferedLog, Spool};

use crate::config::{Config, SinkConfig};

/// Whether other loaders may share the logs of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// All loaders that name the store in the same way share its logs.
    WithOthers,
    /// Only this loader reads the store. On another host the same path is another volume.
    Alone,
}

/// Starts to keep leases. The loaders of one store share its logs.
///
/// # Errors
/// The id of this loader cannot be made, or the thread cannot be started.
pub(crate) fn start_leases(
    config: &Config,
    sinks: &[SinkConfig],
    place: &str,
    spool: &Spool,
    sharing: Sharing,
    may_delete: bool,
) -> anyhow::Result<LeaseKeeper> {
    let holder = spool.loader_id(&config.log.node)?;
    let sinks: Vec<SinkOptions> = sinks.iter().map(|sink| sink.options.clone()).collect();
    let store = match sharing {
        Sharing::WithOthers => name_of(place),
        Sharing::Alone => format!("{} of {holder}", name_of(place)),
    };
    Ok(LeaseKeeper::start(&sinks, LeaseOptions { store, holder, may_delete })?)
}

/// Returns the name of a store for leases. All loaders that name the store in the same way share its logs.
fn name_of(place: &str) -> String {
    if place.contains("://") {
        return place.trim_end_matches('/').to_owned();
    }
    absolute(Path::new(place)).map_or_else(|_| place.to_owned(), |path| path.display().to_string())
}

/// The logs that this process has leases for.
pub(crate) struct LeasedLogs(pub(crate) LeaseWatch);

impl Allotment for LeasedLogs {
    fn offer(&mut self, logs: &BTreeMap<LogId, OfferedLog>) {
        let offer = |state: &OfferedLog| match state {
            OfferedLog::Idle => LogOffer::Idle,
            OfferedLog::Busy => LogOffer::Busy,
        };
        self.0.offer(logs.iter().map(|(log, state)| (*log, offer(state))).collect());
    }

    fn holds(&self, log: LogId) -> bool {
        self.0.holds(log)
    }

    fn may_fetch(&self, log: LogId) -> bool {
        self.0.may_fetch(log)
    }

    fn may_delete(&self) -> bool {
        self.0.may_delete()
    }

    fn pause(&mut self) {
        self.0.pause();
    }
}
