//! The screen: first the findings and their remedies, then the figures.

mod fetching;

use std::fmt;

use serde_json::Value;
use tollgate_server::AddressState;

use super::figures::{bytes, count, duration, number, quantiles, text};
use super::verdict::Verdict;
use crate::print::{counted, printable, table, write_table};

/// Maximum number of backends that are shown: failing backends first.
const BACKENDS_SHOWN: usize = 5;
/// Maximum number of apps that are shown.
const APPS_SHOWN: usize = 10;
/// Maximum number of routes that are shown. The list begins with failing routes.
const ROUTES_SHOWN: usize = 10;
const SINKS: [&str; 10] =
    ["sink", "state", "lag", "records", "segments", "bytes", "rows", "rejects", "duplicates", "missing"];
const SHIPS: [&str; 8] = ["ship", "state", "behind", "segments", "bytes", "shipped", "present", "errors"];
const VOLUMES: [&str; 7] = ["volume", "ship", "condition", "for", "segments", "bytes", "id"];
const BACKENDS: [&str; 8] =
    ["backend", "breaker", "addresses", "in flight", "queued", "requests", "failures", "retries"];
const ROUTES: [&str; 9] =
    ["route", "requests/s", "failed/s", "p50", "p99", "2xx, 3xx", "4xx", "5xx", "refused"];

/// The state of a server, in lines.
pub(super) struct Screen(Vec<Line>);

/// A line of the screen. Its variant decides what happens when the line is too long.
#[derive(Debug)]
pub(super) enum Line {
    /// All of the text is needed, so it is wrapped.
    Prose(String),
    /// The columns must stay aligned, so the line is cut.
    Row(String),
    /// The line fits already. It may have colours.
    Drawn(String),
}

impl Line {
    const BLANK: Self = Self::Row(String::new());
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Prose(text) | Self::Row(text) | Self::Drawn(text)) = self;
        f.write_str(text)
    }
}

impl Screen {
    pub(super) fn of(document: &Value) -> Self {
        let mut screen = Self(vec![Line::Prose(headline(document))]);
        if document["upgrade"].is_object() {
            screen.0.push(Line::Prose(upgrading(&document["upgrade"])));
        }
        screen.0.push(Line::BLANK);
        screen.findings(document);
        if !document["fetch"].is_null() {
            screen.fetching(document);
        } else if !document["topics"].is_null() {
            screen.topics(document);
        } else {
            screen.figures(document);
        }
        screen.sinks(document);
        screen.ships(document);
        screen.volumes(document);
        screen.backends(document);
        screen.apps(document);
        screen.routes(document);
        screen
    }

    pub(super) fn lines(self) -> impl Iterator<Item = Line> {
        self.0.into_iter()
    }

    fn add(&mut self, name: &str, figures: &[String]) {
        let figures: Vec<_> = figures.iter().filter(|figure| !figure.is_empty()).cloned().collect();
        self.0.push(Line::Row(format!("{name:<11} {}", figures.join("   "))));
    }

    fn findings(&mut self, document: &Value) {
        let all = ["reasons", "warnings"].map(|list| document[list].as_array().into_iter().flatten());
        let before = self.0.len();
        for (mark, findings) in ["NOT READY", "WARNING"].into_iter().zip(all) {
            for finding in findings {
                self.0.push(Line::Prose(format!("{mark}: {}", text(&finding["text"]))));
                self.0.push(Line::Prose(format!("  -> {}", text(&finding["advice"]))));
            }
        }
        if self.0.len() > before {
            self.0.push(Line::BLANK);
        }
    }

    fn figures(&mut self, document: &Value) {
        let (rates, latency) = (&document["rates"], &document["latency"]);
        let window = format!("(last {:.0} s)", number(&rates["window_seconds"]));
        self.add(
            "requests",
            &[
                format!("{}/s", count(&rates["requests"])),
                format!("5xx {}/s", count(&rates["failures"])),
                format!("refused {}/s", count(&rates["refusals"])),
                format!("in flight {}", count(&document["requests"]["in_flight"])),
                window,
            ],
        );
        let window = format!("(last {:.0} s)", number(&latency["window_seconds"]));
        self.add("latency", &[quantiles(latency), window]);
        let connections = &document["connections"];
        self.add(
            "clients",
            &[
                format!("{} of {} connections", count(&connections["now"]), count(&connections["max"])),
                format!("new {}/s", count(&rates["connections"])),
                format!("in {}/s", bytes(&rates["received_bytes"])),
                format!("out {}/s", bytes(&rates["sent_bytes"])),
            ],
        );
        self.log(document);
        let process = &document["process"];
        self.add(
            "process",
            &[
                format!(
                    "descriptors {} of {}",
                    count(&process["descriptors"]),
                    count(&process["descriptors_max"])
                ),
                format!("threads {}", count(&process["threads"])),
                format!("processor time {}", duration(number(&process["cpu_seconds"]))),
            ],
        );
        self.memory(document);
        self.workers(document);
        self.refusals(document);
    }

