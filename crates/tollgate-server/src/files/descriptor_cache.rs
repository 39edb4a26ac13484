//! What the routes of a worker keep open between requests, within one bound over all of them. What nobody
//! asks for is given up, and so is all of it as soon as the process has no descriptor left: what is only kept
//! yields to connections and to files that are asked for.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::rc::Rc;

use rustix::process::{Resource, getrlimit};

use super::cache::Cache;
use super::tally::Tally;
use crate::options::ServerOptions;

/// What a worker keeps open at most, whatever the limit is.
const DESCRIPTORS_MAX: RangeInclusive<u64> = 16..=128;
/// Descriptors of the log, the databases, the listeners and the runtime, generously.
const DESCRIPTORS_BESIDE: u64 = 128;

pub(crate) struct DescriptorCache {
    caches: RefCell<Vec<Rc<Cache>>>,
    young: Rc<Tally>,
    /// Of each generation of all caches together.
    young_max: usize,
}

impl DescriptorCache {
    /// With what the limit of the process leaves beside connections.
    pub(crate) fn new(options: &ServerOptions) -> Self {
        Self::holding(share(getrlimit(Resource::Nofile).current, options))
    }

    fn holding(descriptors_max: u64) -> Self {
        let young_max = usize::try_from(descriptors_max / 2).unwrap_or(usize::MAX);
        Self { caches: RefCell::default(), young: Rc::default(), young_max }
    }

    /// The cache of another route.
    pub(super) fn cache(&self) -> Rc<Cache> {
        let cache = Rc::new(Cache::new(&self.young));
        self.caches.borrow_mut().push(cache.clone());
        cache
    }

    /// Makes room for what is opened next.
    pub(super) fn make_room(&self) {
        if self.young.get() >= self.young_max {
            self.turn();
        }
    }

    /// Gives up what nobody asked for since the last turn, and tells how many descriptors that was.
    pub(crate) fn turn(&self) -> usize {
        self.young.clear();
        self.caches.borrow().iter().map(|cache| cache.turn()).sum()
    }

    /// Gives up all. False: there was nothing.
    pub(crate) fn clear(&self) -> bool {
        self.turn() + self.turn() > 0
    }
}

impl Default for DescriptorCache {
    fn default() -> Self {
        Self::holding(*DESCRIPTORS_MAX.end())
    }
}

/// What one worker may keep open. A connection takes one descriptor, and one more while its request waits for
/// a backend.
fn share(limit: Option<u64>, options: &ServerOptions) -> u64 {
    let of_each = if options.backends.is_empty() { 1 } else { 2 };
    let needed = (options.capacity.connections_max as u64).saturating_mul(of_each) + DESCRIPTORS_BESIDE;
    let left = limit.unwrap_or(u64::MAX).saturating_sub(needed) / options.workers.max(1) as u64;
    left.clamp(*DESCRIPTORS_MAX.start(), *DESCRIPTORS_MAX.end())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Instant;

    use super::super::lookup_context::LookupContext;
    use super::super::{Files, SharedFiles};
    use super::*;
    use crate::options::FilesSpec;
    use crate::options::tests::options;

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

    /// How many files of a folder this process has open.
    fn open(folder: &Path) -> usize {
        let folder = folder.canonicalize().unwrap();
        let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let files = links.filter_map(|link| fs::read_link(link.path()).ok());
        files.filter(|file| file.parent() == Some(&folder)).count()
    }

    #[test]
    fn routes_keep_no_more_open_than_their_worker_may() {
        let folder = folder();
        let shared =
            SharedFiles { descriptors: Rc::new(DescriptorCache::holding(16)), ..SharedFiles::default() };
        let routes = [0; 3].map(|_| Files::new(&FilesSpec::new(folder.path().to_owned()), &shared));
        for route in &routes {
            for number in 0..FILES {
                ask(route, &number.to_string());
                assert!(open(folder.path()) <= 16);
            }
        }
    }

    #[test]
    fn what_nobody_asked_for_between_two_turns_is_closed() {
        let folder = folder();
        let shared = SharedFiles::default();
        let files = Files::new(&FilesSpec::new(folder.path().to_owned()), &shared);
        ["0", "1"].iter().for_each(|path| ask(&files, path));
        assert_eq!(open(folder.path()), 2);
        assert_eq!(shared.descriptors.turn(), 0);
        ask(&files, "1");
        assert_eq!(shared.descriptors.turn(), 1);
        assert_eq!(open(folder.path()), 1);
        assert!(shared.descriptors.clear());
        assert_eq!(open(folder.path()), 0);
        assert!(!shared.descriptors.clear());
    }

    #[test]
    fn what_is_left_beside_connections_is_shared_by_the_workers() {
        let mut options = options();
        (options.workers, options.capacity.connections_max) = (2, 150);
        assert_eq!(share(Some(410), &options), 66);
        assert_eq!(share(Some(100), &options), 16);
        assert_eq!(share(None, &options), 128);
    }
}
