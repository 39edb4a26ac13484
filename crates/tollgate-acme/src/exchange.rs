//! One request over HTTP/1.1, on a connection of its own, with TLS for `https`.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tollgate_tls::{Trust, Verifier};

/// Maximum bytes of an answer. A certificate with its chain has about 6 KiB.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A time that the server asked to wait for, after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// Seconds from the answer on.
    Seconds(u64),
    /// Seconds since 1970.
    At(u64),
}

impl RetryAfter {
    /// Returns the time from `now` on, which is in seconds since 1970.
    pub fn from(self, now: u64) -> Duration {
        match self {
            Self::Seconds(seconds) => Duration::from_secs(seconds),
            Self::At(at) => Duration::from_secs(at.saturating_sub(now)),
        }
    }
}

/// Sends requests.
#[derive(Clone)]
pub(crate) struct Exchange {
    /// `None`: only plain HTTP is allowed.
    tls: Option<TlsConnector>,
}

/// The bytes of a connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Exchange {
    /// Reads the trusted authorities.
    ///
    /// # Errors
    /// The text says why the authorities cannot be read.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let verifier = Verifier::new(ca_file, Trust::Host).map_err(|error| error.to_string())?;
        let config = Arc::new(verifier).client().map_err(|error| error.to_string())?.with_no_client_auth();
        Ok(Self { tls: Some(TlsConnector::from(Arc::new(config))) })
    }

    /// Creates a client of plain HTTP, which needs no authorities.
    pub(crate) const fn plain() -> Self {
        Self { tls: None }
    }

    /// Sends a request to the server that its URI names, and reads the whole answer.
    pub(crate) async fn send<B>(&self, mut request: Request<B>) -> io::Result<Response<Bytes>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let uri = request.uri().clone();
        let stream = self.connect(&uri).await?;
        let (mut requests, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // The task ends with the connection.
        tokio::spawn(connection);
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(authority).map_err(io::Error::other)?;
        request.headers_mut().insert(HOST, host);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().map_err(io::Error::other)?;
        let answer = requests.send_request(request).await.map_err(io::Error::other)?;
        let (parts, body) = answer.into_parts();
        Ok(Response::from_parts(parts, read(body).await?))
    }

    async fn connect(&self, uri: &Uri) -> io::Result<Box<dyn Stream>> {
        let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
            return Err(io::Error::other(format!("the URL {uri} has no host")));
        };
        let host = host.trim_matches(['[', ']']);
        let is_tls = scheme == "https";
        if is_tls && self.tls.is_none() {
            return Err(io::Error::other("this client has no trusted authorities"));
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await?;
        let Some(tls) = self.tls.as_ref().filter(|_| is_tls) else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(tls.connect(name, stream).await?))
    }
}

async fn read(mut body: Incoming) -> io::Result<Bytes> {
    let mut content = BytesMut::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        if content.len() + data.len() > ANSWER_BYTES_MAX {
            let text = format!("an answer exceeds its limit of {ANSWER_BYTES_MAX} bytes");
            return Err(io::Error::other(text));
        }
        content.extend_from_slice(&data);
    }
    Ok(content.freeze())
}

/// Reads `Retry-After` (RFC 9110 section 10.2.3).
pub(crate) fn retry_after(answer: &Response<Bytes>) -> Option<RetryAfter> {
    let text = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(RetryAfter::Seconds(seconds));
    }
    let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(RetryAfter::At(since.as_secs()))
}