    fn memory(&mut self, document: &Value) {
        let memory = &document["memory"];
        let known = |kind: &str| !memory[kind].is_null();
        let mut parts = vec![format!("resident {}", bytes(&memory["resident_bytes"]))];
        if known("in_flight_bytes") {
            let (now, max) = (bytes(&memory["in_flight_bytes"]), bytes(&memory["in_flight_max_bytes"]));
            parts.push(format!("in flight {now} of {max}"));
            parts.push(format!("scripts {}", bytes(&memory["scripts_bytes"])));
        }
        if known("log_queue_bytes") {
            let (now, max) = (bytes(&memory["log_queue_bytes"]), bytes(&memory["log_queue_max_bytes"]));
            parts.push(format!("log queue {now} of {max}"));
        }
        self.add("memory", &parts);
    }

    fn log(&mut self, document: &Value) {
        let (log, rates) = (&document["log"], &document["rates"]);
        if log.is_null() {
            return;
        }
        self.add(
            "log",
            &[
                format!("{} records/s", count(&rates["records"])),
                format!("{}/s", bytes(&rates["log_bytes"])),
                format!("sync {}", quantiles(&document["latency"]["sync"])),
                format!("oldest unsynced {}", duration(number(&log["unsynced_seconds"]))),
            ],
        );
        self.add(
            "disk",
            &[
                format!("{} segments, {}", count(&log["segments"]), bytes(&log["segments_bytes"])),
                format!("free {}, {} reserved", bytes(&log["free_bytes"]), bytes(&log["reserve_bytes"])),
            ],
        );
    }

    fn workers(&mut self, document: &Value) {
        let worker = |(index, worker): (usize, &Value)| {
            let turn = worker["turn_p99_seconds"].as_f64().map_or_else(|| "-".to_owned(), duration);
            let refused = number(&worker["refused_share"]) * 100.0;
            let refused = if refused > 0.0 { format!(", refuses {refused:.0} %") } else { String::new() };
            let scripts = bytes(&worker["script_bytes"]);
            let replaced = match number(&worker["script_vms_replaced"]) {
                0.0 => String::new(),
                times => format!(" (VM replaced {times:.0} times)"),
            };
            let queued = match number(&worker["scripts_queued"]) {
                0.0 => String::new(),
                queued => {
                    let age = duration(number(&worker["script_queue_age_seconds"]));
                    format!(", {queued:.0} in the script queue, the first for {age}")
                }
            };
            format!(
                "{index}: {} connections, turn p99 {turn}, script memory {scripts}{replaced}{queued}{refused}",
                count(&worker["connections"])
            )
        };
        for described in document["workers"].as_array().into_iter().flatten().enumerate().map(worker) {
            self.add("worker", &[described]);
        }
    }

    fn refusals(&mut self, document: &Value) {
        for (name, list) in [("refused", "refusals"), ("unconfirmed", "unconfirmed")] {
            let counts = document[list].as_object().into_iter().flatten();
            let counts: Vec<_> = counts
                .filter(|(_, count)| number(count) > 0.0)
                .map(|(reason, value)| format!("{}: {}", printable(reason), count(value)))
                .collect();
            if !counts.is_empty() {
                self.add(name, &[counts.join(", ") + " (since the start)"]);
            }
        }
    }

    fn sinks(&mut self, document: &Value) {
        let sinks: Vec<_> = document["sinks"].as_array().into_iter().flatten().collect();
        if sinks.is_empty() {
            return;
        }
        let mut rows = table(&SINKS);
        for sink in sinks {
            rows.add_row(sink_cells(sink));
        }
        self.table(&mut rows);
        let sinks = || document["sinks"].as_array().into_iter().flatten();
        for sink in sinks() {
            for note in sink["notes"].as_array().into_iter().flatten() {
                self.0.push(Line::Prose(format!("sink {}: {}", text(&sink["sink"]), text(note))));
            }
        }
        for sink in sinks().filter(|sink| number(&sink["files"]) > 0.0) {
            let (name, files, size) =
                (text(&sink["sink"]), count(&sink["files"]), bytes(&sink["file_bytes"]));
            let commits = count(&sink["commits"]);
            self.0
                .push(Line::Prose(format!("sink {name} made {files} files of {size} in {commits} commits")));
        }
    }

