//! The way of volumes without faults.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::super::state::STATE_FILE;
use super::super::{
    VolumeError, VolumeHook, VolumeSource, VolumeState, accept_report, close_volume, forget_volume,
    init_volume, read_volume,
};
use super::site::Site;
use crate::OnceOutcome;
use crate::answer::{PositionAnswer, TEXT_BYTES_MAX};
use crate::name::{NodeName, ObjectName};
use crate::send::Sent;
use crate::store::Store;
use crate::testing::{eventually, write_program};

#[test]
fn segments_travel_on_two_volumes_in_turn_and_answers_come_back() {
    let mut site = Site::new(3 << 10);
    let (log, other) = (site.write_log(200), site.write_log(30));
    let store = site.store();
    site.run_until_loaded(&store, &[(log, 200), (other, 30)]);
    assert_eq!((site.database.rows(), site.database.repeated), (230, 0));
    let status = store.watch().status();
    assert!(status.returned_volumes > 2 && status.abandoned_volumes == 0, "{status:?}");
    assert!(site.facts(0).generation > 1 && site.facts(1).generation > 1, "both are used");
    for (log, last) in [(log, 200), (other, 30)] {
        let name = ObjectName::Position { sink: "one".to_owned(), log }.to_string();
        let text = store.text(&name, TEXT_BYTES_MAX).unwrap().unwrap();
        assert_eq!(PositionAnswer::parse(&text).unwrap().position.last.0, last);
    }
}

#[test]
fn a_volume_holds_its_segments_byte_for_byte() {
    let site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    let bounds = site.bounds(log);
    assert!(bounds.len() > 2);
    assert_eq!(site.file(0).segments().count(), bounds.len());
    for (first, _) in bounds {
        let object = site.disks[0].path().join(Site::object(log, first));
        assert_eq!(fs::read(object).unwrap(), fs::read(site.local(log, first)).unwrap());
    }
    assert_eq!((site.state(0), site.state(1)), (VolumeState::Filling, VolumeState::Empty));
}

#[test]
fn no_segment_is_sent_twice_while_a_volume_holds_it_or_a_sink_has_it() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let count = site.bounds(log).len();
    let present = |site: &Site, store: &_| {
        let sent = site.ship(store).unwrap();
        sent.iter().filter(|one| one.outcome == OnceOutcome::Sent(Sent::Present)).count()
    };
    let store = site.store();
    assert_eq!(present(&site, &store), 0);
    assert_eq!(present(&site, &store), count, "the volume is filling");
    drop(store);
    let store = site.store();
    assert_eq!(present(&site, &store), count, "a new process fills it");
    store.close().unwrap();
    site.disks[0].pull();
    drop(store);
    let store = site.store();
    assert_eq!(present(&site, &store), count, "the volume is away");
    site.put(0, "a");
    site.carry(0).unwrap();
    store.look();
    assert_eq!((site.state(0), present(&site, &store)), (VolumeState::Empty, count), "all is loaded");
}

#[test]
fn cleaning_deletes_listed_files_and_no_others() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    let root = site.disks[0].path().to_owned();
    let first = Site::object(log, 1);
    let unlisted = [
        Site::object(log, 999_999),
        format!("{first}.not-random.part"),
        "v1/notes".to_owned(),
        "photo.jpg".to_owned(),
        "tollgate-volume.old".to_owned(),
    ];
    for name in &unlisted {
        fs::write(root.join(name), "of a person").unwrap();
    }
    let part = root.join(format!("{first}.0123456789abcdef.part"));
    fs::write(&part, "half a segment").unwrap();
    store.close().unwrap();
    site.carry(0).unwrap();
    store.look();
    assert_eq!(site.state(0), VolumeState::Empty);
    for name in &unlisted {
        assert_eq!(fs::read_to_string(root.join(name)).unwrap(), "of a person", "{name}");
    }
    for (first, _) in site.bounds(log) {
        assert!(!root.join(Site::object(log, first)).exists());
    }
    assert!(!part.exists() && !root.join("loaded").exists());
}

#[test]
fn a_volume_is_made_once() {
    let site = Site::new(1);
    let plain = site.path("other");
    let error = init_volume(&plain, false).unwrap_err();
    assert!(matches!(error, VolumeError::NotMounted { .. }), "{error}");
    assert_eq!(fs::read_dir(&plain).unwrap().count(), 0);
    let facts = init_volume(&plain, true).unwrap();
    assert_eq!((facts.state, facts.generation), (VolumeState::Empty, 1));
    let text = fs::read(plain.join(STATE_FILE)).unwrap();
    let error = init_volume(&plain, true).unwrap_err();
    assert!(error.to_string().ends_with("is a volume already: its state file exists"));
    assert_eq!(fs::read(plain.join(STATE_FILE)).unwrap(), text);
    assert_eq!(read_volume(&plain, true).unwrap(), facts);
}

