//! The troubles of ship targets. All are warnings: the records wait on the disk of this machine.

use std::time::Duration;

use serde_json::Value;

use super::code::Code;
use crate::print::counted;

/// A store that has failed for longer than this is a finding.
const FAILING_MAX: Duration = Duration::from_secs(10);
/// A target without any activity for longer than this is a finding: a call of its store hangs.
const SILENT_MAX: Duration = Duration::from_mins(2);
/// A sealed segment that has waited for longer than this is a finding.
const BEHIND_MAX: Duration = Duration::from_mins(5);

/// Returns the troubles of a ship target, each with its text.
pub(super) fn troubles_of(ship: &Value) -> Vec<(Code, String)> {
    let mut troubles = Vec::new();
    let name = ship["ship"].as_str().unwrap_or_default();
    let seconds = |key: &str| ship[key].as_f64().unwrap_or_default();
    let count = |key: &str| ship[key].as_u64().unwrap_or_default();
    let (failing, silent, behind) =
        (seconds("failing_seconds"), seconds("silent_seconds"), seconds("behind_seconds"));
    if ship["state"] == "not_started" {
        let text = format!("ship target {name} has no thread, so it ships nothing");
        troubles.push((Code::ShipStalled, text));
    } else if failing > FAILING_MAX.as_secs_f64() {
        let because = ship["last_error"].as_str().map(|error| format!(": {error}")).unwrap_or_default();
        let limit = FAILING_MAX.as_secs();
        let text = format!(
            "the store of ship target {name} has failed for {failing:.0} s, limit {limit} s{because}"
        );
        troubles.push((Code::ShipStalled, text));
    } else if silent > SILENT_MAX.as_secs_f64() && count("unshipped_segments") == 0 {
        // A long segment may be on its way. The age of what waits shows whether it is late.
        let limit = SILENT_MAX.as_secs();
        let text =
            format!("a call of the store of ship target {name} has lasted {silent:.0} s, limit {limit} s");
        troubles.push((Code::ShipStalled, text));
    }
    if behind > BEHIND_MAX.as_secs_f64() {
        let waiting = counted(count("unshipped_segments"), "sealed segment");
        let limit = BEHIND_MAX.as_secs();
        let text =
            format!("{waiting} of this machine wait for ship target {name}, {behind:.0} s, limit {limit} s");
        troubles.push((Code::ShipBehind, text));
    }
    for (log, fault) in ship["faults"].as_object().into_iter().flatten() {
        let reason = fault["text"].as_str().unwrap_or_default();
        let (trouble, effect) = match fault["kind"].as_str() {
            Some("forked") => (Code::ShipForked, "does not ship log"),
            _ => (Code::ShipSegmentKept, "keeps a segment here, of log"),
        };
        troubles.push((trouble, format!("ship target {name} {effect} {log}: {reason}")));
    }
    if let Some(log) = ship["namesake"].as_str() {
        let text = format!(
            "another machine ships to the store of {name} under the name of this one: it writes log {log}"
        );
        troubles.push((Code::NodeTwice, text));
    }
    troubles.extend(troubles_of_volumes(name, &ship["volumes"]));
    troubles
}