    fn ships(&mut self, document: &Value) {
        let ships: Vec<_> = document["ships"].as_array().into_iter().flatten().collect();
        if ships.is_empty() {
            return;
        }
        let mut rows = table(&SHIPS);
        for ship in ships {
            rows.add_row(ship_cells(ship));
        }
        self.table(&mut rows);
    }

    /// Adds the folders of volumes, and the closed volumes that are in none of them.
    fn volumes(&mut self, document: &Value) {
        let ships = document["ships"].as_array().into_iter().flatten();
        let mut lines = Vec::new();
        for ship in ships.filter(|ship| ship["volumes"].is_object()) {
            let folders: Vec<_> = ship["volumes"]["folders"].as_array().into_iter().flatten().collect();
            let mounted: Vec<_> =
                folders.iter().filter(|folder| folder["condition"] != "not_mounted").collect();
            for folder in &folders {
                let is_mounted = folder["condition"] != "not_mounted";
                let volume = if is_mounted { &folder["volume"] } else { &Value::Null };
                lines.push(volume_cells(ship, &text(&folder["folder"]), &text(&folder["condition"]), volume));
            }
            for volume in ship["volumes"]["away"].as_array().into_iter().flatten() {
                if mounted.iter().all(|folder| folder["volume"]["id"] != volume["id"]) {
                    lines.push(volume_cells(ship, "", "away", volume));
                }
            }
        }
        if !lines.is_empty() {
            let mut rows = table(&VOLUMES);
            for line in lines {
                rows.add_row(line);
            }
            self.table(&mut rows);
        }
    }

    fn backends(&mut self, document: &Value) {
        let mut backends: Vec<_> = document["backends"].as_array().into_iter().flatten().collect();
        if backends.is_empty() {
            return;
        }
        let is_well = |backend: &Value| backend["breaker"] == "closed" && !has_no_address(backend);
        backends.sort_by_key(|backend| (is_well(backend), failing_addresses(backend) == 0));
        let mut rows = table(&BACKENDS);
        for backend in backends.iter().take(BACKENDS_SHOWN) {
            let [in_flight, queued, requests, failures, retries] =
                ["in_flight", "queued", "requests", "failures", "retries"].map(|name| count(&backend[name]));
            let name = text(&backend["backend"]);
            let breaker =
                if has_no_address(backend) { "no address".to_owned() } else { text(&backend["breaker"]) };
            let addresses = addresses(backend);
            rows.add_row([name, breaker, addresses, in_flight, queued, requests, failures, retries]);
        }
        self.table(&mut rows);
        self.more(backends.len(), BACKENDS_SHOWN, backends.len());
    }

    /// Adds the mounts of apps.
    fn apps(&mut self, document: &Value) {
        let apps: Vec<_> = document["config"]["apps"].as_array().into_iter().flatten().collect();
        if !apps.is_empty() {
            self.0.push(Line::BLANK);
        }
        for app in apps.iter().take(APPS_SHOWN) {
            let [host, path, dir] = ["host", "path", "dir"].map(|key| text(&app[key]));
            self.0.push(Line::Row(format!("app {host}{path}  ({dir})")));
        }
        self.more(apps.len(), APPS_SHOWN, apps.len());
    }

    fn routes(&mut self, document: &Value) {
        let routes: Vec<_> = document["routes"].as_array().into_iter().flatten().collect();
        if routes.is_empty() {
            return;
        }
        let mut rows = table(&ROUTES);
        for route in routes.iter().take(ROUTES_SHOWN) {
            rows.add_row(route_cells(route));
        }
        self.table(&mut rows);
        let there = document["route_count"].as_u64().and_then(|count| usize::try_from(count).ok());
        self.more(there.unwrap_or(routes.len()), ROUTES_SHOWN, routes.len());
    }

    fn more(&mut self, there: usize, shown: usize, listed: usize) {
        if there > shown {
            let rest =
                if there > listed { format!(" for {listed}, /metrics for all") } else { String::new() };
            self.0.push(Line::Row(format!("... {} more: use --json{rest}", there - shown)));
        }
    }

    fn table(&mut self, rows: &mut comfy_table::Table) {
        self.0.push(Line::BLANK);
        let mut out = Vec::new();
        // Writing to a vector cannot fail.
        let _ = write_table(&mut out, rows);
        self.0.extend(String::from_utf8_lossy(&out).lines().map(|row| Line::Row(row.to_owned())));
    }
}

/// Returns whether a backend has no address, because its name was not resolved.
fn has_no_address(backend: &Value) -> bool {
    backend["addresses"].as_array().is_some_and(Vec::is_empty)
}

fn failing_addresses(backend: &Value) -> usize {
    let addresses = backend["addresses"].as_array().into_iter().flatten();
    let is_failing =
        |told: &Value| AddressState::ALL.iter().any(|state| state.is_failing() && told == state.name());
    addresses.filter(|address| is_failing(&address["state"])).count()
}

