//! The metrics of ship targets.

use serde_json::Value;
use tollgate_meter::{Exposition, Kind};
use tollgate_ship::VolumeState;

use Kind::{Counter, Gauge};

/// Adds the metrics of all ship targets.
pub(super) fn expose(out: &mut Exposition, ships: &[Value]) {
    let text =
        "1 while the ship target works. 0 while it waits after an error of its store, or is not started.";
    let mut family = out.family("tollgate_ship_up", Gauge, text);
    for ship in ships {
        let is_up = matches!(ship["state"].as_str(), Some("shipping" | "caught_up"));
        family.count(&[("ship", name_of(ship))], is_up.into());
    }
    let of_ship: [(&str, Kind, &str, &str); 12] = [
        ("tollgate_ship_segments_total", Counter, "Segments that were stored.", "segments"),
        ("tollgate_ship_bytes_total", Counter, "Bytes of these segments.", "bytes"),
        (
            "tollgate_ship_present_segments_total",
            Counter,
            "Segments that the store already had.",
            "present_segments",
        ),
        (
            "tollgate_ship_wanted_segments_total",
            Counter,
            "Segments that were stored again because a loader asked for them.",
            "wanted_segments",
        ),
        (
            "tollgate_ship_gone_segments_total",
            Counter,
            "Segments that a loader asked for and that this machine has no more.",
            "gone_segments",
        ),
        (
            "tollgate_ship_unshipped_segments",
            Gauge,
            "Sealed segments that the store lacks.",
            "unshipped_segments",
        ),
        ("tollgate_ship_unshipped_bytes", Gauge, "Bytes of these segments.", "unshipped_bytes"),
        (
            "tollgate_ship_behind_seconds",
            Gauge,
            "How long sealed segments have waited for the store. 0: the store has all of them.",
            "behind_seconds",
        ),
        ("tollgate_ship_backoff_seconds", Gauge, "Current wait after errors.", "backoff_seconds"),
        ("tollgate_ship_errors_total", Counter, "Calls of the store that failed.", "errors"),
        (
            "tollgate_ship_forked_logs",
            Gauge,
            "Logs that stay here because the store has another segment of one name.",
            "forked_logs",
        ),
        (
            "tollgate_ship_kept_logs",
            Gauge,
            "Logs with a segment that stays here because it is too large or has no valid footer.",
            "kept_logs",
        ),
    ];
    for (name, kind, text, field) in of_ship {
        let mut family = out.family(name, kind, text);
        for ship in ships {
            if let Some(value) = ship[field].as_f64() {
                family.sample(&[("ship", name_of(ship))], value);
            }
        }
    }
    expose_volumes(out, ships);
}

/// Adds the metrics of volumes. A target with another store has none.
fn expose_volumes(out: &mut Exposition, ships: &[Value]) {
    let ships = || ships.iter().filter(|ship| ship["volumes"].is_object());
    let text =
        "Configured folders of volumes, by what is there: the state of a volume, not_mounted, or faulty.";
    let mut family = out.family("tollgate_ship_volume_folders", Gauge, text);
    for ship in ships() {
        let folders: Vec<_> = ship["volumes"]["folders"].as_array().into_iter().flatten().collect();
        for condition in VolumeState::ALL.map(VolumeState::name).into_iter().chain(["not_mounted", "faulty"])
        {
            let count = folders.iter().filter(|folder| folder["condition"] == condition).count();
            family.count(&[("ship", name_of(ship)), ("condition", condition)], count as u64);
        }
    }
    let text = "How long the oldest closed volume has been away. 0: none is away.";
    let mut family = out.family("tollgate_ship_volume_away_seconds", Gauge, text);
    for ship in ships() {
        let away = ship["volumes"]["away"].as_array().into_iter().flatten();
        let oldest = away.filter_map(|volume| volume["state_seconds"].as_f64()).fold(0.0, f64::max);
        family.sample(&[("ship", name_of(ship))], oldest);
    }
    let of_volumes: [(&str, Kind, &str, &str); 5] = [
        (
            "tollgate_ship_volumes_away",
            Gauge,
            "Closed volumes whose answers are not here yet.",
            "away_volumes",
        ),
        (
            "tollgate_ship_volume_again_segments",
            Gauge,
            "Segments that must be copied to a volume again.",
            "again_segments",
        ),
        (
            "tollgate_ship_volume_gone_segments_total",
            Counter,
            "Segments of lost volumes that are deleted on this machine.",
            "gone_segments",
        ),
        (
            "tollgate_ship_volumes_abandoned_total",
            Counter,
            "Volumes that failed or were pulled out while they were being filled.",
            "abandoned_volumes",
        ),
        (
            "tollgate_ship_volumes_returned_total",
            Counter,
            "Volumes that came back and were emptied.",
            "returned_volumes",
        ),
    ];
    for (name, kind, text, field) in of_volumes {
        let mut family = out.family(name, kind, text);
        for ship in ships() {
            family.count(&[("ship", name_of(ship))], ship["volumes"][field].as_u64().unwrap_or_default());
        }
    }
}

fn name_of(ship: &Value) -> &str {
    ship["ship"].as_str().unwrap_or_default()
}
