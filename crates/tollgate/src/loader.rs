//! Starts loaders, for the server and for `tollgate load`.

use std::sync::Arc;

use tollgate_load::{LiveLog, LoadOptions, Loader};
use tollgate_log::DiskStorage;

use crate::config::{Config, SinkConfig};

/// Starts the loader of a sink. The loader gets the watermark of the present log from `live`.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start_loader(
    config: &Config,
    sink: &SinkConfig,
    live: Arc<dyn LiveLog>,
) -> anyhow::Result<Loader> {
    let mut options = LoadOptions::new(&config.log.dir, sink.options.clone());
    options.tuning = options.tuning.within(config.log.reserve_bytes);
    options.tuning.lag_max = config.load.lag_max;
    Ok(Loader::start_beside(options, Arc::new(DiskStorage), Some(live))?)
}
