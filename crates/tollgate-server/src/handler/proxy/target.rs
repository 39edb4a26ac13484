//! A route to a backend, in one worker.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_backend::{Failure, UploadPlace, Upstream};
use tollgate_http::Methods;
use tollgate_meter::{FewPerPeriod, OncePerPause};
use tollgate_script::Request;

use super::own_word::OwnWord;
use crate::options::ProxySpec;

/// Refusals of one route are logged once in this time.
const REFUSALS_LOGGED_EACH: Duration = Duration::from_secs(1);

/// A route to a backend, in one worker.
pub(crate) struct Proxy {
    pub(super) upstream: Rc<Upstream>,
    pub(super) spec: ProxySpec,
    pub(super) says: OwnWord,
    /// Segments of the path that are left out.
    pub(super) stripped: usize,
    pub(super) route: String,
    /// What it says of them where a request may go no further.
    pub(super) methods: Methods,
    pub(super) refusals: OncePerPause,
    pub(super) failures: FewPerPeriod,
}

impl Proxy {
    /// Makes it for a route of that path.
    pub(crate) fn new(
        spec: &ProxySpec,
        route: &str,
        methods: Methods,
        upstream: &Rc<Upstream>,
        says: OwnWord,
    ) -> Rc<Self> {
        let stripped = if spec.strip_prefix { route.split('/').count().saturating_sub(2) } else { 0 };
        Rc::new(Self {
            upstream: upstream.clone(),
            spec: spec.clone(),
            says,
            stripped,
            route: route.to_owned(),
            methods,
            refusals: OncePerPause::new(REFUSALS_LOGGED_EACH),
            failures: FewPerPeriod::failures(),
        })
    }

    /// Leave to begin a request whose content is still coming.
    pub(crate) fn upload_place(&self) -> Option<UploadPlace> {
        self.upstream.try_upload()
    }

    /// Logs why a request got no reply, unless many get none. A request that no backend was asked for is
    /// logged once a second, because the breaker has logged the reason.
    pub(super) fn log_failure(&self, failure: &Failure, request: &Request) {
        let (route, id) = (&self.route, &request.id);
        let Failure { backend, address, phase, .. } = failure;
        if failure.is_of_client() {
            tracing::debug!(route, %id, backend, %phase, "{failure}");
            return;
        }
        if !failure.is_refusal() {
            if let Some(left_out) = self.failures.note(Instant::now()) {
                let address = address.as_deref();
                tracing::warn!(route, %id, backend, address, %phase, left_out, "no reply of the backend: {failure}");
            }
            return;
        }
        if let Some(left_out) = self.unlogged_refusals() {
            tracing::warn!(route, %id, backend, %phase, left_out, "request refused: {failure}");
        }
    }

    /// Counts a refusal. Returns how many were left out before it, if it is time to log it.
    pub(super) fn unlogged_refusals(&self) -> Option<u64> {
        self.refusals.note();
        self.refusals.due(Instant::now()).map(|count| count - 1)
    }
}