#[test]
fn a_volume_is_closed_by_command_while_a_store_fills_it() {
    let site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    let closed = close_volume(&site.path("a"), site.same_device()).unwrap();
    assert_eq!((closed.state, site.state(0)), (VolumeState::Full, VolumeState::Full));
    assert_eq!(close_volume(&site.path("a"), site.same_device()).unwrap(), closed, "it stays closed");
    let later = site.write_log(10);
    site.ship(&store).unwrap();
    assert_eq!(site.facts(0), closed, "it is never written again");
    assert_eq!(
        site.file(1).segments().map(|(name, ..)| name.clone()).collect::<Vec<_>>(),
        [Site::object(later, 1)]
    );
    assert!(store.head(&Site::object(log, 1)).unwrap().is_some(), "the closed volume still holds it");
    assert_eq!(store.watch().status().away.len(), 1);
    let error = close_volume(&site.path("other"), true).unwrap_err();
    assert!(matches!(error, VolumeError::NotMounted { .. }), "{error}");
}

#[test]
fn a_volume_is_closed_by_age() {
    let mut site = Site::new(u64::MAX);
    site.age_max = Some(Duration::from_millis(1));
    site.write_log(10);
    let store = site.store();
    site.ship(&store).unwrap();
    eventually("it is closed", || {
        store.look();
        site.state(0) == VolumeState::Full
    });
    store.look();
    assert_eq!(site.state(1), VolumeState::Empty, "a volume without segments has no age");
}

#[test]
fn the_hook_of_a_full_volume_runs_once_and_its_failure_is_reported() {
    let mut site = Site::new(u64::MAX);
    site.write_log(10);
    let (program, seen) = (site.path("hook"), site.path("seen"));
    let script = format!("echo $TOLLGATE_VOLUME_ID >>{}\nexit 3", seen.display());
    write_program(&program, &script);
    site.on_full = Some(VolumeHook { program, timeout: Duration::from_secs(100) });
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    eventually("its failure is reported", || store.watch().status().hook_fault.is_some());
    let fault = store.watch().status().hook_fault.unwrap();
    assert!(fault.ends_with("failed: exit status: 3"), "{fault}");
    (0..3).for_each(|_| store.look());
    assert_eq!(fs::read_to_string(&seen).unwrap(), format!("{}\n", site.facts(0).id));
    site.write_log(10);
    site.ship(&store).unwrap();
    assert_eq!(site.state(1), VolumeState::Filling, "the failure stops nothing");
}

#[test]
fn the_hook_of_a_full_volume_can_unmount_it() {
    let mut site = Site::new(u64::MAX);
    if site.same_device() {
        // A plain folder cannot be unmounted.
        return;
    }
    site.write_log(10);
    let program = site.path("hook");
    write_program(&program, "umount $TOLLGATE_VOLUME_PATH");
    site.on_full = Some(VolumeHook { program, timeout: Duration::from_secs(100) });
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    eventually("it is unmounted", || {
        store.look();
        site.shown(&store, "a").is_absent
    });
    assert_eq!(store.watch().status().hook_fault, None);
    assert_eq!(store.watch().status().away.len(), 1);
}

#[test]
fn the_hook_of_a_loaded_volume_finds_it_done_and_closed() {
    let mut site = Site::new(u64::MAX);
    site.write_log(10);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    site.disks[0].pull();
    site.put(0, "db");
    let program = site.path("hook");
    let unmount = if site.same_device() { "" } else { "umount $TOLLGATE_VOLUME_PATH" };
    let script = format!(
        "grep -x 'state done' $TOLLGATE_VOLUME_PATH/tollgate-volume >{}\n{unmount}",
        site.path("seen").display()
    );
    write_program(&program, &script);
    let mut options = site.source_options("db");
    options.on_done = Some(VolumeHook { program, timeout: Duration::from_secs(100) });
    let source = VolumeSource::open(options).unwrap();
    let spool = site.path("spool");
    site.database.load(&source, &spool).unwrap();
    eventually("the hook saw it", || {
        fs::read_to_string(site.path("seen")).is_ok_and(|seen| !seen.is_empty())
    });
    let is_unmounted = || site.same_device() || !site.path("db").join(STATE_FILE).exists();
    eventually("it is unmounted", is_unmounted);
    eventually("the source waits for the next volume", || {
        source.folders(&ObjectName::segments()).is_ok_and(|folders| folders.is_empty())
    });
    assert_eq!(source.status().hook_fault, None);
}

