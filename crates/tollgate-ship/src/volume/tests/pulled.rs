//! A disk that is pulled out in each state, and put back: it is reported, nothing is lost, and all goes on.

use std::fs;

use tollgate_log::LogId;

use super::super::state::Transition;
use super::super::{VolumeSource, VolumeState, VolumeStore};
use super::site::Site;
use crate::store::Store;

/// Brings the first disk into a state. Returns the log, and the store that goes on.
fn reach(site: &mut Site, state: VolumeState) -> (LogId, VolumeStore) {
    let log = site.write_log(60);
    let store = site.store();
    if state == VolumeState::Empty {
        return (log, store);
    }
    site.ship(&store).unwrap();
    if state == VolumeState::Filling {
        return (log, store);
    }
    store.close().unwrap();
    if state == VolumeState::Full {
        return (log, store);
    }
    site.disks[0].pull();
    site.put(0, "db");
    let source = VolumeSource::open(site.source_options("db")).unwrap();
    if state == VolumeState::Loading {
        return (log, store);
    }
    let spool = site.path("spool");
    site.database.load(&source, &spool).unwrap();
    site.disks[0].pull();
    if state == VolumeState::Cleaning {
        // The web machine had begun to delete.
        site.put(0, "other");
        let folder = site.path("other");
        let mut volume = super::super::opened::OpenVolume::open(
            &folder,
            site.same_device(),
            super::super::state::VolumeSide::Web,
        )
        .unwrap();
        volume.apply(Transition::Return, "take back").unwrap();
        fs::remove_file(folder.join(Site::object(log, 1))).unwrap();
        drop(volume);
        site.disks[0].pull();
    }
    site.put(0, "a");
    (log, store)
}

/// Pulls the first disk out in a state, lets the machine work meanwhile, puts it back, and goes on.
fn check(state: VolumeState) {
    let mut site = Site::new(u64::MAX);
    let (log, store) = reach(&mut site, state);
    let place = site.disks[0].path().to_owned();
    assert_eq!(site.state(0), state);
    site.disks[0].pull();
    store.look();
    let shown = site.shown(&store, "a");
    assert!(shown.is_absent, "{shown:?}");
    let fault = shown.fault.unwrap();
    assert!(fault.starts_with(&format!("{} is not mounted: ", site.path("a").display())), "{fault}");
    let later = site.write_log(20);
    site.ship(&store).unwrap();
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "nothing is written below the mount point");
    assert_eq!(site.state(1), VolumeState::Filling, "the other volume takes the segments");
    assert!(store.head(&Site::object(later, 1)).unwrap().is_some());

    site.disks[0].put(&place);
    if state == VolumeState::Loading {
        site.load().unwrap();
        site.disks[0].pull();
        site.put(0, "a");
    }
    store.look();
    site.run_until_loaded(&store, &[(log, 60), (later, 20)]);
    assert_eq!(site.database.rows(), 80, "each record is there once");
    store.look();
    assert_eq!(site.shown(&store, "a").fault, None);
}

#[test]
fn an_empty_volume_is_pulled_out() {
    check(VolumeState::Empty);
}

#[test]
fn a_filling_volume_is_pulled_out() {
    check(VolumeState::Filling);
}

#[test]
fn a_full_volume_is_pulled_out() {
    check(VolumeState::Full);
}

#[test]
fn a_loading_volume_is_pulled_out() {
    check(VolumeState::Loading);
}

#[test]
fn a_done_volume_is_pulled_out() {
    check(VolumeState::Done);
}

#[test]
fn a_volume_is_pulled_out_while_it_is_cleaned() {
    check(VolumeState::Cleaning);
}

#[test]
fn a_source_goes_on_after_its_volume_was_pulled_out() {
    let mut site = Site::new(u64::MAX);
    let (log, _store) = reach(&mut site, VolumeState::Loading);
    let source = VolumeSource::open(site.source_options("db")).unwrap();
    site.disks[0].pull();
    let spool = site.path("spool");
    let error = site.database.load(&source, &spool).unwrap_err();
    assert!(error.to_string().contains("no"), "{error}");
    assert!(source.status().fault.unwrap().contains("is not mounted"));
    site.put(0, "db");
    site.database.load(&source, &spool).unwrap();
    assert_eq!((site.database.last(log), site.state(0)), (60, VolumeState::Done));
    assert_eq!(source.status().fault, None);
}

#[test]
fn the_segments_of_a_pulled_volume_go_to_the_next_one_and_both_copies_are_harmless() {
    let mut site = Site::new(u64::MAX);
    let (log, store) = reach(&mut site, VolumeState::Filling);
    let count = site.bounds(log).len();
    site.disks[0].pull();
    store.look();
    assert_eq!(site.file(1).segments().count(), count, "they are sent again");
    assert_eq!(store.watch().status().abandoned_volumes, 1);
    site.put(0, "a");
    store.close().unwrap();
    store.look();
    store.close().unwrap();
    assert_eq!((site.state(0), site.state(1)), (VolumeState::Full, VolumeState::Full));
    assert_eq!(site.file(0).listed, site.file(1).listed, "the same segments are on both");
    for at in [0, 1] {
        site.carry(at).unwrap();
    }
    assert_eq!((site.database.rows(), site.database.repeated), (60, count as u64));
    store.look();
    assert_eq!((site.state(0), site.state(1)), (VolumeState::Empty, VolumeState::Empty));
}

#[test]
fn a_listed_segment_whose_copy_is_missing_or_cut_is_copied_again() {
    let mut site = Site::new(u64::MAX);
    let (log, store) = reach(&mut site, VolumeState::Filling);
    drop(store);
    let bounds = site.bounds(log);
    let path = |first| site.disks[0].path().join(Site::object(log, first));
    let (missing, cut) = (path(bounds[0].0), path(bounds[1].0));
    fs::remove_file(&missing).unwrap();
    fs::File::options().write(true).open(&cut).unwrap().set_len(100).unwrap();
    let store = site.store();
    assert_eq!(site.file(0).segments().count(), bounds.len() - 2, "they do not count as copies");
    site.ship(&store).unwrap();
    assert_eq!(site.file(0).segments().count(), bounds.len());
    for (first, _) in bounds {
        assert_eq!(fs::read(path(first)).unwrap(), fs::read(site.local(log, first)).unwrap());
    }
}
