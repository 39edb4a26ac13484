//! The requests of ACME: HTTP/1.1 over TLS, each on a connection of its own.
//!
//! An order needs about fifteen requests in two months, so connections are not kept.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Body;
use hyper::{Request, Response, StatusCode};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient, Problem};
use serde_json::json;
use tokio::time::timeout;

use crate::exchange::{Exchange, RetryAfter, retry_after};

/// Time of one request, with its connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Reason why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// The URL cannot be used.
    #[error("the URL {0:?} of the ACME server does not begin with https://")]
    Url(String),
    /// The trusted authorities cannot be read.
    #[error("{0}")]
    Authorities(String),
    /// The server cannot be reached, or the connection broke.
    #[error("the ACME server at {host} cannot be reached: {source}")]
    Connection { host: String, source: io::Error },
    /// The server fails, and gives no reason.
    #[error("the ACME server answers {0} without a reason")]
    Status(u16),
}

/// Sends requests. Clones share the last `Retry-After`.
#[derive(Clone)]
pub(crate) struct AcmeHttp {
    exchange: Exchange,
    retry_after: Arc<Mutex<Option<RetryAfter>>>,
}

impl AcmeHttp {
    /// Reads the trusted authorities.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, HttpError> {
        let exchange = Exchange::new(ca_file).map_err(HttpError::Authorities)?;
        Ok(Self { exchange, retry_after: Arc::default() })
    }

    /// Takes the `Retry-After` of the last answer, if this answer was an error.
    pub(crate) fn take_retry_after(&self) -> Option<RetryAfter> {
        self.retry_after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends a request, and reads the whole answer.
    pub(crate) async fn send<B>(&self, request: Request<B>) -> Result<Response<Bytes>, HttpError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let broken = |source| HttpError::Connection { host: host.clone(), source };
        let late = || broken(io::Error::new(io::ErrorKind::TimedOut, "no answer in 30 s"));
        if request.uri().scheme_str() != Some("https") {
            return Err(HttpError::Url(request.uri().to_string()));
        }
        let answer = timeout(REQUEST_TIMEOUT, self.exchange.send(request)).await.map_err(|_| late())?;
        let answer = answer.map_err(broken)?;
        let after = (!answer.status().is_success()).then(|| retry_after(&answer)).flatten();
        *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = after;
        Ok(answer)
    }
}

/// Returns the content of an answer. A refusal without a problem document gets one with its status, because
/// the status decides whether an order is lost. RFC 8555 section 6.7 only recommends the document.
fn with_reason(status: StatusCode, content: Bytes) -> Result<Bytes, HttpError> {
    if status.is_success() || serde_json::from_slice::<Problem>(&content).is_ok() {
        return Ok(content);
    }
    if !status.is_client_error() {
        return Err(HttpError::Status(status.as_u16()));
    }
    let detail = format!("status {} without a reason", status.as_u16());
    Ok(json!({ "status": status.as_u16(), "detail": detail }).to_string().into())
}

impl HttpClient for AcmeHttp {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let this = self.clone();
        Box::pin(async move {
            let failed = |error| Error::Other(Box::new(error));
            let (parts, content) = this.send(request).await.map_err(failed)?.into_parts();
            let content = with_reason(parts.status, content).map_err(failed)?;
            Ok(BytesResponse { parts, body: Box::new(content) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_a_problem_document_gets_one_with_its_status() {
        let problem = r#"{"type":"urn:ietf:params:acme:error:malformed","detail":"no"}"#;
        let failure = "the ACME server answers 502 without a reason";
        for (status, content, expect) in [
            (404, "", r#"{"detail":"status 404 without a reason","status":404}"#),
            (502, "<html>", failure),
            (503, problem, problem),
            (400, problem, problem),
            (200, "", ""),
        ] {
            let found = with_reason(StatusCode::from_u16(status).unwrap(), content.into());
            let found = found.unwrap_or_else(|error| error.to_string().into());
            assert_eq!(found, expect, "{status}");
        }
    }
}
