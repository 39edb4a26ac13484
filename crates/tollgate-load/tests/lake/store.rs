//! A lake in an object store. The server of the tests keeps objects as files, which the tests read.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use tollgate_load::Loader;
use tollgate_log::DiskStorage;

use crate::gateway::Gateway;
use crate::iceberg;
use crate::logs::PATIENCE;
use crate::site::Site;
use crate::tables;

fn site(gateway: &Gateway) -> Site {
    in_bucket(Site::new(), gateway)
}

pub(crate) fn in_bucket(site: Site, gateway: &Gateway) -> Site {
    let mut options = gateway.options();
    options.place.prefix = "events".to_owned();
    Site { bucket: Some((options, gateway.path_of("events"))), ..site }
}

fn contents(site: &Site) -> BTreeMap<String, Vec<u8>> {
    let files = site.files("visits").into_iter();
    files.map(|file| (file.clone(), fs::read(site.lake().join(file)).unwrap())).collect()
}

#[test]
fn each_record_is_in_one_object_of_a_store() {
    let gateway = Gateway::start();
    let site = site(&gateway);
    site.write(400);
    assert_eq!(site.load().rows, 400);
    site.check_all(400);
    let files = contents(&site);
    assert!(files.len() > 2);
    assert_eq!(site.load().rows, 0);
    assert!(contents(&site) == files);

    // A folder gets the same files.
    let folder = Site { folder: site.folder, bucket: None, ..Site::new() };
    folder.load();
    assert!(contents(&folder) == files);
}

#[test]
fn tables_in_a_store_have_each_record_once_and_a_kill_of_the_store_doubles_none() {
    let mut gateway = Gateway::start();
    let mut site = in_bucket(iceberg::site(), &gateway);
    site.file_bytes = 1;
    site.write(400);
    let loader = Loader::start(site.options(site.sink()), Arc::new(DiskStorage), None).unwrap();
    kill_during_loads(&mut gateway, &loader, 400);
    loader.finish(PATIENCE).unwrap();
    site.check_all(400);
    let found = tables::read(&iceberg::address(&site), &site, "visits");
    assert_eq!(found["count"], serde_json::json!([400, 400]));
    // Each file of the table has rows that are in no other one.
    assert_eq!(found["duckdb"], serde_json::json!([400, 400, 400]));
}

#[test]
fn loaders_of_one_store_that_race_make_each_object_once() {
    let gateway = Gateway::start();
    let site = site(&gateway);
    site.write(400);
    site.load_with_four();
    site.check_all(400);
}

#[test]
fn a_store_that_is_killed_during_loads_has_each_record_once() {
    let mut gateway = Gateway::start();
    let mut site = site(&gateway);
    site.file_bytes = 1;
    site.write(400);
    let loader = Loader::start(site.options(site.sink()), Arc::new(DiskStorage), None).unwrap();
    kill_during_loads(&mut gateway, &loader, 400);
    loader.finish(PATIENCE).unwrap();
    site.check_all(400);
}

/// Kills the store five times, each time after more rows are loaded.
fn kill_during_loads(gateway: &mut Gateway, loader: &Loader, rows: u64) {
    for _ in 0..5 {
        let loaded = loader.status().rows;
        let waited = std::time::Instant::now();
        while loader.status().rows == loaded && loaded < rows {
            assert!(waited.elapsed() < PATIENCE, "{:?}", loader.status());
            std::thread::yield_now();
        }
        gateway.kill_and_restart();
    }
}
