//! Files of a folder, with what HTTP says about representations: validators, conditions, ranges, codings.
//!
//! A request goes through the files in this order: [`answer`] has it answered, [`path_lookup`] finds out
//! which file is meant, [`root`] opens it where [`FolderBounds`](crate::options::FolderBounds) let its folder
//! lie, [`resource`] makes of it what is sent, [`cache`] keeps that for the next request, as far as
//! [`descriptor_cache`] lets it, [`compressed`] has it compressed, [`digests`] has it digested, [`selected`]
//! decides how much of it a request gets. What is not small leaves as slices of the open file, by
//! `conn/outlet.rs`.
//!
//! Invariants:
//! - nothing is opened but by the kernel's rule that it lies beneath the root, and nothing is served but
//!   regular files;
//! - a folder that may not be served when a configuration is read is not served when it comes to its place
//!   later;
//! - a reply is of one file: one that is replaced goes on from its old descriptor as it was, one that becomes
//!   shorter ends the connection; one that is written in place may be read halfway, and the system does not
//!   always tell;
//! - the worker reads what is in memory, and never waits for the content of a file: what takes longer a
//!   thread does, and the request waits for that as a [`PendingRead`], or does without.

mod answer;
mod cache;
mod compress;
mod compressed;
mod descriptor_cache;
mod digest;
mod digests;
mod disk_jobs;
mod listing;
mod lookup_context;
mod media;
mod opened;
mod path_lookup;
mod pending_read;
mod representation;
mod resource;
mod root;
mod script_file;
mod selected;
mod source;
mod stamp;
mod tally;
mod two_generation_cache;

use std::rc::Rc;

use bytes::Bytes;

use cache::Cache;
use compressed::CompressedFiles;
pub(crate) use descriptor_cache::DescriptorCache;
use digests::Digests;
use disk_jobs::DiskJobs;
pub(crate) use pending_read::PendingRead;
use root::Root;
pub(crate) use script_file::ScriptFileReply;

use crate::log_throttle::FewPerPeriod;
use crate::options::{CapacityLimits, FilesSpec};

/// What the routes of a worker share.
#[derive(Default)]
pub(crate) struct SharedFiles {
    work: Rc<DiskJobs>,
    pub(crate) descriptors: Rc<DescriptorCache>,
}

/// What answers on a route of files, in one worker.
pub(crate) struct Files {
    spec: FilesSpec,
    root: Root,
    cache: Rc<Cache>,
    descriptors: Rc<DescriptorCache>,
    made: Rc<CompressedFiles>,
    digests: Rc<Digests>,
    work: Rc<DiskJobs>,
    /// Of requests that the system has no file for.
    failures: FewPerPeriod,
}

impl SharedFiles {
    pub(crate) fn new(limits: &CapacityLimits) -> Self {
        Self { work: Rc::default(), descriptors: Rc::new(DescriptorCache::new(limits)) }
    }
}

impl Files {
    pub(crate) fn new(spec: &FilesSpec, shared: &SharedFiles) -> Self {
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

    /// Those that scripts name: what they name is what is sent, in no other coding.
    pub(crate) fn named(spec: &FilesSpec, shared: &SharedFiles) -> Self {
        Self::new(&FilesSpec { precompressed: false, ..spec.clone() }, shared)
    }

    /// The field lines of every reply.
    pub(crate) fn lines(&self) -> Bytes {
        let mut lines = Vec::new();
        self.spec.push_headers(&mut lines);
        lines.into()
    }
}
