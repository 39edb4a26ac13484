//! The text of the screen, and its order.

use std::time::Duration;

use serde_json::json;
use tollgate_load::{LoadState, LoadStatus};
use tollgate_ship::{ShipState, ShipStatus};

use super::*;
use crate::board::{absent, report};
use crate::ships;

fn lines(document: &Value) -> Vec<String> {
    Screen::of(document).lines().map(|line| line.to_string()).collect()
}

#[test]
fn a_phase_is_not_said_to_last_as_long_as_the_server_does() {
    let shown = lines(&json!({ "phase": "draining", "uptime_seconds": 14.4 }));
    assert!(shown[0].contains(", draining, up for 14.4 s, process "), "{}", shown[0]);
}

#[test]
fn memory_has_what_is_counted_beside_its_bounds() {
    let mib = |count: u64| count << 20;
    let shown = |document| {
        let shown = lines(&document);
        shown.iter().find(|line| line.starts_with("memory ")).cloned().unwrap()
    };
    let memory = json!({
        "resident_bytes": mib(90),
        "in_flight_bytes": mib(48), "in_flight_max_bytes": mib(64),
        "scripts_bytes": mib(3),
        "log_queue_bytes": 0, "log_queue_max_bytes": mib(64),
    });
    assert_eq!(
        shown(json!({ "memory": memory })),
        "memory      resident 90.0 MiB   in flight 48.0 MiB of 64.0 MiB   scripts 3.0 MiB   log queue 0 B of 64.0 MiB"
    );
    assert_eq!(shown(json!({ "memory": { "resident_bytes": mib(15) } })), "memory      resident 15.0 MiB");
}

#[test]
fn a_ship_target_is_a_line() {
    let status = ShipStatus {
        state: ShipState::Retrying,
        backoff: Duration::from_secs(30),
        segments: 1_200,
        present_segments: 3,
        unshipped_segments: 2,
        unshipped_bytes: 5 << 20,
        errors: 7,
        ..ShipStatus::default()
    };
    let shown =
        lines(&json!({ "ships": [ships::report("main", Some(&status)), ships::report("other", None)] }));
    let place = shown.iter().position(|line| line.starts_with("ship ")).unwrap();
    assert_eq!(
        shown[place..place + 3],
        [
            "ship   state                  behind  segments  bytes    shipped  present  errors",
            "main   retrying, each 30.0 s  0.0 s   2         5.0 MiB  1 200    3        7",
            "other  not_started",
        ]
    );
}

#[test]
fn a_volume_is_a_line_in_its_folder_or_away() {
    let volume = |id: &str| json!({ "id": id, "state_seconds": 60.0, "segments": 1_200, "bytes": 5 << 20 });
    let folder = |folder: &str, condition: &str, id: &str| {
        let volume = volume(id);
        json!({ "folder": folder, "condition": condition, "volume": volume })
    };
    let folders =
        [folder("/a", "filling", "1a"), folder("/b", "not_mounted", "2b"), folder("/c", "full", "3c")];
    let ship =
        json!({ "ship": "main", "volumes": { "folders": folders, "away": [volume("2b"), volume("3c")] } });
    let shown = lines(&json!({ "ships": [ship, { "ship": "other" }] }));
    let place = shown.iter().position(|line| line.starts_with("volume ")).unwrap();
    assert_eq!(
        shown[place..],
        [
            "volume  ship  condition    for     segments  bytes    id",
            "/a      main  filling      60.0 s  1 200     5.0 MiB  1a",
            "/b      main  not_mounted",
            "/c      main  full         60.0 s  1 200     5.0 MiB  3c",
            "        main  away         60.0 s  1 200     5.0 MiB  2b",
        ]
    );
}

#[test]
fn a_sink_is_a_line() {
    let status = LoadStatus {
        state: LoadState::Retrying,
        rows: 7_000,
        lag: Duration::from_millis(61_250),
        backoff: Duration::from_secs(30),
        ..LoadStatus::default()
    };
    let shown = lines(&json!({ "sinks": [report("main", &status), absent("other", Duration::ZERO)] }));
    let place = shown.iter().position(|line| line.starts_with("sink ")).unwrap();
    assert_eq!(
        shown[place..place + 3],
        [
            "sink   state                  lag     records  segments  bytes  rows   rejects  duplicates  missing",
            "main   retrying, each 30.0 s  61.2 s  0        0         0 B    7 000  0        0           0",
            "other  no loader",
        ]
    );
}

