//! Backends in tests. Functions of the test answer the requests of scripts, in the VM of the test and without
//! a socket.

use std::rc::Rc;

use bytes::Bytes;
use tollgate_http::Limits;
use tollgate_http::route::MatchedPath;
use tollgate_script::{
    Clock, Context, FakeBackends, FetchError, FetchRequest, Fetched, Fetcher, Fetching, Host, LoadedScript,
    Request, RequestId, TestRequest, TraceRule,
};
use uuid::Uuid;

use super::head::head;
use crate::reply::Reply;

/// Fetcher that calls functions of a test instead of backends.
pub(super) struct FakeFetcher {
    pub(super) fakes: Rc<FakeBackends>,
    /// The host of the test.
    pub(super) host: Host,
    /// Names of the configured backends.
    pub(super) names: Vec<String>,
    pub(super) clock: Clock,
}

impl Fetcher for FakeFetcher {
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn fetch(&self, backend: &str, request: FetchRequest) -> Fetching {
        let Some(handler) = self.fakes.handler(&self.host, backend) else {
            let text = format!(
                "the test defines no such backend: add t:backend(\"{backend}\", function(req) ... end)"
            );
            return Box::pin(async move { Err(FetchError { name: "unresolved", text }) });
        };
        let time_us = self.clock.wall_us();
        Box::pin(async move { answer(&handler, request, time_us).await })
    }
}

/// Answers a request. An error in the function of a test counts as a failed backend.
async fn answer(handler: &LoadedScript, request: FetchRequest, time_us: i64) -> Result<Fetched, FetchError> {
    let invalid = |text: String| FetchError { name: "invalid", text };
    let FetchRequest { method, target, fields: given, content, .. } = request;
    let given = given.into_iter().map(|(name, value)| (name.into_bytes(), value.to_vec())).collect();
    let asked = TestRequest {
        method: method.to_string(),
        target,
        fields: given,
        content: content.clone(),
        client_certificate: None,
        signature: None,
        caller: None,
    };
    let request = Request {
        head: head(&asked, &Limits::default()).map_err(invalid)?,
        place: MatchedPath::default(),
        remote_addr: None,
        tls: None,
        id: RequestId::Made(Uuid::nil()),
        time_us,
        caller: None,
        trace_rule: TraceRule::Off,
        is_sampled: false,
        body: content.unwrap_or_default().into(),
        context: Context::default(),
        choice: std::cell::RefCell::default(),
    };
    let outcome = handler.call(Rc::new(request)).finish().await;
    let passed = || "a backend of a test returned tollgate.pass: allowed is a reply".to_owned();
    let outcome = outcome.map_err(|error| error.to_string()).and_then(|done| done.ok_or_else(passed));
    let outcome = outcome.map_err(invalid)?;
    let status = outcome.status;
    let reply = Reply::from(outcome);
    let content: Bytes = reply.content.clone();
    Ok(Fetched { status, fields: reply.all_fields(), content })
}
