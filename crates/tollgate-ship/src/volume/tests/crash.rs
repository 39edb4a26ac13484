//! A crash after each step of each transition: the state file is the old one or the new one, and all goes on.

use std::fs;
use std::path::Path;

use super::super::disk::{crash, write_text};
use super::super::state::{STATE_FILE, VolumeFile};
use super::site::Site;

#[test]
fn a_text_file_is_old_or_new_after_a_crash_at_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    let mut seen = Vec::new();
    for steps in 0.. {
        write_text(folder.path(), "text", "old").unwrap();
        let is_crashed = crash::after(steps, || drop(write_text(folder.path(), "text", "new")));
        let text = fs::read_to_string(&path).unwrap();
        assert!(["old", "new"].contains(&text.as_str()), "{text:?} after {steps} steps");
        seen.push(text);
        if !is_crashed {
            break;
        }
    }
    assert!(seen.contains(&"old".to_owned()) && seen.last().is_some_and(|text| text == "new"));
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Goes one whole round with the first disk. A crash ends each call early.
fn go_round(site: &mut Site) {
    let Ok(store) =
        super::super::VolumeStore::open(site.options(), std::sync::Arc::new(crate::pace::Pacer::new(None)))
    else {
        return;
    };
    let _ = site.ship(&store);
    let end = crate::ObjectName::End(tollgate_log::LogId::from_bytes([7; 16])).to_string();
    let _ = crate::store::Store::put_text(&store, &end, "node web%201\nlast 9\n");
    let _ = store.close();
    let _ = site.carry(0);
    store.look();
}

#[test]
fn a_crash_after_each_step_of_a_round_loses_and_doubles_nothing() {
    let template = Site::new(u64::MAX);
    let log = template.write_log(30);
    let mut steps = 0;
    loop {
        let mut site = Site::new(u64::MAX);
        copy_folder(&template.path("log"), &site.path("log"));
        let is_crashed = crash::after(steps, || go_round(&mut site));
        for disk in &site.disks {
            let text = fs::read_to_string(disk.path().join(STATE_FILE)).unwrap();
            VolumeFile::parse(&text).unwrap_or_else(|reason| panic!("after {steps} steps {reason}: {text}"));
        }
        let store = site.store();
        site.run_until_loaded(&store, &[(log, 30)]);
        assert_eq!(site.database.rows(), 30, "after {steps} steps");
        let status = store.watch().status();
        let faults: Vec<_> = status.folders.values().filter_map(|folder| folder.fault.clone()).collect();
        assert!(faults.is_empty(), "after {steps} steps: {faults:?}");
        // What was loaded is settled, and the disks can be filled again.
        for _ in 0..4 {
            store.close().unwrap();
            for at in 0..2 {
                if matches!(
                    site.state(at),
                    super::super::VolumeState::Full | super::super::VolumeState::Loading
                ) {
                    site.carry(at).unwrap();
                }
            }
            store.look();
        }
        for at in 0..2 {
            assert!(site.file(at).segments().count() == 0, "after {steps} steps: {:?}", site.facts(at));
        }
        assert!(store.watch().status().away.is_empty(), "after {steps} steps");
        if !is_crashed {
            break;
        }
        steps += 1;
    }
    assert!(steps > 100, "a round has {steps} steps");
}
