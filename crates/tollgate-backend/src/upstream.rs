//! The backends of one worker: the connections of the worker, and the current addresses.

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
    /// Creates the client. `before` is an earlier client of this worker. The new client shares its unchanged
    /// backends, with their connections.
    pub fn new(backends: &[Arc<Backend>], before: &Self) -> Self {
        let one = |backend: &Arc<Backend>| {
            let same = before.upstreams.iter().find(|upstream| Arc::ptr_eq(&upstream.shared, backend));
            same.map_or_else(|| Rc::new(Upstream::new(backend)), Rc::clone)
        };
        Self { upstreams: backends.iter().map(one).collect() }
    }

    /// Returns the backend at an index of the configuration.
    pub fn at(&self, place: usize) -> Option<&Rc<Upstream>> {
        self.upstreams.get(place)
    }

    /// Returns the backend with this name.
    pub fn named(&self, name: &str) -> Option<&Rc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.shared.options.name == name)
    }

    /// Lists the names of all backends.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.upstreams.iter().map(|upstream| upstream.shared.options.name.as_str())
    }

    /// Closes connections that must not be reused. Call it about once a second.
    pub fn sweep(&self, now: Instant) {
        for upstream in &self.upstreams {
            upstream.pool.borrow_mut().sweep(&upstream.targets(), now);
        }
    }
}

/// One backend in one worker.
pub struct Upstream {
    pub(crate) shared: Arc<Backend>,
    pub(crate) scratch: Scratch,
    pub(crate) pool: RefCell<Pool>,
    /// The targets, and the version of the backend that they belong to.
    targets: RefCell<(u64, Arc<[Arc<Target>]>)>,
    /// Index at which the search for an address begins, so that equally good addresses take turns.
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
                // A backend is trusted, so it may send each character in a separate chunk.
                chunk_framing_per_byte: Limits::ANY_CHUNK_FRAMING,
                // `_` is allowed in the names of trailers, as it is in heads, because no reader of a reply
                // confuses `_` with `-`.
                underscore_names: UnderscoreNames::Drop,
                ..Limits::default()
            },
            host: options.addresses.first().map(crate::Address::host).unwrap_or_default(),
            shared: shared.clone(),
        }
    }

    /// Returns the value of Host for a request without Host, or with a Host that must not be forwarded.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the configuration of the backend.
    pub fn options(&self) -> &crate::BackendOptions {
        &self.shared.options
    }

    /// Returns a permit to send a request while its content arrives, or `None` if the content must be
    /// complete first.
    ///
    /// At most half of `concurrency_max` requests have such a permit at once.
    pub fn try_upload(&self) -> Option<UploadPlace> {
        self.shared.limit.try_upload()
    }

    /// Returns the current addresses.
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
