//! Tests of a folder as a store.

use std::collections::BTreeSet;
use std::thread;

use tempfile::TempDir;

use super::*;

const NAME: &str = "v1/seg/web/01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b/00000000000000000042.seg";

fn folder() -> (TempDir, FolderStore) {
    let folder = TempDir::new().unwrap();
    let store = FolderStore::new(folder.path(), Arc::new(Pacer::new(None)));
    (folder, store)
}

fn written(folder: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(format!("source-{}", bytes.len()));
    fs::write(&path, bytes).unwrap();
    path
}

fn identity() -> SegmentIdentity {
    SegmentIdentity::from_store("any")
}

#[test]
fn a_name_is_taken_once_and_its_bytes_stay() {
    let (folder, store) = folder();
    let (one, other) = (written(&folder, b"one"), written(&folder, b"other"));
    assert_eq!(store.create(NAME, &one, &identity()).unwrap(), Created::Stored);
    assert_eq!(store.create(NAME, &other, &identity()).unwrap(), Created::Exists);
    assert_eq!(fs::read(folder.path().join(NAME)).unwrap(), b"one");
    store.replace(NAME, &other, &identity()).unwrap();
    assert_eq!(fs::read(folder.path().join(NAME)).unwrap(), b"other");
}

#[test]
fn of_sixteen_machines_exactly_one_takes_a_name() {
    let (folder, store) = folder();
    for round in 1..=20_usize {
        let name = format!("v1/seg/web/01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b/{round:020}.seg");
        let files: Vec<_> = (1..=16).map(|bytes| written(&folder, &vec![b'x'; bytes])).collect();
        let created: Vec<_> = thread::scope(|scope| {
            let create = |file| store.create(&name, file, &identity()).unwrap();
            let threads: Vec<_> = files.iter().map(|file| scope.spawn(move || create(file))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners: Vec<_> = (0..16).filter(|at| created[*at] == Created::Stored).collect();
        assert_eq!(winners.len(), 1, "{created:?}");
        let stored = fs::read(folder.path().join(&name)).unwrap();
        assert_eq!(stored, fs::read(&files[winners[0]]).unwrap());
        let parts = fs::read_dir(folder.path().join(&name).parent().unwrap()).unwrap();
        assert!(parts.flatten().all(|entry| !entry.file_name().to_string_lossy().ends_with(PART)));
    }
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let (folder, store) = folder();
    let file = written(&folder, b"x");
    for name in ["../x", "/etc/x", "v1/seg/../../x", "v1/node/..", "v1/node/a/../b", "", "v1"] {
        assert!(store.create(name, &file, &identity()).is_err(), "{name:?}");
        assert!(store.put_text(name, "x").is_err() && store.text(name, 9).is_err(), "{name:?}");
        assert!(store.remove(name).is_err() && store.head(name).is_err(), "{name:?}");
    }
}

#[test]
fn a_folder_that_is_away_is_no_empty_store() {
    let store = FolderStore::new("/nonexistent/handover", Arc::new(Pacer::new(None)));
    assert!(matches!(store.head(NAME), Err(StoreError::NotMounted { .. })));
    assert!(matches!(store.list("v1/seg/", None), Err(StoreError::NotMounted { .. })));
    assert!(matches!(store.folders("v1/seg/"), Err(StoreError::NotMounted { .. })));
}

#[test]
fn an_object_larger_than_the_bound_is_not_read() {
    let (folder, store) = folder();
    store.create(NAME, &written(&folder, b"twelve bytes"), &identity()).unwrap();
    let target = folder.path().join("target");
    assert!(matches!(store.fetch(NAME, &target, 11), Err(StoreError::TooLarge { found: 12, limit: 11, .. })));
    assert_eq!(store.fetch(NAME, &target, 12).unwrap(), Some(12));
    assert_eq!(fs::read(&target).unwrap(), b"twelve bytes");
    assert!(matches!(store.text(NAME, 11), Err(StoreError::TooLarge { .. })));
}

#[test]
fn names_are_listed_in_order_after_a_name_and_parts_are_left_out() {
    let (folder, store) = folder();
    let log = "01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b";
    let file = written(&folder, b"x");
    let name = |first: u64| format!("v1/seg/web/{log}/{first:020}.seg");
    for first in [30, 10, 20] {
        store.create(&name(first), &file, &identity()).unwrap();
    }
    fs::write(folder.path().join(format!("{}.0.part", name(15))), "half").unwrap();
    let prefix = format!("v1/seg/web/{log}/");
    assert_eq!(store.list(&prefix, None).unwrap(), [name(10), name(20), name(30)]);
    assert_eq!(store.list(&prefix, Some(&name(10))).unwrap(), [name(20), name(30)]);
    assert_eq!(store.folders("v1/seg/").unwrap(), ["web"]);
    assert_eq!(store.folders("v1/seg/web/").unwrap(), [log]);
    assert_eq!(store.list("v1/want/x/", None).unwrap(), Vec::<String>::new());
    let all: BTreeSet<_> = store.list(&prefix, None).unwrap().into_iter().collect();
    assert_eq!(all.len(), 3);
}