#[test]
fn a_restart_repeats_the_hook_of_a_volume_that_is_done_and_still_mounted() {
    let mut site = Site::new(u64::MAX);
    site.write_log(10);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    site.disks[0].pull();
    site.put(0, "db");
    site.load().unwrap();
    assert_eq!(site.state(0), VolumeState::Done);
    let (program, seen) = (site.path("hook"), site.path("seen"));
    write_program(&program, &format!("echo $TOLLGATE_VOLUME_ID >>{}", seen.display()));
    let on_done = Some(VolumeHook { program, timeout: Duration::from_secs(100) });
    let options = super::super::SourceOptions { on_done, ..site.source_options("db") };
    let source = VolumeSource::new(options);
    for _ in 0..3 {
        assert!(source.folders(&ObjectName::segments()).unwrap().is_empty());
        source.wait_for_hook();
    }
    assert_eq!(fs::read_to_string(&seen).unwrap(), format!("{}\n", site.facts(0).id));
    assert_eq!(source.status().hook_fault, None);
}

#[test]
fn a_volume_that_another_host_loads_is_refused_unless_it_is_taken_over() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    site.disks[0].pull();
    site.put(0, "db");
    drop(VolumeSource::open(site.source_options("db 1")).unwrap());
    assert_eq!(site.state(0), VolumeState::Loading);
    assert_eq!(site.file(0).host, NodeName::encode("db 1"));
    drop(VolumeSource::open(site.source_options("db 1")).unwrap());
    let error = VolumeSource::open(site.source_options("db 2")).err().unwrap();
    assert!(error.to_string().contains("is being loaded by host db%201"), "{error}");
    assert_eq!(site.file(0).host, NodeName::encode("db 1"));
    let options = super::super::SourceOptions { take_over: true, ..site.source_options("db 2") };
    let source = VolumeSource::open(options).unwrap();
    assert_eq!(site.file(0).host, NodeName::encode("db 2"));
    let spool = site.path("spool");
    site.database.load(&source, &spool).unwrap();
    assert_eq!((site.state(0), site.database.last(log)), (VolumeState::Done, 60));
}

#[test]
fn a_volume_that_was_moved_before_it_was_closed_is_not_loaded() {
    let mut site = Site::new(u64::MAX);
    site.write_log(10);
    site.ship(&site.store()).unwrap();
    site.disks[0].pull();
    site.put(0, "db");
    let error = VolumeSource::open(site.source_options("db")).err().unwrap();
    assert!(error.to_string().ends_with("is filling: this machine cannot load it"), "{error}");
}

#[test]
fn a_report_replaces_the_answers_of_a_volume_that_is_read_only() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    let full = site.file(0);
    site.disks[0].pull();
    site.put_with(0, "db", "loop,ro");
    let report = site.path("report");
    let options = super::super::SourceOptions { report: Some(report.clone()), ..site.source_options("db") };
    let source = VolumeSource::open(options).unwrap();
    let spool = site.path("spool");
    site.database.load(&source, &spool).unwrap();
    assert_eq!(site.file(0), full, "the volume is not written");
    assert!(source.folders(&ObjectName::segments()).unwrap().is_empty(), "it is done");
    let other = NodeName::encode("web 2").unwrap();
    let error = accept_report(&report, &site.path("home"), &other).unwrap_err();
    assert!(error.to_string().ends_with("belongs to machine web%201"), "{error}");
    let accepted = accept_report(&report, &site.path("home"), &Site::node()).unwrap();
    assert_eq!((accepted.id, accepted.positions), (full.id, 1));
    store.look();
    assert!(store.watch().status().away.is_empty(), "its answers are here");
    let name = ObjectName::Position { sink: "one".to_owned(), log }.to_string();
    let text = store.text(&name, TEXT_BYTES_MAX).unwrap().unwrap();
    assert_eq!(PositionAnswer::parse(&text).unwrap().position.last.0, 60);
    site.disks[0].pull();
    site.put(0, "a");
    store.look();
    assert_eq!((site.state(0), site.facts(0).generation), (VolumeState::Empty, 2));
    assert_eq!(fs::read_dir(site.path("home/reports")).unwrap().count(), 0);
}