/// Returns the number of addresses. If some of them fail, the text has the number of working addresses and
/// the number of all.
fn addresses(backend: &Value) -> String {
    let all = backend["addresses"].as_array().map_or(0, Vec::len);
    match failing_addresses(backend) {
        0 => all.to_string(),
        failing => format!("{} of {all}", all - failing),
    }
}

fn headline(document: &Value) -> String {
    let word = Verdict::of(document).name();
    let config = &document["config"];
    format!(
        "{word}   tollgate {}, {}, up for {}, process {}, configuration {} version {}{}",
        text(&document["version"]),
        text(&document["phase"]),
        duration(number(&document["uptime_seconds"])),
        count(&document["process_id"]).replace(' ', ""),
        text(&config["source"]),
        text(&config["version"]),
        config["digest"]
            .as_str()
            .filter(|digest| !digest.is_empty())
            .map(|digest| format!(" ({})", printable(digest)))
            .unwrap_or_default(),
    )
}

/// Returns the line about an upgrade whose old process drains.
fn upgrading(upgrade: &Value) -> String {
    let process = count(&upgrade["old_process_id"]).replace(' ', "");
    let connections = upgrade["connections"].as_u64();
    let left = connections.map(|left| format!(", {} left", counted(left, "connection"))).unwrap_or_default();
    format!("upgrading: old process {process} drains{left}")
}

fn sink_cells(sink: &Value) -> [String; 10] {
    let [waiting, backoff] = ["waiting_seconds", "backoff_seconds"].map(|name| number(&sink[name]));
    let state = match text(&sink["state"]) {
        state if waiting > 0.0 => format!("{state}, no answer for {waiting:.0} s"),
        state if backoff > 0.0 => format!("{state}, each {backoff:.1} s"),
        state => state,
    };
    let known = |value: &Value, shown: fn(&Value) -> String| {
        if value.is_null() { String::new() } else { shown(value) }
    };
    let lag = known(&sink["lag_seconds"], |seconds| format!("{:.1} s", number(seconds)));
    let [records, segments, rows, rejects, duplicates, missing] =
        ["lag_records", "lag_segments", "rows", "rejects", "duplicates", "in_gaps"]
            .map(|name| known(&sink[name], count));
    let records = if sink["lag_is_bound"] == true { format!("up to {records}") } else { records };
    let behind = known(&sink["lag_bytes"], bytes);
    [text(&sink["sink"]), state, lag, records, segments, behind, rows, rejects, duplicates, missing]
}

fn ship_cells(ship: &Value) -> [String; 8] {
    let state = match ship["backoff_seconds"].as_f64() {
        Some(seconds) if seconds > 0.0 => format!("{}, each {seconds:.1} s", text(&ship["state"])),
        _ => text(&ship["state"]),
    };
    let known = |value: &Value, shown: fn(&Value) -> String| {
        if value.is_null() { String::new() } else { shown(value) }
    };
    let behind = known(&ship["behind_seconds"], |seconds| format!("{:.1} s", number(seconds)));
    let [waiting, shipped, present, errors] =
        ["unshipped_segments", "segments", "present_segments", "errors"].map(|key| known(&ship[key], count));
    let waiting_bytes = known(&ship["unshipped_bytes"], bytes);
    [text(&ship["ship"]), state, behind, waiting, waiting_bytes, shipped, present, errors]
}

fn volume_cells(ship: &Value, folder: &str, condition: &str, volume: &Value) -> [String; 7] {
    let known = |key: &str, shown: fn(&Value) -> String| {
        if volume[key].is_null() { String::new() } else { shown(&volume[key]) }
    };
    let since = known("state_seconds", |seconds| duration(number(seconds)));
    let (segments, size) = (known("segments", count), known("bytes", bytes));
    let ship = text(&ship["ship"]);
    [folder.to_owned(), ship, condition.to_owned(), since, segments, size, text(&volume["id"])]
}

fn route_cells(route: &Value) -> [String; 9] {
    let quantile = |name: &str| route[name].as_f64().map_or_else(String::new, duration);
    let name = ["methods", "host", "path"].map(|part| text(&route[part])).join(" ");
    let well = number(&route["2xx"]) + number(&route["3xx"]);
    [
        name.trim().to_owned(),
        count(&route["requests_per_second"]),
        count(&route["failures_per_second"]),
        quantile("p50_seconds"),
        quantile("p99_seconds"),
        count(&Value::from(well)),
        count(&route["4xx"]),
        count(&route["5xx"]),
        count(&route["refused"]),
    ]
}

#[cfg(test)]
mod tests;
