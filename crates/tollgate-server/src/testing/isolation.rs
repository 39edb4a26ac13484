//! Requests without a socket, and options without state that a server shares.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollgate_http::route::MatchedPath;
use tollgate_http::{RequestHead, UriScheme};
use tollgate_script::{Caller, Clock, Context, Request, RequestId, TlsSession, TraceRule};

use crate::handler::{Endpoint, Exchange, Routes};
use crate::options::ServerOptions;

/// Reason why tests could not be run.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// The app does not start, or the file contains no tests.
    #[error("{0}")]
    Unusable(String),
    /// The operating system provides no event queue or no temporary folder.
    #[error("cannot create the runtime or the folder for uploads")]
    Runtime(#[source] io::Error),
}

/// Returns a runtime for one thread.
pub(super) fn runtime() -> Result<Runtime, TestError> {
    tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(TestError::Runtime)
}

/// Returns options whose scripts share no state with a server. Their uploads go to the returned folder.
pub(super) fn isolated(
    options: &ServerOptions,
    clock: &Clock,
) -> Result<(ServerOptions, TempDir), TestError> {
    let mut options = options.clone();
    let scratch = tempfile::tempdir().map_err(TestError::Runtime)?;
    for uploads in options.routes.iter_mut().filter_map(|route| route.access.uploads.as_mut()) {
        uploads.dir = scratch.path().to_owned();
    }
    let hosts = options.apps.iter_mut().map(|app| &mut app.script).chain([&mut options.script]);
    for script in hosts {
        script.shared = std::sync::Arc::default();
        script.clock = clock.clone();
    }
    Ok((options, scratch))
}

pub(super) fn unusable(error: &dyn std::error::Error) -> TestError {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    TestError::Unusable(format!("{error}{cause}"))
}

/// Creates the request of a test at its endpoint.
pub(super) fn exchange(
    endpoint: Rc<Endpoint>,
    routes: Rc<Routes>,
    head: RequestHead,
    place: MatchedPath,
    (id, clock): (RequestId, &Clock),
    (tls, caller): (Option<Rc<TlsSession>>, Option<Rc<Caller>>),
    content: Bytes,
) -> Exchange {
    let request = Request {
        head,
        place,
        remote_addr: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        tls,
        id,
        time_us: clock.wall_us(),
        caller,
        trace_rule: TraceRule::TakeOrMake,
        is_sampled: false,
        body: content.into(),
        context: Context::default(),
        choice: std::cell::RefCell::default(),
    };
    Exchange {
        endpoint,
        request: Rc::new(request),
        routes,
        begun: Instant::now(),
        peer: None,
        trusted_header: None,
        scheme: UriScheme::Http,
        permit: None,
        upload: None,
    }
}