#[test]
fn refused_backends_are_shown_among_many() {
    let backend = |name: usize, breaker| json!({ "backend": format!("b{name}"), "breaker": breaker });
    let many: Vec<_> = (0..8).map(|name| backend(name, if name == 7 { "open" } else { "closed" })).collect();
    let shown = lines(&json!({ "backends": many }));
    let place = shown.iter().position(|line| line.starts_with("backend ")).unwrap();
    let names: Vec<_> = shown[place + 1..].iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["b7", "b0", "b1", "b2", "b3", "..."]);
    assert_eq!(shown[place + 6], "... 3 more: use --json");
}

#[test]
fn the_first_of_many_routes_are_shown_and_all_are_counted() {
    let route = |path: usize| json!({ "path": format!("/{path}") });
    let check = |listed: usize, there: usize, last: &str| {
        let routes: Vec<_> = (0..listed).map(route).collect();
        let shown = lines(&json!({ "routes": routes, "route_count": there }));
        let place = shown.iter().position(|line| line.starts_with("route ")).unwrap();
        assert_eq!((shown.len() - place, shown.last().unwrap().as_str()), (12, last));
    };
    check(12, 12, "... 2 more: use --json");
    check(100, 250, "... 240 more: use --json for 100, /metrics for all");
}

#[test]
fn a_backend_shows_how_many_addresses_are_well_and_failing_ones_come_first() {
    let backend = |name, breaker, states: &[&str]| {
        let addresses: Vec<_> = states.iter().map(|state| json!({ "state": state })).collect();
        json!({ "backend": name, "breaker": breaker, "addresses": addresses })
    };
    let shown = lines(&json!({ "backends": [
        backend("well", "closed", &["closed", "closed"]),
        backend("half", "closed", &["closed", "unreachable", "open"]),
        backend("back", "untried", &["untried"]),
        backend("tried", "half-open", &["half-open"]),
        backend("down", "open", &["open"]),
    ] }));
    let place = shown.iter().position(|line| line.starts_with("backend ")).unwrap();
    let cells = shown[place..place + 6].iter().map(|line| line.split("  ").filter(|cell| !cell.is_empty()));
    let cells: Vec<Vec<_>> = cells.map(|cells| cells.take(3).map(str::trim).collect()).collect();
    assert_eq!(
        cells,
        [
            ["backend", "breaker", "addresses"],
            ["tried", "half-open", "0 of 1"],
            ["down", "open", "0 of 1"],
            ["back", "untried", "1"],
            ["half", "closed", "1 of 3"],
            ["well", "closed", "2"],
        ]
    );
}

#[test]
fn findings_come_first_with_their_remedy_and_steer_no_terminal() {
    let finding = |text: &str| json!({ "code": "c", "text": text, "advice": "do this" });
    let shown = lines(&json!({
        "ready": false,
        "reasons": [finding("gone\u{1b}[2J")],
        "warnings": [finding("little")],
    }));
    assert!(shown[0].starts_with("NOT READY   tollgate"), "{}", shown[0]);
    assert_eq!(
        shown[2..7],
        ["NOT READY: gone\\u{1b}[2J", "  -> do this", "WARNING: little", "  -> do this", ""]
    );
}

#[test]
fn a_figure_has_the_unit_that_fits_it() {
    let shown = [0.0, 0.000_12, 0.0123, 1.25, 119.0, 600.0, 86_400.0, 864_000.0].map(duration);
    assert_eq!(shown, ["0 s", "120 us", "12.3 ms", "1.2 s", "119.0 s", "10 min", "24.0 h", "10.0 d"]);
    let shown = [0.0, 0.5, 12.4, 999.0, 1_000.0, 1_234_567.0].map(|value| count(&json!(value)));
    assert_eq!(shown, ["0", "0.5", "12", "999", "1 000", "1 234 567"]);
}
