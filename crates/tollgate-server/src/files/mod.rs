//! Files of a folder, with what HTTP says about representations: validators, conditions, ranges, codings.
//!
//! A request goes through the files in this order: [`answer`] has it answered, [`lookup`] finds out which file is meant, [`root`] opens it where [`Bounds`](crate::options::Bounds) let its folder lie, [`resource`] makes
//! of it what is sent, [`cache`] keeps that for the next request, as far as [`shelf`] lets it, [`made`] has it compressed, [`digests`] has it digested, [`selected`] decides how much of it a
//! request gets. What is not small leaves as slices of the open file, by `conn/outlet.rs`.
//!
//! Invariants:
//! - nothing is opened but by the kernel's rule that it lies beneath the root, and nothing is served but regular files;
//! - a folder that may not be served when a configuration is read is not served when it comes to its place later;
//! - a reply is of one file: one that is replaced goes on from its old descriptor as it was, one that becomes shorter ends the
//!   connection; one that is written in place may be read halfway, and the system does not always tell;
//! - the worker reads what is in memory, and never waits for the content of a file: what takes longer a thread does, and the
//!   request waits for that as an [`Errand`], or does without.

mod answer;
mod bounded;
mod cache;
mod compress;
mod digest;
mod digests;
mod errand;
mod listing;
mod look;
mod lookup;
mod made;
mod media;
mod opened;
mod representation;
mod resource;
mod root;
mod selected;
mod sent;
mod shelf;
mod source;
mod stamp;
mod tally;
mod work;

use std::rc::Rc;

use bytes::Bytes;

use cache::Cache;
use digests::Digests;
pub(crate) use errand::Errand;
use made::Made;
use root::Root;
pub(crate) use sent::Sending;
pub(crate) use shelf::Shelf;
use work::Work;

use crate::log_throttle::FewPerPeriod;
use crate::options::{FilesSpec, ServerOptions};

/// What the routes of a worker share.
#[derive(Default)]
pub(crate) struct Means {
    work: Rc<Work>,
    pub(crate) shelf: Rc<Shelf>,
}

/// What answers on a route of files, in one worker.
pub(crate) struct Files {
    spec: FilesSpec,
    root: Root,
    cache: Rc<Cache>,
    shelf: Rc<Shelf>,
    made: Rc<Made>,
    digests: Rc<Digests>,
    work: Rc<Work>,
    /// Of requests that the system has no file for.
    failures: FewPerPeriod,
}

impl Means {
    pub(crate) fn new(options: &ServerOptions) -> Self {
        Self { work: Rc::default(), shelf: Rc::new(Shelf::new(options)) }
    }
}

impl Files {
    pub(crate) fn new(spec: &FilesSpec, means: &Means) -> Self {
        let Means { work, shelf } = means;
        Self {
            root: Root::new(spec),
            spec: spec.clone(),
            cache: shelf.cache(),
            shelf: shelf.clone(),
            made: Rc::new(Made::new(spec, work.clone())),
            digests: Rc::new(Digests::new(work.clone())),
            work: work.clone(),
            failures: FewPerPeriod::failures(),
        }
    }

    /// Those that scripts name: what they name is what is sent, in no other coding.
    pub(crate) fn named(spec: &FilesSpec, means: &Means) -> Self {
        Self::new(&FilesSpec { precompressed: false, ..spec.clone() }, means)
    }

    /// The field lines of every reply.
    pub(crate) fn lines(&self) -> Bytes {
        let mut lines = Vec::new();
        self.spec.push_headers(&mut lines);
        lines.into()
    }
}
