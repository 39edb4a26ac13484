//! Starts loaders, for the server and for `tollgate load`.

use std::sync::Arc;

use tollgate_load::{LiveLog, LoadOptions, LoadTuning, Loader};
use tollgate_log::DiskStorage;

use crate::config::{Config, SinkConfig};

/// How long a loader runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Until a signal. A sink of whole segments waits for more of them.
    On,
    /// Until the present records are loaded.
    Once,
}

/// Returns the settings of the loaders.
pub(crate) fn tuning(config: &Config, runs: Runs) -> LoadTuning {
    let tuning = LoadTuning { lag_max: config.load.lag_max, ..LoadTuning::default() };
    let tuning = tuning.within(config.log.reserve_bytes);
    LoadTuning { waits_for_segments: runs == Runs::On, ..tuning }
}

/// Starts the loader of a sink. The loader gets the watermark of the present log from `live`.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start_loader(
    config: &Config,
    sink: &SinkConfig,
    live: Arc<dyn LiveLog>,
    runs: Runs,
) -> anyhow::Result<Loader> {
    let mut options = LoadOptions::new(&config.log.dir, sink.options.clone());
    options.tuning = tuning(config, runs);
    Ok(Loader::start_beside(options, Arc::new(DiskStorage), Some(live))?)
}
