//! A folder that is served, in one worker, and what the folders of a worker share.

use std::rc::Rc;

use bytes::Bytes;
use tollgate_meter::FewPerPeriod;

use crate::cache::Cache;
use crate::compressed::CompressedFiles;
use crate::descriptor_cache::DescriptorCache;
use crate::digests::Digests;
use crate::disk_jobs::DiskJobs;
use crate::options::FilesSpec;
use crate::root::Root;

/// What the folders of one worker share: places for work on disks, and the bound on open descriptors.
#[derive(Default)]
pub struct SharedFiles {
    pub(crate) work: Rc<DiskJobs>,
    pub(crate) descriptors: Rc<DescriptorCache>,
}

/// A folder that is served, in one worker.
///
/// Its methods start local tasks and blocking threads of the tokio runtime that polls them. So this runtime
/// is a `LocalRuntime`, or the caller polls in a `LocalSet`.
pub struct Files {
    pub(crate) spec: FilesSpec,
    pub(crate) root: Root,
    pub(crate) cache: Rc<Cache>,
    pub(crate) descriptors: Rc<DescriptorCache>,
    pub(crate) made: Rc<CompressedFiles>,
    pub(crate) digests: Rc<Digests>,
    pub(crate) work: Rc<DiskJobs>,
    /// Of requests that the system has no file for.
    pub(crate) failures: FewPerPeriod,
}

impl SharedFiles {
    /// Makes them for a worker that keeps up to `descriptors_max` descriptors open between requests.
    pub fn new(descriptors_max: u64) -> Self {
        Self { work: Rc::default(), descriptors: Rc::new(DescriptorCache::new(descriptors_max)) }
    }

    /// Returns the descriptors that the folders keep open.
    pub fn descriptors(&self) -> Rc<DescriptorCache> {
        self.descriptors.clone()
    }
}

impl Files {
    /// Makes it, without a look at the folder.
    pub fn new(spec: &FilesSpec, shared: &SharedFiles) -> Self {
        let SharedFiles { work, descriptors } = shared;
        Self {
            root: Root::new(spec),
            spec: spec.clone(),
            cache: descriptors.cache(),
            descriptors: descriptors.clone(),
            made: Rc::new(CompressedFiles::new(spec, work.clone())),
            digests: Rc::new(Digests::new(work.clone())),
            work: work.clone(),
            failures: FewPerPeriod::failures(),
        }
    }

    /// Makes it for [`poll_named`](Self::poll_named): the named file is sent, in no other coding.
    pub fn named(spec: &FilesSpec, shared: &SharedFiles) -> Self {
        Self::new(&FilesSpec { precompressed: false, ..spec.clone() }, shared)
    }

    /// Returns the field lines of every reply, each with its line end.
    pub fn lines(&self) -> Bytes {
        let mut lines = Vec::new();
        self.spec.push_headers(&mut lines);
        lines.into()
    }
}
