//! Tests of a ship target, an S3 server and a fetcher together, over a faulty network. Each sealed segment is
//! stored and fetched byte for byte, and no other object is stored or fetched.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tollgate_log::{DiskStorage, LogId, Sequence};
use tollgate_ship::{
    DeleteRule, FetchOptions, FetchTuning, Fetcher, NodeName, ObjectStoreOptions, ShipOptions, ShipTuning,
    ShippedLogs, Shipper, SinkPositions, StoreRetain,
};

use crate::gateway::{Gateway, open, options};
use crate::meddler::{Meddler, Meddling};
use crate::segments::{Segments, eventually};

const NODE: &str = "web 1";

/// The logs of a machine whose process writes no log.
struct NoLive;

impl ShippedLogs for NoLive {
    fn live(&self) -> Option<LogId> {
        None
    }

    fn confirm(&self, _: LogId, _: Sequence) {}

    fn is_room_tight(&self) -> bool {
        false
    }
}

/// Returns a plan that disturbs two of five requests.
fn bad_network(seed: u64) -> impl FnMut(&str) -> Meddling + Send {
    let mut state = seed;
    move |line| {
        // Knuth's generator. Its upper bits are random enough for this choice.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let cut = usize::try_from(state >> 40).unwrap() % 2_000;
        match (state >> 33) % 12 {
            0 => Meddling::LoseAnswer,
            1 => Meddling::BusyAfter,
            2 => Meddling::Refuse(503),
            3 => Meddling::Cut(cut),
            // S3 answers this status to a PUT while another PUT of the same name runs.
            4 if line.starts_with("PUT") => Meddling::Refuse(409),
            _ => Meddling::Pass,
        }
    }
}

/// Returns the contents of the files with an extension below a folder, by the names without the extension.
fn files(folder: &Path, extension: &str) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    let content = |path: &Path| fs::read(path).unwrap_or_default();
    paths.map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), content(&path))).collect()
}

fn ship(dir: &Path, store: ObjectStoreOptions) -> Shipper {
    let tuning = ShipTuning {
        look: Duration::from_millis(5),
        poll: Duration::from_millis(50),
        heartbeat: Duration::from_millis(50),
        backoff_min: Duration::from_millis(1),
        backoff_max: Duration::from_millis(10),
        ..ShipTuning::default()
    };
    let options = ShipOptions {
        name: "main".to_owned(),
        dir: dir.to_owned(),
        node: NodeName::encode(NODE).unwrap(),
        delete: DeleteRule::Shipped,
        tuning,
    };
    Shipper::start(options, Arc::new(DiskStorage), Box::new(open(store)), Box::new(NoLive)).unwrap()
}

fn fetch(spool: &Path, store: ObjectStoreOptions) -> Fetcher {
    let tuning = FetchTuning {
        poll: Duration::from_millis(5),
        list: Duration::from_millis(5),
        // An error of the store does not mean that a segment is missing, so the fetcher asks for no segment.
        gap_patience: Duration::from_hours(1),
        answer: Duration::from_millis(50),
        retain: Duration::from_hours(1),
        backoff_min: Duration::from_millis(1),
        backoff_max: Duration::from_millis(10),
    };
    let (spool, segment_bytes_max) = (spool.to_owned(), 1 << 20);
    let retain = StoreRetain { age: None, sinks: None };
    let options = FetchOptions { spool, spool_bytes_max: u64::MAX, segment_bytes_max, retain, tuning };
    let positions: SinkPositions = [("main".to_owned(), BTreeMap::new())].into();
    let read = Box::new(move || Ok(positions.clone()));
    Fetcher::start(options, Arc::new(DiskStorage), Arc::new(open(store)), read).unwrap()
}

#[test]
fn every_segment_crosses_a_bad_network_byte_for_byte() {
    let seed = getrandom::u64().unwrap();
    eprintln!("seed {seed}");
    let (gateway, segments, spool) =
        (Gateway::start(), Segments::written_by(NODE, 8), TempDir::new().unwrap());
    let meddler = Meddler::start(gateway.address, bad_network(seed));
    let options = || ObjectStoreOptions {
        timeout: Duration::from_secs(5),
        ..options("s3://logs/team", meddler.address)
    };
    let dir = segments.all[0].file.parent().unwrap();
    let local = files(dir, "sealed");
    let log = dir.file_name().unwrap().to_string_lossy().into_owned();

    let shipper = ship(dir.parent().unwrap(), options());
    let is_shipped = || {
        let status = shipper.watch().status();
        assert!(status.faults.is_empty(), "{:?}", status.faults);
        status.segments + status.present_segments == local.len() as u64
    };
    eventually("all segments are shipped", is_shipped);
    let stored = gateway.path_of(&format!("team/v1/seg/web%201/{log}"));
    assert_eq!(files(&stored, "seg"), local);

    let fetcher = fetch(spool.path(), options());
    let fetched = spool.path().join(log);
    eventually("all segments are fetched", || files(&fetched, "sealed") == local);
    drop((fetcher, shipper));
    assert!(!gateway.path_of("team/v1/want").exists(), "a lost answer is no lost segment");
}
