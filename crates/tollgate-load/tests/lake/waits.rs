//! Segments wait for more of them. The wait hides no failure and no lag. A loader that ends does not wait.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tollgate_load::{LoadOptions, LoadState, Loader, SinkKind};
use tollgate_log::DiskStorage;

use crate::logs::{PATIENCE, eventually};
use crate::site::Site;

/// Makes a site with ten records, whose sink waits for more than these.
fn waiting(age: Duration) -> (Site, LoadOptions) {
    let mut site = Site::new();
    site.file_bytes = 1 << 30;
    site.write(10);
    let mut sink = site.sink();
    let SinkKind::Parquet(parquet) = &mut sink.kind else { unreachable!() };
    parquet.file_age = age;
    let options = site.options(sink);
    (site, options)
}

#[test]
fn a_load_that_fails_is_tried_again_before_the_age_of_a_file() {
    let (site, options) = waiting(Duration::from_millis(300));
    fs::write(site.lake(), "in the way").unwrap();
    let loader = Loader::start(options, Arc::new(DiskStorage), None).unwrap();
    // Each wait is twice as long, so the sink has failed six times in a row.
    eventually("the wait grows", || loader.status().backoff >= Duration::from_millis(64));
    let status = loader.status();
    assert!(status.failing_since.is_some() && status.last_error.is_some(), "{status:?}");
    assert_eq!((status.state, status.backlog.records), (LoadState::Retrying, 10));
    fs::remove_file(site.lake()).unwrap();
    eventually("the rows are loaded", || loader.status().rows == 10);
    loader.finish(PATIENCE).unwrap();
}

#[test]
fn records_that_wait_for_more_segments_are_behind_by_their_age() {
    let (_site, options) = waiting(Duration::from_hours(1));
    let loader = Loader::start(options, Arc::new(DiskStorage), None).unwrap();
    eventually("the records have an age", || loader.status().lag > Duration::from_millis(100));
    let status = loader.status();
    assert_eq!((status.state, status.backlog.records, status.rows), (LoadState::Loading, 10, 0));
    assert_eq!((status.file_age, status.failing_since), (Duration::from_hours(1), None));
    // A loader that ends loads them.
    assert_eq!(loader.finish(PATIENCE).unwrap().rows, 10);
}

#[test]
fn a_loader_of_the_present_records_does_not_wait_for_more_segments() {
    let (_site, mut options) = waiting(Duration::from_hours(1));
    options.tuning.waits_for_segments = false;
    let loader = Loader::start(options, Arc::new(DiskStorage), None).unwrap();
    eventually("all records are loaded", || loader.status().caught_up > 0);
    assert_eq!(loader.status().rows, 10);
    loader.finish(PATIENCE).unwrap();
}
