//! The part of the screen about a process that only loads.

use serde_json::Value;

use super::Screen;
use crate::print::table;
use crate::status::figures::{bytes, count, duration, number, text};

/// Maximum number of logs that are shown.
const LOGS_SHOWN: usize = 10;
const LOGS: [&str; 8] = ["log", "machine", "loader", "loaded", "fetched", "end", "behind", "fault"];

impl Screen {
    /// Adds the store, the leases and the logs.
    pub(super) fn fetching(&mut self, document: &Value) {
        let fetch = &document["fetch"];
        let state = format!("{}: {}", text(&fetch["store"]), text(&fetch["state"]));
        let fetched = format!("{} segments, {}", count(&fetch["segments"]), bytes(&fetch["bytes"]));
        self.add("store", &[state, format!("{fetched} fetched")]);
        let spool = format!("{} of {}", bytes(&fetch["spool_bytes"]), bytes(&fetch["spool_bytes_max"]));
        self.add("spool", &[spool]);
        let loaders = format!("{} loaders", count(&fetch["loaders"]));
        let deletes = if fetch["deletes"] == true { "this one deletes from the store" } else { "" };
        let leases = format!("{} of {} logs", count(&fetch["leases"]), count(&fetch["log_count"]));
        let error = fetch["lease_error"].as_str().map(|error| format!("cannot renew: {error}"));
        self.add("leases", &[leases, loaders, deletes.to_owned(), error.unwrap_or_default()]);
        self.add(
            "machines",
            &[
                format!(
                    "{} report, {} are silent",
                    count(&fetch["node_count"]),
                    count(&fetch["silent_nodes"])
                ),
                format!("{} not shipped yet", bytes(&fetch["unshipped_bytes"])),
            ],
        );
        self.loaded_rows(document);
        self.fetched_logs(fetch);
    }

    /// Adds the brokers of a process that loads topics.
    pub(super) fn topics(&mut self, document: &Value) {
        self.add("topics", &[text(&document["topics"]["brokers"])]);
        self.loaded_rows(document);
    }

    fn loaded_rows(&mut self, document: &Value) {
        self.add("rows", &[format!("{}/s", count(&document["rates"]["rows"]))]);
        self.memory(document);
    }

    fn fetched_logs(&mut self, fetch: &Value) {
        let logs: Vec<_> = fetch["logs"].as_array().into_iter().flatten().collect();
        if logs.is_empty() {
            return;
        }
        let mut rows = table(&LOGS);
        for log in logs.iter().take(LOGS_SHOWN) {
            let [id, node, loader, fault] = ["log", "node", "loader", "fault"].map(|key| text(&log[key]));
            let [loaded, fetched] = ["loaded", "fetched"].map(|key| count(&log[key]));
            let end = if log["end"].is_null() { String::new() } else { count(&log["end"]) };
            let behind = match number(&log["behind_seconds"]) {
                0.0 => String::new(),
                seconds => duration(seconds),
            };
            rows.add_row([id, node, loader, loaded, fetched, end, behind, fault]);
        }
        self.table(&mut rows);
        let all = number(&fetch["log_count"]) as usize;
        self.more(all, LOGS_SHOWN, all);
    }
}
