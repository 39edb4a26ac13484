//! Disks that fail, copies of disks, strangers' disks, damaged files: each is named, and nothing is lost.

use std::fs;

use super::super::loaded::LOADED_FILE;
use super::super::state::STATE_FILE;
use super::super::{VolumeSource, VolumeState, init_volume};
use super::site::Site;
use crate::name::NodeName;

#[test]
fn no_volume_at_all_is_an_error_that_names_each_folder() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(10);
    site.disks.iter_mut().for_each(super::site::Disk::pull);
    let store = site.store();
    let error = site.ship(&store).unwrap_err();
    let text = tollgate_log::join_chain(&error);
    for name in ["a", "b"] {
        assert!(text.contains(&format!("{} is not mounted", site.path(name).display())), "{text}");
        assert_eq!(fs::read_dir(site.path(name)).unwrap().count(), 0, "nothing is written");
    }
    assert!(!store.watch().status().is_any_usable());
    for at in 0..2 {
        let place = site.path(["a", "b"][at]);
        site.disks[at].put(&place);
    }
    site.run_until_loaded(&store, &[(log, 10)]);
}

#[test]
fn a_folder_without_its_state_file_is_not_written() {
    let site = Site::new(u64::MAX);
    site.write_log(10);
    for at in [0, 1] {
        fs::remove_file(site.disks[at].path().join(STATE_FILE)).unwrap();
    }
    let store = site.store();
    site.ship(&store).unwrap_err();
    let fault = site.shown(&store, "a").fault.unwrap();
    assert!(fault.contains("it has no file tollgate-volume"), "{fault}");
    for at in [0, 1] {
        let names = fs::read_dir(site.disks[at].path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name()).filter(|name| name != "lost+found");
        assert_eq!(names.count(), 0);
    }
}

#[test]
fn a_plain_folder_on_the_device_of_its_parent_is_not_written() {
    let site = Site::new(u64::MAX);
    site.write_log(10);
    let plain = site.path("other");
    init_volume(&plain, true).unwrap();
    let mut options = site.options();
    (options.folders, options.same_device) = (vec![plain.clone()], false);
    let pacer = std::sync::Arc::new(crate::pace::Pacer::new(None));
    let store = super::super::VolumeStore::open(options, pacer).unwrap();
    site.ship(&store).unwrap_err();
    let fault = site.shown(&store, "other").fault.unwrap();
    assert!(fault.ends_with("is not mounted: it is on the device of its parent folder"), "{fault}");
    assert_eq!(fs::read_dir(&plain).unwrap().count(), 1, "only the state file");
}

#[test]
fn a_damaged_state_file_is_named_and_never_replaced() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    let path = site.disks[0].path().join(STATE_FILE);
    let sound = fs::read(&path).unwrap();
    let mut damaged = sound.clone();
    damaged[40] ^= 1;
    fs::write(&path, &damaged).unwrap();
    store.look();
    let fault = site.shown(&store, "a").fault.unwrap();
    assert!(fault.contains("is damaged: its checksum is wrong"), "{fault}");
    assert_eq!(fs::read(&path).unwrap(), damaged);
    assert_eq!(site.file(1).segments().count(), site.bounds(log).len(), "its segments go to the next one");
    fs::write(&path, &sound).unwrap();
    site.run_until_loaded(&store, &[(log, 60)]);
    assert_eq!(site.database.rows(), 60);
}

#[test]
fn damaged_answers_settle_nothing_until_the_volume_is_loaded_again() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    site.carry(0).unwrap();
    let path = site.disks[0].path().join(LOADED_FILE);
    let mut answers = fs::read(&path).unwrap();
    let at = answers.len() / 2;
    answers[at] ^= 1;
    fs::write(&path, answers).unwrap();
    store.look();
    let fault = site.shown(&store, "a").fault.unwrap();
    assert!(fault.contains("loaded is damaged"), "{fault}");
    assert_eq!(site.state(0), VolumeState::Done);
    assert!(site.disks[0].path().join(Site::object(log, 1)).exists());
    site.disks[0].pull();
    site.put(0, "db");
    let options = super::super::SourceOptions { take_over: true, ..site.source_options("db") };
    let source = VolumeSource::open(options).unwrap();
    let spool = site.path("spool");
    site.database.load(&source, &spool).unwrap();
    drop(source);
    site.disks[0].pull();
    site.put(0, "a");
    store.look();
    assert_eq!((site.state(0), site.database.rows()), (VolumeState::Empty, 60));
}

