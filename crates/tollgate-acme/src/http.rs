//! The requests of ACME: HTTP/1.1 over TLS, each on a connection of its own.
//!
//! An order needs about fifteen requests in two months, so connections are not kept.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient, Problem};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tollgate_tls::{Trust, Verifier};

/// Time of one request, with its connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of an answer. A certificate with its chain has about 6 KiB.
const ANSWER_BYTES_MAX: usize = 1 << 20;

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
    /// The answer is longer than its limit.
    #[error("an answer of the ACME server exceeds its limit of {ANSWER_BYTES_MAX} bytes")]
    TooLong,
}

/// A time that the server asked to wait for, after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryAfter {
    /// Seconds from the answer on.
    Seconds(u64),
    /// Seconds since 1970.
    At(u64),
}

/// Sends requests. Clones share the last `Retry-After`.
#[derive(Clone)]
pub(crate) struct AcmeHttp {
    tls: TlsConnector,
    retry_after: Arc<Mutex<Option<RetryAfter>>>,
}

impl AcmeHttp {
    /// Reads the trusted authorities.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, HttpError> {
        let failed = |reason: String| HttpError::Authorities(reason);
        let verifier = Verifier::new(ca_file, Trust::Host).map_err(|error| failed(error.to_string()))?;
        let config = ClientConfig::builder_with_details(tollgate_tls::provider(), tollgate_tls::clock())
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), retry_after: Arc::default() })
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
        let answer = timeout(REQUEST_TIMEOUT, self.exchange(request)).await.map_err(|_| late())?;
        let answer = match answer {
            Ok(answer) => answer,
            Err(Exchange::Io(source)) => return Err(broken(source)),
            Err(Exchange::Refused(error)) => return Err(error),
        };
        let after = (!answer.status().is_success()).then(|| retry_after(&answer)).flatten();
        *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = after;
        Ok(answer)
    }

    async fn exchange<B>(&self, mut request: Request<B>) -> Result<Response<Bytes>, Exchange>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let uri = request.uri().clone();
        let stream = self.connect(&uri).await?;
        let (mut requests, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // The task ends with the connection.
        tokio::spawn(connection);
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(authority).map_err(broken)?;
        request.headers_mut().insert(HOST, host);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().map_err(broken)?;
        let answer = requests.send_request(request).await.map_err(broken)?;
        let (parts, body) = answer.into_parts();
        Ok(Response::from_parts(parts, read(body).await?))
    }

    async fn connect(&self, uri: &Uri) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Exchange> {
        let (Some("https"), Some(host)) = (uri.scheme_str(), uri.host()) else {
            return Err(Exchange::Refused(HttpError::Url(uri.to_string())));
        };
        let host = host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(443))).await.map_err(Exchange::Io)?;
        let name = ServerName::try_from(host.to_owned()).map_err(broken)?;
        self.tls.connect(name, stream).await.map_err(Exchange::Io)
    }
}

/// A failed exchange.
enum Exchange {
    Io(io::Error),
    Refused(HttpError),
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Exchange {
    Exchange::Io(io::Error::other(error))
}

async fn read(mut body: Incoming) -> Result<Bytes, Exchange> {
    let mut content = BytesMut::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if content.len() + data.len() > ANSWER_BYTES_MAX {
            return Err(Exchange::Refused(HttpError::TooLong));
        }
        content.extend_from_slice(&data);
    }
    Ok(content.freeze())
}

/// Reads `Retry-After` (RFC 9110 section 10.2.3).
fn retry_after(answer: &Response<Bytes>) -> Option<RetryAfter> {
    let text = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(RetryAfter::Seconds(seconds));
    }
    let since = httpdate::parse_http_date(text).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(RetryAfter::At(since.as_secs()))
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