#[test]
fn a_lost_disk_loses_no_record_because_the_loader_asks_for_its_segments() {
    let mut site = Site::new(1);
    let log = site.write_log(60);
    let store = site.store();
    // Each volume takes one segment, and the second one waits for its close.
    site.ship(&store).unwrap_err();
    assert_eq!((site.state(0), site.state(1)), (VolumeState::Full, VolumeState::Full));
    let lost = site.facts(0);
    site.disks[0].pull();
    site.carry(1).unwrap();
    assert_eq!(site.state(1), VolumeState::Done, "its segments lie after a hole");
    assert_eq!(site.database.last(log), 0);
    drop(store);
    site.bytes_max = u64::MAX;
    let store = site.store();
    let want = ObjectName::Want { log, first: tollgate_log::Sequence(1) }.to_string();
    assert_eq!(store.text(&want, TEXT_BYTES_MAX).unwrap().as_deref(), Some("wanted\n"));
    assert!(store.watch().status().away.contains_key(&lost.id), "it may still come back");
    // The shipper stores a wanted segment again.
    let path = site.local(log, 1);
    let footer = tollgate_log::read_footer(&tollgate_log::DiskStorage, &path).unwrap().unwrap();
    store.replace(&Site::object(log, 1), &path, &crate::SegmentIdentity::of(&footer)).unwrap();
    store.remove(&want).unwrap();
    site.disks.remove(0);
    site.run_until_loaded(&store, &[(log, 60)]);
    assert_eq!(site.database.rows(), 60);
}

#[test]
fn the_segments_of_a_forgotten_volume_are_sent_again() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    let lost = site.facts(0).id;
    site.disks[0].pull();
    store.look();
    assert_eq!(site.file(1).segments().count(), 0);
    assert!(forget_volume(&site.path("home"), lost).unwrap());
    assert!(!forget_volume(&site.path("home"), lost).unwrap(), "it is forgotten already");
    store.look();
    assert_eq!(site.file(1).segments().count(), site.bounds(log).len());
    assert_eq!(store.watch().status().again_segments, 0);
    assert!(!store.forget(lost).unwrap());
    site.disks.remove(0);
    site.run_until_loaded(&store, &[(log, 60)]);
}

#[test]
fn segments_that_a_host_did_not_load_are_kept_and_sent_again() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    store.close().unwrap();
    site.disks[0].pull();
    site.put(0, "db");
    let source = VolumeSource::open(site.source_options("db")).unwrap();
    let (_, last) = site.bounds(log)[0];
    let name = ObjectName::Position { sink: "one".to_owned(), log }.to_string();
    source.put_text(&name, &format!("last {last}\nat_ms 1\n")).unwrap();
    assert_eq!(site.state(0), VolumeState::Loading);
    source.give_back().unwrap();
    assert_eq!(site.state(0), VolumeState::Done);
    site.disks[0].pull();
    site.put(0, "a");
    store.look();
    let rest: Vec<_> = site.bounds(log)[1..].iter().map(|(first, _)| Site::object(log, *first)).collect();
    let on_volumes: Vec<_> =
        [0, 1].iter().flat_map(|at| site.file(*at).listed.into_keys().collect::<Vec<_>>()).collect();
    assert_eq!(on_volumes, rest);
}

#[test]
fn an_end_and_the_answer_that_a_segment_is_deleted_travel_too() {
    let mut site = Site::new(u64::MAX);
    let log = site.write_log(60);
    let store = site.store();
    site.ship(&store).unwrap();
    let end = ObjectName::End(log).to_string();
    let gone = ObjectName::Want { log, first: tollgate_log::Sequence(1) }.to_string();
    store.put_text(&end, "node web%201\nlast 60\n").unwrap();
    store.put_text(&gone, "gone\n").unwrap();
    store.put_text(&ObjectName::Node(Site::node()).to_string(), "at_ms 1\n").unwrap();
    store.close().unwrap();
    site.disks[0].pull();
    site.put(0, "db");
    let source = VolumeSource::open(site.source_options("db")).unwrap();
    assert_eq!(source.text(&end, TEXT_BYTES_MAX).unwrap().as_deref(), Some("node web%201\nlast 60\n"));
    assert_eq!(source.text(&gone, TEXT_BYTES_MAX).unwrap().as_deref(), Some("gone\n"));
    assert_eq!(source.list(&ObjectName::ends(), None).unwrap(), std::slice::from_ref(&end));
    assert!(source.list(&ObjectName::nodes(), None).unwrap().is_empty(), "a report of a machine is too old");
    let spool = site.path("spool");
    site.database.load(&source, &spool).unwrap();
    site.disks[0].pull();
    site.put(0, "a");
    store.look();
    assert_eq!(site.state(0), VolumeState::Empty);
    site.write_log(10);
    site.ship(&store).unwrap();
    store.close().unwrap();
    assert_eq!(site.file(0).listed.len() + site.file(1).listed.len(), 1, "no loader needs them any more");
    let missing: PathBuf = site.disks[0].path().join(end);
    assert!(!missing.exists());
}
