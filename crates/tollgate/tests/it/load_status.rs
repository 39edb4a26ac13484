//! The state of `tollgate load --from`: status, readiness, findings and metrics.

use std::fs;

use rustix::process::Signal;

use crate::admin::get_of_loader;
use crate::alarms::{FIRING_FROM, check_alarms_of};
use crate::load_from::{Fleet, SQLITE, database_machine};
use crate::program::eventually;

/// A report of 1970, of a machine that reports each second.
const OLD_REPORT: &str = "at_ms 1000\nevery_ms 1000\nunshipped_segments 2\nunshipped_bytes 300\n";

#[test]
fn a_loader_shows_silent_machines_missing_segments_and_a_store_that_is_away() {
    let fleet = Fleet::of(2);
    (0..2).for_each(|machine| fleet.run(machine, machine as u64 * 3_000..(machine as u64 + 1) * 3_000));
    let store = std::path::Path::new(fleet.store());
    fs::create_dir_all(store.join("v1/node")).unwrap();
    fs::write(store.join("v1/node/web%2F9"), OLD_REPORT).unwrap();
    let missing = &fleet.segments()[0];
    let aside = store.join("aside");
    fs::rename(missing, &aside).unwrap();
    let loader = database_machine(SQLITE);
    let running = loader.follow(&["load", "--from", fleet.store()]);
    let has = |path: &str, part: &str| {
        let reply = eventually(&format!("{path} has {part:?}"), || {
            get_of_loader(&loader, path).filter(|reply| reply.content.contains(part))
        });
        assert_eq!(reply.status, 200, "{}", reply.content);
    };
    has("/readyz", "warning: fetch_segment_missing: log ");
    has("/readyz", "of machine web/0: the segment that begins with record 1 is missing in the store");
    has("/readyz", "warning: node_silent: machine web/9 does not report to the store any more");
    has("/metrics", "\ntollgate_fetch_missing_logs 1\n");
    has("/metrics", "\ntollgate_fetch_silent_nodes 1\n");
    has("/metrics", "\ntollgate_fetch_unshipped_bytes 300\n");
    has("/metrics", "\ntollgate_load_rows_total{sink=\"main\"} 3000\n");
    has("/metrics", "\ntollgate_fetch_leases 2\n");
    has("/healthz", "ok");
    let screen = loader.succeed(&["status"]);
    for part in ["READY, WITH WARNINGS", ", loading, up for ", "WARNING: machine web/9", "web/0", "main  "] {
        assert!(screen.contains(part), "no {part:?} in:\n{screen}");
    }
    let refused = loader.run(&["reload", loader.log_dir().with_file_name("fetched").to_str().unwrap()]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("restart it"));
    fs::rename(&aside, missing).unwrap();
    has("/metrics", "\ntollgate_load_rows_total{sink=\"main\"} 6000\n");
    has("/metrics", "\ntollgate_fetch_missing_logs 0\n");
    let away = store.with_extension("away");
    fs::rename(store, &away).unwrap();
    has("/readyz", "warning: fetch_failing: nothing was fetched from ");
    has("/metrics", "\ntollgate_fetch_up 0\n");
    let scrape = || get_of_loader(&loader, "/metrics").unwrap().content;
    // Machine web/9 is silent.
    check_alarms_of(scrape, &["TollgateFetchFailing", "TollgateNodeSilent"], FIRING_FROM);
    fs::rename(&away, store).unwrap();
    has("/metrics", "\ntollgate_fetch_up 1\n");
    let (status, log) = running.end(Signal::TERM);
    assert!(status.success(), "{log}");
    assert!(!loader.log_dir().with_file_name("fetched").join("control.sock").exists());
}
