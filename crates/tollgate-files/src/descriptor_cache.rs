//! The descriptors that the folders of a worker keep open between requests, within one limit for all folders.
//!
//! A descriptor that no request used between two calls of [`turn`](DescriptorCache::turn) is closed.

use std::cell::RefCell;
use std::rc::Rc;

use crate::cache::Cache;
use crate::tally::Tally;

/// The descriptors that the folders of one worker keep open between requests.
pub struct DescriptorCache {
    caches: RefCell<Vec<Rc<Cache>>>,
    young: Rc<Tally>,
    /// Maximum number of descriptors in the younger generations of all caches together.
    young_max: usize,
}

impl DescriptorCache {
    /// Creates a cache that keeps up to `descriptors_max` descriptors open between requests.
    pub(crate) fn new(descriptors_max: u64) -> Self {
        let young_max = usize::try_from(descriptors_max / 2).unwrap_or(usize::MAX);
        Self { caches: RefCell::default(), young: Rc::default(), young_max }
    }

    /// Returns a new cache for another route.
    pub(crate) fn cache(&self) -> Rc<Cache> {
        let cache = Rc::new(Cache::new(&self.young));
        self.caches.borrow_mut().push(cache.clone());
        cache
    }

    /// Closes descriptors if the limit is reached, before another file is opened.
    pub(crate) fn make_room(&self) {
        if self.young.get() >= self.young_max {
            self.turn();
        }
    }

    /// Closes the descriptors that no request used since the last turn, and returns their number.
    pub fn turn(&self) -> usize {
        self.young.clear();
        self.caches.borrow().iter().map(|cache| cache.turn()).sum()
    }

    /// Closes all descriptors. After a reload, other caches replace these.
    pub fn clear(&self) {
        let _ = self.turn() + self.turn();
    }
}

impl Default for DescriptorCache {
    /// Keeps up to 128 descriptors open.
    fn default() -> Self {
        Self::new(128)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Instant;

    use super::*;
    use crate::files::{Files, SharedFiles};
    use crate::lookup_context::LookupContext;
    use crate::options::FilesSpec;

    const FILES: usize = 40;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..FILES {
            fs::write(folder.path().join(number.to_string()), vec![b'x'; 20_000]).unwrap();
        }
        folder
    }

    fn ask(files: &Files, path: &str) {
        let look = LookupContext { at: Instant::now(), wall_us: 0, brought: &[], is_patient: false };
        assert_eq!(files.resource(path, look).ok().flatten().unwrap().plain().len(), 20_000);
    }

    /// Returns the number of files of a folder that this process has open.
    fn open(folder: &Path) -> usize {
        let folder = folder.canonicalize().unwrap();
        let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let files = links.filter_map(|link| fs::read_link(link.path()).ok());
        files.filter(|file| file.parent() == Some(&folder)).count()
    }

    #[test]
    fn routes_keep_no_more_open_than_their_worker_may() {
        let folder = folder();
        let shared = SharedFiles { descriptors: Rc::new(DescriptorCache::new(16)), ..SharedFiles::default() };
        let routes = [0; 3].map(|_| Files::new(&FilesSpec::new(folder.path().to_owned()), &shared));
        for route in &routes {
            for number in 0..FILES {
                ask(route, &number.to_string());
                assert!(open(folder.path()) <= 16);
            }
        }
    }

    #[test]
    fn files_without_a_request_between_two_turns_are_closed() {
        let folder = folder();
        let shared = SharedFiles::default();
        let files = Files::new(&FilesSpec::new(folder.path().to_owned()), &shared);
        ["0", "1"].iter().for_each(|path| ask(&files, path));
        assert_eq!(open(folder.path()), 2);
        assert_eq!(shared.descriptors.turn(), 0);
        ask(&files, "1");
        assert_eq!(shared.descriptors.turn(), 1);
        assert_eq!(open(folder.path()), 1);
        shared.descriptors.clear();
        assert_eq!(open(folder.path()), 0);
    }
}
