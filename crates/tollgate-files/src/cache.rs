//! The lookups of a route that a worker caches, by path.
//!
//! The cache has two generations. When the younger generation is full, the older one is dropped. An entry
//! that is used moves to the younger generation, so only unused entries are dropped. [`turn`](Cache::turn)
//! also drops entries with descriptors that no request used.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use foldhash::fast::RandomState;

use crate::resource::Resource;
use crate::tally::Tally;

/// Limits of one generation: number of paths, and bytes of content.
const PATHS_MAX: usize = 512;
const CONTENT_BYTES_MAX: usize = 8 << 20;

pub(crate) struct Cache(RefCell<Generations>);

struct Generations {
    young: Generation,
    old: HashMap<Box<str>, CacheEntry, RandomState>,
    /// Count of open descriptors, shared with the caches of other routes.
    descriptors: Rc<Tally>,
}

#[derive(Default)]
struct Generation {
    entries: HashMap<Box<str>, CacheEntry, RandomState>,
    content_bytes: usize,
}

/// A resource, and the time when its path was looked up, or its folder if that was earlier.
#[derive(Clone)]
pub(crate) struct CacheEntry {
    pub(crate) resource: Resource,
    pub(crate) looked: Instant,
}

impl Cache {
    pub(crate) fn new(descriptors: &Rc<Tally>) -> Self {
        let (young, old, descriptors) = (Generation::default(), HashMap::default(), descriptors.clone());
        Self(RefCell::new(Generations { young, old, descriptors }))
    }

    pub(crate) fn get(&self, path: &str) -> Option<CacheEntry> {
        let mut generations = self.0.borrow_mut();
        if let Some(entry) = generations.young.entries.get(path) {
            return Some(entry.clone());
        }
        let (path, entry) = generations.old.remove_entry(path)?;
        generations.insert(path, entry.clone());
        Some(entry)
    }

    pub(crate) fn insert(&self, path: &str, entry: CacheEntry) {
        let mut generations = self.0.borrow_mut();
        generations.remove(path);
        generations.insert(path.into(), entry);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.0.borrow_mut().remove(path);
    }

    /// Drops the entries with descriptors that were not used since the last turn, and returns the number of
    /// their descriptors.
    pub(crate) fn turn(&self) -> usize {
        let Generations { young, old, .. } = &mut *self.0.borrow_mut();
        let dropped = old.extract_if(|_, entry| entry.descriptors() > 0);
        let dropped = dropped.map(|(_, entry)| entry.descriptors()).sum();
        for (path, entry) in young.entries.extract_if(|_, entry| entry.descriptors() > 0) {
            young.content_bytes -= entry.resource.holds().0;
            old.insert(path, entry);
        }
        dropped
    }
}

impl CacheEntry {
    fn descriptors(&self) -> usize {
        self.resource.holds().1
    }
}

impl Generations {
    fn insert(&mut self, path: Box<str>, entry: CacheEntry) {
        if self.young.is_full() {
            self.old = std::mem::take(&mut self.young).entries;
        }
        let (content_bytes, descriptors) = entry.resource.holds();
        self.young.content_bytes += content_bytes;
        self.descriptors.add(descriptors);
        self.young.entries.insert(path, entry);
    }

    fn remove(&mut self, path: &str) {
        self.old.remove(path);
        if let Some(entry) = self.young.entries.remove(path) {
            let (content_bytes, descriptors) = entry.resource.holds();
            self.young.content_bytes -= content_bytes;
            self.descriptors.subtract(descriptors);
        }
    }
}

impl Generation {
    fn is_full(&self) -> bool {
        self.entries.len() >= PATHS_MAX || self.content_bytes >= CONTENT_BYTES_MAX
    }
}
