//! A client for a thread without a runtime: it posts content, and waits for the answer.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Uri};
use instant_acme::BodyWrapper;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::exchange::{Exchange, RetryAfter, retry_after};

/// Posts content to one URL.
pub struct Poster {
    exchange: Exchange,
    runtime: Runtime,
    request: Request<()>,
    timeout: Duration,
}

/// The answer to a post.
#[derive(Debug)]
pub struct PostAnswer {
    /// Status of the answer.
    pub status: u16,
    /// Time that the server asks the client to wait for.
    pub retry_after: Option<RetryAfter>,
    /// Content of the answer.
    pub content: Bytes,
}

impl Poster {
    /// Creates the client of a URL. `fields` go with each request.
    ///
    /// # Errors
    /// The URL or a field is not valid, or the trusted authorities cannot be read. No text has a value of a
    /// field.
    pub fn new(url: &str, fields: &[(String, String)], timeout: Duration) -> io::Result<Self> {
        let uri: Uri = url.parse().map_err(io::Error::other)?;
        let mut request = Request::post(uri).body(()).map_err(io::Error::other)?;
        for (name, value) in fields {
            let invalid = || io::Error::other(format!("the header {name} is not valid"));
            let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            request.headers_mut().insert(name, value);
        }
        let exchange = match request.uri().scheme_str() {
            Some("https") => Exchange::new(None).map_err(io::Error::other)?,
            _ => Exchange::plain(),
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { exchange, runtime, request, timeout })
    }

    /// Sends content, and waits for the whole answer.
    ///
    /// # Errors
    /// The server cannot be reached, or gives no answer in time.
    pub fn post(&self, content: Vec<u8>) -> io::Result<PostAnswer> {
        let mut request = Request::new(BodyWrapper::<Bytes>::from(content));
        *request.method_mut() = self.request.method().clone();
        *request.uri_mut() = self.request.uri().clone();
        *request.headers_mut() = self.request.headers().clone();
        let sent = self.runtime.block_on(async { timeout(self.timeout, self.exchange.send(request)).await });
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {:?}", self.timeout));
        let answer = sent.map_err(late)??;
        let retry_after = retry_after(&answer);
        Ok(PostAnswer { status: answer.status().as_u16(), retry_after, content: answer.into_body() })
    }
}