#[test]
fn a_volume_that_fails_is_abandoned_and_its_segments_go_to_the_next_one() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(10);
    let store = site.store();
    site.ship(&store).unwrap();
    // No folder of another log can be made there.
    let node = site.disks[0].path().join("v1/seg/web%201");
    fs::rename(&node, site.disks[0].path().join("v1/hidden")).unwrap();
    fs::write(&node, "a file where a folder must be").unwrap();
    let later = site.write_log(20);
    site.ship(&store).unwrap();
    let fault = site.shown(&store, "a").fault;
    let status = store.watch().status();
    assert_eq!(status.abandoned_volumes, 1, "{fault:?}");
    store.look();
    assert!(site.shown(&store, "a").fault.unwrap().contains("cannot"), "{:?}", site.shown(&store, "a"));
    assert_eq!(site.file(1).segments().count(), 1 + site.bounds(later).len());
    // A repair outside, and the disk is taken out and put back.
    fs::remove_file(&node).unwrap();
    fs::rename(site.disks[0].path().join("v1/hidden"), &node).unwrap();
    site.disks[0].pull();
    store.look();
    site.put(0, "a");
    site.run_until_loaded(&store, &[(log, 10), (later, 20)]);
    assert_eq!(site.database.rows(), 30);
}

#[test]
fn a_segment_that_cannot_be_read_here_is_no_fault_of_a_volume() {
    let site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    let listed = site.file(0).listed;
    let identity = crate::SegmentIdentity::from_store("9-00000001-1-ab");
    let missing = site.local(log, 999);
    fs::create_dir(&missing).unwrap();
    let name = Site::object(log, 999);
    let error = crate::store::Store::create(&store, &name, &missing, &identity).unwrap_err();
    assert!(!error.to_string().is_empty());
    assert_eq!(site.file(0).listed, listed, "an entry without a file would count as a copy");
    assert_eq!(store.watch().status().abandoned_volumes, 0);
}

#[test]
fn a_volume_of_another_machine_is_neither_filled_nor_emptied() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    site.carry(0).unwrap();
    let mut options = site.options();
    options.node = NodeName::encode("web 2").unwrap();
    options.home = site.path("other home");
    let pacer = std::sync::Arc::new(crate::pace::Pacer::new(None));
    let other = super::super::VolumeStore::open(options, pacer).unwrap();
    other.look();
    let fault = site.shown(&other, "a").fault.unwrap();
    assert!(fault.ends_with("belongs to machine web%201"), "{fault}");
    assert_eq!(site.state(0), VolumeState::Done);
    assert!(site.disks[0].path().join(Site::object(log, 1)).exists());
}

#[test]
fn an_old_copy_of_a_disk_and_a_twin_are_named_and_not_written() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    let old = fs::read(site.disks[0].path().join(STATE_FILE)).unwrap();
    // The first disk makes one round and is closed again.
    site.ship(&store).unwrap();
    store.close().unwrap();
    site.carry(0).unwrap();
    store.look();
    site.disks[1].pull();
    let later = site.write_log(20);
    site.ship(&store).unwrap();
    store.close().unwrap();
    let path = site.disks[0].path().join(STATE_FILE);
    let full = fs::read(&path).unwrap();
    fs::write(&path, &old).unwrap();
    store.look();
    let fault = site.shown(&store, "a").fault.unwrap();
    assert!(fault.contains("has generation 1, this machine knows 2"), "{fault}");
    assert_eq!(fs::read(&path).unwrap(), old);
    fs::write(&path, &full).unwrap();
    site.put(1, "b");
    fs::write(site.disks[1].path().join(STATE_FILE), &full).unwrap();
    store.look();
    let fault = site.shown(&store, "b").fault.unwrap();
    assert!(fault.ends_with("of another mounted volume: one is a copy"), "{fault}");
    site.disks.remove(1);
    site.run_until_loaded(&store, &[(log, 60), (later, 20)]);
}

