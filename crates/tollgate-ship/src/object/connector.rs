//! HTTP/1.1 for the crate `object_store`, which signs requests and reads replies.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};

use super::connect::{Dialed, Dialer, Target};
use super::fault::{broken, stalled};
use super::pool::{Lease, Pool, Sender};
use super::request_body::{CallProgress, RequestBody};
use super::response_body::ResponseBody;
use crate::pace::Pacer;

/// Sends requests. All clones share their connections.
#[derive(Clone)]
pub(super) struct Connector {
    dialer: Arc<Dialer>,
    pool: Arc<Pool>,
    pacer: Arc<Pacer>,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(dialer: Dialer, pacer: Arc<Pacer>, timeout: Duration) -> Self {
        Self { dialer: Arc::new(dialer), pool: Arc::default(), pacer, timeout }
    }

    /// Opens a connection. Its task ends with the connection.
    async fn open(&self, target: &Target) -> Result<Sender, HttpError> {
        let failed = |error: io::Error| HttpError::new(HttpErrorKind::Connect, error);
        let Dialed { stream, socket } = self.dialer.dial(target).await.map_err(failed)?;
        let (requests, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(async {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a store broke");
            }
        });
        Ok(Sender { requests, socket })
    }

    /// Sends a request on an idle connection, or else on a new one.
    ///
    /// The server may close an idle connection at any time. If no byte of the request was sent, the next
    /// connection sends the request. A request of which bytes may have been sent is never repeated here.
    async fn send(
        &self,
        target: &Target,
        mut request: Request<RequestBody>,
    ) -> Result<(Response<hyper::body::Incoming>, Sender), HttpError> {
        while let Some(mut sender) = self.pool.take(target).await {
            match sender.requests.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(failed.into_error())),
                },
            }
        }
        let mut sender = self.open(target).await?;
        let response = sender.requests.send_request(request).await.map_err(broken)?;
        Ok((response, sender))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let unfit = |error: io::Error| HttpError::new(HttpErrorKind::Unknown, error);
        let target = Target::of(request.uri()).map_err(unfit)?;
        let progress = CallProgress::new();
        let (mut parts, body) = request.into_parts();
        let (host, path) = origin_form(&parts.uri).map_err(unfit)?;
        parts.headers.entry(HOST).or_insert(host);
        parts.uri = path;
        let body = RequestBody::new(body, self.pacer.clone(), progress.clone());
        let sent = self.send(&target, Request::from_parts(parts, body));
        let (response, sender) = tokio::select! {
            sent = sent => sent?,
            () = progress.stalled(self.timeout) => return Err(stalled("request")),
        };
        let lease = Lease::new(self.pool.clone(), target, sender);
        let is_error = !response.status().is_success();
        let (parts, body) = response.into_parts();
        let body = ResponseBody::new(body, lease, self.timeout, is_error);
        Ok(Response::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Returns the `Host` field and the request target of an address (RFC 9112 section 3.2.1).
fn origin_form(uri: &Uri) -> io::Result<(HeaderValue, Uri)> {
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let host = HeaderValue::from_str(host).map_err(io::Error::other)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Ok((host, path.parse().map_err(io::Error::other)?))
}
