//! Tests of the check, with stores of each kind in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Barrier, Mutex};

use tempfile::TempDir;

use super::*;
use crate::folder::FolderStore;
use crate::pace::Pacer;
use crate::store::ObjectHead;

/// A store in memory that treats the condition in one of three ways.
struct Memory {
    kind: ConditionalCreate,
    objects: Mutex<BTreeMap<String, usize>>,
    /// Barrier at which the writers of one name wait between the check of the name and the write.
    meeting: Barrier,
    may_delete: bool,
}

impl Memory {
    fn new(kind: ConditionalCreate) -> Self {
        let (objects, meeting) = (Mutex::default(), Barrier::new(WRITERS));
        Self { kind, objects, meeting, may_delete: true }
    }

    fn has(&self, name: &str) -> bool {
        self.objects.lock().unwrap().contains_key(name)
    }

    fn report(&self) -> Result<StoreReport, StoreError> {
        probe_store(self, TempDir::new().unwrap().path())
    }
}

fn away<T>(name: &str) -> Result<T, StoreError> {
    Err(StoreError::call("use", name)(io::Error::other("the store is away")))
}

impl Store for Memory {
    fn create(&self, name: &str, _: &Path, _: &SegmentIdentity) -> Result<Created, StoreError> {
        assert!(matches!(ObjectName::parse(name), Some(ObjectName::Probe(_))), "{name}");
        let has = self.has(name);
        let is_first_name = self.objects.lock().unwrap().keys().all(|known| known == name);
        if self.kind == ConditionalCreate::SequentialOnly && !is_first_name {
            self.meeting.wait();
        }
        let mut objects = self.objects.lock().unwrap();
        let writes = objects.entry(name.to_owned()).or_default();
        *writes += 1;
        Ok(match self.kind {
            ConditionalCreate::Atomic if *writes > 1 => Created::Exists,
            ConditionalCreate::SequentialOnly if has => Created::Exists,
            _ => Created::Stored,
        })
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        if !self.may_delete {
            return away(name);
        }
        self.objects.lock().unwrap().remove(name);
        Ok(())
    }

    fn replace(&self, name: &str, _: &Path, _: &SegmentIdentity) -> Result<(), StoreError> {
        away(name)
    }

    fn put_text(&self, name: &str, _: &str) -> Result<(), StoreError> {
        away(name)
    }

    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError> {
        away(name)
    }

    fn text(&self, name: &str, _: u64) -> Result<Option<String>, StoreError> {
        away(name)
    }

    fn fetch(&self, name: &str, _: &Path, _: u64) -> Result<Option<u64>, StoreError> {
        away(name)
    }

    fn list(&self, prefix: &str, _: Option<&str>) -> Result<Vec<String>, StoreError> {
        away(prefix)
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        away(prefix)
    }
}

#[test]
fn each_kind_of_store_is_told_apart_and_no_object_stays() {
    for kind in [ConditionalCreate::Atomic, ConditionalCreate::SequentialOnly, ConditionalCreate::Ignored] {
        let store = Memory::new(kind);
        let report = store.report().unwrap();
        assert_eq!(report, StoreReport { conditional_create: kind, undeleted: Vec::new() });
        assert!(store.objects.lock().unwrap().is_empty(), "{kind}");
    }
}

#[test]
fn an_object_that_may_not_be_deleted_is_named() {
    let store = Memory { may_delete: false, ..Memory::new(ConditionalCreate::Ignored) };
    let report = store.report().unwrap();
    assert_eq!(report.undeleted, store.objects.lock().unwrap().keys().cloned().collect::<Vec<_>>());
}

#[test]
fn a_folder_creates_each_object_once() {
    let (folder, files) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = FolderStore::new(folder.path(), Arc::new(Pacer::new(None)));
    let report = probe_store(&store, files.path()).unwrap();
    let atomic = StoreReport { conditional_create: ConditionalCreate::Atomic, undeleted: Vec::new() };
    assert_eq!(report, atomic);
    assert!(!folder.path().join("v1/probe").exists(), "the folder of the probes is removed too");
}

#[test]
fn a_store_that_is_away_has_no_report() {
    let store = FolderStore::new("/nonexistent/handover", Arc::new(Pacer::new(None)));
    let files = TempDir::new().unwrap();
    assert!(matches!(probe_store(&store, files.path()), Err(StoreError::NotMounted { .. })));
}
