//! Tests of the end of a loader whose load hangs.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_load::{FinishError, LoadTuning, Loader};
use tollgate_log::DiskStorage;

use crate::cluster::shared;
use crate::site::{PATIENCE, Site, eventually};

/// Starts a process that locks the table against new rows until the process ends.
fn lock_table(site: &Site<'_>) -> Child {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-d", &site.cluster.url(&site.database), "-c"]);
    psql.arg("BEGIN; LOCK TABLE visits IN SHARE MODE; SELECT pg_sleep(600)");
    let holder = psql.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let held = "SELECT count(*) FROM pg_locks WHERE granted AND mode = 'ShareLock' AND relation = 'visits'::regclass";
    eventually("the table is locked", || site.sql(held) == "1");
    holder
}

fn unlock_table(site: &Site<'_>, mut holder: Child) {
    site.end_sleepers();
    holder.wait().unwrap();
}

#[test]
fn a_load_that_hangs_is_left_after_five_seconds_and_its_rows_are_loaded_once() {
    let mut site = Site::new(shared());
    // This timeout is longer than the wait, so it does not end the wait first.
    site.postgres().lock_timeout = Duration::from_secs(60);
    site.write_visits(0..50);
    site.load();
    let holder = lock_table(&site);
    site.write_visits(50..100);
    let mut options = site.load_options();
    options.tuning.commit_wait_max = LoadTuning::default().commit_wait_max;
    let loader = Loader::start(options, Arc::new(DiskStorage), None).unwrap();
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'visits'::regclass";
    eventually("the load hangs", || site.sql(waiting) == "1");
    let began = Instant::now();
    let error = loader.finish(PATIENCE).unwrap_err();
    assert!(matches!(error, FinishError::Away { .. }), "{error}");
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    unlock_table(&site, holder);
    // The loader that was not joined may still load. Each row is loaded once, by either loader.
    site.load();
    site.assert_visits(0..100);
    assert_eq!(site.audit().iter().map(|row| row.loaded).sum::<u64>(), 100);
}
