//! A served folder in one worker, and the state that the folders of a worker share.

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

/// State that the folders of one worker share: permits for work on disks, and the limit of open descriptors.
#[derive(Default)]
pub struct SharedFiles {
    pub(crate) work: Rc<DiskJobs>,
    pub(crate) descriptors: Rc<DescriptorCache>,
}

/// A served folder in one worker.
///
/// The methods of this type start local tasks and blocking threads of the tokio runtime that polls them. That
/// runtime must be a `LocalRuntime`, or the caller must poll in a `LocalSet`.
pub struct Files {
    pub(crate) spec: FilesSpec,
    pub(crate) root: Root,
    pub(crate) cache: Rc<Cache>,
    pub(crate) descriptors: Rc<DescriptorCache>,
    pub(crate) made: Rc<CompressedFiles>,
    pub(crate) digests: Rc<Digests>,
    pub(crate) work: Rc<DiskJobs>,
    /// Limits the log lines about files that the system could not open.
    pub(crate) failures: FewPerPeriod,
}

impl SharedFiles {
    /// Creates the state of a worker that keeps up to `descriptors_max` descriptors open between requests.
    pub fn new(descriptors_max: u64) -> Self {
        Self { work: Rc::default(), descriptors: Rc::new(DescriptorCache::new(descriptors_max)) }
    }

    /// Returns the descriptors that the folders keep open.
    pub fn descriptors(&self) -> Rc<DescriptorCache> {
        self.descriptors.clone()
    }
}

impl Files {
    /// Creates the value without an access to the disk.
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

    /// Creates the value for [`poll_named`](Self::poll_named). The named file itself is sent, never a
    /// precompressed file in its place.
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