/// Returns the troubles of the volumes of a ship target.
fn troubles_of_volumes(name: &str, volumes: &Value) -> Vec<(Code, String)> {
    let mut troubles = Vec::new();
    let mut add = |trouble, text: String| troubles.push((trouble, format!("ship target {name}: {text}")));
    for folder in volumes["folders"].as_array().into_iter().flatten() {
        let fault = folder["fault"].as_str().unwrap_or_default();
        if folder["is_missing"] == true {
            add(Code::VolumeNotMounted, format!("volume {fault}"));
        } else if folder["condition"] == "faulty" {
            add(Code::VolumeFailed, format!("volume cannot be used: {fault}"));
        }
    }
    if let Some(fault) = volumes["memory_fault"].as_str() {
        add(Code::VolumeFailed, format!("the lists and answers of volumes cannot be used: {fault}"));
    }
    if let Some(fault) = volumes["hook_fault"].as_str() {
        add(Code::VolumeHookFailed, format!("a volume is full, but its hook failed: {fault}"));
    }
    let count = |key: &str| volumes[key].as_u64().unwrap_or_default();
    if count("again_segments") > 0 && volumes["can_fill"] == false {
        let waiting = counted(count("again_segments"), "segment");
        add(Code::ShipStalled, format!("{waiting} must be sent again, and no volume can be filled"));
    }
    if count("gone_segments") > 0 {
        let gone = counted(count("gone_segments"), "segment");
        let text = format!("{gone} of lost volumes are deleted on this machine");
        add(Code::VolumeSegmentsGone, text);
    }
    for log in volumes["forked"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        add(Code::ShipForked, format!("a volume brought answers about other segments: {log}"));
    }
    troubles
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_trouble_of_a_ship_target_is_found_by_itself() {
        let check = |mut ship: Value, expected: &[Code]| {
            ship["ship"] = "a".into();
            let found: Vec<_> = troubles_of(&ship).into_iter().map(|(trouble, _)| trouble).collect();
            assert_eq!(found, expected, "{ship}");
        };
        check(json!({ "state": "caught_up", "failing_seconds": 0.0, "behind_seconds": 0.0 }), &[]);
        check(json!({ "state": "not_started" }), &[Code::ShipStalled]);
        check(json!({ "state": "retrying", "failing_seconds": 9.9, "last_error": "away" }), &[]);
        check(json!({ "state": "retrying", "failing_seconds": 10.1 }), &[Code::ShipStalled]);
        check(
            json!({ "state": "retrying", "failing_seconds": 400.0, "behind_seconds": 301.0 }),
            &[Code::ShipStalled, Code::ShipBehind],
        );
        check(json!({ "state": "shipping", "behind_seconds": 299.0 }), &[]);
        check(json!({ "state": "caught_up", "silent_seconds": 121.0 }), &[Code::ShipStalled]);
        check(json!({ "state": "shipping", "silent_seconds": 121.0, "unshipped_segments": 1 }), &[]);
        let fault = |kind: &str| json!({ "faults": { "x": { "kind": kind, "text": "because" } } });
        check(fault("forked"), &[Code::ShipForked]);
        check(fault("too_large"), &[Code::ShipSegmentKept]);
        check(fault("unsound"), &[Code::ShipSegmentKept]);
        check(json!({ "namesake": "x" }), &[Code::NodeTwice]);
    }

    #[test]
    fn each_trouble_of_volumes_is_found_by_itself() {
        let check = |volumes: Value, expected: &[Code]| {
            let ship = json!({ "ship": "a", "state": "caught_up", "volumes": volumes });
            let found: Vec<_> = troubles_of(&ship).into_iter().map(|(trouble, _)| trouble).collect();
            assert_eq!(found, expected, "{ship}");
        };
        let folder = |condition: &str, is_missing: bool| {
            let folder = json!({ "condition": condition, "is_missing": is_missing, "fault": "/a because" });
            json!({ "folders": [folder] })
        };
        check(folder("filling", false), &[]);
        check(folder("not_mounted", false), &[]);
        check(folder("not_mounted", true), &[Code::VolumeNotMounted]);
        check(folder("faulty", false), &[Code::VolumeFailed]);
        check(json!({ "memory_fault": "because" }), &[Code::VolumeFailed]);
        check(json!({ "hook_fault": "because" }), &[Code::VolumeHookFailed]);
        check(json!({ "again_segments": 1, "can_fill": true }), &[]);
        check(json!({ "again_segments": 1, "can_fill": false }), &[Code::ShipStalled]);
        check(json!({ "again_segments": 0, "can_fill": false }), &[]);
        check(json!({ "gone_segments": 1 }), &[Code::VolumeSegmentsGone]);
        check(json!({ "forked": ["log x of sink main"] }), &[Code::ShipForked]);
    }
}
