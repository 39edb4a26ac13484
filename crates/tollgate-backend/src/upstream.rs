//! One worker's end of the backends: their connections, and their addresses of this moment.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tollgate_http::{Limits, UnderscoreNames};

use crate::backend::Backend;
use crate::limit::UploadPlace;
use crate::link::{Link, Scratch};
use crate::pool::Pool;
use crate::target::Target;
use crate::{Failure, FailureKind, Phase};

/// The backends of one worker, in the order of the configuration.
#[derive(Default)]
pub struct Client {
    upstreams: Vec<Rc<Upstream>>,
}

impl Client {
    /// Makes it; what is another client's of the same worker already is shared with it, connections and all.
    pub fn new(backends: &[Arc<Backend>], before: &Self) -> Self {
        let one = |backend: &Arc<Backend>| {
            let same = before.upstreams.iter().find(|upstream| Arc::ptr_eq(&upstream.shared, backend));
            same.map_or_else(|| Rc::new(Upstream::new(backend)), Rc::clone)
        };
        Self { upstreams: backends.iter().map(one).collect() }
    }

    /// The backend at a place of the configuration.
    pub fn at(&self, place: usize) -> Option<&Rc<Upstream>> {
        self.upstreams.get(place)
    }

    /// The backend of that name.
    pub fn named(&self, name: &str) -> Option<&Rc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.shared.options.name == name)
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.upstreams.iter().map(|upstream| upstream.shared.options.name.as_str())
    }

    /// Closes connections that nobody should use again. For a tick each second or so.
    pub fn sweep(&self, now: Instant) {
        for upstream in &self.upstreams {
            upstream.pool.borrow_mut().sweep(&upstream.targets(), now);
        }
    }
}

/// One worker's end of a backend.
pub struct Upstream {
    pub(crate) shared: Arc<Backend>,
    pub(crate) scratch: Scratch,
    pub(crate) pool: RefCell<Pool>,
    /// As of a version of the backend.
    targets: RefCell<(u64, Arc<[Arc<Target>]>)>,
    /// Where the search for an address begins, so that equals have their turns.
    pub(crate) next: Cell<usize>,
    pub(crate) limits: Limits,
    host: String,
}

impl Upstream {
    pub(crate) fn new(shared: &Arc<Backend>) -> Self {
        let options = &shared.options;
        Self {
            scratch: Scratch::default(),
            pool: RefCell::new(Pool::new(options.pool)),
            targets: RefCell::new((shared.version(), shared.targets())),
            next: Cell::new(0),
            limits: Limits {
                head_bytes_max: options.head_bytes_max,
                // A backend that flushes each character means no harm.
                chunk_framing_per_byte: Limits::ANY_CHUNK_FRAMING,
                // Nobody takes a name in a reply for another one: those of trailers may have it as those of
                // heads.
                underscore_names: UnderscoreNames::Drop,
                ..Limits::default()
            },
            host: options.addresses.first().map(crate::Address::host).unwrap_or_default(),
            shared: shared.clone(),
        }
    }

    /// What Host says where the request has none, or should not be told.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// How the backend is configured.
    pub fn options(&self) -> &crate::BackendOptions {
        &self.shared.options
    }

    /// Leave to send a request while its content comes: for half of `concurrency_max` at once. None: it has
    /// to come whole first.
    pub fn try_upload(&self) -> Option<UploadPlace> {
        self.shared.limit.try_upload()
    }

    /// The addresses of this moment.
    pub(crate) fn targets(&self) -> Arc<[Arc<Target>]> {
        let mut targets = self.targets.borrow_mut();
        let version = self.shared.version();
        if targets.0 != version {
            *targets = (version, self.shared.targets());
        }
        targets.1.clone()
    }

    pub(crate) fn keep(&self, target: &Arc<Target>, link: Link, now: Instant) {
        self.pool.borrow_mut().put(target, link, now);
    }

    pub(crate) fn failure(&self, target: Option<&Target>, phase: Phase, kind: FailureKind) -> Failure {
        let address = target.map(|target| target.place.to_string());
        Failure { backend: self.shared.options.name.clone(), address, phase, kind }
    }
}