#[test]
fn answers_about_other_segments_than_were_sent_settle_nothing() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    site.disks[0].pull();
    site.put(0, "db");
    let source = VolumeSource::open(site.source_options("db")).unwrap();
    let name = crate::ObjectName::Position { sink: "one".to_owned(), log }.to_string();
    crate::store::Store::put_text(&source, &name, "last 60\nchain 1\nat_ms 1\n").unwrap();
    assert_eq!(site.state(0), VolumeState::Done);
    site.disks[0].pull();
    site.put(0, "a");
    store.look();
    assert_eq!(store.watch().status().forked, [format!("log {log} of sink one")]);
    assert_eq!(crate::store::Store::text(&store, &name, 1_000).unwrap(), None);
    let copies = site.file(0).segments().count() + site.file(1).segments().count();
    assert_eq!(copies, site.bounds(log).len(), "they are sent again");
}

#[test]
fn a_lost_memory_of_the_machine_loses_no_record() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    drop(store);
    fs::remove_dir_all(site.path("home")).unwrap();
    let store = site.store();
    assert_eq!(store.watch().status().away.len(), 1, "the volume shows what is on it");
    site.carry(0).unwrap();
    drop(store);
    fs::remove_dir_all(site.path("home")).unwrap();
    let store = site.store();
    assert_eq!((site.state(0), site.database.last(log)), (VolumeState::Empty, 60));
    assert_eq!(store.watch().status().again_segments, 0);
}

#[test]
fn a_small_disk_is_closed_before_it_is_full() {
    let mut site = Site::new(u64::MAX);
    if site.same_device() {
        // A plain folder has the space of its whole disk.
        return;
    }
    let log = site.write_log(60);
    let filler = site.disks[0].path().join("filler");
    let store = site.store();
    let (first, _) = site.bounds(log)[0];
    let path = site.local(log, first);
    let footer = tollgate_log::read_footer(&tollgate_log::DiskStorage, &path).unwrap().unwrap();
    let identity = crate::SegmentIdentity::of(&footer);
    crate::store::Store::create(&store, &Site::object(log, first), &path, &identity).unwrap();
    // A stranger fills the disk until the system refuses.
    let mut file = fs::File::create(&filler).unwrap();
    let piece = vec![1; 64 << 10];
    while std::io::Write::write_all(&mut file, &piece).is_ok() {}
    drop(file);
    site.ship(&store).unwrap();
    assert_ne!(site.state(0), VolumeState::Empty);
    assert_eq!(site.state(1), VolumeState::Filling);
    fs::remove_file(&filler).unwrap();
    site.run_until_loaded(&store, &[(log, 60)]);
    assert_eq!(site.database.rows(), 60);
}

#[test]
fn a_name_or_an_identity_that_no_segment_has_is_refused() {
    use crate::store::Store;
    let site = Site::new(u64::MAX);
    let log = site.write_log(10);
    let store = site.store();
    site.ship(&store).unwrap();
    let (file, listed) = (site.local(log, 1), site.file(0).listed);
    let identity = crate::SegmentIdentity::from_store;
    for other in ["large", "9-00000001-1-a b", "9-00000001-1-ab\nstate empty"] {
        assert!(store.create(&Site::object(log, 9), &file, &identity(other)).is_err(), "{other:?}");
        assert!(store.replace(&Site::object(log, 9), &file, &identity(other)).is_err(), "{other:?}");
    }
    for name in ["../x", "v1/seg/../../x", "v1/node/web", "v1/node/a b", "v1", ""] {
        assert!(store.create(name, &file, &identity("9-00000001-1-ab")).is_err(), "{name:?}");
        assert!(name == "v1/node/web" || store.head(name).is_err(), "{name:?}");
    }
    assert_eq!(site.file(0).listed, listed);
}
