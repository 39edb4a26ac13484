//! The shipper and the fetcher use volumes like every other store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_log::{DiskStorage, LogId, Position, Sequence};

use super::super::{KeptUntilLoaded, VolumeSource, VolumeState};
use super::site::Site;
use crate::testing::{eventually, files};
use crate::{
    DeleteRule, FetchOptions, FetchTuning, Fetcher, ShipOptions, ShipTuning, ShippedLogs, Shipper,
    SinkPositions, StoreRetain,
};

/// What the target reports to the log.
#[derive(Clone, Default)]
struct Reported(Arc<Mutex<BTreeMap<LogId, Sequence>>>);

impl ShippedLogs for Reported {
    fn live(&self) -> Option<LogId> {
        None
    }

    fn confirm(&self, log: LogId, last: Sequence) {
        self.0.lock().unwrap().insert(log, last);
    }

    /// Also then, local copies stay until the answers are here.
    fn is_room_tight(&self) -> bool {
        true
    }
}

#[test]
fn a_shipper_fills_a_volume_and_a_fetcher_loads_it() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let reported = Reported::default();
    let confirmed = || reported.0.lock().unwrap().get(&log).map(|last| last.0);
    let tick = Duration::from_millis(2);
    let store = Arc::new(site.store());
    let options = ShipOptions {
        name: "volumes".to_owned(),
        dir: site.path("log"),
        node: Site::node(),
        delete: DeleteRule::Loaded { sinks: vec!["one".to_owned()] },
        tuning: ShipTuning { look: tick, poll: tick, heartbeat: tick, ..ShipTuning::default() },
    };
    let shipper = Shipper::start(
        options,
        Arc::new(DiskStorage),
        Box::new(store.clone()),
        Box::new(KeptUntilLoaded(reported.clone())),
    )
    .unwrap();
    eventually("all is on the volume", || site.file(0).segments().count() == site.bounds(log).len());
    eventually("nothing may be deleted yet", || confirmed() == Some(0));
    store.close().unwrap();
    site.disks[0].pull();
    site.put(0, "db");

    let positions: Arc<Mutex<SinkPositions>> =
        Arc::new(Mutex::new([("one".to_owned(), BTreeMap::new())].into()));
    let source = Arc::new(VolumeSource::open(site.source_options("db")).unwrap());
    let tuning = FetchTuning { poll: tick, list: tick, answer: tick, ..FetchTuning::default() };
    let options = FetchOptions {
        spool: site.path("spool folder"),
        spool_bytes_max: u64::MAX,
        segment_bytes_max: 1 << 20,
        // Also with the default, nothing is deleted from a volume here.
        retain: StoreRetain { age: Some(Duration::ZERO), sinks: None },
        tuning,
    };
    let read = positions.clone();
    let read = Box::new(move || Ok(read.lock().unwrap().clone()));
    let fetcher = Fetcher::start(options, Arc::new(DiskStorage), source.clone(), read).unwrap();
    let local = files(&site.path("log").join(log.to_string()), "sealed");
    eventually("all is fetched", || {
        files(&site.path("spool folder").join(log.to_string()), "sealed") == local
    });
    assert_eq!(site.state(0), VolumeState::Loading);
    let position = Position { last: Sequence(60), chain: None };
    positions.lock().unwrap().get_mut("one").unwrap().insert(log, position);
    eventually("it is done", || source.status().done.is_some());
    assert_eq!(site.state(0), VolumeState::Done);
    drop(fetcher);

    site.disks[0].pull();
    site.put(0, "a");
    eventually("the answers are here", || confirmed() == Some(60));
    eventually("it is empty", || site.state(0) == VolumeState::Empty);
    assert!(shipper.finish(crate::testing::PATIENCE));
}

#[test]
fn loaded_segments_may_be_deleted_while_no_volume_can_be_filled() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let reported = Reported::default();
    let confirmed = || reported.0.lock().unwrap().get(&log).map(|last| last.0);
    let store = Arc::new(site.store());
    site.ship(&store).unwrap();
    store.close().unwrap();
    site.disks.iter_mut().for_each(super::site::Disk::pull);
    // No volume takes the segments of this log.
    site.write_log(10);
    let tick = Duration::from_millis(2);
    let tuning = ShipTuning { look: tick, poll: tick, backoff_max: tick, ..ShipTuning::default() };
    let options = ShipOptions {
        name: "volumes".to_owned(),
        dir: site.path("log"),
        node: Site::node(),
        delete: DeleteRule::Loaded { sinks: vec!["one".to_owned()] },
        tuning,
    };
    let shipper = Shipper::start(
        options,
        Arc::new(DiskStorage),
        Box::new(store.clone()),
        Box::new(KeptUntilLoaded(reported.clone())),
    )
    .unwrap();
    eventually("it tries again", || shipper.watch().status().last_error.is_some());
    site.put(0, "db");
    let report = site.path("report");
    let options = super::super::SourceOptions { report: Some(report.clone()), ..site.source_options("db") };
    let spool = site.path("spool");
    site.database.load(&VolumeSource::open(options).unwrap(), &spool).unwrap();
    super::super::accept_report(&report, &site.path("home"), &Site::node()).unwrap();
    eventually("the answers are here", || confirmed() == Some(60));
    assert!(shipper.watch().status().last_error.unwrap().contains("no volume can be filled"));
}
