//! Requests of scripts to backends, as plain data. The server provides the [`Fetcher`] that sends them.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_http::Method;

/// Sends the requests of scripts to backends.
pub trait Fetcher {
    /// Returns the names of the backends.
    fn names(&self) -> Vec<String>;

    /// Begins a request to a backend. The request is sent when the future is first polled. Dropping the
    /// future cancels the request.
    fn fetch(&self, backend: &str, request: FetchRequest) -> Fetching;
}

/// A running request.
pub type Fetching = Pin<Box<dyn Future<Output = Result<Fetched, FetchError>>>>;

/// A request of a script.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// Method of the request.
    pub method: Method,
    /// Path and query, beginning with a slash. Characters that a URI may not have must be escaped.
    pub target: String,
    /// Fields with valid names and values. No field is hop-by-hop.
    pub fields: Vec<(String, Bytes)>,
    /// The content, if there is one.
    pub content: Option<Bytes>,
    /// Maximum time of the whole request, in addition to the limits of the backend.
    pub timeout: Option<Duration>,
}

/// A complete reply.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Status of the reply.
    pub status: u16,
    /// The fields in their order, with names in lower case.
    pub fields: Vec<(String, Bytes)>,
    /// The content, without a transfer coding.
    pub content: Bytes,
}

/// Reason why there is no reply.
#[derive(Debug, Clone)]
pub struct FetchError {
    /// One word that scripts can compare.
    pub name: &'static str,
    /// Description of the failure.
    pub text: String,
}

/// Holds the fetcher of a VM.
pub(crate) type FetcherCell = RefCell<Option<Rc<dyn Fetcher>>>;
