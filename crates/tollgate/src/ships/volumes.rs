//! The report on the volumes of a ship target, as JSON.

use std::path::Path;

use serde_json::{Value, json};
use tollgate_ship::{VolumeFacts, VolumeFolder, VolumeStatus};

use crate::wall;

/// Closed volumes that are listed, at most. The oldest are first.
const AWAY_MAX: usize = 64;

/// Returns the report. Its counters begin with the process.
pub(crate) fn volumes_report(status: &VolumeStatus) -> Value {
    let missing: Vec<_> = status.missing_folders();
    let folders = status.folders.iter().map(|(path, folder)| folder_of(path, folder, &missing));
    let mut away: Vec<_> = status.away.values().collect();
    away.sort_by_key(|volume| volume.at_ms);
    let away = away.into_iter().take(AWAY_MAX).map(facts_of);
    json!({
        "folders": folders.collect::<Vec<_>>(),
        "away": away.collect::<Vec<_>>(),
        "away_volumes": status.away.len(),
        "can_fill": status.is_any_usable(),
        "again_segments": status.again_segments,
        "gone_segments": status.gone_segments,
        "abandoned_volumes": status.abandoned_volumes,
        "returned_volumes": status.returned_volumes,
        "forked": status.forked,
        "hook_fault": status.hook_fault,
        "memory_fault": status.home_fault,
    })
}

/// Returns the report on a folder. `condition` is the state of the volume there, `not_mounted`, or `faulty`.
fn folder_of(path: &Path, folder: &VolumeFolder, missing: &[&Path]) -> Value {
    let condition = match (&folder.fault, &folder.volume) {
        (Some(_), _) if folder.is_absent => "not_mounted",
        (Some(_), _) => "faulty",
        (None, Some(volume)) => volume.state.name(),
        (None, None) => "not_mounted",
    };
    json!({
        "folder": path.display().to_string(),
        "condition": condition,
        "fault": folder.fault,
        "is_missing": missing.contains(&path),
        "volume": folder.volume.as_ref().map(facts_of),
    })
}

fn facts_of(volume: &VolumeFacts) -> Value {
    json!({
        "id": volume.id.to_string(),
        "generation": volume.generation,
        "state": volume.state.name(),
        "state_seconds": wall::seconds_since_ms(volume.at_ms),
        "segments": volume.segments,
        "bytes": volume.bytes,
    })
}
