//! The proxy handler of a route in one worker.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_backend::{Failure, UploadPlace, Upstream};
use tollgate_http::Methods;
use tollgate_meter::{FewPerPeriod, OncePerPause};
use tollgate_script::Request;

use super::own_word::OwnWord;
use crate::options::{AnyOr, EncodedSlashes, HostSent, ProxySpec};

/// Minimum time between two log lines about refusals of one route.
const REFUSALS_LOGGED_EACH: Duration = Duration::from_secs(1);

/// The proxy handler of a route in one worker.
pub(crate) struct Proxy {
    pub(super) upstream: Rc<Upstream>,
    pub(super) spec: ProxySpec,
    pub(super) says: OwnWord,
    /// Number of path segments that are stripped.
    pub(super) stripped: usize,
    /// Whether references and cookies in replies are rewritten.
    pub(super) rewrites: bool,
    pub(super) route: String,
    /// Methods for the `Allow` field, if a request may not be forwarded any more.
    pub(super) methods: Methods,
    pub(super) refusals: OncePerPause,
    pub(super) failures: FewPerPeriod,
}

impl Proxy {
    /// Creates the handler for a route with the path `route`.
    pub(crate) fn new(
        spec: &ProxySpec,
        route: &str,
        methods: Methods,
        upstream: &Rc<Upstream>,
        says: OwnWord,
    ) -> Rc<Self> {
        let stripped = if spec.strip_prefix { route.split('/').count().saturating_sub(2) } else { 0 };
        let differs = stripped > 0 || !spec.prefix.is_empty() || spec.host == HostSent::Backend;
        Rc::new(Self {
            upstream: upstream.clone(),
            spec: spec.clone(),
            says,
            stripped,
            rewrites: spec.rewrite_paths && differs,
            route: route.to_owned(),
            methods,
            refusals: OncePerPause::new(REFUSALS_LOGGED_EACH),
            failures: FewPerPeriod::failures(),
        })
    }

    /// Returns whether an extension method with this name is forwarded.
    pub(crate) fn takes_extension(&self, name: &str) -> bool {
        match &self.spec.extension_methods {
            AnyOr::Any => true,
            AnyOr::Listed(names) => names.iter().any(|listed| listed == name),
        }
    }

    /// Returns whether paths with encoded slashes are forwarded.
    pub(crate) fn passes_encoded_slashes(&self) -> bool {
        self.spec.encoded_slashes == EncodedSlashes::Pass
    }

    /// Returns a permit to begin a request while its content still arrives.
    pub(crate) fn upload_place(&self) -> Option<UploadPlace> {
        self.upstream.try_upload()
    }

    /// Logs the reason why a request got no reply. The number of log lines is limited. If requests are
    /// refused before a backend is asked, one line a second suffices, because the breaker has logged the
    /// reason.
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
                tracing::warn!(route, %id, backend, address, %phase, left_out, "request got no reply: {failure}");
            }
            return;
        }
        if let Some(left_out) = self.unlogged_refusals() {
            tracing::warn!(route, %id, backend, %phase, left_out, "request refused: {failure}");
        }
    }

    /// Counts a refusal. If a log line is due, returns the number of earlier refusals that were not logged.
    pub(super) fn unlogged_refusals(&self) -> Option<u64> {
        self.refusals.note();
        self.refusals.due(Instant::now()).map(|count| count - 1)
    }
}
