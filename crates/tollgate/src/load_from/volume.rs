//! A volume as the store of `tollgate load --from`: it was filled on another machine, and carries the answers
//! back.

use std::path::{Path, absolute};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tollgate_log::join_chain;
use tollgate_ship::{
    FetchTuning, NodeName, SourceOptions, SourceStatus, Store, VolumeHook, VolumeSource, is_volume,
};

use crate::cli::LoadCommand;
use crate::config::{Config, SinkConfig};
use crate::print::{counted, note};

/// Time for which a segment must be missing before a command that ends by itself asks for it. A volume gets
/// no more segments. A loader that runs all the time waits longer, because a loader of another volume may be
/// about to load the segment.
const GAP_PATIENCE_ONCE: Duration = Duration::from_secs(2);
/// Interval between two looks for segments and for the next volume.
const LOOK: Duration = Duration::from_secs(1);

/// A volume that is loaded, and then given back.
pub(super) struct FromVolume {
    source: Arc<VolumeSource>,
    /// Whether the volume is finished although some of its segments cannot be loaded.
    gives_back: bool,
}

impl FromVolume {
    /// Opens the folder if it has a volume, or if an option says that volumes are mounted there. Returns
    /// `None` for any other store.
    ///
    /// # Errors
    /// This host may not load the volume, or no volume is mounted and the command does not wait for one.
    pub(super) fn open(
        config: &Config,
        sinks: &[SinkConfig],
        place: &str,
        command: &LoadCommand,
    ) -> anyhow::Result<Option<Self>> {
        let arguments = &command.volume;
        if place.contains("://") || !(arguments.is_given() || is_volume(Path::new(place))) {
            return Ok(None);
        }
        let hook = |program| VolumeHook { program, timeout: arguments.hook_timeout };
        let options = SourceOptions {
            folder: absolute(place).with_context(|| format!("volume {place:?}"))?,
            same_device: arguments.same_device,
            host: NodeName::encode(&config.log.node)
                .context("node in [log] is \"\", but a volume names the host that loads it")?,
            take_over: arguments.take_over,
            report: arguments.report.clone(),
            sinks: sinks.iter().map(|sink| sink.name().to_owned()).collect(),
            on_done: arguments.on_done.clone().map(hook),
        };
        let waits = arguments.is_volume && !command.once;
        let source = if waits { VolumeSource::new(options) } else { VolumeSource::open(options)? };
        Ok(Some(Self { source: Arc::new(source), gives_back: arguments.give_back }))
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.source.clone()
    }

    /// Prints what became of the volume, and waits for its hook. Returns whether there was no fault.
    pub(super) fn finish(self) -> bool {
        let mut fault = None;
        if self.gives_back
            && let Err(error) = self.source.give_back()
        {
            fault = Some(join_chain(&error));
        }
        self.source.wait_for_hook();
        let status = self.source.status();
        note(&line(&status));
        let faults = fault.into_iter().chain(status.fault).chain(status.hook_fault);
        faults.fold(true, |_, fault| {
            note(&fault);
            false
        })
    }
}

/// Returns the intervals for a volume. Its files are near, and its answers cost nothing until it is done.
pub(super) fn tuning(once: bool) -> FetchTuning {
    let usual = FetchTuning::default();
    let gap_patience = if once { GAP_PATIENCE_ONCE } else { usual.gap_patience };
    FetchTuning { poll: LOOK, list: LOOK, gap_patience, answer: Duration::ZERO, ..usual }
}

fn line(status: &SourceStatus) -> String {
    let Some(volume) = &status.volume else { return "no volume was seen".to_owned() };
    let segments = counted(volume.segments, "segment");
    let is_reported = status.done == Some((volume.id, volume.generation));
    // A volume that is mounted read-only stays full.
    let state = if is_reported { "done" } else { volume.state.name() };
    format!("volume {}, generation {}: {state}, {segments}", volume.id, volume.generation)
}
