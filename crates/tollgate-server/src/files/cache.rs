//! What a worker knows of files, by path: two generations, of which the older is dropped when the younger is full. What is asked
//! for moves to the younger, so what nobody asks for goes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Instant;

use foldhash::fast::RandomState;

use super::resource::Resource;

/// Bounds of one generation: paths, bytes of content, descriptors.
const PATHS_MAX: usize = 512;
const CONTENT_BYTES_MAX: usize = 8 << 20;
const DESCRIPTORS_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Cache(RefCell<Generations>);

#[derive(Default)]
struct Generations {
    young: Generation,
    old: HashMap<Box<str>, Entry, RandomState>,
}

#[derive(Default)]
struct Generation {
    entries: HashMap<Box<str>, Entry, RandomState>,
    content_bytes: usize,
    descriptors: usize,
}

/// A resource, and when it was looked at.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) resource: Resource,
    pub(super) looked: Instant,
}

impl Cache {
    pub(super) fn get(&self, path: &str) -> Option<Entry> {
        let mut generations = self.0.borrow_mut();
        if let Some(entry) = generations.young.entries.get(path) {
            return Some(entry.clone());
        }
        let (path, entry) = generations.old.remove_entry(path)?;
        generations.insert(path, entry.clone());
        Some(entry)
    }

    pub(super) fn insert(&self, path: &str, entry: Entry) {
        let mut generations = self.0.borrow_mut();
        generations.remove(path);
        generations.insert(path.into(), entry);
    }

    pub(super) fn remove(&self, path: &str) {
        self.0.borrow_mut().remove(path);
    }
}

impl Generations {
    fn insert(&mut self, path: Box<str>, entry: Entry) {
        if self.young.is_full() {
            self.old = std::mem::take(&mut self.young).entries;
        }
        let (content_bytes, descriptors) = entry.resource.holds();
        self.young.content_bytes += content_bytes;
        self.young.descriptors += descriptors;
        self.young.entries.insert(path, entry);
    }

    fn remove(&mut self, path: &str) {
        self.old.remove(path);
        if let Some(entry) = self.young.entries.remove(path) {
            let (content_bytes, descriptors) = entry.resource.holds();
            self.young.content_bytes -= content_bytes;
            self.young.descriptors -= descriptors;
        }
    }
}

impl Generation {
    fn is_full(&self) -> bool {
        self.entries.len() >= PATHS_MAX
            || self.content_bytes >= CONTENT_BYTES_MAX
            || self.descriptors >= DESCRIPTORS_MAX
    }
}
